"""Which currency a page is in."""

import pytest

from tests.engines.embedded.key_value.asking import TEXT, Schema, ask, choice


@pytest.mark.parametrize(
    ("text", "schema", "expected"),
    [
        ("All amounts in CAD\nItem $ 5.00\nItem $ 6.00\nTotal $ 11.00", TEXT, "CAD"),
        ("Amount (AUD)\n$5.00\n$6.00", TEXT, "AUD"),
        ("All amounts in CAD\nTotal $5.00", choice("USD", "CAD"), "CAD"),
        ("Total CA$ 11.00\nItem $ 5.00\nItem $ 6.00", TEXT, "CA$"),
        ("Total CA$ 11.00", choice("USD", "CAD"), "CAD"),
        ("Total CA$ 11.00", choice("USD", "EUR"), None),
        ("Total $ 11.00", TEXT, "$"),
        ("Item RM 5.00\nTotal RM11.00", choice("MYR", "SGD"), "MYR"),
        ("Amount (RM)\n5.00\nTotal 5.00", choice("MYR", "SGD"), "MYR"),
        ("Room RM\nTotal 5.00", choice("MYR", "SGD"), None),
        # A code that the sign is not of.
        ("Pay in EUR to our German account\nTotal £5.00\nNet £4.00", TEXT, "£"),
    ],
)
def test_a_code_says_what_a_sign_means(text: str, schema: Schema, expected: object) -> None:
    assert ask(text, currency=schema) == expected

"""Which number is the value: sums of money, and what only looks like them."""

import pytest

from tests.engines.embedded.key_value.asking import DECIMAL, NUMBER, Schema, ask


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        # The number of a company, in each way that it is printed, with the tax below it.
        ("vat", "VAT Reg No GB 218456093\nVAT 20%    894.22", 894.22),
        ("vat", "USt-IdNr. DE 218 456 093\nMwSt. 19 %    894,22 €", 894.22),
        ("vat", "VAT no. GB 312 4567 08\nVAT 20%    £229.76", 229.76),
        ("vat", "VAT    GB 312 4567 08", None),
        ("vat", "VAT: GB 218456093", None),
        ("vat", "VAT: 218456093", None),
        ("vat", "VAT: £1234567", 1234567),
        # A rate, a count or days of payment, where the sum stands beside it.
        ("vat", "VAT 20    £529.32", 529.32),
        ("vat", "VAT 20%", None),
        ("vat", "VAT    £5.00    3", 5.0),
        ("subtotal", "Terms    Net 30\nSubtotal    5.00", 5.0),
        ("subtotal", "Net 30 days", None),
        # What a number is of, and what counts something else.
        ("total", "Total: 3 items", None),
        ("total", "Total 1 of 3", None),
        ("total", "Total 10 x 5.00", None),
        ("total", "Total: up to 500.00", None),
        ("total", "Amount due 12 March 2024    £5.00", 5.0),
        # However it is written.
        ("total", "Total: 120", 120),
        ("total", "Total: 500,- EUR", 500),
        ("total", "Total: 500 Euro", 500),
        ("total", "TOTAL EUR 12,50", 12.5),
    ],
)
def test_a_sum_of_money_looks_like_one(name: str, text: str, expected: object) -> None:
    for schema in (NUMBER, DECIMAL):
        assert ask(text, **{name: schema}) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("total_hours", "Total hours: 12 h", 12),
        ("total_score", "Total score: 85 points", 85),
        ("amount", "Amount: 200 g", 200),
        ("population", "Population: 8400000", 8400000),
        ("weight", "Weight: see page 12", None),
        ("population", "Population: 83 million", None),
        ("weight", "Weight    12 March 2024", None),
        ("weight", "Weight    XK 123 456 78", None),
    ],
)
def test_other_numbers_may_have_units_and_many_digits(
    name: str, text: str, expected: object
) -> None:
    assert ask(text, **{name: NUMBER}) == expected


def test_a_sum_wins_over_a_bare_number_by_another_label() -> None:
    schema: Schema = {**NUMBER, "aliases": ["Tax class"]}
    assert ask("Tax class    4\nVAT    19.00", vat=schema) == 19.0

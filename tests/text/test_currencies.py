"""Currencies and their signs in texts."""

import pytest

from llm_ocr.text.currencies import currencies_in, named_currencies


@pytest.mark.parametrize(
    ("text", "code", "bare"),
    [("$5", "USD", True), ("CA$ 5", "CAD", False), ("5 €", "EUR", True), ("US$5", "USD", False)],
)
def test_a_sign_with_letters_before_it_is_their_currency(text: str, code: str, bare: bool) -> None:
    (found,) = currencies_in(text)
    assert (found.code, found.bare) == (code, bare)


def test_currencies_named_by_a_code_or_by_letters() -> None:
    assert named_currencies("total in CAD: $5, A$ 7", "$") == {"CAD", "AUD"}
    assert named_currencies("$5", "$") == set()

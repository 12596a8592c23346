"""Numbers and page numbers in texts."""

from decimal import Decimal

import pytest

from llm_ocr.text.notation import count_format_votes, resolve_numbers
from llm_ocr.text.numbers import is_page_number, numbers_in, possible_numbers, says_page_number


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("1,234.50", ["1234.50"]),
        ("1.234,50", ["1234.50"]),
        ("1 234,50", ["1234.50"]),
        ("1'234.50", ["1234.50"]),
        ("1,234", ["1234", "1.234"]),
        ("1.234", ["1.234", "1234"]),
        ("12.5", ["12.5"]),
        ("1.2.3", []),
    ],
)
def test_a_number_has_the_values_of_its_possible_notations(written: str, values: list[str]) -> None:
    assert possible_numbers(written) == tuple(map(Decimal, values))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("EUR12.50 and 12.5kg", ["12.50", "12.5"]),
        ("(12.00) and 7-", ["-12.00", "-7"]),
        ("2024-0381", []),
        ("19 %", ["19"]),
    ],
)
def test_numbers_in_a_text(text: str, values: list[str]) -> None:
    found = list(numbers_in(text))
    assert [mention.values for mention in found] == [(Decimal(value),) for value in values]
    assert [mention.percent for mention in found] == ["%" in text for _ in values]


def test_groups_of_digits_are_one_number_or_several() -> None:
    values = {mention.values[0]: mention.partial for mention in numbers_in("2 146.50")}
    assert values[Decimal("2146.50")] is False
    assert values[Decimal("146.50")] is True


def test_the_votes_of_a_page_resolve_an_ambiguous_number() -> None:
    values = possible_numbers("1.234")
    votes = count_format_votes("Summe 12,50 und 3,99")
    assert votes.decimal_comma is True
    assert resolve_numbers(values, votes.decimal_comma) == [Decimal(1234)]
    mixed = count_format_votes("12,50 and 3.99")
    assert mixed.decimal_comma is None
    assert resolve_numbers(values, mixed.decimal_comma) == values


@pytest.mark.parametrize(
    "text",
    [
        *("17", "– 17 –", "Page 3 of 20", "Seite 4", "S. 12", "xiv", "3/9", "263 of 279"),
        *("第 3 页", "Página 12 de 14", "page 3 sur 20", "Pagina 3 di 20", "Strona 3 z 20"),
    ],
)
def test_page_numbers(text: str) -> None:
    assert is_page_number(text)


@pytest.mark.parametrize("text", ["2024 was dry", "Page", "17 rivers", "1.5 m", "mixed"])
def test_other_lines_are_not_page_numbers(text: str) -> None:
    assert not is_page_number(text)


def test_some_page_numbers_say_what_they_are() -> None:
    assert all(map(says_page_number, ["Page 3", "– Seite 3 von 20 –", "Página 3 de 20", "3 of 20"]))
    assert not any(map(says_page_number, ["3", "xiv", "3/9", "17 rivers"]))

"""Dates in texts."""

from datetime import date

import pytest

from llm_ocr.text.dates import dates_in
from llm_ocr.text.notation import count_format_votes, resolve_dates


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("2024-03-12", [date(2024, 3, 12)]),
        ("12.03.2024", [date(2024, 3, 12)]),
        ("12. März 2024", [date(2024, 3, 12)]),
        ("March 12th, 2024", [date(2024, 3, 12)]),
        ("12 de marzo de 2024", [date(2024, 3, 12)]),
        ("03/04/2024", [date(2024, 4, 3), date(2024, 3, 4)]),
        ("31/12/99", [date(1999, 12, 31)]),
    ],
)
def test_a_date_has_the_values_of_its_possible_notations(text: str, values: list[date]) -> None:
    (found,) = dates_in(f"of {text}.")
    assert list(found.values) == values


@pytest.mark.parametrize("text", ["32.01.2024", "2024-13-01", "12 rivers 2024"])
def test_what_is_not_a_date(text: str) -> None:
    assert list(dates_in(text)) == []


def test_the_votes_of_a_page_resolve_an_ambiguous_date() -> None:
    (found,) = dates_in("03/04/2024")
    votes = count_format_votes("due 12/31/2024")
    assert votes.month_first is True
    assert resolve_dates(found.values, votes.month_first) == [date(2024, 3, 4)]

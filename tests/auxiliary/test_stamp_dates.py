"""Dates in the text of stamps: valid, ambiguous, in the future, impossible."""

from datetime import date

import pytest

from llm_ocr.auxiliary.stamp_dates import find_stamp_dates
from llm_ocr.records import AuxiliaryFinding, Box, FindingKind

TODAY = date(2026, 3, 5)


def stamp(text: str) -> AuxiliaryFinding:
    return AuxiliaryFinding(FindingKind.STAMP, text, Box(1, 2, 30, 40), 0.9, "heuristics", text)


@pytest.mark.parametrize(
    ("text", "value", "problem"),
    [
        ("RECEIVED 12 MAR 2024 MAIL ROOM", "2024-03-12", None),
        ("EINGANG 7. 9. 2022", "2022-09-07", None),
        ("10/27/2011 BY POST", "2011-10-27", None),
        ("PAID 03/04/2024", None, "the date is ambiguous: 2024-04-03 or 2024-03-04"),
        # The other reading is in the future.
        ("PAID 03/12/2025", None, "the date is ambiguous: 2025-12-03 or 2025-03-12"),
        ("PAID 03/12/2026", None, "2026-03-12 is in the future"),
        ("PAID 05/03/2026", "2026-03-05", None),
        ("HAMBURG 12 FEB 2087", None, "2087-02-12 is in the future"),
        ("31.02.2024 LYON", None, "there is no such date"),
        ("31 JUN 2024", None, "there is no such date"),
    ],
)
def test_a_date_has_a_value_or_a_problem(text: str, value: str | None, problem: str | None) -> None:
    (found,) = find_stamp_dates([stamp(text)], TODAY)
    assert (found.kind, found.value, found.problem) == (FindingKind.DATE, value, problem)
    assert found.text is not None
    assert found.text in text
    assert found.box == stamp(text).box
    assert bool(found.candidates) == ("ambiguous" in (problem or ""))


@pytest.mark.parametrize("text", ["", "PAID", "No. 4711", "1.2.3 of version", "12 NEW 2024"])
def test_text_without_a_date_has_none(text: str) -> None:
    assert find_stamp_dates([stamp(text)], TODAY) == []


def test_a_stamp_may_have_two_dates() -> None:
    found = find_stamp_dates([stamp("IN 2024-03-12 OUT 99.99.2024")], TODAY)
    assert [one.value for one in found] == ["2024-03-12", None]

"""Read the dates of date stamps and postmarks, and refuse those that can't be true."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from llm_ocr.records import AuxiliaryFinding, FindingKind
from llm_ocr.text.dates import MONTHS, dates_in
from llm_ocr.text.normalize import normalize

# What has the form of a date, whether or not there is such a day.
_NUMERIC = re.compile(r"(?<!\d)\d{1,4}\s?([./-])\s?\d{1,2}\s?\1\s?\d{2,4}(?!\d)")
_NAMED = re.compile(r"(?<!\d)\d{1,2}\.?\s?([^\W\d_]{3,10})\.?\s?\d{2,4}(?!\d)")


def find_stamp_dates(stamps: Sequence[AuxiliaryFinding], today: date) -> list[AuxiliaryFinding]:
    """The dates in the text of stamps, at the boxes of the stamps.

    A date without a value has a `problem`: it is ambiguous (its values are the `candidates`), in
    the future, or impossible.
    """
    return [found for stamp in stamps for found in _dates_of(stamp, today)]


def _dates_of(stamp: AuxiliaryFinding, today: date) -> list[AuxiliaryFinding]:
    text = stamp.text or ""
    found: list[tuple[int, AuxiliaryFinding]] = []
    taken: list[tuple[int, int]] = []
    for mention in dates_in(text):
        taken.append((mention.start, mention.end))
        read = replace(stamp, kind=FindingKind.DATE, text=text[mention.start : mention.end])
        found.append((mention.start, _judge(read, mention.values, today)))
    for start, end in _date_like(text):
        if not any(start < last and first < end for first, last in taken):
            read = replace(stamp, kind=FindingKind.DATE, text=text[start:end], value=None)
            found.append((start, replace(read, problem="there is no such date")))
    return [finding for _, finding in sorted(found, key=lambda one: one[0])]


def _judge(finding: AuxiliaryFinding, values: Sequence[date], today: date) -> AuxiliaryFinding:
    past = [value for value in values if value <= today]
    if not past:
        problem = f"{min(values)} is in the future"
        return replace(finding, value=None, problem=problem)
    if len(past) > 1:
        candidates = tuple(value.isoformat() for value in past)
        problem = f"the date is ambiguous: {' or '.join(candidates)}"
        return replace(finding, value=None, problem=problem, candidates=candidates)
    return replace(finding, value=past[0].isoformat(), problem=None)


def _date_like(text: str) -> list[tuple[int, int]]:
    named = [match for match in _NAMED.finditer(text) if normalize(match[1]) in MONTHS]
    return [match.span() for match in (*_NUMERIC.finditer(text), *named)]

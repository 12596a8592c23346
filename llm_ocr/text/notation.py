"""Resolve ambiguous numbers (1.234) and dates (03/04/2024) by how a page writes others."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

_DECIMALS = re.compile(r"(?<![\d.,])(?:\d{1,3}([.,]))*\d+([.,])\d{1,2}(?![\d.,])")
_SLASHES = re.compile(r"\b(\d{1,2})/(\d{1,2})/\d{2,4}\b")


@dataclass(frozen=True)
class FormatVotes:
    """Counts of a text's unambiguous numbers and dates, by notation."""

    commas: int = 0
    points: int = 0
    months_first: int = 0
    days_first: int = 0

    def __add__(self, other: "FormatVotes") -> "FormatVotes":
        return FormatVotes(
            self.commas + other.commas,
            self.points + other.points,
            self.months_first + other.months_first,
            self.days_first + other.days_first,
        )

    @property
    def decimal_comma(self) -> bool | None:
        """Whether numbers have a decimal comma; None without votes, or with votes for both."""
        return _unanimous(self.commas, self.points)

    @property
    def month_first(self) -> bool | None:
        """Whether dates begin with the month; None without votes, or with votes for both."""
        return _unanimous(self.months_first, self.days_first)

    def or_else(self, other: "FormatVotes") -> "FormatVotes":
        """These votes; the other ones for numbers or dates if these have none."""
        numbers = self if self.commas or self.points else other
        dates = self if self.months_first or self.days_first else other
        return FormatVotes(numbers.commas, numbers.points, dates.months_first, dates.days_first)


def count_format_votes(text: str) -> FormatVotes:
    """Count a text's unambiguous numbers and dates."""
    marks = [match[2] for match in _DECIMALS.finditer(text)]
    pairs = [(int(match[1]), int(match[2])) for match in _SLASHES.finditer(text)]
    return FormatVotes(
        marks.count(","),
        marks.count("."),
        sum(second > 12 for _, second in pairs),
        sum(first > 12 for first, _ in pairs),
    )


def resolve_numbers(values: Sequence[Decimal], decimal_comma: bool | None) -> Sequence[Decimal]:
    """The value of an ambiguous number in the notation: with a decimal comma, 1.234 is 1234. Both
    values if the notation is unknown.
    """
    if len(values) < 2 or decimal_comma is None:
        return values
    whole, part = max(values, key=abs), min(values, key=abs)
    # The likelier value comes first; with a comma that is the larger one.
    has_comma = values[0] == whole
    return [part if has_comma == decimal_comma else whole]


def resolve_dates(values: Sequence[date], month_first: bool | None) -> Sequence[date]:
    """The value of an ambiguous date in the notation; both values if that is unknown."""
    if len(values) < 2 or month_first is None:
        return values
    return [values[-1 if month_first else 0]]


def _unanimous(count: int, against: int) -> bool | None:
    return None if bool(count) == bool(against) else count > 0

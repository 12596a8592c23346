"""How a page writes what could be two things: 1.234 and 03/04/2024."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

_DECIMALS = re.compile(r"(?<![\d.,])(?:\d{1,3}([.,]))*\d+([.,])\d{1,2}(?![\d.,])")
_SLASHES = re.compile(r"\b(\d{1,2})/(\d{1,2})/\d{2,4}\b")


@dataclass(frozen=True)
class FormatVotes:
    """How many of a text's numbers and dates can be read in one way only, by that way."""

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
        """Whether numbers have a decimal comma; None where none or both tell."""
        return _told(self.commas, self.points)

    @property
    def month_first(self) -> bool | None:
        """Whether dates begin with the month; None where none or both tell."""
        return _told(self.months_first, self.days_first)

    def or_else(self, other: "FormatVotes") -> "FormatVotes":
        """This where it has counted anything, numbers and dates apart; else the other."""
        numbers = self if self.commas or self.points else other
        dates = self if self.months_first or self.days_first else other
        return FormatVotes(numbers.commas, numbers.points, dates.months_first, dates.days_first)


def count_format_votes(text: str) -> FormatVotes:
    """What a text's unambiguous numbers and dates tell."""
    marks = [match[2] for match in _DECIMALS.finditer(text)]
    pairs = [(int(match[1]), int(match[2])) for match in _SLASHES.finditer(text)]
    return FormatVotes(
        marks.count(","),
        marks.count("."),
        sum(second > 12 for _, second in pairs),
        sum(first > 12 for first, _ in pairs),
    )


def resolve_numbers(readings: Sequence[Decimal], decimal_comma: bool | None) -> Sequence[Decimal]:
    """Of two readings of a number the one in a notation: with a decimal comma, 1.234 is thousands.

    Both where the notation is not known.
    """
    if len(readings) < 2 or decimal_comma is None:
        return readings
    whole, part = max(readings, key=abs), min(readings, key=abs)
    # The likelier reading comes first; a comma makes it the whole one.
    has_comma = readings[0] == whole
    return [part if has_comma == decimal_comma else whole]


def resolve_dates(readings: Sequence[date], month_first: bool | None) -> Sequence[date]:
    """Of two readings of a date the one in a notation; both where that is not known."""
    if len(readings) < 2 or month_first is None:
        return readings
    return [readings[-1 if month_first else 0]]


def _told(count: int, against: int) -> bool | None:
    return None if bool(count) == bool(against) else count > 0

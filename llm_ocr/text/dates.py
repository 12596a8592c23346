"""Read dates as documents write them, with the names of months in seven languages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from llm_ocr.text.normalize import normalize

_NAMES = """
january february march april may june july august september october november december
januar februar marz april mai juni juli august september oktober november dezember
janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
januari februari maart april mei juni juli augustus september oktober november december
janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro
"""
# Abbreviations, including those that are not the first letters of a name.
_SHORT = {"jan": 1, "feb": 2, "fev": 2, "mar": 3, "mrz": 3, "maerz": 3, "apr": 4, "avr": 4}
_SHORT |= {"abr": 4, "may": 5, "mai": 5, "jun": 6, "jul": 7, "aug": 8, "aou": 8, "ago": 8}
_SHORT |= {"sep": 9, "sept": 9, "set": 9, "oct": 10, "okt": 10, "ott": 10, "out": 10}
_SHORT |= {"nov": 11, "dec": 12, "dez": 12, "dic": 12, "janner": 1, "feber": 2, "mag": 5, "gen": 1}
MONTHS = _SHORT | {
    name: number + 1
    for line in _NAMES.strip().splitlines()
    for number, name in enumerate(line.split())
}

_YEAR = r"(?P<year>\d{4}|\d{2})"
_ISO = re.compile(
    r"(?<!\d)(?P<year>\d{4})\s?[-/.]\s?(?P<month>\d{1,2})\s?[-/.]\s?(?P<day>\d{1,2})(?!\d)"
)
_NUMERIC = re.compile(rf"(?<!\d)(\d{{1,2}})\s?([./-])\s?(\d{{1,2}})\s?\2\s?{_YEAR}(?!\d)")
_DAY_FIRST = re.compile(
    r"(?<!\d)(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.|º)?[\s-]*(?:of |de )?\s*"
    rf"(?P<name>[^\W\d_]{{3,10}})\.?,?[\s-]*(?:de )?{_YEAR}(?!\d)",
    re.IGNORECASE,
)
_MONTH_FIRST = re.compile(
    rf"(?<!\w)(?P<name>[^\W\d_]{{3,10}})\.?\s*(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+{_YEAR}(?!\d)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class DateMention:
    """A date at `start` to `end` of a text, and its possible values: 03/01/2024 has two."""

    start: int
    end: int
    values: tuple[date, ...]


def dates_in(text: str) -> Iterator[DateMention]:
    """The dates in a text, without overlaps."""
    taken: list[tuple[int, int]] = []
    for match, values in _matches(text):
        start, end = match.span()
        if values and not any(start < last and first < end for first, last in taken):
            taken.append((start, end))
            yield DateMention(start, end, values)


def _matches(text: str) -> Iterator[tuple[re.Match[str], tuple[date, ...]]]:
    for match in _ISO.finditer(text):
        yield match, _dates((match["year"], match["month"], match["day"]))
    for match in _NUMERIC.finditer(text):
        one, separator, other = match[1], match[2], match[3]
        day_first, month_first = (match["year"], other, one), (match["year"], one, other)
        # With points the day comes first, in every country.
        yield match, _dates(day_first) if separator == "." else _dates(day_first, month_first)
    for pattern in (_DAY_FIRST, _MONTH_FIRST):
        for match in pattern.finditer(text):
            month = MONTHS.get(normalize(match["name"]))
            if month is not None:
                yield match, _dates((match["year"], str(month), match["day"]))


def _dates(*parts: tuple[str, str, str]) -> tuple[date, ...]:
    """The valid ones of `(year, month, day)`, each once; years of two digits are 1970 to 2069."""
    found: dict[date, None] = {}
    for year, month, day in parts:
        whole = int(year)
        if len(year) == 2:
            whole += 1900 if whole >= 70 else 2000
        try:
            found[date(whole, int(month), int(day))] = None
        except ValueError:
            continue
    return tuple(found)

"""Read numbers as documents write them: 1,234.50, 1.234,50, 1 234,50, 1'234.50, (12.00), 7-."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

# Spaces between groups of three digits, and apostrophes (Switzerland).
_GAP = "[ \u00a0\u2009\u202f'’]"
_GROUPED = rf"\d{{1,3}}(?:{_GAP}\d{{3}})+(?:[.,]\d{{1,4}})?"
_PLAIN = r"\d+(?:[.,]\d+)*"
# A unit may directly follow a number (12.5kg), and a currency precede it (EUR12.50), but nothing
# else: the parts of 2024-0381 are not numbers.
_FRONT = r"(?<!\w[-/])(?:(?<![\w.,])|(?<=EUR)|(?<=GBP)|(?<=USD)|(?<=CHF))[-−–(]?"
_BACK = r"(?!\d|[.,/-]\d|[/-]\w)"
_NUMBER = re.compile(rf"{_FRONT}(?:{_GROUPED}|{_PLAIN}){_BACK}")
_UNGROUPED = re.compile(rf"{_FRONT}{_PLAIN}{_BACK}")
_PRINTED_NUMBER = r"(?:\d{1,4}|[ivxlc]{1,7})"
_PAGE = r"(?:page|seite|página|pagina|pág\.|pag\.|sida|side|strona|第)"
_PAGES = r"(?:of|von|de|sur|di|av|af|z)"
_PAGE_NUMBER = re.compile(
    rf"\W*(?:(?:{_PAGE}|p\.|pg\.|s\.)\s*)?{_PRINTED_NUMBER}"
    rf"(?:\s*(?:{_PAGES}|/|\|)\s*\d{{1,4}})?(?:\s*页)?\W*",
    re.IGNORECASE,
)
_PAGE_COUNT = re.compile(
    rf"\W*(?:{_PAGE}\s*\d{{1,4}}(?:\s*(?:{_PAGES}|/)\s*\d{{1,4}})?|\d{{1,4}}\s*{_PAGES}\s*\d{{1,4}})\W*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NumberMention:
    """A number at `start` to `end` of a text, and its possible values: 1.234 has two.

    `partial`: it may be the end or the beginning of a longer number, as 146.50 in 2 146.50.
    """

    start: int
    end: int
    values: tuple[Decimal, ...]
    percent: bool = False
    partial: bool = False


def numbers_in(text: str) -> Iterator[NumberMention]:
    """The numbers in a text, from left to right.

    Groups of digits are reported as one number and as several: `2 146.50` may be either.
    """
    seen = set()
    for match in _NUMBER.finditer(text):
        seen.add(match.span())
        yield from _amount(text, match)
    for match in _UNGROUPED.finditer(text):
        if match.span() not in seen:
            yield from _amount(text, match, partial=True)


def _amount(text: str, match: re.Match[str], *, partial: bool = False) -> Iterator[NumberMention]:
    written, end = match.group(), match.end()
    negative = written[0] in "-−–"
    # A dash between words or numbers (2024-0381, 3 - 4) is not a sign, nor is a single bracket.
    if written[0] == "(":
        negative = text[end : end + 1] == ")"
        end += negative
    elif text[end : end + 1] == "-" and not text[end + 1 : end + 2].strip():
        negative = True
        end += 1
    start = match.start() + (written[0] in "-−–(" and not negative)
    values = tuple(
        -value if negative else value for value in possible_numbers(written.strip("-−–("))
    )
    if values:
        yield NumberMention(start, end, values, text[end : end + 9].lstrip()[:1] == "%", partial)


def possible_numbers(written: str) -> tuple[Decimal, ...]:
    """The values that digits with separators may have, the likelier one first.

    The last separator is the decimal one, unless it occurs twice or three digits follow it; if
    three digits follow a single separator, there are two values.
    """
    digits = re.sub(_GAP, "", written)
    marks = [char for char in digits if char in ".,"]
    if not marks:
        return _decimals(digits)
    last = marks[-1]
    head, _, tail = digits.rpartition(last)
    whole = re.sub("[.,]", "", digits)
    as_decimal = re.sub("[.,]", "", head) + "." + tail
    if marks.count(last) > 1:
        return _decimals(whole) if _in_groups(digits) else ()
    if len(set(marks)) > 1:
        return _decimals(as_decimal) if _in_groups(head) else ()
    if len(tail) == 3 and 1 <= len(head) <= 3 and head != "0":
        # A single comma usually separates thousands, a single point as often decimals.
        return _decimals(*((whole, as_decimal) if last == "," else (as_decimal, whole)))
    return _decimals(as_decimal)


def _in_groups(digits: str) -> bool:
    first, *others = re.split("[.,]", digits)
    return 1 <= len(first) <= 3 and all(len(group) == 3 for group in others)


def _decimals(*texts: str) -> tuple[Decimal, ...]:
    try:
        return tuple(Decimal(text) for text in texts)
    except InvalidOperation:
        return ()


def is_page_number(text: str) -> bool:
    """Whether a line is a page number as pages print it: 17, – 17 –, Page 3 of 20, xiv."""
    return _PAGE_NUMBER.fullmatch(text.strip()) is not None


def says_page_number(text: str) -> bool:
    """Whether a line is a page number that says so: Page 3, Seite 3 von 20, 3 of 20."""
    return _PAGE_COUNT.fullmatch(text.strip()) is not None

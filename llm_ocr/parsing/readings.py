"""The numbers, dates and currencies of a record's pages, in whatever way they are written."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cached_property

from llm_ocr.parsing.amounts import SIGNS, amounts_in
from llm_ocr.parsing.dates import dates_in
from llm_ocr.parsing.notation import Tally, dates_meant, numbers_meant, tally
from llm_ocr.parsing.places import Piece
from llm_ocr.parsing.record import Found
from llm_ocr.parsing.signs import Sign, named_in, signs_in
from llm_ocr.parsing.tokens import Occurrence

ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ]00:00(?::00(?:\.0+)?)?(?:Z|[+-]\d\d:\d\d)?)?")


class Readings:
    """What some pieces have of them; each is read once."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._named: dict[tuple[int, str], set[str]] = {}

    def numbers(self, value: Decimal, written: str) -> list[Occurrence]:
        """Where a number stands: as it was written first, then in any other notation."""
        if not value.is_finite():
            return []
        places = [place for place, _ in self._amounts.get(value, ())]
        if 0 < value < 1:
            shares = self._amounts.get(value * 100, ())
            places += [place for place, percent in shares if percent]
        same = {written, f"{value.normalize():f}"}
        exact = [replace(one, found=Found.EXACT) for one in places if self._text(one) in same]
        return exact + [one for one in places if self._text(one) not in same]

    def dates(self, value: str) -> list[Occurrence]:
        """Where the day of an ISO date stands."""
        match = ISO_DATE.fullmatch(value)
        try:
            return self._dates.get(date.fromisoformat(match[1]), []) if match else []
        except ValueError:
            return []

    def currencies(self, code: str) -> list[Occurrence]:
        """A currency by its sign, where that is not said to be another's: `$` on a page with
        amounts in CAD is no USD."""
        found: list[Occurrence] = []
        for k, one in self._signs:
            if one.code != code:
                continue
            named = self._currencies(self._pieces[k].page, one.sign) if one.bare else {code}
            if not named or code in named:
                doubtful = len(named) > 1
                found.append(
                    Occurrence(Found.NORMALISED, k, k, one.start, one.end, doubtful=doubtful)
                )
        return found

    def signs(self, sign: str) -> list[Occurrence]:
        """A currency's sign as it is, but for those that letters in front make another's."""
        return [
            Occurrence(Found.EXACT, k, k, one.end - len(sign), one.end)
            for k, one in self._signs
            if one.sign == sign and one.code == SIGNS[sign]
        ]

    def _text(self, one: Occurrence) -> str:
        return self._pieces[one.first].text[one.start : one.end]

    @cached_property
    def _tallies(self) -> dict[int, Tally]:
        """For each page how its numbers and dates are written; where it doesn't tell, how those
        of all pages are."""
        pages: dict[int, Tally] = defaultdict(Tally)
        for piece in self._pieces:
            pages[piece.page] += tally(piece.text)
        whole = sum(pages.values(), Tally())
        return {page: one.or_else(whole) for page, one in pages.items()}

    @cached_property
    def _amounts(self) -> dict[Decimal, list[tuple[Occurrence, bool]]]:
        """Where each number is written, and whether as a percentage."""
        found: dict[Decimal, list[tuple[Occurrence, bool]]] = defaultdict(list)
        for k, piece in enumerate(self._pieces):
            decimal_comma = self._tallies[piece.page].decimal_comma
            for one in amounts_in(piece.text):
                meant = numbers_meant(one.readings, decimal_comma)
                place = _place(k, one.start, one.end, one.part or len(meant) > 1)
                for reading in meant:
                    found[reading].append((place, one.percent))
        return found

    @cached_property
    def _dates(self) -> dict[date, list[Occurrence]]:
        found: dict[date, list[Occurrence]] = defaultdict(list)
        for k, piece in enumerate(self._pieces):
            month_first = self._tallies[piece.page].month_first
            for one in dates_in(piece.text):
                meant = dates_meant(one.readings, month_first)
                place = _place(k, one.start, one.end, len(meant) > 1)
                for reading in meant:
                    found[reading].append(place)
        return found

    @cached_property
    def _signs(self) -> list[tuple[int, Sign]]:
        """The signs of currencies, each with its piece."""
        return [(k, one) for k, piece in enumerate(self._pieces) for one in signs_in(piece.text)]

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The text of each page."""
        pages: dict[int, list[str]] = defaultdict(list)
        for piece in self._pieces:
            pages[piece.page].append(piece.text)
        return {page: "\n".join(texts) for page, texts in pages.items()}

    def _currencies(self, page: int, sign: str) -> set[str]:
        """Which of the currencies with this sign a page names; else which the document does."""
        return self._on_page(page, sign) or set[str]().union(
            *(self._on_page(other, sign) for other in self._texts)
        )

    def _on_page(self, page: int, sign: str) -> set[str]:
        if (page, sign) not in self._named:
            self._named[page, sign] = named_in(self._texts[page], sign)
        return self._named[page, sign]


def _place(piece: int, start: int, end: int, doubtful: bool) -> Occurrence:
    return Occurrence(Found.NORMALISED, piece, piece, start, end, doubtful=doubtful)

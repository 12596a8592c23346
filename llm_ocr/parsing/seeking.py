"""Where a value stands in the pieces of a record's pages: every place, and how it was found."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from llm_ocr.parsing.alike import Alike
from llm_ocr.parsing.amounts import SIGNS, readings_of
from llm_ocr.parsing.places import Piece
from llm_ocr.parsing.readings import ISO_DATE, Readings
from llm_ocr.parsing.record import Found
from llm_ocr.parsing.tokens import Occurrence, Token, Tokens, stretch
from llm_ocr.parsing.words import Word, words_in
from llm_ocr.parsing.yes_no import answers_in
from llm_ocr.records import Box

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_NOTED = re.compile(r"-?\d+(?:[.,]\d+)+")
# A number that names something (0381) and counts nothing.
_NAME = re.compile(r"0\d+")
_GAP = "[ \u00a0\u2009\u202f'’]"
# What stands before and behind digits that are a part of a longer number.
_BEFORE = re.compile(r"(?:[\d\-−–]|(?<![^\W\d_])[.,])\Z")
_BEHIND = re.compile(rf"\d|[.,]\d|[-−–]|{_GAP}\d{{3}}(?!\d)")
_GROUP_BEFORE = re.compile(rf"\d{_GAP}\Z")


class Index:
    """The words, numbers and dates of some pieces; made once, asked for each value."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self._tokens = Tokens(pieces)
        self._alike = Alike(self._tokens)
        self._readings = Readings(pieces)
        self._known: dict[tuple[type, str], Sequence[Occurrence]] = {}
        self._parts: dict[str, Sequence[Occurrence]] = {}

    @property
    def words(self) -> Sequence[Sequence[Word]]:
        """Those of each piece."""
        return self._tokens.words

    def quote(self, one: Occurrence) -> str:
        """The text of an occurrence as it stands on the page."""
        if one.first == one.last:
            return self.pieces[one.first].text[one.start : one.end]
        texts = [self.pieces[k].text for k in range(one.first, one.last + 1)]
        texts[0], texts[-1] = texts[0][one.start :], texts[-1][: one.end]
        return " ".join(texts)

    def box(self, one: Occurrence) -> Box | None:
        """The rectangle around an occurrence; None where none of its pieces has a box."""
        boxes: list[Box] = []
        for k in range(one.first, one.last + 1):
            start = one.start if k == one.first else 0
            end = one.end if k == one.last else len(self.pieces[k].text)
            box = self.pieces[k].part(start, end)
            boxes += [] if box is None else [box]
        if not boxes:
            return None
        tops, bottoms = [box.y1 for box in boxes], [box.y2 for box in boxes]
        lefts, rights = [box.x1 for box in boxes], [box.x2 for box in boxes]
        return Box(min(lefts), min(tops), max(rights), max(bottoms))

    def occurrences(self, value: object) -> Sequence[Occurrence]:
        """Every place of a value in the best way that it is found: as it is, normalised, fuzzy."""
        key = type(value), str(value)
        if key not in self._known:
            self._known[key] = self._sought(value)
        return self._known[key]

    def _sought(self, value: object) -> Sequence[Occurrence]:
        if isinstance(value, bool):
            return list(self._boolean(value))
        if isinstance(value, int | float):
            return self._readings.numbers(Decimal(str(value)), str(value))
        return self._text(str(value).strip())

    def _boolean(self, value: bool) -> Iterator[Occurrence]:
        for k, piece in enumerate(self.pieces):
            for start, end in answers_in(piece.text, value):
                yield Occurrence(Found.NORMALISED, k, k, start, end)

    def _text(self, value: str) -> Sequence[Occurrence]:
        if not value:
            return []
        if _NUMBER.fullmatch(value):
            return self._written_number(value)
        if _NOTED.fullmatch(value) and (readings := readings_of(value.lstrip("-"))):
            return self._noted_number(value, readings)
        places = self._as_words(value) or self._readings.dates(value)
        places = places or self._readings.currencies(value.upper())
        # A date that differs by a digit is another one.
        if places or ISO_DATE.fullmatch(value):
            return places
        return self._alike.places(value) or self._in_parts(value)

    def _noted_number(self, value: str, readings: Sequence[Decimal]) -> list[Occurrence]:
        """A number that is told as a page may write it: 234,50 is not the end of 1.234,50."""
        whole = [one for one in self._as_words(value) if self._is_whole(value, one)]
        if whole or len(readings) > 1:
            return whole
        sign = -1 if value.startswith("-") else 1
        return self._readings.numbers(sign * readings[0], value)

    def _written_number(self, value: str) -> list[Occurrence]:
        """A text that is a number, sought as one; else as it is, but not within another number."""
        places: list[Occurrence] = []
        if not _NAME.fullmatch(value):
            places = self._readings.numbers(_decimal(value), value)
        return places or [
            self._doubted(one)
            for one in self._as_words(value)
            if one.found is Found.EXACT and self._is_whole(value, one)
        ]

    def _is_whole(self, value: str, one: Occurrence) -> bool:
        """Whether neither digits nor a sign belong to the number that stands at a place."""
        text = self.pieces[one.first].text
        before, behind = text[max(0, one.start - 2) : one.start], text[one.end : one.end + 5]
        if _NAME.fullmatch(value):
            # INV-0381 is no negative number, and (0381) neither.
            before = re.sub(r"(?<=[^\W\d_])-\Z", "", before)
        elif before[-1:] == "(" and behind[:1] == ")":
            return False
        if re.match(r"\d{3}(?!\d)", value) and _GROUP_BEFORE.search(before):
            return False
        return not _BEFORE.search(before) and not _BEHIND.match(behind)

    def _doubted(self, one: Occurrence) -> Occurrence:
        """A number between slashes is doubtful: it may be a part of a date."""
        text = self.pieces[one.first].text
        slashed = "/" in (text[max(0, one.start - 1) : one.start], text[one.end : one.end + 1])
        return replace(one, doubtful=slashed)

    def _as_words(self, value: str) -> list[Occurrence]:
        words = list(words_in(value))
        if not words:
            return self._as_marks(value)
        places, texts = self._tokens.places, self._tokens.texts
        wanted = [word.text for word in words]
        rarest = min(range(len(words)), key=lambda k: len(places.get(wanted[k], ())))
        found: list[Occurrence] = []
        for at in places.get(wanted[rarest], ()):
            start = at - rarest
            if start < 0 or texts[start : start + len(words)] != wanted:
                continue
            if run := self._tokens.run(start, len(words)):
                found.append(self._exactly(value, words[0].start, run))
        return found

    def _as_marks(self, value: str) -> list[Occurrence]:
        """A text without a letter or digit."""
        if value in SIGNS:
            return self._readings.signs(value)
        return [
            Occurrence(Found.EXACT, k, k, match.start(), match.end())
            for k, piece in enumerate(self.pieces)
            for match in re.finditer(re.escape(value), piece.text)
        ]

    def _exactly(self, value: str, lead: int, run: Sequence[Token]) -> Occurrence:
        """A run of the value's words: exact where the page has the value as it is."""
        first, last = run[0], run[-1]
        start = first.start - lead
        text = self.pieces[first.piece].text
        if start >= 0 and text.startswith(value, start):
            return Occurrence(Found.EXACT, first.piece, first.piece, start, start + len(value))
        return stretch(Found.NORMALISED, first, last)

    def _in_parts(self, value: str) -> list[Occurrence]:
        """A text of several lines or parts with commas, each of which stands on the page."""
        parts = [part.strip() for part in re.split(r"[\n,;]+", value) if part.strip()]
        if len(parts) < 2:
            return []
        found = [self._part(part) for part in parts]
        if not all(found):
            return []
        first = found[0][0]
        near = [_nearest(places, first.first) for places in found]
        pages = {self.pieces[one.first].page for one in near}
        if len(pages) > 1:
            return []
        low = min(near, key=lambda one: (one.first, one.start))
        high = max(near, key=lambda one: (one.last, one.end))
        if high.last - low.first > 3 * len(parts):
            return []
        likeness = min(one.likeness for one in near)
        how = Found.FUZZY if any(one.found is Found.FUZZY for one in near) else Found.NORMALISED
        return [Occurrence(how, low.first, high.last, low.start, high.end, likeness)]

    def _part(self, part: str) -> Sequence[Occurrence]:
        """The places of a part, in reading order."""
        if part not in self._parts:
            self._parts[part] = self._as_words(part) or self._alike.places(part)
        return self._parts[part]


def _nearest(places: Sequence[Occurrence], piece: int) -> Occurrence:
    """Of places in reading order the one that begins nearest to a piece, the first of them."""
    above = bisect_left(places, piece, key=lambda one: one.first)
    around = [places[above]] if above < len(places) else []
    if above:
        below = places[above - 1].first
        around.insert(0, places[bisect_left(places, below, key=lambda one: one.first)])
    return min(around, key=lambda one: abs(one.first - piece))


def _decimal(value: str) -> Decimal:
    try:
        return Decimal(value)
    except InvalidOperation:
        return Decimal("nan")

"""Where a value stands in the pieces of a record's pages: every place, and how it was found."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cached_property

from llm_ocr.parsing.amounts import SIGNS, amounts_in
from llm_ocr.parsing.dates import dates_in
from llm_ocr.parsing.places import Piece
from llm_ocr.parsing.record import Found
from llm_ocr.parsing.words import Word, distance, same_digits, words_in
from llm_ocr.records import Box

# One character in this many may be wrong in a text that is still taken for the value.
CHARACTERS_PER_ERROR = 5
MOST_ERRORS = 12
# How many words of a value are looked up to find texts like it, and at how many places each.
SEEDS, PLACES = 3, 24
_ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ]00:00(?::00(?:\.0+)?)?(?:Z|[+-]\d\d:\d\d)?)?")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_AFFIRMED = frozenset({"yes", "true", "ja", "wahr", "oui", "vrai", "si", "x", "y"})
_DENIED = frozenset({"no", "false", "nein", "falsch", "non", "faux", "nee", "n"})
_BOXES = {True: "☑☒✓✔", False: "☐"}


@dataclass(frozen=True)
class Occurrence:
    """A stretch of pieces: from `start` in the first to `end` in the last, of one page."""

    found: Found
    first: int
    last: int
    start: int
    end: int
    likeness: float = 1.0


@dataclass(frozen=True)
class _Token:
    text: str
    piece: int
    start: int
    end: int


class Index:
    """The words, numbers and dates of some pieces; made once, asked for each value."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.words: list[list[Word]] = [list(words_in(piece.text)) for piece in pieces]
        self._tokens = [
            _Token(word.text, k, word.start, word.end)
            for k, words in enumerate(self.words)
            for word in words
        ]
        self._places: dict[str, list[int]] = defaultdict(list)
        for at, token in enumerate(self._tokens):
            self._places[token.text].append(at)

    @cached_property
    def _amounts(self) -> dict[Decimal, list[tuple[Occurrence, bool]]]:
        """Where each number is written, and whether as a percentage."""
        found: dict[Decimal, list[tuple[Occurrence, bool]]] = defaultdict(list)
        for k, piece in enumerate(self.pieces):
            for amount in amounts_in(piece.text):
                place = Occurrence(Found.NORMALISED, k, k, amount.start, amount.end)
                for reading in amount.readings:
                    found[reading].append((place, amount.percent))
        return found

    @cached_property
    def _dates(self) -> dict[date, list[Occurrence]]:
        found: dict[date, list[Occurrence]] = defaultdict(list)
        for k, piece in enumerate(self.pieces):
            for one in dates_in(piece.text):
                place = Occurrence(Found.NORMALISED, k, k, one.start, one.end)
                for reading in one.readings:
                    found[reading].append(place)
        return found

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

    def occurrences(self, value: object) -> list[Occurrence]:
        """Every place of a value in the best way that it is found: as it is, normalised, fuzzy."""
        if isinstance(value, bool):
            return list(self._boolean(value))
        if isinstance(value, int | float):
            return self._number(Decimal(str(value)), str(value))
        return self._text(str(value).strip())

    def _boolean(self, value: bool) -> Iterator[Occurrence]:
        for token in self._tokens:
            if token.text in (_AFFIRMED if value else _DENIED):
                yield _at(Found.NORMALISED, token, token)
        for k, piece in enumerate(self.pieces):
            for match in re.finditer(f"[{_BOXES[value]}]", piece.text):
                yield Occurrence(Found.NORMALISED, k, k, match.start(), match.end())

    def _number(self, value: Decimal, written: str) -> list[Occurrence]:
        if not value.is_finite():
            return []
        places = [place for place, _ in self._amounts.get(value, ())]
        if 0 < value < 1:
            shares = self._amounts.get(value * 100, ())
            places += [place for place, percent in shares if percent]
        same = {written, f"{value.normalize():f}"}
        exact = [
            Occurrence(Found.EXACT, one.first, one.last, one.start, one.end)
            for one in places
            if self.quote(one) in same
        ]
        return exact + [one for one in places if self.quote(one) not in same]

    def _text(self, value: str) -> list[Occurrence]:
        if not value:
            return []
        places = self._as_words(value)
        if _NUMBER.fullmatch(value) and not any(one.found is Found.EXACT for one in places):
            # 12.0 is not what stands as 12 and, somewhere behind it, 0.
            places = self._number(_decimal(value), value)
        places = places or self._as_date(value)
        if not places:
            places = self._as_sign(value)
        # A number or a date that differs by a digit is another one.
        if places or _NUMBER.fullmatch(value) or _ISO_DATE.fullmatch(value):
            return places
        return self._alike(value) or self._in_parts(value)

    def _as_words(self, value: str) -> list[Occurrence]:
        words = list(words_in(value))
        if not words:
            return [
                Occurrence(Found.EXACT, k, k, match.start(), match.end())
                for k, piece in enumerate(self.pieces)
                for match in re.finditer(re.escape(value), piece.text)
            ]
        rarest = min(range(len(words)), key=lambda k: len(self._places.get(words[k].text, ())))
        found: list[Occurrence] = []
        for at in self._places.get(words[rarest].text, ()):
            run = self._run(at - rarest, len(words))
            if [token.text for token in run] == [word.text for word in words]:
                found.append(self._exactly(value, words[0].start, run))
        return found

    def _exactly(self, value: str, lead: int, run: Sequence[_Token]) -> Occurrence:
        """A run of the value's words: exact where the page has the value as it is."""
        first, last = run[0], run[-1]
        start = first.start - lead
        text = self.pieces[first.piece].text
        if start >= 0 and text.startswith(value, start):
            return Occurrence(Found.EXACT, first.piece, first.piece, start, start + len(value))
        return _at(Found.NORMALISED, first, last)

    def _run(self, first: int, count: int) -> Sequence[_Token]:
        """`count` words from a place on, if all of them are there, on one page."""
        if first < 0 or first + count > len(self._tokens):
            return ()
        run = self._tokens[first : first + count]
        pages = self.pieces[run[0].piece].page, self.pieces[run[-1].piece].page
        return run if pages[0] == pages[1] else ()

    def _as_date(self, value: str) -> list[Occurrence]:
        match = _ISO_DATE.fullmatch(value)
        try:
            return self._dates.get(date.fromisoformat(match[1]), []) if match else []
        except ValueError:
            return []

    def _as_sign(self, value: str) -> list[Occurrence]:
        """A currency by its sign."""
        signs = [sign for sign, code in SIGNS.items() if code == value.upper()]
        return [
            Occurrence(Found.NORMALISED, k, k, match.start(), match.end())
            for k, piece in enumerate(self.pieces)
            for sign in signs
            for match in re.finditer(re.escape(sign), piece.text)
        ]

    def _alike(self, value: str) -> list[Occurrence]:
        """The runs of words that differ from a text by few characters, the likest ones."""
        words = [word.text for word in words_in(value)]
        joined = "".join(words)
        most = min(MOST_ERRORS, len(joined) // CHARACTERS_PER_ERROR)
        if not words:
            return []
        best, found = most + 1, dict[tuple[int, int], Occurrence]()
        for first, count in sorted(set(self._windows(words))):
            run = self._run(first, count)
            text = "".join(token.text for token in run)
            apart = distance(joined, text, min(best, most)) if text else most + 1
            if apart > min(best, most) or not same_digits(value, " ".join(t.text for t in run)):
                continue
            if apart < best:
                best, found = apart, {}
            how = Found.FUZZY if apart else Found.NORMALISED
            key = (run[0].piece, run[0].start)
            found[key] = _at(how, run[0], run[-1], 1 - apart / len(joined))
        return list(found.values())

    def _windows(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Runs of words that may be like these: the first word and how many."""
        known = [k for k in range(len(words)) if words[k] in self._places]
        known.sort(key=lambda k: len(self._places[words[k]]))
        for k in known[:SEEDS]:
            yield from self._around(words, k, self._places[words[k]])
        if not known:
            longest = max(range(len(words)), key=lambda k: len(words[k]))
            most = max(1, len(words[longest]) // CHARACTERS_PER_ERROR)
            for near in self._near(words[longest], most):
                yield from self._around(words, longest, self._places[near])
            # What was run together with its neighbours is like no word of the value.
            for glued in self._glued(words):
                yield from self._around(words, 0, self._places[glued])

    def _around(
        self, words: Sequence[str], k: int, places: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        """Runs that have the word `k` at one of some places, give or take a word."""
        for at in places[:PLACES]:
            for first in range(at - k - 1, at - k + 2):
                for count in range(max(1, len(words) - 1), len(words) + 2):
                    if first <= at:
                        yield first, count
        if len(words) > 2:
            yield from (
                (at - k, count) for at in places[:PLACES] for count in range(1, len(words) - 1)
            )

    def _near(self, word: str, most: int) -> Iterator[str]:
        if len(word) >= 4:
            yield from (one for one in self._places if distance(word, one, most) <= most)

    def _glued(self, words: Sequence[str]) -> Iterator[str]:
        whole = "".join(words)
        if len(words) > 1:
            yield from (one for one in self._places if len(one) > 5 and whole.startswith(one))

    def _in_parts(self, value: str) -> list[Occurrence]:
        """A text of several lines or parts with commas, each of which stands on the page."""
        parts = [part for part in re.split(r"[\n,;]+", value) if part.strip()]
        if len(parts) < 2:
            return []
        found = [self._as_words(part.strip()) or self._alike(part.strip()) for part in parts]
        if not all(found):
            return []
        first = found[0][0]
        near = [min(places, key=lambda one: abs(one.first - first.first)) for places in found]
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


def _at(found: Found, first: _Token, last: _Token, likeness: float = 1.0) -> Occurrence:
    return Occurrence(found, first.piece, last.piece, first.start, last.end, likeness)


def _decimal(value: str) -> Decimal:
    try:
        return Decimal(value)
    except InvalidOperation:
        return Decimal("nan")

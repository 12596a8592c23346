"""Find every occurrence of a value in the text spans of pages, in any notation."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cached_property

from llm_ocr.parsing.fuzzy import FuzzyMatcher
from llm_ocr.parsing.schema import MatchType
from llm_ocr.parsing.text_spans import (
    Occurrence,
    TextSpan,
    TextToken,
    TokenSequence,
    occurrence_between,
)
from llm_ocr.records import Box
from llm_ocr.text.currencies import CURRENCY_SIGNS, CurrencyMention, currencies_in, named_currencies
from llm_ocr.text.dates import dates_in
from llm_ocr.text.negation import boolean_mentions
from llm_ocr.text.normalize import WordSpan, words_in
from llm_ocr.text.notation import FormatVotes, count_format_votes, resolve_dates, resolve_numbers
from llm_ocr.text.numbers import numbers_in, possible_numbers

ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ]00:00(?::00(?:\.0+)?)?(?:Z|[+-]\d\d:\d\d)?)?")


class ValueIndex:
    """What some pieces have of them; each is read once."""

    def __init__(self, spans: Sequence[TextSpan]) -> None:
        self._pieces = spans
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
        exact = [replace(one, matched=MatchType.EXACT) for one in places if self._text(one) in same]
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
                    Occurrence(MatchType.NORMALIZED, k, k, one.start, one.end, doubtful=doubtful)
                )
        return found

    def signs(self, sign: str) -> list[Occurrence]:
        """A currency's sign as it is, but for those that letters in front make another's."""
        return [
            Occurrence(MatchType.EXACT, k, k, one.end - len(sign), one.end)
            for k, one in self._signs
            if one.sign == sign and one.code == CURRENCY_SIGNS[sign]
        ]

    def _text(self, one: Occurrence) -> str:
        return self._pieces[one.first].text[one.start : one.end]

    @cached_property
    def _tallies(self) -> dict[int, FormatVotes]:
        """For each page how its numbers and dates are written; where it doesn't tell, how those
        of all pages are."""
        pages: dict[int, FormatVotes] = defaultdict(FormatVotes)
        for span in self._pieces:
            pages[span.page] += count_format_votes(span.text)
        whole = sum(pages.values(), FormatVotes())
        return {page: one.or_else(whole) for page, one in pages.items()}

    @cached_property
    def _amounts(self) -> dict[Decimal, list[tuple[Occurrence, bool]]]:
        """Where each number is written, and whether as a percentage."""
        found: dict[Decimal, list[tuple[Occurrence, bool]]] = defaultdict(list)
        for k, span in enumerate(self._pieces):
            decimal_comma = self._tallies[span.page].decimal_comma
            for one in numbers_in(span.text):
                meant = resolve_numbers(one.values, decimal_comma)
                place = _place(k, one.start, one.end, one.partial or len(meant) > 1)
                for reading in meant:
                    found[reading].append((place, one.percent))
        return found

    @cached_property
    def _dates(self) -> dict[date, list[Occurrence]]:
        found: dict[date, list[Occurrence]] = defaultdict(list)
        for k, span in enumerate(self._pieces):
            month_first = self._tallies[span.page].month_first
            for one in dates_in(span.text):
                meant = resolve_dates(one.values, month_first)
                place = _place(k, one.start, one.end, len(meant) > 1)
                for reading in meant:
                    found[reading].append(place)
        return found

    @cached_property
    def _signs(self) -> list[tuple[int, CurrencyMention]]:
        """The signs of currencies, each with its piece."""
        return [(k, one) for k, span in enumerate(self._pieces) for one in currencies_in(span.text)]

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The text of each page."""
        pages: dict[int, list[str]] = defaultdict(list)
        for span in self._pieces:
            pages[span.page].append(span.text)
        return {page: "\n".join(texts) for page, texts in pages.items()}

    def _currencies(self, page: int, sign: str) -> set[str]:
        """Which of the currencies with this sign a page names; else which the document does."""
        return self._on_page(page, sign) or set[str]().union(
            *(self._on_page(other, sign) for other in self._texts)
        )

    def _on_page(self, page: int, sign: str) -> set[str]:
        if (page, sign) not in self._named:
            self._named[page, sign] = named_currencies(self._texts[page], sign)
        return self._named[page, sign]


def _place(span: int, start: int, end: int, doubtful: bool) -> Occurrence:
    return Occurrence(MatchType.NORMALIZED, span, span, start, end, doubtful=doubtful)


_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_NOTED = re.compile(r"-?\d+(?:[.,]\d+)+")
# A number that names something (0381) and counts nothing.
_NAME = re.compile(r"0\d+")
_GAP = "[ \u00a0\u2009\u202f'’]"
# What stands before and behind digits that are a part of a longer number.
_BEFORE = re.compile(r"(?:[\d\-−–]|(?<![^\W\d_])[.,])\Z")
_BEHIND = re.compile(rf"\d|[.,]\d|[-−–]|{_GAP}\d{{3}}(?!\d)")
_GROUP_BEFORE = re.compile(rf"\d{_GAP}\Z")


class TextIndex:
    """The words, numbers and dates of some pieces; made once, asked for each value."""

    def __init__(self, spans: Sequence[TextSpan]) -> None:
        self.spans = spans
        self._tokens = TokenSequence(spans)
        self._alike = FuzzyMatcher(self._tokens)
        self._readings = ValueIndex(spans)
        self._known: dict[tuple[type, str], Sequence[Occurrence]] = {}
        self._parts: dict[str, Sequence[Occurrence]] = {}

    @property
    def words(self) -> Sequence[Sequence[WordSpan]]:
        """Those of each piece."""
        return self._tokens.words

    def quote(self, one: Occurrence) -> str:
        """The text of an occurrence as it stands on the page."""
        if one.first == one.last:
            return self.spans[one.first].text[one.start : one.end]
        texts = [self.spans[k].text for k in range(one.first, one.last + 1)]
        texts[0], texts[-1] = texts[0][one.start :], texts[-1][: one.end]
        return " ".join(texts)

    def box(self, one: Occurrence) -> Box | None:
        """The rectangle around an occurrence; None where none of its pieces has a box."""
        boxes: list[Box] = []
        for k in range(one.first, one.last + 1):
            start = one.start if k == one.first else 0
            end = one.end if k == one.last else len(self.spans[k].text)
            box = self.spans[k].box_of(start, end)
            boxes += [] if box is None else [box]
        if not boxes:
            return None
        tops, bottoms = [box.y1 for box in boxes], [box.y2 for box in boxes]
        lefts, rights = [box.x1 for box in boxes], [box.x2 for box in boxes]
        return Box(min(lefts), min(tops), max(rights), max(bottoms))

    def occurrences(self, value: object) -> Sequence[Occurrence]:
        """Every place of a value in the best way that it is found: as it is, normalized, fuzzy."""
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
        for k, span in enumerate(self.spans):
            for start, end in boolean_mentions(span.text, value):
                yield Occurrence(MatchType.NORMALIZED, k, k, start, end)

    def _text(self, value: str) -> Sequence[Occurrence]:
        if not value:
            return []
        if _NUMBER.fullmatch(value):
            return self._written_number(value)
        if _NOTED.fullmatch(value) and (readings := possible_numbers(value.lstrip("-"))):
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
            if one.matched is MatchType.EXACT and self._is_whole(value, one)
        ]

    def _is_whole(self, value: str, one: Occurrence) -> bool:
        """Whether neither digits nor a sign belong to the number that stands at a place."""
        text = self.spans[one.first].text
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
        text = self.spans[one.first].text
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
        if value in CURRENCY_SIGNS:
            return self._readings.signs(value)
        return [
            Occurrence(MatchType.EXACT, k, k, match.start(), match.end())
            for k, span in enumerate(self.spans)
            for match in re.finditer(re.escape(value), span.text)
        ]

    def _exactly(self, value: str, lead: int, run: Sequence[TextToken]) -> Occurrence:
        """A run of the value's words: exact where the page has the value as it is."""
        first, last = run[0], run[-1]
        start = first.start - lead
        text = self.spans[first.span].text
        if start >= 0 and text.startswith(value, start):
            return Occurrence(MatchType.EXACT, first.span, first.span, start, start + len(value))
        return occurrence_between(MatchType.NORMALIZED, first, last)

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
        pages = {self.spans[one.first].page for one in near}
        if len(pages) > 1:
            return []
        low = min(near, key=lambda one: (one.first, one.start))
        high = max(near, key=lambda one: (one.last, one.end))
        if high.last - low.first > 3 * len(parts):
            return []
        likeness = min(one.similarity for one in near)
        how = (
            MatchType.FUZZY
            if any(one.matched is MatchType.FUZZY for one in near)
            else MatchType.NORMALIZED
        )
        return [Occurrence(how, low.first, high.last, low.start, high.end, likeness)]

    def _part(self, part: str) -> Sequence[Occurrence]:
        """The places of a part, in reading order."""
        if part not in self._parts:
            self._parts[part] = self._as_words(part) or self._alike.places(part)
        return self._parts[part]


def _nearest(places: Sequence[Occurrence], span: int) -> Occurrence:
    """Of places in reading order the one that begins nearest to a piece, the first of them."""
    above = bisect_left(places, span, key=lambda one: one.first)
    around = [places[above]] if above < len(places) else []
    if above:
        below = places[above - 1].first
        around.insert(0, places[bisect_left(places, below, key=lambda one: one.first)])
    return min(around, key=lambda one: abs(one.first - span))


def _decimal(value: str) -> Decimal:
    try:
        return Decimal(value)
    except InvalidOperation:
        return Decimal("nan")

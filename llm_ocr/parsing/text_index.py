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
from llm_ocr.parsing.text_spans import (
    Occurrence,
    TextSpan,
    TextToken,
    TokenSequence,
    occurrence_between,
)
from llm_ocr.records import Box, MatchType
from llm_ocr.text.currencies import (
    CURRENCY_SIGNS,
    CurrencyMention,
    currencies_in,
    named_currencies,
)
from llm_ocr.text.dates import dates_in
from llm_ocr.text.negation import boolean_mentions
from llm_ocr.text.normalize import WordSpan, words_in
from llm_ocr.text.notation import FormatVotes, count_format_votes, resolve_dates, resolve_numbers
from llm_ocr.text.numbers import numbers_in, possible_numbers

ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ]00:00(?::00(?:\.0+)?)?(?:Z|[+-]\d\d:\d\d)?)?")
_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_NUMBER_WITH_SEPARATORS = re.compile(r"-?\d+(?:[.,]\d+)+")
# A number that identifies something (0381) rather than counting it.
_IDENTIFIER = re.compile(r"0\d+")
_GROUP_GAP = "[ \u00a0\u2009\u202f'’]"
# What precedes and follows digits that are part of a longer number.
_NUMBER_BEFORE = re.compile(r"(?:[\d\-−–]|(?<![^\W\d_])[.,])\Z")
_NUMBER_AFTER = re.compile(rf"\d|[.,]\d|[-−–]|{_GROUP_GAP}\d{{3}}(?!\d)")
_GROUP_BEFORE = re.compile(rf"\d{_GROUP_GAP}\Z")


class ValueIndex:
    """The numbers, dates and currencies of text spans, in whatever notation; each is read once."""

    def __init__(self, spans: Sequence[TextSpan]) -> None:
        self._spans = spans
        self._named: dict[tuple[int, str], set[str]] = {}

    def numbers(self, value: Decimal, written: str) -> list[Occurrence]:
        """The occurrences of a number: first those written as given, then other notations."""
        if not value.is_finite():
            return []
        places = [place for place, _ in self._numbers.get(value, ())]
        if 0 < value < 1:
            percentages = self._numbers.get(value * 100, ())
            places += [place for place, is_percent in percentages if is_percent]
        as_given = {written, f"{value.normalize():f}"}
        exact = [place for place in places if self._text(place) in as_given]
        others = [place for place in places if self._text(place) not in as_given]
        return [*(replace(place, matched=MatchType.EXACT) for place in exact), *others]

    def dates(self, value: str) -> list[Occurrence]:
        """The occurrences of the day of an ISO date."""
        match = ISO_DATE.fullmatch(value)
        try:
            return self._dates.get(date.fromisoformat(match[1]), []) if match else []
        except ValueError:
            return []

    def currencies(self, code: str) -> list[Occurrence]:
        """The signs of a currency, unless the page names another currency with the same sign: `$`
        on a page with amounts in CAD is not USD."""
        found: list[Occurrence] = []
        for k, mention in self._currency_mentions:
            if mention.code != code:
                continue
            page = self._spans[k].page
            named = self._currencies_of(page, mention.sign) if mention.bare else {code}
            if not named or code in named:
                place = _place(k, mention.start, mention.end, len(named) > 1)
                found.append(place)
        return found

    def currency_signs(self, sign: str) -> list[Occurrence]:
        """The occurrences of a sign, except where letters before it make it another currency's."""
        return [
            Occurrence(MatchType.EXACT, k, k, mention.end - len(sign), mention.end)
            for k, mention in self._currency_mentions
            if mention.sign == sign and mention.code == CURRENCY_SIGNS[sign]
        ]

    def _text(self, place: Occurrence) -> str:
        return self._spans[place.first].text[place.start : place.end]

    @cached_property
    def _format_votes(self) -> dict[int, FormatVotes]:
        """How each page writes numbers and dates; a page without evidence follows all pages."""
        pages: dict[int, FormatVotes] = defaultdict(FormatVotes)
        for span in self._spans:
            pages[span.page] += count_format_votes(span.text)
        document = sum(pages.values(), FormatVotes())
        return {page: votes.or_else(document) for page, votes in pages.items()}

    @cached_property
    def _numbers(self) -> dict[Decimal, list[tuple[Occurrence, bool]]]:
        """Where each number is written, and whether as a percentage."""
        found: dict[Decimal, list[tuple[Occurrence, bool]]] = defaultdict(list)
        for k, span in enumerate(self._spans):
            decimal_comma = self._format_votes[span.page].decimal_comma
            for mention in numbers_in(span.text):
                values = resolve_numbers(mention.values, decimal_comma)
                doubtful = mention.partial or len(values) > 1
                place = _place(k, mention.start, mention.end, doubtful)
                for value in values:
                    found[value].append((place, mention.percent))
        return found

    @cached_property
    def _dates(self) -> dict[date, list[Occurrence]]:
        found: dict[date, list[Occurrence]] = defaultdict(list)
        for k, span in enumerate(self._spans):
            month_first = self._format_votes[span.page].month_first
            for mention in dates_in(span.text):
                values = resolve_dates(mention.values, month_first)
                place = _place(k, mention.start, mention.end, len(values) > 1)
                for value in values:
                    found[value].append(place)
        return found

    @cached_property
    def _currency_mentions(self) -> list[tuple[int, CurrencyMention]]:
        """The currency signs, each with the index of its span."""
        return [
            (k, mention)
            for k, span in enumerate(self._spans)
            for mention in currencies_in(span.text)
        ]

    @cached_property
    def _page_texts(self) -> dict[int, str]:
        pages: dict[int, list[str]] = defaultdict(list)
        for span in self._spans:
            pages[span.page].append(span.text)
        return {page: "\n".join(texts) for page, texts in pages.items()}

    def _currencies_of(self, page: int, sign: str) -> set[str]:
        """The currencies with this sign that a page names; if it names none, the document's."""
        return self._named_on_page(page, sign) or set[str]().union(
            *(self._named_on_page(other, sign) for other in self._page_texts)
        )

    def _named_on_page(self, page: int, sign: str) -> set[str]:
        if (page, sign) not in self._named:
            self._named[page, sign] = named_currencies(self._page_texts[page], sign)
        return self._named[page, sign]


def _place(span: int, start: int, end: int, doubtful: bool) -> Occurrence:
    return Occurrence(MatchType.NORMALIZED, span, span, start, end, doubtful=doubtful)


class TextIndex:
    """The words, numbers and dates of text spans, indexed once for the look-up of many values."""

    def __init__(self, spans: Sequence[TextSpan]) -> None:
        self.spans = spans
        self._tokens = TokenSequence(spans)
        self._fuzzy = FuzzyMatcher(self._tokens)
        self._values = ValueIndex(spans)
        self._known: dict[tuple[type, str], Sequence[Occurrence]] = {}
        self._known_parts: dict[str, Sequence[Occurrence]] = {}

    @property
    def words(self) -> Sequence[Sequence[WordSpan]]:
        """The words of each span."""
        return self._tokens.words

    def quote(self, place: Occurrence) -> str:
        """The text of an occurrence as the page has it."""
        if place.first == place.last:
            return self.spans[place.first].text[place.start : place.end]
        texts = [self.spans[k].text for k in range(place.first, place.last + 1)]
        texts[0], texts[-1] = texts[0][place.start :], texts[-1][: place.end]
        return " ".join(texts)

    def box(self, place: Occurrence) -> Box | None:
        """The rectangle around an occurrence; None if none of its spans has a box."""
        boxes: list[Box] = []
        for k in range(place.first, place.last + 1):
            start = place.start if k == place.first else 0
            end = place.end if k == place.last else len(self.spans[k].text)
            box = self.spans[k].box_of(start, end)
            boxes += [] if box is None else [box]
        if not boxes:
            return None
        tops, bottoms = [box.y1 for box in boxes], [box.y2 for box in boxes]
        lefts, rights = [box.x1 for box in boxes], [box.x2 for box in boxes]
        return Box(min(lefts), min(tops), max(rights), max(bottoms))

    def occurrences(self, value: object) -> Sequence[Occurrence]:
        """Every occurrence by the best match there is: exact, else normalized, else fuzzy."""
        key = type(value), str(value)
        if key not in self._known:
            self._known[key] = self._find(value)
        return self._known[key]

    def _find(self, value: object) -> Sequence[Occurrence]:
        if isinstance(value, bool):
            return list(self._find_boolean(value))
        if isinstance(value, int | float):
            return self._values.numbers(Decimal(str(value)), str(value))
        return self._find_text(str(value).strip())

    def _find_boolean(self, value: bool) -> Iterator[Occurrence]:
        for k, span in enumerate(self.spans):
            for start, end in boolean_mentions(span.text, value):
                yield Occurrence(MatchType.NORMALIZED, k, k, start, end)

    def _find_text(self, value: str) -> Sequence[Occurrence]:
        if not value:
            return []
        if _PLAIN_NUMBER.fullmatch(value):
            return self._find_plain_number(value)
        is_formatted = _NUMBER_WITH_SEPARATORS.fullmatch(value)
        if is_formatted and (numbers := possible_numbers(value.lstrip("-"))):
            return self._find_formatted_number(value, numbers)
        places = self._find_words(value) or self._values.dates(value)
        places = places or self._values.currencies(value.upper())
        # A date with a wrong digit is another date.
        if places or ISO_DATE.fullmatch(value):
            return places
        return self._fuzzy.occurrences(value) or self._find_parts(value)

    def _find_formatted_number(self, value: str, numbers: Sequence[Decimal]) -> list[Occurrence]:
        """A number in a page's notation, not as part of a longer one: 234,50 in 1.234,50."""
        whole = [place for place in self._find_words(value) if self._is_whole(value, place)]
        if whole or len(numbers) > 1:
            return whole
        sign = -1 if value.startswith("-") else 1
        return self._values.numbers(sign * numbers[0], value)

    def _find_plain_number(self, value: str) -> list[Occurrence]:
        """A text that is a number: as that number, else as text, but not within another number."""
        places: list[Occurrence] = []
        if not _IDENTIFIER.fullmatch(value):
            places = self._values.numbers(_decimal(value), value)
        return places or [
            replace(place, doubtful=self._is_beside_slash(place))
            for place in self._find_words(value)
            if place.matched is MatchType.EXACT and self._is_whole(value, place)
        ]

    def _is_whole(self, value: str, place: Occurrence) -> bool:
        """Whether the number is not part of a longer one, and has no sign that `value` lacks."""
        text = self.spans[place.first].text
        before, after = text[max(0, place.start - 2) : place.start], text[place.end : place.end + 5]
        if _IDENTIFIER.fullmatch(value):
            # INV-0381 is no negative number, nor is (0381).
            before = re.sub(r"(?<=[^\W\d_])-\Z", "", before)
        elif before[-1:] == "(" and after[:1] == ")":
            return False
        if re.match(r"\d{3}(?!\d)", value) and _GROUP_BEFORE.search(before):
            return False
        return not _NUMBER_BEFORE.search(before) and not _NUMBER_AFTER.match(after)

    def _is_beside_slash(self, place: Occurrence) -> bool:
        """Whether a number may be part of a date."""
        text = self.spans[place.first].text
        return "/" in (
            text[max(0, place.start - 1) : place.start],
            text[place.end : place.end + 1],
        )

    def _find_words(self, value: str) -> list[Occurrence]:
        words = list(words_in(value))
        if not words:
            return self._find_symbols(value)
        positions, texts = self._tokens.positions, self._tokens.texts
        wanted = [word.text for word in words]
        rarest = min(range(len(words)), key=lambda k: len(positions.get(wanted[k], ())))
        found: list[Occurrence] = []
        for at in positions.get(wanted[rarest], ()):
            start = at - rarest
            if start < 0 or texts[start : start + len(words)] != wanted:
                continue
            if run := self._tokens.run(start, len(words)):
                found.append(self._exact_or_normalized(value, words[0].start, run))
        return found

    def _find_symbols(self, value: str) -> list[Occurrence]:
        """A text without letters and digits."""
        if value in CURRENCY_SIGNS:
            return self._values.currency_signs(value)
        return [
            Occurrence(MatchType.EXACT, k, k, match.start(), match.end())
            for k, span in enumerate(self.spans)
            for match in re.finditer(re.escape(value), span.text)
        ]

    def _exact_or_normalized(self, value: str, lead: int, run: Sequence[TextToken]) -> Occurrence:
        """A run of the value's words, of which the first begins at `lead` in the value."""
        first, last = run[0], run[-1]
        start = first.start - lead
        text = self.spans[first.span].text
        if start >= 0 and text.startswith(value, start):
            return Occurrence(MatchType.EXACT, first.span, first.span, start, start + len(value))
        return occurrence_between(MatchType.NORMALIZED, first, last)

    def _find_parts(self, value: str) -> list[Occurrence]:
        """A text of several lines or comma-separated parts that are near each other on a page."""
        parts = [part.strip() for part in re.split(r"[\n,;]+", value) if part.strip()]
        if len(parts) < 2:
            return []
        found = [self._find_part(part) for part in parts]
        if not all(found):
            return []
        first = found[0][0]
        near = [_nearest(places, first.first) for places in found]
        pages = {self.spans[place.first].page for place in near}
        if len(pages) > 1:
            return []
        low = min(near, key=lambda place: (place.first, place.start))
        high = max(near, key=lambda place: (place.last, place.end))
        if high.last - low.first > 3 * len(parts):
            return []
        similarity = min(place.similarity for place in near)
        is_fuzzy = any(place.matched is MatchType.FUZZY for place in near)
        how = MatchType.FUZZY if is_fuzzy else MatchType.NORMALIZED
        return [Occurrence(how, low.first, high.last, low.start, high.end, similarity)]

    def _find_part(self, part: str) -> Sequence[Occurrence]:
        """The occurrences of a part, in reading order."""
        if part not in self._known_parts:
            places = self._find_words(part) or self._fuzzy.occurrences(part)
            self._known_parts[part] = places
        return self._known_parts[part]


def _nearest(places: Sequence[Occurrence], span: int) -> Occurrence:
    """Of occurrences in reading order the one nearest to a span; of equally near ones the first."""
    above = bisect_left(places, span, key=lambda place: place.first)
    around = [places[above]] if above < len(places) else []
    if above:
        below = places[above - 1].first
        around.insert(0, places[bisect_left(places, below, key=lambda place: place.first)])
    return min(around, key=lambda place: abs(place.first - span))


def _decimal(value: str) -> Decimal:
    try:
        return Decimal(value)
    except InvalidOperation:
        return Decimal("nan")

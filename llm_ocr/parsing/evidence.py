"""Where the values of a record stand on its pages, and how sure that is.

Each value is sought as it is, then normalized (numbers and dates in any notation, currencies by
their sign, case, accents, white space and punctuation), then with a few characters wrong, but
never a digit. A number is no part of another one. Of several places the one is taken that stands
in the row of its list item, has its field's label in front or above it, or is nearest to its
siblings; else the first.

`confidence` is agreement x reading x place x model:
- agreement: 1 for a value found as it is, 0.95 normalized, 0.9 x the share of characters that are
  right for a fuzzy one, 0.2 where the page doesn't show it;
- reading: 0.8 for what may as well be something else (03/04/2024) and the page doesn't tell;
- place: 0.8 where the value stands in several places and nothing tells which is meant, else 1;
- model: the probability that the model gave the value, where the engine tells it, else 1.

A boolean counts as found only at a word for it, or a ticked box, behind its field's label. The
member of an enum is sought like any text, so one that was inferred is unverified, as is any
derived value.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from llm_ocr.parsing.leaves import leaves_with_items
from llm_ocr.parsing.schema import Evidence, Fields, MatchType, PageText
from llm_ocr.parsing.text_index import TextIndex
from llm_ocr.parsing.text_spans import Occurrence, split_spans
from llm_ocr.records import Box
from llm_ocr.text.negation import is_negated, unselected_options
from llm_ocr.text.normalize import WordSpan, normalized_words

# A row of a table by its number, or else a piece by its own.
RowKey = tuple[bool, int]


def locate_items(lines: Mapping[str, Sequence[frozenset[RowKey]]]) -> dict[str, RowKey]:
    """For each item of a list, told by the lines of each of its values, the row that has the most
    of them, if it has two.

    Of rows with as many the first that no item before it has, so that equal items follow each
    other.
    """
    taken: dict[str, set[RowKey]] = defaultdict(set)
    known: dict[tuple[int, ...], list[RowKey]] = {}
    # How many of them are taken, by the list and what its items have in common.
    starts: dict[tuple[str, tuple[int, ...]], int] = defaultdict(int)
    rows: dict[str, RowKey] = {}
    for item, sets in lines.items():
        # Sets are shared by equal values, and so are the best rows of equal items.
        key = tuple(sorted(map(id, sets)))
        if key not in known:
            known[key] = sorted(_shared_by_most(sets))
        best, siblings = known[key], item.rpartition(".")[0]
        at = starts[siblings, key]
        while at < len(best) and best[at] in taken[siblings]:
            at += 1
        starts[siblings, key] = at
        if best:
            rows[item] = best[at] if at < len(best) else best[0]
            taken[siblings].add(rows[item])
    return rows


def _shared_by_most(sets: Sequence[frozenset[RowKey]]) -> Iterable[RowKey]:
    """What is in the most of some sets, and in two at least.

    What is in `count` of them is in one of all but the `count - 1` largest: a value that stands
    everywhere, as a quantity of 1 does, is only looked at where others are.
    """
    ordered = sorted(filter(None, sets), key=len)
    for count in range(len(ordered), 1, -1):
        rare = ordered[: len(ordered) - count + 1]
        if len(rare) == 1:
            if best := rare[0].intersection(*ordered[1:]):
                return best
            continue
        votes = Counter(line for one in rare for line in one)
        for line in votes:
            votes[line] += sum(line in one for one in ordered[len(rare) :])
        if best_of := [line for line, votes_of in votes.items() if votes_of == count]:
            return best_of
    return ()


# How far in front of a value its label may end, in words; in the piece before it counts as
# further off.
LABEL_REACH = 8
PREVIOUS_SPAN_DISTANCE = 3

FieldLabels = Mapping[str, Sequence[str]]
_Phrases = Sequence[tuple[str, ...]]


class LabelScorer:
    """The labels of fields, sought in front of places or at the top of their columns."""

    def __init__(self, index: TextIndex, labels: FieldLabels) -> None:
        self._index, self._labels = index, labels
        self._phrases: dict[str, _Phrases] = {}
        self._plain = lru_cache(maxsize=None)(_plain)
        self._words = lru_cache(maxsize=None)(self._words_said)
        self._heading = lru_cache(maxsize=None)(normalized_words)

    def plain(self, path: str) -> str:
        """A path without the numbers of list items."""
        return self._plain(path)

    def score(self, path: str, value: object, one: Occurrence) -> float:
        """How near a label ends in front of a place, or whether one heads its column."""
        labels = self._phrases_of(self.plain(path))
        heading = self._heading(self._index.spans[one.first].heading)
        before = self._before(one)
        texts = [text for text, _ in before]
        known = set(texts)
        best = 0.0
        for label in labels:
            if heading and heading[: len(label)] == label:
                best = max(best, float(len(label)))
            if label[-1] not in known:
                continue
            for end in range(len(before), len(label) - 1, -1):
                start = end - len(label)
                if tuple(texts[start:end]) != label:
                    continue
                if not isinstance(value, bool) or not is_negated(value, texts[:start], texts[end:]):
                    best = max(best, len(label) / (1 + before[end - 1][1]))
                break
        return best

    def _phrases_of(self, plain: str) -> _Phrases:
        if plain not in self._phrases:
            given = self._labels.get(plain) or [plain.rpartition(".")[2]]
            self._phrases[plain] = [words for words in map(normalized_words, given) if words]
        return self._phrases[plain]

    def _words_said(self, span: int) -> Sequence[WordSpan]:
        """The words of a piece, blank where they are answers that are offered and not given."""
        words, not_said = self._index.words[span], unselected_options(self._index.spans[span].text)
        if not not_said:
            return words
        return [replace(one, text="") if one.start in not_said else one for one in words]

    def _before(self, one: Occurrence) -> list[tuple[str, int]]:
        """The words in front of a place, and how many words off each of them ends."""
        words = self._words(one.first)
        count = bisect_right(words, one.start, key=lambda word: word.end)
        found = [(words[k].text, count - 1 - k) for k in range(max(0, count - LABEL_REACH), count)]
        if count < LABEL_REACH and one.first > 0:
            spans = self._index.spans
            same_row = spans[one.first].row is not None and (
                spans[one.first].row == spans[one.first - 1].row
            )
            off = count + (0 if same_row else PREVIOUS_SPAN_DISTANCE)
            tail = self._words(one.first - 1)[-LABEL_REACH:]
            found = [(w.text, len(tail) - 1 - k + off) for k, w in enumerate(tail)] + found
        return found


def _plain(path: str) -> str:
    return ".".join(part for part in path.split(".") if not part.isdecimal())


# Of a value with more places than this only some are compared: those in its item's row, or those
# with the nearest label; of as many of those the first and the ones around its siblings.
MAX_COMPARED, NEIGHBORS, MAX_ANCHORS = 64, 16, 8

Rating = tuple[float, float, float]


@dataclass(frozen=True)
class RecordValue:
    """A value, its path, the path of what holds it, and the list item that it is in."""

    path: str
    parent: str
    item: str | None
    value: object


@dataclass(frozen=True)
class SelectedOccurrence:
    """A value's place, and whether another one would be as good."""

    occurrence: Occurrence
    ambiguous: bool


class _Spots:
    """The places of a value, shared by all that have it, by row and by page."""

    def __init__(self, places: Sequence[Occurrence], index: TextIndex) -> None:
        self.places = places
        self.by_line: dict[RowKey, list[int]] = defaultdict(list)
        self.by_page: dict[int, list[int]] = defaultdict(list)
        lines: set[RowKey] = set()
        for k, one in enumerate(places):
            span = index.spans[one.first]
            line = (False, one.first) if span.row is None else (True, span.row)
            self.by_line[line].append(k)
            self.by_page[span.page].append(k)
            # Of a paragraph nobody knows what is in one row of it.
            if span.lines == 1:
                lines.add(line)
        self.lines = frozenset(lines)
        # By the name of a field, those of the places that have the nearest label.
        self.labeled: dict[str, list[int]] = {}
        # By what holds a value, before which of those all are used.
        self.used: dict[tuple[str, str], int] = defaultdict(int)


class EvidenceSelector:
    """Which of a value's places is meant."""

    def __init__(
        self,
        index: TextIndex,
        leaves: Sequence[RecordValue],
        places: Mapping[str, Sequence[Occurrence]],
        labels: FieldLabels,
    ) -> None:
        self._index, self._leaves = index, leaves
        self._labeling = LabelScorer(index, labels)
        # Equal values have one sequence of places between them.
        shared = {id(one): one for one in places.values()}
        spots = {key: _Spots(one, index) for key, one in shared.items()}
        self._spots = {path: spots[id(one)] for path, one in places.items()}
        self._rows = self._item_rows()
        self._bands = self._item_bands()
        self._anchors = self._anchored()
        self._used: set[tuple[str, int, int]] = set()

    def choices(self) -> dict[str, SelectedOccurrence]:
        """By path, for the values that are on the pages; the surest choose first, and two values
        of one object share a place only where there is no other as good."""
        rated = {leaf.path: self._rated(leaf) for leaf in self._leaves}
        order = sorted(
            self._leaves, key=lambda leaf: [-x for x in max(rated[leaf.path].values(), default=())]
        )
        found: dict[str, SelectedOccurrence] = {}
        for leaf in order:
            if choice := self._chosen(leaf, rated[leaf.path]):
                one = choice.occurrence
                self._used.add((leaf.parent, one.first, one.start))
                found[leaf.path] = choice
        return found

    def _chosen(self, leaf: RecordValue, rated: Mapping[int, Rating]) -> SelectedOccurrence | None:
        places = self._spots[leaf.path].places
        free = [
            (in_row, label, self._is_free(leaf, places[k]), not places[k].doubtful, near, -k)
            for k, (in_row, label, near) in {**rated, **self._next_free(leaf, rated)}.items()
            if label > 0 or not isinstance(leaf.value, bool)
        ]
        if not free:
            return None
        best, *others = sorted(free, reverse=True)
        told = any(best[:2]) and all(other[:3] != best[:3] for other in others)
        return SelectedOccurrence(places[-best[-1]], bool(others) and not told)

    def _is_free(self, leaf: RecordValue, one: Occurrence) -> bool:
        return (leaf.parent, one.first, one.start) not in self._used

    def _next_free(self, leaf: RecordValue, rated: Mapping[int, Rating]) -> dict[int, Rating]:
        """The first place that is not used, where those that were compared all are."""
        spots = self._spots[leaf.path]
        plain = self._labeling.plain(leaf.path)
        group = spots.labeled.get(plain, ())
        if len(group) <= MAX_COMPARED or any(self._is_free(leaf, spots.places[k]) for k in rated):
            return {}
        key = leaf.parent, plain
        while spots.used[key] < len(group):
            k = group[spots.used[key]]
            if self._is_free(leaf, spots.places[k]):
                return {k: self._rating(leaf, spots.places[k])}
            spots.used[key] += 1
        return {}

    def _rated(self, leaf: RecordValue) -> dict[int, Rating]:
        """The places that come into question, by their number, and how good each is."""
        places = self._spots[leaf.path].places
        if len(places) <= MAX_COMPARED:
            return {k: self._rating(leaf, one) for k, one in enumerate(places)}
        in_row = {k: self._rating(leaf, places[k]) for k in self._in_row(leaf)}
        if isinstance(leaf.value, bool):
            in_row = {k: one for k, one in in_row.items() if one[1] > 0}
        return in_row or {k: self._rating(leaf, places[k]) for k in self._labeled_best(leaf)}

    def _in_row(self, leaf: RecordValue) -> list[int]:
        spots = self._spots[leaf.path]
        if leaf.item is None:
            return []
        if (row := self._rows.get(leaf.item)) is not None:
            return spots.by_line.get(row, [])
        band = self._bands.get(leaf.item)
        on_page = spots.by_page.get(band[0], []) if band else []
        return [k for k in on_page if self._is_in_row(leaf.item, spots.places[k])]

    def _labeled_best(self, leaf: RecordValue) -> Sequence[int]:
        """The places with the nearest label; of many the first, and those around siblings."""
        spots, plain = self._spots[leaf.path], self._labeling.plain(leaf.path)
        if plain not in spots.labeled:
            scores = [self._labeling.score(leaf.path, leaf.value, one) for one in spots.places]
            best = max(scores)
            spots.labeled[plain] = [k for k, score in enumerate(scores) if score == best]
        group = spots.labeled[plain]
        if len(group) <= MAX_COMPARED:
            return group
        chosen = set(group[:NEIGHBORS])
        for anchor in self._anchors.get(leaf.parent, ())[:MAX_ANCHORS]:
            at = bisect_left(group, anchor, key=lambda k: spots.places[k].first)
            chosen.update(group[max(0, at - NEIGHBORS) : at + NEIGHBORS])
        return sorted(chosen)

    def _rating(self, leaf: RecordValue, one: Occurrence) -> Rating:
        """In the row of its item, by a label, near its siblings; larger is better."""
        in_row = 1.0 if leaf.item is not None and self._is_in_row(leaf.item, one) else 0.0
        anchors, page = self._anchors.get(leaf.parent, ()), self._index.spans[one.first].page
        below, above = bisect_left(anchors, one.first), bisect_right(anchors, one.first)
        gaps = [
            abs(at - one.first)
            for at in (*anchors[max(0, below - 1) : below], *anchors[above : above + 1])
            if self._index.spans[at].page == page
        ]
        near = 1 / (1 + min(gaps)) if gaps else 0.0
        return in_row, self._labeling.score(leaf.path, leaf.value, one), near

    def _is_in_row(self, item: str, one: Occurrence) -> bool:
        """Whether a place is in the row of a list's item, or as high on the page as it."""
        if (row := self._rows.get(item)) is not None:
            return self._line(one.first) == row
        page, band = self._index.spans[one.first].page, self._bands.get(item)
        if band is None or band[0] != page or (box := self._index.box(one)) is None:
            return False
        shared = min(box.y2, band[1].y2) - max(box.y1, band[1].y1)
        return shared > 0.5 * min(box.y2 - box.y1, band[1].y2 - band[1].y1)

    def _line(self, span: int) -> RowKey:
        """The row of a table that a piece is in, or the piece itself."""
        row = self._index.spans[span].row
        return (False, span) if row is None else (True, row)

    def _item_rows(self) -> dict[str, RowKey]:
        """For each item of a list the row that has the most of its values."""
        lines: dict[str, list[frozenset[RowKey]]] = defaultdict(list)
        for leaf in self._leaves:
            if leaf.item is not None:
                lines[leaf.item].append(self._spots[leaf.path].lines)
        return locate_items(lines)

    def _item_bands(self) -> dict[str, tuple[int, Box]]:
        """For each item without a row the page and box of a value that stands in one place only."""
        bands: dict[str, tuple[int, Box]] = {}
        for leaf in self._leaves:
            places = self._spots[leaf.path].places
            if leaf.item is None or leaf.item in self._rows or len(places) != 1:
                continue
            box = self._index.box(places[0])
            if box is not None:
                bands.setdefault(leaf.item, (self._index.spans[places[0].first].page, box))
        return bands

    def _anchored(self) -> dict[str, list[int]]:
        """By the path of what holds them, the pieces of values that stand in one place only."""
        anchors: dict[str, list[int]] = defaultdict(list)
        for leaf in self._leaves:
            if len(places := self._spots[leaf.path].places) == 1:
                anchors[leaf.parent].append(places[0].first)
        return {parent: sorted(spans) for parent, spans in anchors.items()}


AGREEMENT = {MatchType.EXACT: 1.0, MatchType.NORMALIZED: 0.95, MatchType.FUZZY: 0.9, None: 0.2}
AMBIGUITY_FACTOR = 0.8


def find_evidence(
    fields: Fields,
    pages: Sequence[PageText],
    confidences: Mapping[str, float] | None = None,
    labels: FieldLabels | None = None,
) -> list[Evidence]:
    """One for each value of a record that is not null, in its order.

    `confidences` has the model's probabilities (0..1) by path. `labels` has what a field is called
    on pages, by its path without the numbers of list items (`lines.amount`); where it has nothing,
    the field's own name counts.
    """
    index = TextIndex(split_spans(pages))
    leaves = [
        RecordValue(path, path.rpartition(".")[0], item, value)
        for path, value, item in leaves_with_items(fields)
        if value is not None and value != ""
    ]
    places = {leaf.path: index.occurrences(leaf.value) for leaf in leaves}
    chosen = EvidenceSelector(index, leaves, places, labels or {}).choices()
    return [
        _evidence(
            leaf, chosen.get(leaf.path), index, pages, (confidences or {}).get(leaf.path, 1.0)
        )
        for leaf in leaves
    ]


def _evidence(
    leaf: RecordValue,
    choice: SelectedOccurrence | None,
    index: TextIndex,
    pages: Sequence[PageText],
    probability: float,
) -> Evidence:
    if choice is None:
        return Evidence(leaf.path, None, round(AGREEMENT[None] * probability, 4))
    one = choice.occurrence
    sure = AGREEMENT[one.matched] * one.similarity
    sure *= AMBIGUITY_FACTOR ** (choice.ambiguous + one.doubtful)
    page = pages[index.spans[one.first].page]
    return Evidence(
        leaf.path,
        one.matched,
        round(sure * probability, 4),
        page.page_id,
        page.page_number,
        index.box(one),
        index.quote(one),
    )

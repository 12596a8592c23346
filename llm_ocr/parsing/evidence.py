"""Find the evidence for a record's values on its pages, and rate how reliable each value is.

Each value is looked up as it is, then normalized (numbers and dates in any notation, currencies by
their sign, text without case, accents, white space and punctuation), then with a few wrong
characters, but never a wrong digit. A number never matches a part of another number. Of several
occurrences the one is selected that is in the row of its list item, has the field's label before or
above it, or is closest to its siblings; else the first.

`confidence` is agreement x interpretation x location x model:
- agreement: 1 for an exact match, 0.95 for a normalized one, 0.9 x the share of correct characters
  for a fuzzy one, 0.2 if the value is not on the page;
- interpretation: 0.8 if the text can mean something else (03/04/2024) and the page does not settle
  it, else 1;
- location: 0.8 if the value occurs several times and nothing tells which one is meant, else 1;
- model: the probability that the model gave the value, if the engine reports it, else 1.

A boolean only matches a word for it, or a ticked box, after its field's label. The member of an
enum is looked up like any text, so an inferred one is unverified, as is any derived value.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from llm_ocr.parsing.leaves import leaves_with_items
from llm_ocr.parsing.reading_confidence import reading_confidence
from llm_ocr.parsing.schema import Fields, PageBlocks
from llm_ocr.parsing.text_index import TextIndex
from llm_ocr.parsing.text_spans import Occurrence, split_spans
from llm_ocr.records import Box, FieldEvidence, MatchType
from llm_ocr.text.negation import is_negated, unselected_options
from llm_ocr.text.normalize import WordSpan, normalized_words

# How many words before a value its label may end, and how many words of distance it adds that a
# label is in the previous span.
LABEL_REACH = 8
PREVIOUS_SPAN_DISTANCE = 3
# Of a value with more occurrences than this only some are compared: those in its item's row, or
# those with the closest label. If those are as many, only the first ones and the ones next to its
# siblings are.
MAX_COMPARED, NEIGHBORS, MAX_ANCHORS = 64, 16, 8
AGREEMENT = {MatchType.EXACT: 1.0, MatchType.NORMALIZED: 0.95, MatchType.FUZZY: 0.9, None: 0.2}
AMBIGUITY_FACTOR = 0.8
# (True, number of a table's row), or (False, index of a span that is not in a table).
RowKey = tuple[bool, int]


def locate_items(lines: Mapping[str, Sequence[frozenset[RowKey]]]) -> dict[str, RowKey]:
    """Maps each list item to the row that contains most of its values, if it contains two.

    `lines` has the rows of each value of an item. Of equally good rows an item gets the first that
    no item before it has, so that equal items are in consecutive rows.
    """
    taken: dict[str, set[RowKey]] = defaultdict(set)
    known: dict[tuple[int, ...], list[RowKey]] = {}
    # How many of the best rows are taken, by list and by the rows of the items' values.
    starts: dict[tuple[str, tuple[int, ...]], int] = defaultdict(int)
    rows: dict[str, RowKey] = {}
    for item, sets in lines.items():
        # Equal values share a set, so equal items have the same key and the same best rows.
        key = tuple(sorted(map(id, sets)))
        if key not in known:
            known[key] = sorted(_most_shared(sets))
        best, siblings = known[key], item.rpartition(".")[0]
        at = starts[siblings, key]
        while at < len(best) and best[at] in taken[siblings]:
            at += 1
        starts[siblings, key] = at
        if best:
            rows[item] = best[at] if at < len(best) else best[0]
            taken[siblings].add(rows[item])
    return rows


def _most_shared(sets: Sequence[frozenset[RowKey]]) -> Iterable[RowKey]:
    """The elements that most of the sets contain, and at least two.

    What `count` sets contain is in one of all but the `count - 1` largest: the large set of a value
    that occurs everywhere, as a quantity of 1 does, is only tested for the elements of the others.
    """
    ordered = sorted(filter(None, sets), key=len)
    for count in range(len(ordered), 1, -1):
        rare = ordered[: len(ordered) - count + 1]
        if len(rare) == 1:
            if shared := rare[0].intersection(*ordered[1:]):
                return shared
            continue
        votes = Counter(row for rows in rare for row in rows)
        for row in votes:
            votes[row] += sum(row in rows for rows in ordered[len(rare) :])
        if best := [row for row, votes_for_row in votes.items() if votes_for_row == count]:
            return best
    return ()


FieldLabels = Mapping[str, Sequence[str]]
_Phrases = Sequence[tuple[str, ...]]


class LabelScorer:
    """Scores how close a field's label is: before an occurrence, or at the top of its column."""

    def __init__(self, index: TextIndex, labels: FieldLabels) -> None:
        self._index, self._field_labels = index, labels
        self._phrases: dict[str, _Phrases] = {}
        self._plain_path = lru_cache(maxsize=None)(_plain_path)
        self._words_of_span = lru_cache(maxsize=None)(self._label_words)
        self._heading_words = lru_cache(maxsize=None)(normalized_words)

    def plain_path(self, path: str) -> str:
        """A path without the indices of list items."""
        return self._plain_path(path)

    def score(self, path: str, value: object, place: Occurrence) -> float:
        """The score of the closest label before an occurrence, or of one that heads its column."""
        labels = self._label_phrases(self.plain_path(path))
        heading = self._heading_words(self._index.spans[place.first].heading)
        before = self._words_before(place)
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

    def _label_phrases(self, plain: str) -> _Phrases:
        if plain not in self._phrases:
            given = self._field_labels.get(plain) or [plain.rpartition(".")[2]]
            self._phrases[plain] = [words for words in map(normalized_words, given) if words]
        return self._phrases[plain]

    def _label_words(self, span: int) -> Sequence[WordSpan]:
        """The words of a span, blank where they are options that are not selected (yes/no)."""
        words, unselected = (
            self._index.words[span],
            unselected_options(self._index.spans[span].text),
        )
        if not unselected:
            return words
        return [replace(word, text="") if word.start in unselected else word for word in words]

    def _words_before(self, place: Occurrence) -> list[tuple[str, int]]:
        """The words before an occurrence, and the distance of each in words."""
        words = self._words_of_span(place.first)
        count = bisect_right(words, place.start, key=lambda word: word.end)
        found = [(words[k].text, count - 1 - k) for k in range(max(0, count - LABEL_REACH), count)]
        if count < LABEL_REACH and place.first > 0:
            spans = self._index.spans
            same_row = spans[place.first].row is not None and (
                spans[place.first].row == spans[place.first - 1].row
            )
            off = count + (0 if same_row else PREVIOUS_SPAN_DISTANCE)
            tail = self._words_of_span(place.first - 1)[-LABEL_REACH:]
            found = [(w.text, len(tail) - 1 - k + off) for k, w in enumerate(tail)] + found
        return found


def _plain_path(path: str) -> str:
    return ".".join(part for part in path.split(".") if not part.isdecimal())


Rating = tuple[float, float, float]


@dataclass(frozen=True)
class RecordValue:
    """A value of a record, with its path, its parent's, and that of the list item that it is in."""

    path: str
    parent: str
    item: str | None
    value: object


@dataclass(frozen=True)
class SelectedOccurrence:
    """The occurrence selected for a value; `ambiguous` if another one is as good."""

    occurrence: Occurrence
    ambiguous: bool


class _Candidates:
    """The occurrences of a value by row and by page; equal values share them."""

    def __init__(self, places: Sequence[Occurrence], index: TextIndex) -> None:
        self.places = places
        self.by_row: dict[RowKey, list[int]] = defaultdict(list)
        self.by_page: dict[int, list[int]] = defaultdict(list)
        lines: set[RowKey] = set()
        for k, place in enumerate(places):
            span = index.spans[place.first]
            line = (False, place.first) if span.row is None else (True, span.row)
            self.by_row[line].append(k)
            self.by_page[span.page].append(k)
            # Which values share a line of a paragraph is unknown.
            if span.lines == 1:
                lines.add(line)
        self.lines = frozenset(lines)
        # Path without indices -> the occurrences with the closest label of that field.
        self.by_label: dict[str, list[int]] = {}
        # (Parent's path, path without indices) -> index below which those are all in use.
        self.next_unused: dict[tuple[str, str], int] = defaultdict(int)


class EvidenceSelector:
    """Selects the occurrence of each value by rows, labels and neighboring values."""

    def __init__(
        self,
        index: TextIndex,
        leaves: Sequence[RecordValue],
        places: Mapping[str, Sequence[Occurrence]],
        labels: FieldLabels,
    ) -> None:
        self._index, self._leaves = index, leaves
        self._labels = LabelScorer(index, labels)
        # Equal values share one sequence of occurrences.
        shared = {id(found): found for found in places.values()}
        candidates = {key: _Candidates(found, index) for key, found in shared.items()}
        self._candidates = {path: candidates[id(found)] for path, found in places.items()}
        self._rows = self._rows_of_items()
        self._bands = self._bands_of_items()
        self._anchors = self._unique_positions()
        self._used: set[tuple[str, int, int]] = set()

    def select(self) -> dict[str, SelectedOccurrence]:
        """The selected occurrences by path. The best rated values select first; two values of one
        object share an occurrence only if no other is as good."""
        ratings = {leaf.path: self._ratings(leaf) for leaf in self._leaves}
        order = sorted(
            self._leaves,
            key=lambda leaf: [-x for x in max(ratings[leaf.path].values(), default=())],
        )
        found: dict[str, SelectedOccurrence] = {}
        for leaf in order:
            if choice := self._select(leaf, ratings[leaf.path]):
                place = choice.occurrence
                self._used.add((leaf.parent, place.first, place.start))
                found[leaf.path] = choice
        return found

    def _select(
        self, leaf: RecordValue, ratings: Mapping[int, Rating]
    ) -> SelectedOccurrence | None:
        places = self._candidates[leaf.path].places
        free = [
            (in_row, label, self._is_free(leaf, places[k]), not places[k].doubtful, near, -k)
            for k, (in_row, label, near) in {**ratings, **self._next_unused(leaf, ratings)}.items()
            if label > 0 or not isinstance(leaf.value, bool)
        ]
        if not free:
            return None
        best, *others = sorted(free, reverse=True)
        is_clear = any(best[:2]) and all(other[:3] != best[:3] for other in others)
        return SelectedOccurrence(places[-best[-1]], bool(others) and not is_clear)

    def _is_free(self, leaf: RecordValue, place: Occurrence) -> bool:
        return (leaf.parent, place.first, place.start) not in self._used

    def _next_unused(self, leaf: RecordValue, ratings: Mapping[int, Rating]) -> dict[int, Rating]:
        """The first occurrence that is not in use, if all that were compared are."""
        candidates = self._candidates[leaf.path]
        plain = self._labels.plain_path(leaf.path)
        group = candidates.by_label.get(plain, ())
        places = candidates.places
        if len(group) <= MAX_COMPARED or any(self._is_free(leaf, places[k]) for k in ratings):
            return {}
        key = leaf.parent, plain
        while candidates.next_unused[key] < len(group):
            k = group[candidates.next_unused[key]]
            if self._is_free(leaf, places[k]):
                return {k: self._rating(leaf, places[k])}
            candidates.next_unused[key] += 1
        return {}

    def _ratings(self, leaf: RecordValue) -> dict[int, Rating]:
        """The candidates for a value and their ratings, by index."""
        places = self._candidates[leaf.path].places
        if len(places) <= MAX_COMPARED:
            return {k: self._rating(leaf, place) for k, place in enumerate(places)}
        in_row = {k: self._rating(leaf, places[k]) for k in self._places_in_row(leaf)}
        if isinstance(leaf.value, bool):
            in_row = {k: rating for k, rating in in_row.items() if rating[1] > 0}
        return in_row or {k: self._rating(leaf, places[k]) for k in self._best_labeled(leaf)}

    def _places_in_row(self, leaf: RecordValue) -> list[int]:
        candidates = self._candidates[leaf.path]
        if leaf.item is None:
            return []
        if (row := self._rows.get(leaf.item)) is not None:
            return candidates.by_row.get(row, [])
        band = self._bands.get(leaf.item)
        on_page = candidates.by_page.get(band[0], []) if band else []
        return [k for k in on_page if self._is_in_row(leaf.item, candidates.places[k])]

    def _best_labeled(self, leaf: RecordValue) -> Sequence[int]:
        """The occurrences with the closest label; of many the first, and those next to siblings."""
        candidates, plain = self._candidates[leaf.path], self._labels.plain_path(leaf.path)
        if plain not in candidates.by_label:
            scores = [
                self._labels.score(leaf.path, leaf.value, place) for place in candidates.places
            ]
            best = max(scores)
            candidates.by_label[plain] = [k for k, score in enumerate(scores) if score == best]
        group = candidates.by_label[plain]
        if len(group) <= MAX_COMPARED:
            return group
        chosen = set(group[:NEIGHBORS])
        for anchor in self._anchors.get(leaf.parent, ())[:MAX_ANCHORS]:
            at = bisect_left(group, anchor, key=lambda k: candidates.places[k].first)
            chosen.update(group[max(0, at - NEIGHBORS) : at + NEIGHBORS])
        return sorted(chosen)

    def _rating(self, leaf: RecordValue, place: Occurrence) -> Rating:
        """Whether it is in its item's row, how close a label is, and how close a sibling is."""
        in_row = 1.0 if leaf.item is not None and self._is_in_row(leaf.item, place) else 0.0
        anchors, page = self._anchors.get(leaf.parent, ()), self._index.spans[place.first].page
        below, above = bisect_left(anchors, place.first), bisect_right(anchors, place.first)
        gaps = [
            abs(at - place.first)
            for at in (*anchors[max(0, below - 1) : below], *anchors[above : above + 1])
            if self._index.spans[at].page == page
        ]
        near = 1 / (1 + min(gaps)) if gaps else 0.0
        return in_row, self._labels.score(leaf.path, leaf.value, place), near

    def _is_in_row(self, item: str, place: Occurrence) -> bool:
        """Whether an occurrence is in the row of a list item, or at the same height of the page."""
        if (row := self._rows.get(item)) is not None:
            return self._row_key(place.first) == row
        page, band = self._index.spans[place.first].page, self._bands.get(item)
        if band is None or band[0] != page or (box := self._index.box(place)) is None:
            return False
        shared = min(box.y2, band[1].y2) - max(box.y1, band[1].y1)
        return shared > 0.5 * min(box.y2 - box.y1, band[1].y2 - band[1].y1)

    def _row_key(self, span: int) -> RowKey:
        """The table row that a span is in, or the span itself."""
        row = self._index.spans[span].row
        return (False, span) if row is None else (True, row)

    def _rows_of_items(self) -> dict[str, RowKey]:
        """Maps each list item to the row that contains most of its values."""
        lines: dict[str, list[frozenset[RowKey]]] = defaultdict(list)
        for leaf in self._leaves:
            if leaf.item is not None:
                lines[leaf.item].append(self._candidates[leaf.path].lines)
        return locate_items(lines)

    def _bands_of_items(self) -> dict[str, tuple[int, Box]]:
        """Maps each item without a row to the page and box of a value with a single occurrence."""
        bands: dict[str, tuple[int, Box]] = {}
        for leaf in self._leaves:
            places = self._candidates[leaf.path].places
            if leaf.item is None or leaf.item in self._rows or len(places) != 1:
                continue
            box = self._index.box(places[0])
            if box is not None:
                bands.setdefault(leaf.item, (self._index.spans[places[0].first].page, box))
        return bands

    def _unique_positions(self) -> dict[str, list[int]]:
        """Maps the path of a parent to the sorted spans of its values with a single occurrence."""
        anchors: dict[str, list[int]] = defaultdict(list)
        for leaf in self._leaves:
            if len(places := self._candidates[leaf.path].places) == 1:
                anchors[leaf.parent].append(places[0].first)
        return {parent: sorted(spans) for parent, spans in anchors.items()}


def find_evidence(
    fields: Fields,
    pages: Sequence[PageBlocks],
    confidences: Mapping[str, float] | None = None,
    labels: FieldLabels | None = None,
) -> list[FieldEvidence]:
    """Evidence for each value of a record that is not null, in the record's order.

    `confidences` maps paths to the model's probabilities (0..1). `labels` maps paths without list
    indices (`lines.amount`) to what the field is called on pages; the field's own name is used if
    there are none.
    """
    index = TextIndex(split_spans(pages))
    leaves = [
        RecordValue(path, path.rpartition(".")[0], item, value)
        for path, value, item in leaves_with_items(fields)
        if value is not None and value != ""
    ]
    places = {leaf.path: index.occurrences(leaf.value) for leaf in leaves}
    chosen = EvidenceSelector(index, leaves, places, labels or {}).select()
    return [
        _evidence(leaf, chosen.get(leaf.path), index, pages, (confidences or {}).get(leaf.path))
        for leaf in leaves
    ]


def _evidence(
    leaf: RecordValue,
    choice: SelectedOccurrence | None,
    index: TextIndex,
    pages: Sequence[PageBlocks],
    extraction: float | None,
) -> FieldEvidence:
    probability = 1.0 if extraction is None else extraction
    extraction = None if extraction is None else round(extraction, 4)
    if choice is None:
        confidence = round(AGREEMENT[None] * probability, 4)
        return FieldEvidence(leaf.path, None, confidence, extraction=extraction)
    place = choice.occurrence
    confidence = AGREEMENT[place.matched] * place.similarity
    confidence *= AMBIGUITY_FACTOR ** (choice.ambiguous + place.doubtful)
    page = pages[index.spans[place.first].page]
    return FieldEvidence(
        leaf.path,
        place.matched,
        round(confidence * probability, 4),
        page.page_id,
        page.page_number,
        box := index.box(place),
        quote := index.quote(place),
        reading_confidence(quote, box, page.lines),
        extraction,
    )

"""Which of a value's places is meant: by rows, labels and neighbours."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.parsing.item_rows import Line, item_rows
from llm_ocr.parsing.labelling import Labelling, Labels
from llm_ocr.parsing.seeking import Index
from llm_ocr.parsing.tokens import Occurrence
from llm_ocr.records import Box

# Of a value with more places than this only some are compared: those in its item's row, or those
# with the nearest label; of as many of those the first and the ones around its siblings.
MANY, AROUND, ANCHORS = 64, 16, 8

Rating = tuple[float, float, float]


@dataclass(frozen=True)
class Leaf:
    """A value, its path, the path of what holds it, and the list item that it is in."""

    path: str
    parent: str
    item: str | None
    value: object


@dataclass(frozen=True)
class Choice:
    """A value's place, and whether another one would be as good."""

    occurrence: Occurrence
    ambiguous: bool


class _Spots:
    """The places of a value, shared by all that have it, by row and by page."""

    def __init__(self, places: Sequence[Occurrence], index: Index) -> None:
        self.places = places
        self.by_line: dict[Line, list[int]] = defaultdict(list)
        self.by_page: dict[int, list[int]] = defaultdict(list)
        lines: set[Line] = set()
        for k, one in enumerate(places):
            piece = index.pieces[one.first]
            line = (False, one.first) if piece.row is None else (True, piece.row)
            self.by_line[line].append(k)
            self.by_page[piece.page].append(k)
            # Of a paragraph nobody knows what is in one row of it.
            if piece.lines == 1:
                lines.add(line)
        self.lines = frozenset(lines)
        # By the name of a field, those of the places that have the nearest label.
        self.labelled: dict[str, list[int]] = {}
        # By what holds a value, before which of those all are used.
        self.used: dict[tuple[str, str], int] = defaultdict(int)


class Chooser:
    """Which of a value's places is meant."""

    def __init__(
        self,
        index: Index,
        leaves: Sequence[Leaf],
        places: Mapping[str, Sequence[Occurrence]],
        labels: Labels,
    ) -> None:
        self._index, self._leaves = index, leaves
        self._labelling = Labelling(index, labels)
        # Equal values have one sequence of places between them.
        shared = {id(one): one for one in places.values()}
        spots = {key: _Spots(one, index) for key, one in shared.items()}
        self._spots = {path: spots[id(one)] for path, one in places.items()}
        self._rows = self._item_rows()
        self._bands = self._item_bands()
        self._anchors = self._anchored()
        self._used: set[tuple[str, int, int]] = set()

    def choices(self) -> dict[str, Choice]:
        """By path, for the values that are on the pages; the surest choose first, and two values
        of one object share a place only where there is no other as good."""
        rated = {leaf.path: self._rated(leaf) for leaf in self._leaves}
        order = sorted(
            self._leaves, key=lambda leaf: [-x for x in max(rated[leaf.path].values(), default=())]
        )
        found: dict[str, Choice] = {}
        for leaf in order:
            if choice := self._chosen(leaf, rated[leaf.path]):
                one = choice.occurrence
                self._used.add((leaf.parent, one.first, one.start))
                found[leaf.path] = choice
        return found

    def _chosen(self, leaf: Leaf, rated: Mapping[int, Rating]) -> Choice | None:
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
        return Choice(places[-best[-1]], bool(others) and not told)

    def _is_free(self, leaf: Leaf, one: Occurrence) -> bool:
        return (leaf.parent, one.first, one.start) not in self._used

    def _next_free(self, leaf: Leaf, rated: Mapping[int, Rating]) -> dict[int, Rating]:
        """The first place that is not used, where those that were compared all are."""
        spots = self._spots[leaf.path]
        plain = self._labelling.plain(leaf.path)
        group = spots.labelled.get(plain, ())
        if len(group) <= MANY or any(self._is_free(leaf, spots.places[k]) for k in rated):
            return {}
        key = leaf.parent, plain
        while spots.used[key] < len(group):
            k = group[spots.used[key]]
            if self._is_free(leaf, spots.places[k]):
                return {k: self._rating(leaf, spots.places[k])}
            spots.used[key] += 1
        return {}

    def _rated(self, leaf: Leaf) -> dict[int, Rating]:
        """The places that come into question, by their number, and how good each is."""
        places = self._spots[leaf.path].places
        if len(places) <= MANY:
            return {k: self._rating(leaf, one) for k, one in enumerate(places)}
        in_row = {k: self._rating(leaf, places[k]) for k in self._in_row(leaf)}
        if isinstance(leaf.value, bool):
            in_row = {k: one for k, one in in_row.items() if one[1] > 0}
        return in_row or {k: self._rating(leaf, places[k]) for k in self._labelled_best(leaf)}

    def _in_row(self, leaf: Leaf) -> list[int]:
        spots = self._spots[leaf.path]
        if leaf.item is None:
            return []
        if (row := self._rows.get(leaf.item)) is not None:
            return spots.by_line.get(row, [])
        band = self._bands.get(leaf.item)
        on_page = spots.by_page.get(band[0], []) if band else []
        return [k for k in on_page if self._is_in_row(leaf.item, spots.places[k])]

    def _labelled_best(self, leaf: Leaf) -> Sequence[int]:
        """The places with the nearest label; of many the first, and those around siblings."""
        spots, plain = self._spots[leaf.path], self._labelling.plain(leaf.path)
        if plain not in spots.labelled:
            scores = [self._labelling.score(leaf.path, leaf.value, one) for one in spots.places]
            best = max(scores)
            spots.labelled[plain] = [k for k, score in enumerate(scores) if score == best]
        group = spots.labelled[plain]
        if len(group) <= MANY:
            return group
        chosen = set(group[:AROUND])
        for anchor in self._anchors.get(leaf.parent, ())[:ANCHORS]:
            at = bisect_left(group, anchor, key=lambda k: spots.places[k].first)
            chosen.update(group[max(0, at - AROUND) : at + AROUND])
        return sorted(chosen)

    def _rating(self, leaf: Leaf, one: Occurrence) -> Rating:
        """In the row of its item, by a label, near its siblings; larger is better."""
        in_row = 1.0 if leaf.item is not None and self._is_in_row(leaf.item, one) else 0.0
        anchors, page = self._anchors.get(leaf.parent, ()), self._index.pieces[one.first].page
        below, above = bisect_left(anchors, one.first), bisect_right(anchors, one.first)
        gaps = [
            abs(at - one.first)
            for at in (*anchors[max(0, below - 1) : below], *anchors[above : above + 1])
            if self._index.pieces[at].page == page
        ]
        near = 1 / (1 + min(gaps)) if gaps else 0.0
        return in_row, self._labelling.score(leaf.path, leaf.value, one), near

    def _is_in_row(self, item: str, one: Occurrence) -> bool:
        """Whether a place is in the row of a list's item, or as high on the page as it."""
        if (row := self._rows.get(item)) is not None:
            return self._line(one.first) == row
        page, band = self._index.pieces[one.first].page, self._bands.get(item)
        if band is None or band[0] != page or (box := self._index.box(one)) is None:
            return False
        shared = min(box.y2, band[1].y2) - max(box.y1, band[1].y1)
        return shared > 0.5 * min(box.y2 - box.y1, band[1].y2 - band[1].y1)

    def _line(self, piece: int) -> Line:
        """The row of a table that a piece is in, or the piece itself."""
        row = self._index.pieces[piece].row
        return (False, piece) if row is None else (True, row)

    def _item_rows(self) -> dict[str, Line]:
        """For each item of a list the row that has the most of its values."""
        lines: dict[str, list[frozenset[Line]]] = defaultdict(list)
        for leaf in self._leaves:
            if leaf.item is not None:
                lines[leaf.item].append(self._spots[leaf.path].lines)
        return item_rows(lines)

    def _item_bands(self) -> dict[str, tuple[int, Box]]:
        """For each item without a row the page and box of a value that stands in one place only."""
        bands: dict[str, tuple[int, Box]] = {}
        for leaf in self._leaves:
            places = self._spots[leaf.path].places
            if leaf.item is None or leaf.item in self._rows or len(places) != 1:
                continue
            box = self._index.box(places[0])
            if box is not None:
                bands.setdefault(leaf.item, (self._index.pieces[places[0].first].page, box))
        return bands

    def _anchored(self) -> dict[str, list[int]]:
        """By the path of what holds them, the pieces of values that stand in one place only."""
        anchors: dict[str, list[int]] = defaultdict(list)
        for leaf in self._leaves:
            if len(places := self._spots[leaf.path].places) == 1:
                anchors[leaf.parent].append(places[0].first)
        return {parent: sorted(pieces) for parent, pieces in anchors.items()}

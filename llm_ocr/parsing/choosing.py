"""Which of a value's places is meant: by rows, labels and neighbours."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.parsing.seeking import Index
from llm_ocr.parsing.tokens import Occurrence
from llm_ocr.parsing.words import bare
from llm_ocr.records import Box

# How far in front of a value its label may end, in words; in the piece before it counts as
# further off.
REACH = 8
PIECE_BEFORE = 3

Labels = Mapping[str, Sequence[str]]


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


class Chooser:
    """Which of a value's places is meant."""

    def __init__(
        self,
        index: Index,
        leaves: Sequence[Leaf],
        places: Mapping[str, Sequence[Occurrence]],
        labels: Labels,
    ) -> None:
        self._index, self._leaves, self._places = index, leaves, places
        self._labels = labels
        self._rows = self._item_rows()
        self._bands = self._item_bands()
        self._anchors = self._anchored()

    def choices(self) -> dict[str, Choice]:
        """By path, for the values that are on the pages; the surest choose first, and two values
        of one object share a place only where there is no other as good."""
        rated = {leaf.path: self._rated(leaf) for leaf in self._leaves}
        order = sorted(
            self._leaves, key=lambda leaf: [-x for x in max(rated[leaf.path], default=())]
        )
        used: set[tuple[str, int, int]] = set()
        found: dict[str, Choice] = {}
        for leaf in order:
            free = [
                (in_row, label, (leaf.parent, one.first, one.start) not in used, near, -k)
                for k, (one, (in_row, label, near)) in enumerate(
                    zip(self._places[leaf.path], rated[leaf.path], strict=True)
                )
                if label > 0 or not isinstance(leaf.value, bool)
            ]
            if free:
                best, *others = sorted(free, reverse=True)
                told = any(best[:2]) and all(other[:3] != best[:3] for other in others)
                one = self._places[leaf.path][-best[-1]]
                used.add((leaf.parent, one.first, one.start))
                found[leaf.path] = Choice(one, bool(others) and not told)
        return found

    def _rated(self, leaf: Leaf) -> list[tuple[float, float, float]]:
        labels = self._phrases(leaf.path)
        return [self._rating(leaf, labels, one) for one in self._places[leaf.path]]

    def _rating(
        self, leaf: Leaf, labels: Sequence[tuple[str, ...]], one: Occurrence
    ) -> tuple[float, float, float]:
        """In the row of its item, by a label, near its siblings; larger is better."""
        piece = self._index.pieces[one.first]
        in_row = 1.0 if leaf.item is not None and self._is_in_row(leaf.item, one) else 0.0
        anchors = self._anchors.get(leaf.parent, ())
        gaps = [
            abs(at - one.first)
            for at in anchors
            if at != one.first and self._index.pieces[at].page == piece.page
        ]
        near = 1 / (1 + min(gaps)) if gaps else 0.0
        return in_row, self._labelled(labels, one), near

    def _is_in_row(self, item: str, one: Occurrence) -> bool:
        """Whether a place is in the row of a list's item, or as high on the page as it."""
        if (row := self._rows.get(item)) is not None:
            return self._line(one.first) == row
        page, box = self._index.pieces[one.first].page, self._index.box(one)
        band = self._bands.get(item)
        if band is None or box is None or band[0] != page:
            return False
        shared = min(box.y2, band[1].y2) - max(box.y1, band[1].y1)
        return shared > 0.5 * min(box.y2 - box.y1, band[1].y2 - band[1].y1)

    def _phrases(self, path: str) -> list[tuple[str, ...]]:
        plain = ".".join(part for part in path.split(".") if not part.isdecimal())
        given = self._labels.get(plain) or [plain.rpartition(".")[2]]
        return [words for words in map(bare, given) if words]

    def _labelled(self, labels: Sequence[tuple[str, ...]], one: Occurrence) -> float:
        """How near a label ends in front of a place, or whether one heads its column."""
        piece = self._index.pieces[one.first]
        heading = bare(piece.heading)
        before = self._before(one)
        best = 0.0
        for label in labels:
            if heading and heading[: len(label)] == label:
                best = max(best, float(len(label)))
            for end in range(len(before), len(label) - 1, -1):
                texts = tuple(text for text, _ in before[end - len(label) : end])
                if texts == label:
                    best = max(best, len(label) / (1 + before[end - 1][1]))
                    break
        return best

    def _before(self, one: Occurrence) -> list[tuple[str, int]]:
        """The words in front of a place, and how many words off each of them ends."""
        words = [word.text for word in self._index.words[one.first] if word.end <= one.start]
        found = [
            (text, len(words) - 1 - k)
            for k, text in enumerate(words[-REACH:], max(0, len(words) - REACH))
        ]
        if len(words) < REACH and one.first > 0:
            earlier = self._index.words[one.first - 1]
            pieces = self._index.pieces
            same_row = pieces[one.first].row is not None and (
                pieces[one.first].row == pieces[one.first - 1].row
            )
            off = len(words) + (0 if same_row else PIECE_BEFORE)
            tail = earlier[-REACH:]
            found = [(w.text, len(tail) - 1 - k + off) for k, w in enumerate(tail)] + found
        return found

    def _line(self, piece: int) -> tuple[bool, int]:
        """The row of a table that a piece is in, or the piece itself."""
        row = self._index.pieces[piece].row
        return (False, piece) if row is None else (True, row)

    def _item_rows(self) -> dict[str, tuple[bool, int]]:
        """For each item of a list the row that has the most of its values.

        Of rows with as many the first that no item before it has, so that equal items follow each
        other.
        """
        votes: dict[str, Counter[tuple[bool, int]]] = defaultdict(Counter)
        for leaf in self._leaves:
            if leaf.item is not None:
                # Of a paragraph nobody knows what is in one row of it.
                whole = {
                    self._line(one.first)
                    for one in self._places[leaf.path]
                    if self._index.pieces[one.first].lines == 1
                }
                votes[leaf.item].update(whole)
        rows: dict[str, tuple[bool, int]] = {}
        for item, counted in votes.items():
            siblings = item.rpartition(".")[0]
            taken = {row for other, row in rows.items() if other.rpartition(".")[0] == siblings}
            ranked = sorted(counted, key=lambda line: (-counted[line], line in taken, line))
            if ranked and counted[ranked[0]] > 1:
                rows[item] = ranked[0]
        return rows

    def _item_bands(self) -> dict[str, tuple[int, Box]]:
        """For each item without a row the page and box of a value that stands in one place only."""
        bands: dict[str, tuple[int, Box]] = {}
        for leaf in self._leaves:
            places = self._places[leaf.path]
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
            if len(places := self._places[leaf.path]) == 1:
                anchors[leaf.parent].append(places[0].first)
        return anchors

"""Tables whose cells all have rules around them: a missing piece of a rule joins two cells."""

from collections.abc import Sequence
from itertools import pairwise

from llm_ocr.engines.embedded.geometry import Word
from llm_ocr.engines.embedded.tables.grid import Cell, Grid, text_rows
from llm_ocr.engines.embedded.tables.rules import (
    Rules,
    RulingLine,
    coverage,
    merge_lines,
    positions,
)

# Of a side so much must be drawn for it to part two cells.
DRAWN = 0.6
# A rule may go beyond the one that it ends at, or end before it, by so much, in heights of a word.
STANDS_OUT, FALLS_SHORT = 0.9, 0.28
# Of all sides within a lattice at least so many are drawn.
CLOSED = 0.45

Place = tuple[int, int]


class Lattice:
    """The lines of a closed grid: `x` and `y`, and which sides of its places are drawn."""

    def __init__(self, rules: Rules, height: float) -> None:
        self.near = 0.35 * height
        # What doesn't go from one line to another is no side of a cell, but an underline.
        across = _ending_at(rules.across, merge_lines(rules.down, self.near), height)
        down = _ending_at(rules.down, merge_lines(across, self.near), height)
        self.x = positions(down, self.near)
        self.y = positions(across, self.near)
        self._rules = Rules(tuple(across), tuple(down))

    @property
    def is_closed(self) -> bool:
        """Whether it has frames on all sides and most of the sides within."""
        columns, rows = len(self.x) - 1, len(self.y) - 1
        if columns < 1 or rows < 1 or columns * rows < 2:
            return False
        return self._with_frame() and self._inner_share() >= CLOSED

    def _with_frame(self) -> bool:
        across, down = (self.y[0], self.y[-1]), (self.x[0], self.x[-1])
        return all(
            coverage(rules, at, start, end, self.near) > DRAWN
            for rules, places, (start, end) in (
                (self._rules.across, across, down),
                (self._rules.down, down, across),
            )
            for at in places
        )

    def _inner_share(self) -> float:
        columns, rows = len(self.x) - 1, len(self.y) - 1
        sides = [self.parts_columns(r, c) for r in range(rows) for c in range(1, columns)]
        sides += [self.parts_rows(r, c) for r in range(1, rows) for c in range(columns)]
        return sum(sides) / len(sides) if sides else 0.0

    def parts_columns(self, row: int, column: int) -> bool:
        """Whether a rule is drawn on the left of a place."""
        top, bottom = self.y[row], self.y[row + 1]
        return coverage(self._rules.down, self.x[column], top, bottom, self.near) > DRAWN

    def parts_rows(self, row: int, column: int) -> bool:
        """Whether a rule is drawn above a place."""
        left, right = self.x[column], self.x[column + 1]
        return coverage(self._rules.across, self.y[row], left, right, self.near) > DRAWN

    def place(self, word: Word) -> Place | None:
        """The place that a word's middle is in, None outside of the frame."""
        row = _between(self.y, word.y)
        column = _between(self.x, word.x)
        return None if row is None or column is None else (row, column)


def _ending_at(
    rules: Sequence[RulingLine], lines: Sequence[RulingLine], height: float
) -> list[RulingLine]:
    """The rules that go from one of some lines to another, where these reach them: a letter right
    above a rule is often taken for a part of it, and a caption above a frame for a rule."""
    near, short, out = 0.35 * height, FALLS_SHORT * height, STANDS_OUT * height
    found = []
    for rule in rules:
        reached = [one.at for one in lines if one.start - near < rule.at < one.end + near]
        starts = [at for at in reached if -short < at - rule.start < out]
        ends = [at for at in reached if -short < rule.end - at < out]
        if starts and ends and min(starts) < max(ends):
            found.append(rule)
    return found


def _between(edges: Sequence[float], value: float) -> int | None:
    return next((k for k, (a, b) in enumerate(pairwise(edges)) if a <= value < b), None)


def lattice_grid(lattice: Lattice, words: Sequence[Word], height: float) -> Grid | None:
    """The cells of a closed grid with their words; None if words lie outside of it."""
    held: dict[Place, list[Word]] = {}
    for word in words:
        place = lattice.place(word)
        if place is None:
            return None
        held.setdefault(place, []).append(word)
    rows: list[list[Cell]] = [[] for _ in lattice.y[1:]]
    for top, left, bottom, right in merged_places(lattice):
        inner = [
            word
            for r in range(top, bottom + 1)
            for c in range(left, right + 1)
            for word in held.get((r, c), ())
        ]
        ordered = [word for row in text_rows(inner, height) for word in row.words]
        rows[top].append(Cell(left, right, ordered, bottom - top + 1))
    return _without_empty(rows, len(lattice.x) - 1)


def merged_places(lattice: Lattice) -> list[tuple[int, int, int, int]]:
    """Cells as (top, left, bottom, right), from the places that no rule parts."""
    taken: set[Place] = set()
    found = []
    rows, columns = len(lattice.y) - 1, len(lattice.x) - 1
    for top in range(rows):
        for left in range(columns):
            if (top, left) in taken:
                continue
            right, bottom = left, top
            while (
                right + 1 < columns
                and (top, right + 1) not in taken
                and not lattice.parts_columns(top, right + 1)
            ):
                right += 1
            while bottom + 1 < rows and _goes_down(lattice, bottom + 1, left, right, taken):
                bottom += 1
            taken |= {(r, c) for r in range(top, bottom + 1) for c in range(left, right + 1)}
            found.append((top, left, bottom, right))
    return found


def _goes_down(lattice: Lattice, row: int, left: int, right: int, taken: set[Place]) -> bool:
    free = all((row, c) not in taken for c in range(left, right + 1))
    above = any(lattice.parts_rows(row, c) for c in range(left, right + 1))
    inner = any(lattice.parts_columns(row, c) for c in range(left + 1, right + 1))
    return free and not above and not inner


def _without_empty(rows: list[list[Cell]], columns: int) -> Grid:
    """Without the last rows that hold nothing, such as the gap of a double rule makes."""
    kept: list[list[Cell]] = []
    hanging = 0
    for row in rows:
        is_empty = not any(cell.words for cell in row) and all(cell.rows == 1 for cell in row)
        if hanging == 0 and is_empty and sum(cell.columns for cell in row) == columns:
            continue
        hanging = max([hanging - 1, *(cell.rows - 1 for cell in row)])
        kept.append(row)
    return Grid(kept, columns)

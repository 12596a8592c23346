"""Heads of a table: which rows they are, and which columns a head stands over."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

from llm_ocr.engines.embedded.geometry import hull
from llm_ocr.engines.embedded.tables.grid import Cell
from llm_ocr.engines.embedded.tables.multiline_rows import TextRow, is_number, is_year, join_rows
from llm_ocr.engines.embedded.tables.rules import RulingLine

MOST_HEADS = 4
# How far a head's middle may be off from that of its columns: in heights, or as a share of theirs.
OFF, OFF_SHARE = 0.8, 0.06
# A line's middle is further than this from a rule above or below it, in heights of a word.
OFF_LEVEL = 0.25
# A rule below a head over some columns is shorter than this share of the table.
SHORT = 0.8

Extent = tuple[float, float]


def head_rows(rows: Sequence[Sequence[Cell]], bands: Sequence[int]) -> int:
    """How many rows are heads: those above the first rule where a table has only a few, else those
    above the first row with numbers; one if there is no telling."""
    numbered = first_numbered(rows)
    inner = sorted(set(bands))
    if 2 <= len(inner) <= max(3, len(rows) // 3):
        above = bands.index(inner[1])
        if 1 <= above <= MOST_HEADS and (numbered is None or above <= max(1, numbered)):
            return above
    return numbered if numbered is not None and 1 <= numbered <= MOST_HEADS else 1


def first_numbered(rows: Sequence[Sequence[Cell]]) -> int | None:
    for k, row in enumerate(rows):
        cells = [cell for cell in row if cell.words]
        numbers = sum(is_number(cell.text) for cell in cells)
        years = all(is_year(cell.text) for cell in cells if is_number(cell.text))
        if numbers >= max(1.0, 0.3 * len(cells)) and not (years and numbers >= len(cells) - 1):
            return k
        if k and len(cells) == 1 and cells[0].first == 0:
            # A row that names those below it is below the heads.
            return k
    return None


def in_levels(
    rows: Sequence[TextRow], rules: Sequence[RulingLine], height: float
) -> tuple[TextRow, TextRow] | None:
    """A table's head, given as its rows of text, in two levels: what stands over a short rule, and
    what hangs below it. None without a rule over several columns between its rows.

    Beside such a rule nothing parts the levels: a head of two lines there, or one in the middle, is
    one cell over both.
    """
    cells = [cell for row in rows for cell in row.cells]
    if len(rows) < 2 or not cells:
        return None
    spans = [
        (rule, under)
        for rule in rules
        if (under := _under(rule, cells, height)) and _stands_over(rule, cells, height)
    ]
    if not spans:
        return None
    y = statistics.median(rule.at for rule, _ in spans)
    upper: list[Cell] = []
    lower: list[Cell] = []
    beside: list[Cell] = []
    for cell in cells:
        span = next((one for one in spans if _covers(one[0], cell, height)), None)
        if span is None:
            beside = join_rows(beside, cell)
        elif _middle(cell) > span[0].at:
            lower = join_rows(lower, cell)
        else:
            columns = [one.first for one in span[1]], [one.last for one in span[1]]
            upper = join_rows(upper, Cell(min(columns[0]), max(columns[1]), cell.words))
    for cell in beside:
        tops = [word.y for word in cell.words]
        is_both = min(tops) < y + OFF_LEVEL * height and max(tops) > y - OFF_LEVEL * height
        if is_both:
            cell.rows = 2
        (upper if is_both or max(tops) < y else lower).append(cell)
    levels = [sorted(level, key=lambda cell: cell.first) for level in (upper, lower)]
    if any(right.first <= left.last for level in levels for left, right in pairwise(level)):
        return None
    band = rows[0].band
    return TextRow(rows[0].middle, levels[0], band), TextRow(rows[-1].middle, levels[1], band)


def _under(rule: RulingLine, cells: Sequence[Cell], height: float) -> list[Cell]:
    """The cells that hang below a rule, if they are of several columns."""
    found = [
        cell
        for cell in cells
        if _covers(rule, cell, height) and _middle(cell) > rule.at + OFF_LEVEL * height
    ]
    return found if len({cell.first for cell in found}) > 1 else []


def _stands_over(rule: RulingLine, cells: Sequence[Cell], height: float) -> bool:
    """Whether there is a cell on a rule, and the rule goes through none."""
    covered = [_middle(cell) - rule.at for cell in cells if _covers(rule, cell, height)]
    through = any(abs(off) < OFF_LEVEL * height for off in covered)
    return not through and any(off < 0 for off in covered)


def _covers(rule: RulingLine, cell: Cell, height: float) -> bool:
    x1, _, x2, _ = cell.rect
    return rule.start - height <= x1 and x2 <= rule.end + height


def _middle(cell: Cell) -> float:
    return (cell.rect[1] + cell.rect[3]) / 2


def header_colspans(
    rows: Sequence[TextRow], heads: int, columns: int, rules: Sequence[RulingLine], height: float
) -> None:
    """Heads that stand over several columns get them: by the rule beneath, or by their middle."""
    extents = _extents(rows[heads:])
    _spread_titles(rows, heads, columns, height)
    for k, (row, below) in enumerate(pairwise(rows[: heads + 1])):
        for n, cell in enumerate(row.cells):
            if cell.rows > 1:
                continue
            left = row.cells[n - 1].last + 1 if n else 0
            right = row.cells[n + 1].first - 1 if n + 1 < len(row.cells) else columns - 1
            found = _by_rule(cell, below, rules, extents, height)
            if found is None and k + 1 < heads:
                found = _by_middle(cell, below, extents, (left, right), height)
            if found is not None and left <= found[0] <= found[1] <= right:
                cell.first, cell.last = found


def _spread_titles(rows: Sequence[TextRow], heads: int, columns: int, height: float) -> None:
    """Lone cells in the middle of a table, below its heads, stand over all of its columns."""
    left, _, right, _ = hull(row.rect for row in rows)
    for row in rows[heads:]:
        (x1, _, x2, _), lone = row.rect, row.cells[0]
        if len(row.cells) == 1 and x1 > left + height and abs(x1 + x2 - left - right) < height:
            lone.first, lone.last = 0, columns - 1


def _extents(rows: Sequence[TextRow]) -> dict[int, Extent]:
    """Where the columns' text starts and ends, of those that have any of their own."""
    found: dict[int, Extent] = {}
    for cell in (cell for row in rows for cell in row.cells if cell.first == cell.last):
        (x1, _, x2, _), (left, right) = cell.rect, found.get(cell.first, (inf, -inf))
        found[cell.first] = min(x1, left), max(x2, right)
    return dict(sorted(found.items()))


def _by_rule(
    cell: Cell,
    below: TextRow,
    rules: Sequence[RulingLine],
    extents: Mapping[int, Extent],
    height: float,
) -> tuple[int, int] | None:
    """The columns over the rule that is between a head and the next row, if it is as short."""
    if not extents:
        return None
    wide = max(end for _, end in extents.values()) - min(start for start, _ in extents.values())
    for rule in rules:
        is_between = cell.rect[3] - 0.3 * height <= rule.at <= below.middle
        if is_between and _covers(rule, cell, height) and rule.length < SHORT * wide:
            under = [
                column
                for column, (start, end) in extents.items()
                if rule.start - height < (start + end) / 2 < rule.end + height
            ]
            return (under[0], under[-1]) if under else None
    return None


def _by_middle(
    cell: Cell,
    below: TextRow,
    extents: Mapping[int, Extent],
    free: tuple[int, int],
    height: float,
) -> tuple[int, int] | None:
    """The most columns, each with a head below, whose middle a head stands over."""
    held = {column for one in below.cells for column in range(one.first, one.last + 1)}
    spans = [
        (first, last)
        for first in range(free[0], cell.first + 1)
        for last in range(max(cell.last, first + 1), free[1] + 1)
        if {first, last} <= extents.keys() and held.issuperset(range(first, last + 1))
    ]
    for first, last in sorted(spans, key=lambda span: span[0] - span[1]):
        heads = [one.rect for one in below.cells if first <= one.first <= last]
        start = min(extents[first][0], *(rect[0] for rect in heads))
        end = max(extents[last][1], *(rect[2] for rect in heads))
        off = abs(start + end - cell.rect[0] - cell.rect[2]) / 2
        if off < max(OFF * height, OFF_SHARE * (end - start)):
            return first, last
    return None

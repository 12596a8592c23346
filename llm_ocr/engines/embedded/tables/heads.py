"""Heads of a table, and cells over several rows or columns."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from llm_ocr.engines.embedded.geometry import Rect, hull
from llm_ocr.engines.embedded.tables.columns import beside
from llm_ocr.engines.embedded.tables.grid import Cell, TextRow
from llm_ocr.engines.embedded.tables.multiline_rows import is_number, is_year, join_rows
from llm_ocr.engines.embedded.tables.rules import RulingLine
from llm_ocr.engines.embedded.tables.separators import Separator, Separators

MOST_HEADS = 4
# How far a head's middle may be off from that of its columns: in heights, or as a share of theirs.
OFF, OFF_SHARE = 0.8, 0.06
# A line's middle is further than this from a rule above or below it, in heights of a word.
OFF_LEVEL = 0.25
# Cells of a column begin no further apart than this, in heights.
SAME_START = 0.25
# How far a label may be off from the middle of its rows, as a share of their distance.
OFF_ROWS = 0.3
# Cells that less of a rule than this parts are one.
LEFT_OUT = 0.3
# A rule below a head over some columns is shorter than this share of the table.
SHORT = 0.8


def head_rows(rows: Sequence[TextRow]) -> int:
    """How many rows are heads: those above the first rule where a table has only a few, else those
    above the first row with numbers; one if there is no telling."""
    numbered = first_numbered(rows)
    bands = [row.band for row in rows]
    inner = sorted(set(bands), key=lambda band: band.number)
    if 2 <= len(inner) <= max(3, len(rows) // 3):
        above = bands.index(inner[1])
        if 1 <= above <= MOST_HEADS and (numbered is None or above <= max(1, numbered)):
            return above
    return numbered if numbered is not None and 1 <= numbered <= MOST_HEADS else 1


def first_numbered(rows: Sequence[TextRow]) -> int | None:
    for k, row in enumerate(rows):
        numbers = sum(is_number(cell.text) for cell in row.cells)
        years = all(is_year(cell.text) for cell in row.cells if is_number(cell.text))
        if numbers >= max(1.0, 0.3 * len(row.cells)) and not (
            years and numbers >= len(row.cells) - 1
        ):
            return k
        if k and len(row.cells) == 1 and row.cells[0].first == 0:
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
    spans = [(rule, under) for rule in rules if (under := _under(rule, cells, height))]
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
    """The cells that hang below a rule, if they are of several columns, another stands on it, and
    it goes through none."""
    covered = [cell for cell in cells if _covers(rule, cell, height)]
    under = [cell for cell in covered if _middle(cell) > rule.at]
    through = any(abs(_middle(cell) - rule.at) < OFF_LEVEL * height for cell in covered)
    is_over = len(under) < len(covered) and len({cell.first for cell in under}) > 1
    return under if is_over and not through else []


def _covers(rule: RulingLine, cell: Cell, height: float) -> bool:
    x1, _, x2, _ = cell.rect
    return rule.start - height <= x1 and x2 <= rule.end + height


def _middle(cell: Cell) -> float:
    return (cell.rect[1] + cell.rect[3]) / 2


def header_colspans(
    rows: Sequence[TextRow], heads: int, count: int, rules: Sequence[RulingLine], height: float
) -> None:
    """Of `count` columns, heads that stand over several get them: by the rule beneath, or by their
    middle."""
    left, _, right, _ = hull(row.rect for row in rows)
    short = [rule for rule in rules if rule.length < SHORT * (right - left)]
    _spread_titles(rows[heads:], count, (left, right), height)
    for k, (row, below) in reversed(list(enumerate(pairwise(rows[: heads + 1])))):
        columns = _columns(rows[k + 1 :])
        held = {column for one in below.cells for column in range(one.first, one.last + 1)}
        for n, cell in enumerate(row.cells):
            if cell.rows > 1:
                continue
            first = row.cells[n - 1].last + 1 if n else 0
            last = row.cells[n + 1].first - 1 if n + 1 < len(row.cells) else count - 1
            free = {at: rect for at, rect in columns.items() if first <= at <= last}
            over = _on_rule(cell, free, below.middle, short, height)
            if not over and k + 1 < heads:
                over = _on_middle(cell, {at: free[at] for at in free if at in held}, height)
            if over:
                cell.first, cell.last = over[0], over[-1]


def _spread_titles(
    rows: Sequence[TextRow], count: int, table: tuple[float, float], height: float
) -> None:
    """Lone cells in the middle of a table stand over all of its columns, unless they are in one and
    begin where most of its cells do."""
    starts: dict[int, list[float]] = {}
    for cell in (cell for row in rows if len(row.cells) > 1 for cell in row.cells):
        starts.setdefault(cell.first, []).append(cell.rect[0])
    if any(cell.rows > 1 for row in rows for cell in row.cells):
        return
    for row in rows:
        (x1, _, x2, _), lone = row.rect, row.cells[0]
        column = starts.get(lone.first, [])
        below = sum(abs(x1 - one) < SAME_START * height for one in column)
        is_in_column = lone.columns == 1 and below > len(column) / 2
        is_centered = x1 > table[0] + height and abs(x1 + x2 - sum(table)) < height
        if len(row.cells) == 1 and is_centered and not is_in_column:
            lone.first, lone.last = 0, count - 1


def _columns(rows: Sequence[TextRow]) -> dict[int, Rect]:
    """Where the columns' text stands, of those that have any of their own."""
    found: dict[int, Rect] = {}
    for cell in (cell for row in rows for cell in row.cells if cell.first == cell.last):
        found[cell.first] = hull([cell.rect, found.get(cell.first, cell.rect)])
    return dict(sorted(found.items()))


def _on_rule(
    cell: Cell,
    columns: Mapping[int, Rect],
    bottom: float,
    rules: Sequence[RulingLine],
    height: float,
) -> Sequence[int]:
    """The columns below the rule that a head stands on, if it is short."""
    for rule in rules:
        if cell.rect[3] - 0.3 * height <= rule.at <= bottom and _covers(rule, cell, height):
            return [
                at
                for at, (x1, _, x2, _) in columns.items()
                if rule.start - height < (x1 + x2) / 2 < rule.end + height
            ]
    return ()


def _on_middle(cell: Cell, columns: Mapping[int, Rect], height: float) -> Sequence[int]:
    """The most columns, its own and others, that a head stands over the middle of."""
    runs = [
        range(first, last + 1)
        for first in columns
        for last in columns
        if first <= cell.first and max(cell.last, first + 1) <= last
    ]
    for run in sorted(runs, key=len, reverse=True):
        if columns.keys() >= set(run):
            x1, _, x2, _ = hull(columns[at] for at in run)
            off = abs(x1 + x2 - cell.rect[0] - cell.rect[2]) / 2
            if off < max(OFF * height, OFF_SHARE * (x2 - x1)):
                return run
    return ()


def label_rowspans(
    rows: Sequence[TextRow], heads: int, lone: Sequence[TextRow]
) -> list[TextRow] | None:
    """Rows whose labels, in the first column or alone between rows, each stand at the middle of
    some and have these; None if they don't."""
    body = rows[heads:]
    labels = [(row.middle, row.cells[0]) for row in (*body, *lone) if row.cells[0].first == 0]
    labels.sort(key=lambda label: label[0])
    is_wide = any(cell.last > 0 for _, cell in labels)
    is_lone = any(row.cells[-1].last == 0 for row in body)
    is_parted = len({row.band for row in body}) == len(body)
    if is_wide or is_lone or is_parted or not 1 < len(labels) < len(body):
        return None
    runs = _runs([row.middle for row in body], [middle for middle, _ in labels])
    if runs is None:
        return None
    found = [
        TextRow(row.middle, [cell for cell in row.cells if cell.first], row.band) for row in body
    ]
    for (first, count), (_, label) in zip(runs, labels, strict=True):
        found[first].cells.insert(0, Cell(0, 0, label.words, count))
    return [*rows[:heads], *found]


def _runs(middles: Sequence[float], labels: Sequence[float]) -> list[tuple[int, int]] | None:
    """Runs of rows (first, count), one for each label at its middle, that make up all rows."""
    pitch = statistics.median(below - above for above, below in pairwise(middles))
    runs: list[tuple[int, int]] = []
    start = 0
    for label in labels:
        offs = [abs((middles[start] + end) / 2 - label) for end in middles[start:]]
        if not offs or min(offs) > OFF_ROWS * pitch:
            return None
        runs.append((start, offs.index(min(offs)) + 1))
        start += runs[-1][1]
    return runs if start == len(middles) else None


def with_empty_cells(rows: Sequence[TextRow], columns: Sequence[Separator]) -> None:
    """Where no cell is, rows get empty ones, each as far as nothing parts it."""
    hanging = [0] * (len(columns) + 1)
    for row in rows:
        parting = beside(row, columns)
        taken = {k for cell in row.cells for k in range(cell.first, cell.last + 1)}
        empty: list[Cell] = []
        for k, count in enumerate(hanging):
            if count or k in taken:
                continue
            is_parted = k == 0 or columns[k - 1] in parting
            if empty and empty[-1].last == k - 1 and not is_parted:
                empty[-1].last = k
            else:
                empty.append(Cell(k, k))
        hanging = [max(0, count - 1) for count in hanging]
        for cell in row.cells:
            hanging[cell.first : cell.last + 1] = [cell.rows - 1] * cell.columns
        row.cells = sorted([*row.cells, *empty], key=lambda cell: cell.first)


def join_down(rows: Sequence[TextRow], separators: Separators, around: Rect) -> None:
    """Cells go on in the rows below them where no separator parts them, unless each has a text of
    its own. Where not all sides are drawn, only labels go on, and only if separators part all
    rows."""
    counts = Counter(row.band for row in rows)
    if not separators.is_closed and max(counts.values()) > 1:
        return
    edges = [around[0], *(one.at for one in separators.columns), around[2]]
    seen: set[int] = set()
    for k, row in enumerate(rows):
        for cell in row.cells if separators.is_closed else row.cells[:1]:
            if id(cell) in seen:
                continue
            run = [cell]
            for above, below in pairwise(rows[k:]):
                between = separators.rows[above.band.number : below.band.number]
                sides = edges[cell.first], edges[cell.last + 1]
                same = [one for one in below.cells if one.spans == cell.spans]
                is_parted = any(one.share(*sides) >= LEFT_OUT for one in between)
                if not same or is_parted or counts[above.band] + counts[below.band] > 2:
                    break
                run += same
            seen |= {id(one) for one in run}
            if len(run) > 2 and all(one.words for one in run):
                continue
            cell.words = [word for one in run for word in one.words]
            cell.rows = len(run)
            for below, one in zip(rows[k + 1 :], run[1:], strict=False):
                below.cells.remove(one)

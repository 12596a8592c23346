"""Tables onto a sheet: columns as wide as they need, with one of four sets of rules."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.pages.flow import Flow
from benchmarks.pages.fonts import width
from benchmarks.pages.sheet import ASCENT, Sheet, part
from benchmarks.pages.style import BOOKTABS, GRID, HORIZONTAL, Style
from benchmarks.pages.tables import Cell, Table
from benchmarks.pages.truth import TABLE, Box, TrueBlock
from benchmarks.pages.typeset import SetLine, lines_of, words_of

PADDING, TIGHT = 5.0, 2.6
# x1, y1, x2, y2 and thickness.
Rule = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class Placed:
    """A table with its columns' and rows' edges, from its own top left corner."""

    table: Table
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    lines: dict[Cell, list[SetLine]]
    size: float

    @property
    def high(self) -> float:
        return self.ys[-1]


def placed(table: Table, style: Style, wide: float, fills: bool) -> Placed:
    """The table's measures; `fills` makes it as wide as its place."""
    size = style.small
    xs = _columns(table, style, size, wide, fills)
    lines = {
        cell: lines_of(
            words_of(cell.text, _font(cell, style)),
            size,
            xs[cell.column + cell.columns] - xs[cell.column] - 2 * PADDING + 0.01,
        )
        for cell in table.cells
    }
    leading = size * 1.17
    highs = [leading] * table.rows
    for cell in table.cells:
        if cell.rows == 1:
            highs[cell.row] = max(highs[cell.row], len(lines[cell]) * leading)
    ys = [0.0]
    for high in highs:
        ys.append(ys[-1] + high + 2 * TIGHT)
    return Placed(table, xs, tuple(ys), lines, size)


def _font(cell: Cell, style: Style) -> str:
    return style.body.bold if cell.bold else style.body.regular


def _columns(
    table: Table, style: Style, size: float, wide: float, fills: bool
) -> tuple[float, ...]:
    needs = [14.0] * table.columns
    for cell in table.cells:
        if cell.columns == 1 and cell.column not in table.wraps:
            length = width(cell.text, _font(cell, style), size) + 2 * PADDING
            needs[cell.column] = max(needs[cell.column], length)
    for cell in table.cells:
        if 1 < cell.columns < table.columns:
            inside = range(cell.column, cell.column + cell.columns)
            length = width(cell.text, _font(cell, style), size) + 2 * PADDING
            short = (length - sum(needs[k] for k in inside)) / cell.columns
            for k in inside:
                needs[k] += max(0.0, short)
    spare = wide - sum(needs)
    if spare < 0:
        raise ValueError(f"a table needs {sum(needs):.0f} points and has {wide:.0f}")
    for k in table.wraps:
        needs[k] += spare / len(table.wraps)
    if not table.wraps:
        # Never further apart than a reader would follow.
        each = min(spare / table.columns, 42.0 if fills else 10.0)
        needs = [one + each for one in needs]
    xs = [0.0]
    for one in needs:
        xs.append(xs[-1] + one)
    return tuple(xs)


def draw(flow: Flow, one: Placed, rules: str) -> None:
    """Put the table at the flow's place; there must be room for it."""
    sheet, style = flow.sheet, flow.style
    left = flow.frame.x + (flow.frame.wide - one.xs[-1]) / 2
    top = flow.y
    boxes = [
        box for cell in one.table.cells for box in _cell(sheet, style, one, cell, left, top, rules)
    ]
    right, bottom = left + one.xs[-1], top + one.high
    for x1, y1, x2, y2, thick in _rules(one, rules):
        sheet.rule(left + x1, top + y1, left + x2, top + y2, thick, style.ink)
    whole = [*boxes, (left, top, right, bottom)]
    table = one.table
    sheet.add(
        TrueBlock(
            TABLE,
            table.text,
            (part(table.text, whole),),
            html=table.html,
            ruled=rules == GRID,
        )
    )
    flow.skip(one.high)


def _cell(
    sheet: Sheet, style: Style, one: Placed, cell: Cell, left: float, top: float, rules: str
) -> list[Box]:
    x1, x2 = one.xs[cell.column], one.xs[cell.column + cell.columns]
    y1, y2 = one.ys[cell.row], one.ys[cell.row + cell.rows]
    leading = one.size * 1.17
    lines = one.lines[cell]
    # Cells over several rows stand in their middle where there is a grid, else at their top.
    spare = (y2 - y1 - 2 * TIGHT - len(lines) * leading) / 2
    base = top + y1 + TIGHT + ASCENT * one.size + (spare if cell.rows > 1 and rules == GRID else 0)
    boxes = []
    for line in lines:
        room = x2 - x1 - 2 * PADDING - line.natural
        shift = {"l": 0.0, "c": room / 2, "r": room}[cell.align]
        x = left + x1 + PADDING + shift
        if line.words:
            boxes.append(sheet.line_of(line, x, base, one.size, ink=style.ink))
        base += leading
    return boxes


def _rules(one: Placed, rules: str) -> Sequence[Rule]:
    right, heads = one.xs[-1], one.ys[one.table.heads]
    if rules == GRID:
        return [line for cell in one.table.cells for line in _around(one, cell)]
    if rules == HORIZONTAL:
        return [_below(one, cell) for cell in one.table.cells]
    if rules == BOOKTABS:
        under = [
            _below(one, cell, PADDING)
            for cell in one.table.cells
            if cell.row == 0 and 1 < cell.columns < one.table.columns
        ]
        ends = [(0.0, y, right, y, 1.0) for y in (0.0, one.high)]
        return [*ends, (0.0, heads, right, heads, 0.5), *under]
    return []


def _below(one: Placed, cell: Cell, shorter: float = 0.0) -> Rule:
    x1, x2 = one.xs[cell.column], one.xs[cell.column + cell.columns]
    y = one.ys[cell.row + cell.rows]
    return x1 + shorter, y, x2 - shorter, y, 0.4


def _around(one: Placed, cell: Cell) -> list[Rule]:
    x1, x2 = one.xs[cell.column], one.xs[cell.column + cell.columns]
    y1, y2 = one.ys[cell.row], one.ys[cell.row + cell.rows]
    return [
        (x1, y1, x2, y1, 0.6),
        (x1, y2, x2, y2, 0.6),
        (x1, y1, x1, y2, 0.6),
        (x2, y1, x2, y2, 0.6),
    ]

"""Words and rules of a table -> its grid."""

import re
import statistics
from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word, hull
from llm_ocr.engines.embedded.tables.columns import column_gaps, row_cells
from llm_ocr.engines.embedded.tables.grid import (
    Cell,
    Grid,
    GridRow,
    as_html,
    text_rows,
    usual_height,
)
from llm_ocr.engines.embedded.tables.groups import (
    assign_rowspans,
    assign_rowspans_by_rules,
    without_lone_labels,
)
from llm_ocr.engines.embedded.tables.heads import (
    first_numbered,
    head_rows,
    header_colspans,
    in_levels,
)
from llm_ocr.engines.embedded.tables.lattice import Lattice, lattice_grid
from llm_ocr.engines.embedded.tables.multiline_rows import (
    FEWEST_BANDS,
    TextRow,
    is_number,
    table_rows,
)
from llm_ocr.engines.embedded.tables.rules import (
    LETTERS,
    NO_RULES,
    Rules,
    coverage,
    longest_run,
    positions,
    rules_in,
)
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.engines.embedded.words.rows import MARK

FEWEST_WORDS = 4
# Slopes from here on are turned upright; a rule is one of the table's from this share of its
# height or width on.
SLOPED = 0.004
COLUMN_RULE, ROW_RULE = 0.5, 0.6
# Pieces of a rule across are no further apart, in heights: between those below heads that stand
# over some columns each there are other columns.
BROKEN = 2.0
LEFT_OUT = 0.3
# The frame of a table stands a little away from its words, or further if its rules go on: a column
# may be wider than its words. In heights of a word.
FRAME_MARGINS = (2.5, 15.0)
# A table of fewer rows than this, by its rules, has rows that no rule parts if a first cell has
# as many lines as this.
FEW_ROWS, MANY_LINES = 4, 3
# So does one of which more than this share of the rows has numbers one below the other in a cell;
# columns, one with numbers side by side.
STACKED, PARTED = 0.1, 0.4
# Of the rows of a table without rules at least so many have several cells.
FULL = 0.2
# Dots that lead from a label to its value.
_LEADER = re.compile(r"[.·…_]{3,}")


def table_html(lines: Sequence[OcrLine], image: Image | None = None) -> str | None:
    """A table's words as `<table>…</table>` on one line, or None if they form none.

    `image` is the page (height x width x 3, BGR) in whose pixels the lines are.
    """
    if not lines:
        return None
    words, image = _upright(lines, image)
    words = [word for word in words if not _LEADER.fullmatch(word.text)]
    if len(words) < FEWEST_WORDS:
        return None
    height = usual_height(words)
    is_exact = all(line.is_exact for line in lines)
    rules = NO_RULES if image is None else _rules_around(image, words, height, is_exact)
    grid = _close(words, rules, height) or _open(
        words, rules, height, height if is_exact else LETTERS * height
    )
    return None if grid is None else as_html(grid)


def _upright(lines: Sequence[OcrLine], image: Image | None) -> tuple[list[Word], Image | None]:
    """The words, and the image, of a table that was scanned with a slope, without it."""
    slope = statistics.median(line.slope for line in lines)
    if abs(slope) < SLOPED:
        return [word for line in lines for word in line.words], image
    words = []
    for line in lines:
        for x1, y1, x2, y2, text in ((*word.rect, word.text) for word in line.words):
            # A recognized word has its line's height, so it stands where the line's middle does.
            at = (x1 + x2) / 2 if line.is_exact else (line.rect[0] + line.rect[2]) / 2
            along, down = slope * (y1 + y2) / 2, slope * at
            words.append(Word((x1 + along, y1 - down, x2 + along, y2 - down), text))
    if image is None:
        return words, None
    matrix = np.array([[1, slope, 0], [-slope, 1, 0]], dtype=np.float64)
    size = image.shape[1], image.shape[0]
    turned = cv2.warpAffine(image, matrix, size, borderMode=cv2.BORDER_REPLICATE)
    return words, np.asarray(turned, dtype=np.uint8)


def _rules_around(image: Image, words: Sequence[Word], height: float, is_exact: bool) -> Rules:
    x1, y1, x2, y2 = hull(word.rect for word in words)
    boxes = [word.rect for word in words]
    found = NO_RULES
    for margin in FRAME_MARGINS:
        beside, above = margin * height, 1.2 * height
        around = (x1 - beside, y1 - above, x2 + beside, y2 + above)
        found = rules_in(image, around, boxes, height, is_exact=is_exact)
        if not _is_cut(found, around, height):
            break
    return found


def _is_cut(rules: Rules, around: Rect, height: float) -> bool:
    """Whether rules across most of what was searched for rules go on beyond its sides."""
    left, _, right, _ = around
    long = [one for one in rules.across if one.length > ROW_RULE * (right - left)]
    cut = [one for one in long if one.start < left + height or one.end > right - height]
    return len(cut) > 1


def _close(words: Sequence[Word], rules: Rules, height: float) -> Grid | None:
    """The grid of a table with rules around all cells; None if rules are missing."""
    lattice = Lattice(rules, height)
    grid = lattice_grid(lattice, words, height) if lattice.is_closed else None
    if grid is None or max(map(len, grid.rows)) < 2 or _hides_cells(grid, height):
        return None
    grid.heads = head_rows(grid.rows, list(range(len(grid.rows))))
    return grid


def _hides_cells(grid: Grid, height: float) -> bool:
    """Whether there are rows or columns that no rule parts: many rows have a cell with numbers one
    below the other, or far from each other; or the first cell of one of few rows has many lines."""
    lines = [
        [(cell, text_rows(cell.words, height)) for cell in row if cell.columns == 1]
        for row in grid.rows
    ]
    stacked = sum(any(_is_stacked(*one) for one in row) for row in lines)
    parted = sum(any(_is_parted(inner, height) for _, inner in row) for row in lines)
    tall = len(lines) < FEW_ROWS and any(
        cell.first == 0 and len(inner) >= MANY_LINES for row in lines for cell, inner in row
    )
    return tall or stacked > STACKED * len(lines) or parted > PARTED * len(lines)


def _is_stacked(cell: Cell, lines: Sequence[GridRow]) -> bool:
    texts = (" ".join(word.text for word in line.words) for line in lines)
    return cell.rows == 1 and sum(map(is_number, texts)) > 1


def _is_parted(lines: Sequence[GridRow], height: float) -> bool:
    return any(
        right.rect[0] - left.rect[2] > height and (is_number(left.text) or is_number(right.text))
        for line in lines
        for left, right in pairwise(line.words)
    )


def _open(words: Sequence[Word], rules: Rules, height: float, letters: float) -> Grid | None:
    """The grid of a table by the gaps between its words, and by what rules it has."""
    around = hull(word.rect for word in words)
    hard = _column_rules(rules, around, height)
    bands = _row_rules(rules, around, height)
    rows = [
        (band, row)
        for band, (top, bottom) in enumerate(zip([-1e9, *bands], [*bands, 1e9], strict=True))
        for row in text_rows([w for w in words if top <= w.y < bottom], height)
    ]
    gaps = column_gaps([row for _, row in rows], letters, hard)
    if not gaps:
        return None
    found = [TextRow(row.middle, row_cells(row, gaps, letters, hard), band) for band, row in rows]
    is_ruled = hard or len({row.band for row in found}) >= FEWEST_BANDS
    full = [row.cells for row in found if len(row.cells) > 1]
    is_list = len(gaps) == 1 and all(MARK.fullmatch(cells[0].text) for cells in full)
    if not is_ruled and (is_list or len(full) < max(2, FULL * len(found))):
        return None
    across, near = [*rules.across, *rules.edges], 0.35 * height
    # Of each rule between rows whether it leaves the first column out.
    opened = [coverage(across, y, around[0], gaps[0], near) < LEFT_OUT for y in bands]
    return _build(found, len(gaps) + 1, rules, height, opened)


def _build(
    found: list[TextRow], columns: int, rules: Rules, height: float, opened: Sequence[bool]
) -> Grid:
    first = [row for row in found if row.band == found[0].band]
    levels = in_levels(first, rules.across, height) if len(first) < len(found) else None
    found, labels = without_lone_labels(found[len(first) :] if levels else found)
    lines = 0 if levels else first_numbered([row.cells for row in found]) or 0
    merged = [*(levels or ()), *table_rows(found, height, lines)]
    cells: list[list[Cell]] = [row.cells for row in merged]
    heads = max(head_rows(cells, [row.band for row in merged]), len(levels or ()))
    header_colspans(merged, heads, columns, rules.across, height)
    if any(opened) and not labels and assign_rowspans_by_rules(merged, opened):
        return Grid([row.cells for row in merged], columns, heads)
    if not assign_rowspans(merged, labels, heads) and labels:
        merged = _with_labels(merged, labels)
    return Grid([row.cells for row in merged], columns, heads)


def _with_labels(rows: list[TextRow], labels: Sequence[tuple[float, Cell]]) -> list[TextRow]:
    """Labels that stand for no rows that can be told are rows."""
    lone = [TextRow(middle, [cell]) for middle, cell in labels]
    return sorted([*rows, *lone], key=lambda row: row.middle)


def _column_rules(rules: Rules, around: Rect, height: float) -> list[float]:
    """Rules down between the columns, the frame not among them."""
    near = 0.35 * height
    return [
        x
        for x in positions(rules.down, near)
        if around[0] + near < x < around[2] - near
        and coverage(rules.down, x, around[1], around[3], near) > COLUMN_RULE
    ]


def _row_rules(rules: Rules, around: Rect, height: float) -> list[float]:
    """Rules across between the rows that run along most of the table, and edges of grounds."""
    near = 0.35 * height
    left, top, right, bottom = around
    across = [one for one in (*rules.across, *rules.edges) if top < one.at < bottom]
    left, right = min([left, *(x.start for x in across)]), max([right, *(x.end for x in across)])
    return [
        y
        for y in positions(across, near)
        if longest_run(across, y, near, BROKEN * height) > ROW_RULE * (right - left)
    ]

"""Words and rules of a table -> its grid."""

import re
import statistics
from bisect import bisect
from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word, hull
from llm_ocr.engines.embedded.tables.columns import row_cells, with_gaps
from llm_ocr.engines.embedded.tables.grid import (
    Band,
    TextRow,
    as_html,
    text_rows,
    usual_height,
)
from llm_ocr.engines.embedded.tables.heads import (
    first_numbered,
    head_rows,
    header_colspans,
    in_levels,
    join_down,
    label_rowspans,
    with_empty_cells,
)
from llm_ocr.engines.embedded.tables.multiline_rows import FEWEST_BANDS, has_row_rules, table_rows
from llm_ocr.engines.embedded.tables.rules import LETTERS, NO_RULES, Rules, rules_in
from llm_ocr.engines.embedded.tables.separators import (
    ROW_RULE,
    Separator,
    Separators,
    closed_grid,
    through_table,
)
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.engines.embedded.words.rows import MARK

FEWEST_WORDS = 4
# Slopes from here on are turned upright.
SLOPED = 0.004
# The frame of a table stands a little away from its words, or further if its rules go on: a column
# may be wider than its words. In heights of a word.
FRAME_MARGINS = (2.5, 15.0)
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
    grid = _grid(words, rules, height, height if is_exact else LETTERS * height)
    return None if grid is None else as_html(*grid)


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


def _grid(
    words: Sequence[Word], rules: Rules, height: float, letters: float
) -> tuple[list[TextRow], int] | None:
    """A table's rows, and how many of them are heads: by its rules, and by the gaps between its
    words."""
    around = hull(word.rect for word in words)
    found = _closed_lines(words, rules, height, letters)
    lines, separators = found or _lines(
        words, through_table(rules, around, height), height, letters
    )
    if not separators.columns or not _is_table(lines, separators.columns):
        return None
    rows, heads = _rows(lines, rules, height, separators.is_closed)
    if not separators.is_closed:
        header_colspans(rows, heads, len(separators.columns) + 1, rules.across, height)
    with_empty_cells(rows, separators.columns)
    join_down(rows, separators, around)
    return rows, heads


def _closed_lines(
    words: Sequence[Word], rules: Rules, height: float, letters: float
) -> tuple[list[TextRow], Separators] | None:
    """The lines of a table with rules around all cells; None if rows or columns have none."""
    grid = closed_grid(rules, height)
    if grid is None or not all(grid.holds(word) for word in words):
        return None
    lines, separators = _lines(words, grid.within, height, letters)
    has_gaps = not all(one.is_rule for one in separators.columns)
    is_whole = not has_gaps and has_row_rules(lines, is_closed=True)
    return (lines, separators) if is_whole else None


def _lines(
    words: Sequence[Word], rules: Separators, height: float, letters: float
) -> tuple[list[TextRow], Separators]:
    """The lines of a table with their cells, by its rules and the gaps that they leave."""
    _, top, _, bottom = hull(word.rect for word in words)
    edges = [one.at for one in rules.rows]
    lines = [
        line
        for number, (above, below) in enumerate(pairwise([top, *edges, bottom]))
        for line in text_rows(
            [word for word in words if bisect(edges, word.y) == number],
            height,
            Band(number, above, below),
        )
    ]
    separators = with_gaps(rules, lines, letters)
    cells = [row_cells(line, separators.columns, letters) for line in lines]
    return [
        TextRow(line.middle, held, line.band) for line, held in zip(lines, cells, strict=True)
    ], separators


def _rows(
    lines: list[TextRow], rules: Rules, height: float, is_closed: bool
) -> tuple[list[TextRow], int]:
    """A table's rows, from its lines, and how many of them are heads."""
    first = [line for line in lines if line.band == lines[0].band]
    levels = in_levels(first, rules.across, height) if len(first) < len(lines) else None
    if levels is not None:
        lines = lines[len(first) :]
    named = 0 if levels else first_numbered(lines) or 0
    lone = [line for line in lines[named + 1 :] if line.cells[-1].last == 0]
    for labels in (lone, ()):
        others = [line for line in lines if line not in labels]
        rows = [*(levels or ()), *table_rows(others, height, named, is_closed)]
        heads = max(head_rows(rows), len(levels or ()))
        spanned = label_rowspans(rows, heads, labels)
        if spanned is not None:
            return spanned, heads
    return rows, heads


def _is_table(rows: Sequence[TextRow], columns: Sequence[Separator]) -> bool:
    """Whether rules part several rows or columns, or enough rows have several cells, which are no
    marks of a list's items."""
    full = [row.cells for row in rows if len(row.cells) > 1]
    if any(one.is_rule for one in columns) or len({row.band for row in rows}) >= FEWEST_BANDS:
        return bool(full)
    is_list = len(columns) == 1 and all(MARK.fullmatch(cells[0].text) for cells in full)
    return not is_list and len(full) >= max(2, FULL * len(rows))

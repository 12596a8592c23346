"""What kind of figure a picture is, by what can be measured on it.

table     words in at least two rows and columns, and rules or the layout model's word for it
chart     numbers one below or beside the other, as on an axis, with long lines or bars
photo     few pixels are just like their neighbors
logo      few words, few colors, no long lines
diagram   flat areas with long lines, or words without columns
other     whatever is left
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.figure_tasks.bars import bar_chart
from llm_ocr.engines.embedded.geometry import OcrLine, area
from llm_ocr.engines.embedded.page import OcrPage
from llm_ocr.engines.embedded.tables import table_html
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.text.table_markup import first_table

SMALL = 256
# Shares of pixels like their neighbors: photographs have fewer, drawings more.
SHADED, FLAT = 0.35, 0.6
# A line is long from this share of the picture's side on.
LONG = 0.4
TICKS = 3
LOGO_WORDS, LOGO_COLORS = 4, 8
# Of a table's cells at least so many have something in them, of its rows as many two such cells.
FULL = 0.5

# A scale's steps differ by no more than this share of the largest.
UNEVEN = 0.02

_PLAIN = re.compile(r"[-$€£]?\d+(?:\.\d+)?[%kKM]?")
_TICK = re.compile(r"[-+$€£]?\d[\d.,]*[%kKM]?")


class FigureClass(StrEnum):
    """What `kind_of` tells apart."""

    CHART = "chart"
    TABLE = "table"
    DIAGRAM = "diagram"
    PHOTO = "photo"
    LOGO = "logo"
    OTHER = "other"


def classify_figure(image: Image, page: OcrPage) -> FigureClass:
    """The kind of an image (height x width x 3, BGR) on which `reading` was read."""
    small = cv2.resize(image, (SMALL, SMALL), interpolation=cv2.INTER_AREA)
    flat = flat_color_ratio(small)
    if flat < SHADED:
        return FigureClass.PHOTO
    across, down = _long_lines(image)
    if bar_chart(image, page.lines) is not None:
        return FigureClass.CHART
    if table_rows(page) and (across + down >= 4 or _is_called_table(page)):
        return FigureClass.TABLE
    if (_axis(page.lines) and across and down) or (_has_scale(page.lines) and across + down):
        return FigureClass.CHART
    words = sum(len(line.text.split()) for line in page.lines)
    if flat > FLAT and words <= LOGO_WORDS and not across + down:
        return FigureClass.LOGO if _colors(small) <= LOGO_COLORS else FigureClass.OTHER
    if flat > FLAT and (across + down or words > LOGO_WORDS):
        return FigureClass.DIAGRAM
    return FigureClass.OTHER


def flat_color_ratio(image: npt.NDArray[Any]) -> float:
    """The share of pixels that are just like their neighbor: drawings are flat, photos are not."""
    gray = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY).astype(np.int16)
    steps = np.maximum(np.abs(np.diff(gray, axis=1))[:-1], np.abs(np.diff(gray, axis=0))[:, :-1])
    return float((steps <= 1).mean())


def table_rows(page: OcrPage) -> list[list[str]] | None:
    """The picture's words as a table's rows, if most of them stand in one."""
    found = [block for block in page.blocks if block.label == "table"]
    lines = [line for block in found for line in block.lines] or list(page.lines)
    if not lines or len(lines) < 0.6 * len(page.lines):
        return None
    html = table_html(lines, page.image)
    rows = first_table(html) if html else None
    if rows is None or len(rows[0]) < 2:
        return None
    # An axis with a number at each tick has one cell a row.
    if sum(sum(bool(cell) for cell in row) > 1 for row in rows) < FULL * len(rows):
        return None
    if _is_plot(rows):
        return None
    cells = [cell for row in rows for cell in row]
    return rows if sum(bool(cell) for cell in cells) >= FULL * len(cells) else None


def _is_plot(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows are what a chart has printed: scales down its sides, and little between them."""
    scales = [c for c in range(len(rows[0])) if _is_scale([row[c] for row in rows])]
    ticked = [row for row in rows if any(_TICK.fullmatch(row[c]) for c in scales)]
    # A tick that spans columns stands in each of them.
    beside = sum(
        bool(cell) and cell not in [row[c] for c in scales] for row in ticked for cell in row
    )
    return len(scales) > 0 and beside < FULL * len(ticked)


def _is_scale(texts: Sequence[str]) -> bool:
    """Whether the numbers among some texts, from top to bottom, fall by even steps or factors."""
    values = [float(re.sub(r"[^\d.-]", "", text)) for text in texts if _PLAIN.fullmatch(text)]
    if len(values) < TICKS or any(above <= below for above, below in pairwise(values)):
        return False
    steps = [above - below for above, below in pairwise(values)]
    if max(steps) - min(steps) <= UNEVEN * max(steps):
        return True
    if values[-1] <= 0:
        return False
    factors = [above / below for above, below in pairwise(values)]
    return max(factors) - min(factors) <= UNEVEN * max(factors)


def _is_called_table(page: OcrPage) -> bool:
    whole = page.width * page.height
    found = [block.rect for block in page.blocks if block.label == "table"]
    found += [region.rect for region in page.regions if region.label == "table"]
    return any(area(rect) > 0.3 * whole for rect in found)


def _long_lines(image: Image) -> tuple[int, int]:
    """Long thin lines across and down."""
    gray = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    dark = cv2.adaptiveThreshold(
        gray, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, 15, 10
    )
    height, width = gray.shape
    counts = []
    for kernel, side in (((1, int(LONG * width)), 3), ((int(LONG * height), 1), 2)):
        lines = cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones(kernel, np.uint8))
        stats: Any = cv2.connectedComponentsWithStats(lines)[2]
        counts.append(sum(int(one[side]) <= 12 for one in stats[1:]))
    return counts[0], counts[1]


def _axis(lines: Sequence[OcrLine]) -> bool:
    """Whether numbers stand in a column or in a row, each with its own height and place."""
    numbers = [line for line in lines if _TICK.fullmatch(line.text.strip())]
    for one in numbers:
        column = [other for other in numbers if abs(other.rect[2] - one.rect[2]) < one.height]
        row = [other for other in numbers if abs(other.middle - one.middle) < 0.5 * one.height]
        if max(len(column), len(row)) >= TICKS:
            return True
    return False


def _has_scale(lines: Sequence[OcrLine]) -> bool:
    """Whether numbers one below the other, with one left or right edge, are a scale."""
    numbers = [line for line in lines if _PLAIN.fullmatch(line.text.strip())]
    return any(
        _is_scale([other.text.strip() for other in sorted(column, key=lambda line: line.middle)])
        for one in numbers
        for side in (0, 2)
        if (
            column := [
                other
                for other in numbers
                if abs(other.rect[side] - one.rect[side]) < one.height / 2
            ]
        )
    )


def _colors(image: npt.NDArray[Any]) -> int:
    """Colors, coarsely, that take at least a hundredth of a picture."""
    coarse = (image // 64).reshape(-1, 3).astype(np.int32)
    _, counts = np.unique(coarse @ np.array([16, 4, 1]), return_counts=True)
    return int((counts >= 0.01 * len(coarse)).sum())

"""What kind of figure a picture is, by what can be measured on it.

table     words in at least two rows and columns, and rules or the layout model's word for it
chart     numbers one below or beside the other, as on an axis, with long lines or bars
photo     few pixels are just like their neighbours
logo      few words, few colours, no long lines
diagram   flat areas with long lines, or words without columns
other     whatever is left
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.bars import bar_chart
from llm_ocr.engines.embedded.geometry import Line, area
from llm_ocr.engines.embedded.reading import Reading
from llm_ocr.engines.embedded.recognise import Image
from llm_ocr.engines.embedded.tables import table_html
from llm_ocr.parsing.tables_in_text import first_table

SMALL = 256
# Shares of pixels like their neighbours: photographs have fewer, drawings more.
SHADED, FLAT = 0.35, 0.6
# A line is long from this share of the picture's side on.
LONG = 0.4
TICKS = 3
LOGO_WORDS, LOGO_COLOURS = 4, 8
# Of a table's cells at least so many have something in them, of its rows as many two such cells.
FULL = 0.5

_TICK = re.compile(r"[-+$€£]?\d[\d.,]*[%kKM]?")


class Kind(StrEnum):
    """What `kind_of` tells apart."""

    CHART = "chart"
    TABLE = "table"
    DIAGRAM = "diagram"
    PHOTO = "photo"
    LOGO = "logo"
    OTHER = "other"


def kind_of(image: Image, reading: Reading) -> Kind:
    """The kind of an image (height x width x 3, BGR) on which `reading` was read."""
    small = cv2.resize(image, (SMALL, SMALL), interpolation=cv2.INTER_AREA)
    flat = flat_share(small)
    if flat < SHADED:
        return Kind.PHOTO
    across, down = _long_lines(image)
    if bar_chart(image, reading.lines) is not None:
        return Kind.CHART
    if table_rows(reading) and (across + down >= 4 or _is_called_table(reading)):
        return Kind.TABLE
    if _axis(reading.lines) and (across and down):
        return Kind.CHART
    words = sum(len(line.text.split()) for line in reading.lines)
    if flat > FLAT and words <= LOGO_WORDS and not across + down:
        return Kind.LOGO if _colours(small) <= LOGO_COLOURS else Kind.OTHER
    if flat > FLAT and (across + down or words > LOGO_WORDS):
        return Kind.DIAGRAM
    return Kind.OTHER


def flat_share(image: npt.NDArray[Any]) -> float:
    """The share of pixels that are just like their neighbour: drawings are flat, photos are not."""
    grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY).astype(np.int16)
    steps = np.maximum(np.abs(np.diff(grey, axis=1))[:-1], np.abs(np.diff(grey, axis=0))[:, :-1])
    return float((steps <= 1).mean())


def table_rows(reading: Reading) -> list[list[str]] | None:
    """The picture's words as a table's rows, if most of them stand in one."""
    found = [block for block in reading.blocks if block.label == "table"]
    lines = [line for block in found for line in block.lines] or list(reading.lines)
    if not lines or len(lines) < 0.6 * len(reading.lines):
        return None
    html = table_html(lines, reading.image)
    rows = first_table(html) if html else None
    if rows is None or len(rows[0]) < 2:
        return None
    # An axis with a number at each tick has one cell a row.
    if sum(sum(bool(cell) for cell in row) > 1 for row in rows) < FULL * len(rows):
        return None
    cells = [cell for row in rows for cell in row]
    return rows if sum(bool(cell) for cell in cells) >= FULL * len(cells) else None


def _is_called_table(reading: Reading) -> bool:
    whole = reading.width * reading.height
    found = [block.rect for block in reading.blocks if block.label == "table"]
    found += [region.rect for region in reading.regions if region.label == "table"]
    return any(area(rect) > 0.3 * whole for rect in found)


def _long_lines(image: Image) -> tuple[int, int]:
    """Long thin lines across and down."""
    grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    dark = cv2.adaptiveThreshold(
        grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, 15, 10
    )
    height, width = grey.shape
    counts = []
    for kernel, side in (((1, int(LONG * width)), 3), ((int(LONG * height), 1), 2)):
        lines = cv2.morphologyEx(dark, cv2.MORPH_OPEN, np.ones(kernel, np.uint8))
        stats: Any = cv2.connectedComponentsWithStats(lines)[2]
        counts.append(sum(int(one[side]) <= 12 for one in stats[1:]))
    return counts[0], counts[1]


def _axis(lines: Sequence[Line]) -> bool:
    """Whether numbers stand in a column or in a row, each with its own height and place."""
    numbers = [line for line in lines if _TICK.fullmatch(line.text.strip())]
    for one in numbers:
        column = [other for other in numbers if abs(other.rect[2] - one.rect[2]) < one.height]
        row = [other for other in numbers if abs(other.middle - one.middle) < 0.5 * one.height]
        if max(len(column), len(row)) >= TICKS:
            return True
    return False


def _colours(image: npt.NDArray[Any]) -> int:
    """Colours, coarsely, that take at least a hundredth of a picture."""
    coarse = (image // 64).reshape(-1, 3).astype(np.int32)
    _, counts = np.unique(coarse @ np.array([16, 4, 1]), return_counts=True)
    return int((counts >= 0.01 * len(coarse)).sum())

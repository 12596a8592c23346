"""Rows of text -> rows of a table: a cell's text may go on in the rows below."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from llm_ocr.engines.embedded.geometry import Rect, hull
from llm_ocr.engines.embedded.tables.grid import Cell

_NUMBER = re.compile(r"[\s$€£%()+\-–—±.,\d]*\d[\s$€£%()+\-–—±.,\d]*[A-Za-z%]{0,2}")
_YEAR = re.compile(r"(19|20)\d\d")
# Rows of text closer than this, in heights of a word, may be of one cell; below it they are
# closer than rows of a table usually are.
TIGHT, CLOSER = 1.75, 0.85
# From so many rows between rules on, the rules part the table's rows.
FEWEST_BANDS = 3
# Of a band's places so many have text if it holds rows that no rule parts.
FULL = 0.75


@dataclass
class TextRow:
    """Cells beside each other, and between which of the table's rules they stand."""

    middle: float
    cells: list[Cell]
    band: int = 0

    @property
    def rect(self) -> Rect:
        return hull(cell.rect for cell in self.cells)


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def is_year(text: str) -> bool:
    return _YEAR.fullmatch(text.strip()) is not None


def table_rows(rows: Sequence[TextRow], height: float) -> list[TextRow]:
    """Rows of text put together where they are lines of the same cells."""
    bands: dict[int, list[TextRow]] = {}
    for row in rows:
        bands.setdefault(row.band, []).append(row)
    by_rules = len(bands) >= FEWEST_BANDS and not any(
        _has_rows(band) for band in list(bands.values())[1:]
    )
    usual = _usual_pitch(rows)
    merged: list[TextRow] = []
    for band in bands.values():
        if by_rules and not _has_rows(band):
            merged.append(_as_one(band))
        else:
            merged += _with_continuations(band, height, usual)
    return merged


def _has_rows(band: Sequence[TextRow]) -> bool:
    """Whether there are several of a table's rows in a band: numbers one below the other."""
    columns: dict[int, list[str]] = {}
    for row in band:
        for cell in row.cells:
            columns.setdefault(cell.first, []).append(cell.text)
    if any(sum(is_number(text) for text in texts) > 1 for texts in columns.values()):
        return True
    places = len(columns) * len(band)
    return len(band) > 2 and sum(len(row.cells) for row in band) >= FULL * places > FULL * len(band)


def _as_one(rows: Sequence[TextRow]) -> TextRow:
    cells: list[Cell] = []
    for row in rows:
        for cell in row.cells:
            cells = joined(cells, cell)
    middle = statistics.mean(row.middle for row in rows)
    return TextRow(middle, sorted(cells, key=lambda cell: cell.first), rows[0].band)


def joined(cells: list[Cell], cell: Cell) -> list[Cell]:
    """Some cells and one more; those that share a column with it become one with it."""
    same = [one for one in cells if one.first <= cell.last and cell.first <= one.last]
    first, last = (
        min([cell.first, *(one.first for one in same)]),
        max([cell.last, *(one.last for one in same)]),
    )
    words = [word for one in [*same, cell] for word in one.words]
    return [*(one for one in cells if one not in same), Cell(first, last, words)]


def _usual_pitch(rows: Sequence[TextRow]) -> float:
    """How far a row with a first cell is from the one above."""
    pitches = [below.middle - above.middle for above, below in pairwise(rows) if _starts(below)]
    return statistics.median(pitches) if pitches else 0.0


def _starts(row: TextRow) -> bool:
    return len(row.cells) > 1 or row.cells[0].first == 0


def _with_continuations(rows: Sequence[TextRow], height: float, usual: float) -> list[TextRow]:
    merged: list[TextRow] = []
    above: TextRow | None = None
    for row in rows:
        if merged and above is not None and _goes_on(merged[-1], above, row, height, usual):
            merged[-1] = _as_one([merged[-1], row])
        else:
            merged.append(row)
        above = row
    return merged


def _goes_on(whole: TextRow, above: TextRow, row: TextRow, height: float, usual: float) -> bool:
    """Whether a row only has more text for cells of the one above, close below it."""
    pitch = row.middle - above.middle
    held = {cell.first: cell for cell in whole.cells}
    if any(
        cell.first not in held or held[cell.first].last != cell.last or cell.columns > 1
        for cell in row.cells
    ):
        return False
    if any(is_number(cell.text) or is_number(held[cell.first].text) for cell in row.cells):
        return False
    if len(row.cells) >= len(whole.cells) or len(whole.cells) < 2:
        return False
    if len(row.cells) == 1 and pitch < 0.8 * usual:
        return True
    if pitch > TIGHT * height or row.cells[0].first == 0:
        return False
    lower = all(cell.text[:1].islower() or cell.text[:1] in "(&/" for cell in row.cells)
    return lower or pitch < CLOSER * usual

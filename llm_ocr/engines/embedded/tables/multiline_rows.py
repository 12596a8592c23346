"""Rows of text -> rows of a table: a cell's text may go on in the rows below."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from llm_ocr.engines.embedded.geometry import is_aligned
from llm_ocr.engines.embedded.tables.grid import Band, Cell, TextRow

_NUMBER = re.compile(r"[\s$€£%()+\-–—±.,\d]*\d[\s$€£%()+\-–—±.,\d]*[A-Za-z%]{0,2}")
# An amount with the code of its currency: CHF 3'360.00, 12,50 EUR.
_AMOUNT = re.compile(r"(?:[A-Z]{3} ?)?[-–(]?\d[\d.,'’` ]*[.,]\d\d\)?(?: ?[A-Z]{3})?")
_YEAR = re.compile(r"(19|20)\d\d")
# Rows of text closer than this, in heights of a word, may be of one cell; below it they are
# closer than rows of a table usually are.
TIGHT, CLOSER = 1.75, 0.85
# From so many rows between rules on, the rules part the table's rows, unless more than this share
# of what is between them holds several.
FEWEST_BANDS, MOST_FULL = 3, 0.25
# Of fewer bands than this each may hold several rows, if the first cell of one has as many lines.
FEW_BANDS, MANY_LINES = 4, 3
# Closer than this share of the least distance of two lines in one column, lines are of cells beside
# each other.
BESIDE = 0.7
# Lines of a head are no further apart than rows, and have an edge or the middle in common, in
# heights of a word.
HEAD, SAME_EDGE = 1.1, 0.4
# Rules part a head into no more levels than this; what has more above its numbers is no head.
MOST_LEVELS = 2


def is_number(text: str) -> bool:
    return (_NUMBER.fullmatch(text) or _AMOUNT.fullmatch(text)) is not None


def is_year(text: str) -> bool:
    return _YEAR.fullmatch(text.strip()) is not None


def has_row_rules(rows: Sequence[TextRow], is_closed: bool) -> bool:
    """Whether the rules of a table, with its lines given as rows, part its rows."""
    bands = _bands(rows)
    full = [_has_rows(band) for band in bands[1:]]
    is_tall = len(bands) < FEW_BANDS and any(_has_labels(band) for band in bands)
    fewest = FEWEST_BANDS - is_closed
    return len(bands) >= fewest and sum(full) <= MOST_FULL * len(full) and not is_tall


def _bands(rows: Sequence[TextRow]) -> list[list[TextRow]]:
    bands: dict[Band, list[TextRow]] = {}
    for row in rows:
        bands.setdefault(row.band, []).append(row)
    return list(bands.values())


def table_rows(
    rows: Sequence[TextRow], height: float, heads: int, is_closed: bool
) -> list[TextRow]:
    """Rows of text put together where they are lines of the same cells; the first `heads` stand
    above all numbers."""
    by_rules = has_row_rules(rows, is_closed)
    pitches = _Pitches(_usual_pitch(rows), _least_pitch(rows), height)
    if heads and rows[heads].band.number > rows[0].band.number + MOST_LEVELS:
        heads = 0
    head = rows[heads - 1].middle if heads else float("-inf")
    # Where a rule parts a head from its body, its lines are those of one row or of several levels.
    body = rows[heads].band.number if heads and rows[heads - 1].band != rows[heads].band else 0
    merged: list[TextRow] = []
    for k, band in enumerate(_bands(rows)):
        if band[0].band.number < body or (by_rules and (k == 0 or not _has_rows(band))):
            merged += _joined_lines(band)
        else:
            merged += _with_continuations(band, pitches, head)
    return merged


def _joined_lines(lines: Sequence[TextRow]) -> list[TextRow]:
    """Lines as one row, or several where a line has cells of its own below a cell over them."""
    rows: list[TextRow] = []
    for line in lines:
        if rows and _fits(rows[-1], line):
            rows[-1] = _as_one([rows[-1], line])
        else:
            rows.append(line)
    return rows


def _has_rows(band: Sequence[TextRow]) -> bool:
    """Whether there are several of a table's rows in a band: numbers one below the other."""
    columns: dict[int, list[str]] = {}
    for row in band:
        for cell in row.cells:
            columns.setdefault(cell.first, []).append(cell.text)
    return any(sum(is_number(text) for text in texts) > 1 for texts in columns.values())


def _has_labels(band: Sequence[TextRow]) -> bool:
    return sum(row.cells[0].first == row.cells[0].last == 0 for row in band) >= MANY_LINES


def _fits(row: TextRow, line: TextRow) -> bool:
    """Whether no cell of either stands over several cells of the other."""
    return all(
        sum(one.first <= cell.last and cell.first <= one.last for one in other.cells) < 2
        for this, other in ((row, line), (line, row))
        for cell in this.cells
    )


def _as_one(rows: Sequence[TextRow]) -> TextRow:
    cells: list[Cell] = []
    for row in rows:
        for cell in row.cells:
            cells = join_rows(cells, cell)
    middle = statistics.mean(row.middle for row in rows)
    return TextRow(middle, sorted(cells, key=lambda cell: cell.first), rows[0].band)


def join_rows(cells: list[Cell], cell: Cell) -> list[Cell]:
    """Some cells and one more; those that share a column with it become one with it."""
    same = [one for one in cells if one.first <= cell.last and cell.first <= one.last]
    first, last = (
        min([cell.first, *(one.first for one in same)]),
        max([cell.last, *(one.last for one in same)]),
    )
    words = [word for one in [*same, cell] for word in one.words]
    return [*(one for one in cells if one not in same), Cell(first, last, words)]


@dataclass(frozen=True)
class _Pitches:
    """Distances of a table's lines, in pixels: usually from one row to the next, at least from one
    line to the next in a column; and the height of a usual word."""

    usual: float
    least: float
    height: float


def _usual_pitch(rows: Sequence[TextRow]) -> float:
    """How far a row with a first cell is from the one above."""
    pitches = [below.middle - above.middle for above, below in pairwise(rows) if _starts(below)]
    return statistics.median(pitches) if pitches else 0.0


def _starts(row: TextRow) -> bool:
    return len(row.cells) > 1 or row.cells[0].first == 0


def _least_pitch(rows: Sequence[TextRow]) -> float:
    last: dict[int, float] = {}
    pitches = []
    for row in rows:
        for cell in row.cells:
            if cell.first in last:
                pitches.append(row.middle - last[cell.first])
            last[cell.first] = row.middle
    return min(pitches, default=0.0)


def _with_continuations(rows: Sequence[TextRow], pitches: _Pitches, head: float) -> list[TextRow]:
    """Rows of text that no rules part; down to `head` they are of the table's head."""
    merged: list[TextRow] = []
    above: TextRow | None = None
    for row in rows:
        if above is not None and (
            _is_beside(merged[-1], above, row, pitches)
            or _goes_on(merged[-1], above, row, pitches)
            or (row.middle <= head and _is_of_head(merged[-1], above, row, pitches))
        ):
            merged[-1] = _as_one([merged[-1], row])
        else:
            merged.append(row)
        above = row
    return merged


def _is_beside(whole: TextRow, above: TextRow, row: TextRow, pitches: _Pitches) -> bool:
    """Whether a line stands beside a label of several lines, between two of them."""
    labels = [one.cells[0] for one in (whole, row) if len(one.cells) == 1]
    return (
        row.middle - above.middle < BESIDE * pitches.least
        and len(labels) > 0
        and not any(is_number(label.text) for label in labels)
        and _fits(whole, row)
    )


def _is_of_head(whole: TextRow, above: TextRow, row: TextRow, pitches: _Pitches) -> bool:
    """Whether a line without numbers goes on with heads above it."""
    return (
        row.middle - above.middle < HEAD * pitches.usual
        and not any(is_number(cell.text) for cell in row.cells)
        and _fits(whole, row)
        and all(
            any(is_aligned(cell.rect, one.rect, SAME_EDGE * pitches.height) for one in above.cells)
            for cell in row.cells
        )
    )


def _goes_on(whole: TextRow, above: TextRow, row: TextRow, pitches: _Pitches) -> bool:
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
    if len(row.cells) == 1 and pitch < 0.8 * pitches.usual:
        return True
    if pitch > TIGHT * pitches.height or row.cells[0].first == 0:
        return False
    lower = all(cell.text[:1].islower() or cell.text[:1] in "(&/" for cell in row.cells)
    return lower or pitch < CLOSER * pitches.usual

"""Labels in the first column that stand for several rows."""

import statistics
from collections.abc import Sequence
from itertools import pairwise

from llm_ocr.engines.embedded.tables.grid import Cell
from llm_ocr.engines.embedded.tables.multiline_rows import TextRow

# How far a label may be off from the middle of its rows, as a share of their distance.
OFF = 0.3


def without_lone_labels(rows: list[TextRow]) -> tuple[list[TextRow], list[tuple[float, Cell]]]:
    """Rows, and labels (with their middles) that stand between two rows rather than in one."""
    pitch = _pitch(rows)
    kept: list[TextRow] = []
    labels: list[tuple[float, Cell]] = []
    for k, row in enumerate(rows):
        gaps = [
            abs(rows[n].middle - row.middle)
            for n in (k - 1, k + 1)
            if 0 <= n < len(rows) and len(rows[n].cells) > 1 and rows[n].band == row.band
        ]
        is_lone = len(row.cells) == 1 and row.cells[0].first == row.cells[0].last == 0
        between = len(gaps) == 2 and max(gaps) < 0.75 * pitch
        if is_lone and between:
            labels.append((row.middle, row.cells[0]))
        else:
            kept.append(row)
    return kept, labels


def _pitch(rows: Sequence[TextRow]) -> float:
    full = [row for row in rows if len(row.cells) > 1]
    return statistics.median([b.middle - a.middle for a, b in pairwise(full)] or [0.0])


def assign_rowspans(rows: list[TextRow], labels: Sequence[tuple[float, Cell]], heads: int) -> bool:
    """Gives labels that each stand at the middle of some rows these rows; False if they don't."""
    body = rows[heads:]
    named = [
        (row.middle, cell) for row in body for cell in row.cells if cell.first == cell.last == 0
    ]
    named = sorted([*named, *labels], key=lambda one: one[0])
    if not body or len(named) == len(body) or len(named) < 2:
        return False
    if any(cell.first == 0 < cell.last for row in body for cell in row.cells):
        return False
    parts = _parts([row.middle for row in body], [middle for middle, _ in named])
    if parts is None:
        return False
    for row in body:
        row.cells = [cell for cell in row.cells if cell.first > 0]
    for (first, count), (_, cell) in zip(parts, named, strict=True):
        body[first].cells.insert(0, Cell(0, 0, cell.words, count))
    return True


def _parts(middles: Sequence[float], labels: Sequence[float]) -> list[tuple[int, int]] | None:
    """Runs of rows (first, count), one for each label at its middle, that make up all rows."""
    pitch = statistics.median([b - a for a, b in pairwise(middles)] or [1.0])
    parts: list[tuple[int, int]] = []
    start = 0
    for label in labels:
        offs = {
            count: abs((middles[start] + middles[start + count - 1]) / 2 - label)
            for count in range(1, len(middles) - start + 1)
        }
        if not offs:
            return None
        count = min(offs, key=offs.__getitem__)
        if offs[count] > OFF * pitch:
            return None
        parts.append((start, count))
        start += count
    return parts if start == len(middles) else None


def assign_rowspans_by_rules(rows: list[TextRow], opened: Sequence[bool]) -> bool:
    """Gives a first cell all rows that no rule parts it from, unless each has one of its own;
    `opened[k]` is whether the rule above band k + 1 leaves the first column out. False if that
    doesn't fit the rows."""
    if [row.band for row in rows] != sorted({row.band for row in rows}):
        return False
    runs: list[list[TextRow]] = []
    for row in rows:
        if runs and row.band > 0 and opened[row.band - 1]:
            runs[-1].append(row)
        else:
            runs.append([row])
    for run in runs:
        first = [cell for row in run for cell in row.cells if cell.first == 0]
        has_own = len(first) == len(run) > 2
        if len(run) < 2 or has_own or any(cell.last > 0 for cell in first):
            continue
        words = [word for cell in first for word in cell.words]
        for row in run:
            row.cells = [cell for cell in row.cells if cell.first > 0]
        run[0].cells.insert(0, Cell(0, 0, words, len(run)))
    return True

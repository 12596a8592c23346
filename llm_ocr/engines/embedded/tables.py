"""Words of a table -> HTML: rows by their middles, columns by the gaps that most rows share."""

import html
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.geometry import Line, Rect, Word, hull

# Pixels of one step of the search for gaps.
STEP = 2
# Words closer than this share of their height are of one cell.
WORD_GAP = 0.62
_NUMBER = re.compile(r"[\s$€£%()+\-–—.,\d]*\d[\s$€£%()+\-–—.,\d]*[A-Za-z%]{0,2}")
_YEAR = re.compile(r"(19|20)\d\d")


@dataclass
class _Cell:
    """Text that spans the columns `first` to `last`."""

    first: int
    last: int
    text: str


@dataclass(frozen=True)
class _Row:
    middle: float
    words: list[Word]


def table_html(lines: Sequence[Line]) -> str | None:
    """A table's words as `<table>…</table>` on one line, or None if they form no columns."""
    words = [word for line in lines for word in line.words]
    if len(words) < 4:
        return None
    height = statistics.median(word.rect[3] - word.rect[1] for word in words)
    rows = _rows(words, height)
    gaps = _column_gaps(rows, height)
    if not gaps:
        return None
    grid = [_cells(row, gaps, height) for row in rows]
    grid = _with_continuations([row.middle for row in rows], grid)
    return _as_html(grid, len(gaps) + 1)


def _rows(words: Sequence[Word], height: float) -> list[_Row]:
    groups: list[list[Word]] = []
    middles: list[float] = []
    for word in sorted(words, key=lambda word: word.rect[1] + word.rect[3]):
        middle = (word.rect[1] + word.rect[3]) / 2
        if groups and abs(middle - middles[-1]) < 0.5 * height:
            groups[-1].append(word)
            middles[-1] += (middle - middles[-1]) / len(groups[-1])
        else:
            groups.append([word])
            middles.append(middle)
    return [
        _Row(middle, sorted(group, key=lambda word: word.rect[0]))
        for middle, group in zip(middles, groups, strict=True)
    ]


def _phrases(words: Sequence[Word], height: float, gaps: Sequence[float] = ()) -> list[Word]:
    """Neighbouring words as one, unless a column gap lies between them."""
    joined: list[Word] = []
    for word in words:
        last = joined[-1] if joined else None
        if last is not None and _belongs(last, word, height, gaps):
            joined[-1] = Word(hull((last.rect, word.rect)), f"{last.text} {word.text}")
        else:
            joined.append(word)
    return joined


def _belongs(last: Word, word: Word, height: float, gaps: Sequence[float]) -> bool:
    if last.text == "$":
        return True
    gap = word.rect[0] - last.rect[2]
    edge = 0.15 * height
    cut = any(last.rect[2] - edge <= x <= word.rect[0] + edge for x in gaps)
    return gap < WORD_GAP * height and not (cut and gap > 0.3 * height)


def _column_gaps(rows: Sequence[_Row], height: float) -> list[float]:
    """The middles of the vertical gaps that (nearly) all rows with several cells leave free."""
    phrases = [_phrases(row.words, height) for row in rows]
    full = [(row, cells) for row, cells in zip(rows, phrases, strict=True) if len(cells) > 1]
    if not full:
        return []
    # With many rows single words show the gaps better: a wide cell hides those of the others.
    marks = [row.words if len(full) >= 6 else cells for row, cells in full]
    left, _, right, _ = hull(word.rect for row in rows for word in row.words)
    cover = np.zeros(int((right - left) / STEP) + 2)
    for mark in marks:
        cover += _covered([word.rect for word in mark], left, len(cover))
    allowed = max(0.5, 0.12 * len(full)) if len(full) >= 5 else 0.5
    narrowest = (0.3 if len(full) >= 8 else 0.45) * height
    return [left + STEP * at for at in _low_runs(cover, allowed, narrowest / STEP)]


def _covered(rects: Sequence[Rect], left: float, size: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(size, dtype=bool)
    for rect in rects:
        mask[int((rect[0] - left) / STEP) : int((rect[2] - left) / STEP) + 1] = True
    return mask


def _low_runs(cover: npt.NDArray[np.float64], allowed: float, narrowest: float) -> list[float]:
    """The middles of the inner stretches where at most `allowed` rows have text."""
    low = np.concatenate(([False], cover <= allowed, [False]))
    edges = np.flatnonzero(low[1:] != low[:-1])
    middles: list[float] = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if start > 0 and end < len(cover) and end - start >= narrowest:
            stretch = cover[start:end]
            emptiest = np.flatnonzero(stretch == stretch.min())
            middles.append(float(start + np.median(emptiest)))
    return middles


def _cells(row: _Row, gaps: Sequence[float], height: float) -> list[_Cell]:
    """The row's phrases with the columns that they lie in, none of them twice."""
    cells: list[_Cell] = []
    for phrase in _phrases(row.words, height, gaps):
        first, last = _columns(phrase.rect, gaps, height)
        if cells and first <= cells[-1].last:
            before = cells[-1]
            if last > before.last == first and before.first < before.last:
                before.last -= 1
            else:
                before.text = f"{before.text} {phrase.text}"
                before.last = max(before.last, last)
                continue
        cells.append(_Cell(first, last, phrase.text))
    return cells


def _columns(rect: Rect, gaps: Sequence[float], height: float) -> tuple[int, int]:
    """The first and last column that a good part of `rect` lies in."""
    edges = [float("-inf"), *gaps, float("inf")]
    shared = [min(rect[2], right) - max(rect[0], left) for left, right in pairwise(edges)]
    enough = min(0.18 * (rect[2] - rect[0]), 1.2 * height)
    within = [k for k, width in enumerate(shared) if width > enough]
    if not within:
        within = [max(range(len(shared)), key=shared.__getitem__)]
    return within[0], within[-1]


def _with_continuations(middles: Sequence[float], grid: list[list[_Cell]]) -> list[list[_Cell]]:
    """Rows that only go on with one cell of the row above, close below it, are put into it."""
    pitches = [below - above for above, below in pairwise(middles)]
    usual = statistics.median(pitches) if pitches else 0.0
    merged: list[list[_Cell]] = []
    for pitch, row in zip([0.0, *pitches], grid, strict=True):
        above = _cell_at(merged[-1], row[0]) if merged and len(row) == 1 else None
        if above is not None and pitch < 0.8 * usual:
            above.text = f"{above.text} {row[0].text}"
        else:
            merged.append(row)
    return merged


def _cell_at(row: list[_Cell], cell: _Cell) -> _Cell | None:
    same = (one for one in row if (one.first, one.last) == (cell.first, cell.last))
    return next(same, None) if cell.first == cell.last else None


def _as_html(grid: list[list[_Cell]], columns: int) -> str:
    heads = _header_rows(grid)
    pieces = ["<table>"]
    for k, row in enumerate(grid):
        tag = "th" if k < heads else "td"
        pieces.append("<tr>")
        at = 0
        for cell in row:
            pieces.append(f"<{tag}></{tag}>" * (cell.first - at))
            span = cell.last - cell.first + 1
            attribute = f' colspan="{span}"' if span > 1 else ""
            text = html.escape(cell.text, quote=False)
            pieces.append(f"<{tag}{attribute}>{text}</{tag}>")
            at = cell.last + 1
        pieces.append(f"<{tag}></{tag}>" * (columns - at) + "</tr>")
    pieces.append("</table>")
    return "".join(pieces)


def _header_rows(grid: list[list[_Cell]]) -> int:
    """How many rows stand above the first one with numbers; one if there is no telling."""
    for k, row in enumerate(grid):
        numbers = sum(_NUMBER.fullmatch(cell.text) is not None for cell in row)
        years = all(_YEAR.fullmatch(cell.text.strip()) for cell in row)
        if numbers >= max(1.0, 0.3 * len(row)) and not years:
            return k if 1 <= k <= 4 else 1
    return 1

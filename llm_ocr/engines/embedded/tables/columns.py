"""Columns of a table: by its rules, and by the gaps that most rows share."""

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.geometry import Rect, Word, hull
from llm_ocr.engines.embedded.tables.grid import Cell, GridRow, TextRow
from llm_ocr.engines.embedded.tables.separators import Separator, Separators

# Pixels of one step of the search for gaps.
STEP = 2
# Words closer than this share of their height are of one cell.
WORD_GAP = 0.62
# Rows with fewer cells than this share of what is usual may have some that span columns.
FEW = 0.7
# A column of fewer cells of its own than this share of the rows is none.
IDLE = 0.12
SIGNS = frozenset({"±", "×", "+/-", "/"})
# A bullet belongs to the text after it, no further than this in heights.
BULLETS, BULLET_GAP = frozenset("•●○◦▪■□►·"), 3.0
# Of the rows with words on both sides of a gap so many leave it wide.
WIDE = 0.3
# Between two rules a gap parts columns if it is so wide, in heights, in so many rows and such a
# share of those with words on both sides of it.
BOUNDED, BOUNDED_ROWS, BOUNDED_SHARE = 0.9, 2, 0.5


def with_gaps(rules: Separators, rows: Sequence[GridRow], height: float) -> Separators:
    """The rules that part a table, and between columns the gaps, too, that (nearly) all rows with
    several cells leave."""
    gaps = _gaps(rows, height, rules.columns)
    apart = [
        gap for gap in gaps if all(abs(gap.at - one.at) > 1.5 * height for one in rules.columns)
    ]
    # A gap beside a rule is the cell's margin, unless there is text between the two.
    gaps = [gap for gap in apart if _is_between(gap.at, rows, rules, height)]
    columns = sorted([*rules.columns, *gaps], key=lambda one: one.at)
    return replace(rules, columns=_without_idle(rows, columns, height))


def _without_idle(
    rows: Sequence[GridRow], columns: list[Separator], height: float
) -> list[Separator]:
    """What parts columns, less the gaps beside one with hardly a cell of its own."""
    while columns:
        alone = Counter(
            cell.first
            for row in rows
            for cell in row_cells(row, columns, height)
            if cell.first == cell.last
        )
        least = max(2.0, IDLE * len(rows)) if len(rows) >= 6 else 1
        idle = next((k for k in range(len(columns) + 1) if alone[k] < least), None)
        beside = columns[max(0, (idle or 0) - 1) : (idle or 0) + 1]
        gaps = [one for one in beside if not one.is_rule]
        if idle is None or not gaps:
            break
        weakest = min(gaps, key=lambda one: sum(_gap_widths(rows, one.at)))
        columns = [one for one in columns if one is not weakest]
    return columns


def _is_between(
    gap: float,
    rows: Sequence[GridRow],
    rules: Separators,
    height: float,
) -> bool:
    """Whether there is text on both sides of a gap up to the next rules. Between two of them, which
    part the other columns, it lies between a cell's words unless several rows leave it wider."""
    left = max((one.at for one in rules.columns if one.at < gap), default=float("-inf"))
    right = min((one.at for one in rules.columns if one.at > gap), default=float("inf"))
    middles = [word.x for row in rows for word in row.words]
    if not (any(left < x < gap for x in middles) and any(gap < x < right for x in middles)):
        return False
    widths = _gap_widths(rows, gap)
    wide = sum(width >= BOUNDED * height for width in widths)
    is_bounded = rules.is_closed or (left > float("-inf") and right < float("inf"))
    return not is_bounded or wide >= max(BOUNDED_ROWS, BOUNDED_SHARE * len(widths))


def _gaps(rows: Sequence[GridRow], height: float, rules: Sequence[Separator]) -> list[Separator]:
    is_tied = partial(_is_tied, height=height)
    phrases = [_rects(_phrases(row.words, height, beside(row, rules))) for row in rows]
    full = [cells for cells in phrases if len(cells) > 1]
    if not full:
        return []
    left, _, right, _ = hull(word.rect for row in rows for word in row.words)
    usual = statistics.median(len(cells) for cells in full)
    cover = np.zeros(int((right - left) / STEP) + 2)
    for row, cells in zip(rows, phrases, strict=True):
        # With many rows single words show the gaps better: a wide cell hides those of the others.
        marks = _rects(_group(row.words, is_tied)) if len(full) >= 6 else cells
        weight = _weight(cells, usual, (left, right), 0.5 * height)
        cover += weight * _coverage(marks, left, len(cover))
    allowed = max(0.5, 0.15 * len(full)) if len(full) >= 5 else 0.5
    narrowest = (0.3 if len(full) >= 8 else 0.45) * height
    middles = (left + STEP * at for at in _low_runs(cover, allowed, narrowest / STEP))
    least = _least_gap(rows, height)
    return [Separator(x) for x in middles if _is_wide(rows, x, least)]


def beside(row: GridRow | TextRow, columns: Sequence[Separator]) -> list[Separator]:
    """What parts the columns where a row stands: it is drawn beside it or along its band."""
    _, top, _, bottom = row.rect
    return [
        one for one in columns if one.parts(row.band.top, row.band.bottom) or one.parts(top, bottom)
    ]


def _rects(groups: Sequence[Sequence[Word]]) -> list[Rect]:
    return [hull(word.rect for word in group) for group in groups]


def _weight(cells: Sequence[Rect], usual: float, table: tuple[float, float], near: float) -> float:
    """How much a row tells of the columns: little if it has fewer cells than others have, for
    these may span columns; a lone narrow cell spans none unless it is in the table's middle."""
    if len(cells) == 1:
        (left, right), (x1, _, x2, _) = table, cells[0]
        is_centered = abs(x1 + x2 - left - right) < 2 * near
        return float(x2 - x1 < 0.3 * (right - left) and not is_centered)
    return 1.0 if len(cells) > FEW * usual else 0.15


def _least_gap(rows: Sequence[GridRow], height: float) -> float:
    """The narrowest gap that is wider than those between words."""
    spaces = [
        gap
        for row in rows
        for one, other in pairwise(row.words)
        if one.text[-1:].isalpha()
        and other.text[:1].isalpha()
        and 0 < (gap := other.rect[0] - one.rect[2]) < 0.75 * height
    ]
    usual = statistics.median(spaces) if len(spaces) > 2 else 0.3 * height
    return max(0.45 * height, 1.4 * usual)


def _is_wide(rows: Sequence[GridRow], x: float, least: float) -> bool:
    """Whether enough of the rows with words on both sides of `x` leave a wide gap there."""
    gaps = _gap_widths(rows, x)
    return sum(gap >= least for gap in gaps) >= max(1.0, WIDE * len(gaps))


def _gap_widths(rows: Sequence[GridRow], x: float) -> list[float]:
    """How wide a gap each row with words on both sides of `x` leaves there; none below zero."""
    gaps = []
    for row in rows:
        before = [word.rect[2] for word in row.words if word.x < x]
        after = [word.rect[0] for word in row.words if word.x >= x]
        if before and after:
            gaps.append(max(0.0, min(after) - max(before)))
    return gaps


def _coverage(rects: Sequence[Rect], left: float, size: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(size, dtype=bool)
    for rect in rects:
        mask[int((rect[0] - left) / STEP) : int((rect[2] - left) / STEP) + 1] = True
    return mask


def _low_runs(cover: npt.NDArray[np.float64], allowed: float, narrowest: float) -> list[float]:
    """The middles of the inner stretches where at most `allowed` rows have text."""
    # A first or last column with text in a few rows only is one all the same.
    most = np.full(len(cover), allowed)
    for side in (slice(None), slice(None, None, -1)):
        reached = np.maximum.accumulate(cover[side]) <= allowed
        most[side][reached] = 0.31
    low = np.concatenate(([False], cover <= most, [False]))
    edges = np.flatnonzero(low[1:] != low[:-1])
    middles: list[float] = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if start > 0 and end < len(cover) and end - start >= narrowest:
            stretch = cover[start:end]
            emptiest = np.flatnonzero(stretch == stretch.min())
            middles.append(float(start + np.median(emptiest)))
    return middles


def row_cells(row: GridRow, columns: Sequence[Separator], height: float) -> list[Cell]:
    """The row's phrases with the columns that they lie in, none of them twice."""
    parting = beside(row, columns)
    cells: list[Cell] = []
    for words in _split(_phrases(row.words, height, parting), parting):
        first, last = _columns(hull(word.rect for word in words), parting, height)
        if cells and first <= cells[-1].last:
            before = cells[-1]
            if last > before.last == first and before.first < before.last:
                before.last -= 1
            else:
                before.words += words
                before.last = max(before.last, last)
                continue
        cells.append(Cell(first, last, words))
    # A cell has all columns that nothing parts beside its row.
    ends = [k for k, one in enumerate(columns) if one in parting]
    starts, ends = [0, *(k + 1 for k in ends)], [*ends, len(columns)]
    return [Cell(starts[cell.first], ends[cell.last], cell.words) for cell in cells]


def _split(groups: Sequence[list[Word]], columns: Sequence[Separator]) -> list[list[Word]]:
    """Groups, but those with just one word a column, three or slanted ones, as these words."""
    parted: list[list[Word]] = []
    for words in groups:
        places = [sum(one.at < word.x for one in columns) for word in words]
        one_each = places == list(range(places[0], places[0] + len(words)))
        # Words that run slantwise have boxes that overlap.
        slanted = any(other.rect[0] < one.rect[2] for one, other in pairwise(words))
        is_parted = one_each and (len(words) > 2 or slanted)
        parted += [[word] for word in words] if is_parted else [words]
    return parted


def _phrases(
    words: Sequence[Word], height: float, columns: Sequence[Separator]
) -> list[list[Word]]:
    return _group(words, partial(_belongs, height=height, columns=columns))


def _group(words: Sequence[Word], are_one: Callable[[Word, Word], bool]) -> list[list[Word]]:
    """Words, each with the one before it where both are of one group."""
    groups: list[list[Word]] = []
    for word in words:
        if groups and are_one(groups[-1][-1], word):
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


def _belongs(last: Word, word: Word, height: float, columns: Sequence[Separator]) -> bool:
    if any(one.is_rule and last.x < one.at < word.x for one in columns):
        return False
    if _is_tied(last, word, height):
        return True
    edge, gap = 0.15 * height, word.rect[0] - last.rect[2]
    cut = any(last.rect[2] - edge <= one.at <= word.rect[0] + edge for one in columns)
    return gap < WORD_GAP * height and not (cut and gap > 0.35 * height)


def _is_tied(last: Word, word: Word, height: float) -> bool:
    """Whether a sign belongs to the number beside it, or a bullet to its text."""
    gap = word.rect[0] - last.rect[2]
    if last.text in BULLETS:
        return gap < BULLET_GAP * height
    return last.text == "$" or (gap < 0.9 * height and bool({last.text, word.text} & SIGNS))


def _columns(rect: Rect, columns: Sequence[Separator], height: float) -> tuple[int, int]:
    """The first and last column that a good part of `rect` lies in, up to rules beside it."""
    middle = (rect[0] + rect[2]) / 2
    rules = [one.at for one in columns if one.is_rule and one.parts(rect[1], rect[3])]
    start = max([rect[0], *(x for x in rules if x <= middle)])
    end = min([rect[2], *(x for x in rules if x > middle)])
    edges = [float("-inf"), *(one.at for one in columns), float("inf")]
    shared = [min(end, right) - max(start, left) for left, right in pairwise(edges)]
    enough = min(0.18 * (end - start), 1.2 * height)
    within = [k for k, width in enumerate(shared) if width > enough]
    if not within:
        within = [max(range(len(shared)), key=shared.__getitem__)]
    return within[0], within[-1]

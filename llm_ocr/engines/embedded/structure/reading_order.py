"""Blocks of a page in reading order: headers, the body with its captions, notes, footers.

Blocks of full width divide the body, gutters divide what lies between them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llm_ocr.engines.embedded.block import FOOTER, FURNITURE, HEADER, PageBlock
from llm_ocr.engines.embedded.geometry import (
    Rect,
    apart,
    hull,
    shared_columns,
    shared_rows,
    typical_height,
)

OWN = {"image_caption": "image", "table_caption": "table"}
# Captions further from a figure than this, in line heights, are not moved to it.
FAR = 6.0
# A block at least this share of the width is one that columns end at.
FULL_WIDTH = 0.55
# A heading is in the middle if it is no further from it than this share of the width.
CENTRED = 0.03
# In line heights: how far blocks may reach into each other, and how far apart the tops of headings
# are that stand side by side.
SLACK, SAME_TOP = 0.2, 0.3
# So many line heights below a heading, at most, is what it heads.
HEADED = 4.0
# A row is of blocks no higher than this, in line heights; so many of them in two columns are read
# row by row if each of the right column stands beside one of the left one.
ROW, ROWS = 1.6, 3
MAX_DEPTH = 12
# The height of lines where it is not known, in pixels.
LINE = 20.0
# A block with nothing beside it counts against columns up to so many times its height.
ALONE = 6.0
# Comparing every pair is dear: with more blocks than this (a map, a drawing) rows are enough.
MAX_BLOCKS = 250


def in_order(blocks: Sequence[PageBlock]) -> list[PageBlock]:
    """Running headers come first and footers last, notes behind the body, and captions beside what
    they are of."""
    edge = [block for block in blocks if block.label in FURNITURE]
    body = [block for block in blocks if block.label not in FURNITURE]
    middle = _middle(body)
    above = [one for one in edge if one.label == HEADER or _is_above(one, middle)]
    below = [one for one in edge if one.label == FOOTER or one not in above]
    notes = [block for block in body if block.label == "footnote"]
    texts = [block for block in body if block.label != "footnote"]
    return [
        *_sort(above),
        *_with_captions(texts),
        *_sort(notes),
        *_sort(below),
    ]


def _middle(body: Sequence[PageBlock]) -> float:
    tops = [block.rect[1] for block in body]
    bottoms = [block.rect[3] for block in body]
    return (min(tops) + max(bottoms)) / 2 if body else float("inf")


def _is_above(block: PageBlock, middle: float) -> bool:
    return block.label != FOOTER and block.rect[3] < middle


def _sort(blocks: Sequence[PageBlock]) -> list[PageBlock]:
    heads = [k for k, block in enumerate(blocks) if block.label == "title"]
    lines = [line for block in blocks for line in block.lines]
    height = typical_height(lines) if lines else LINE
    return [blocks[k] for k in reading_order([block.rect for block in blocks], heads, height)]


def _with_captions(blocks: Sequence[PageBlock]) -> list[PageBlock]:
    """Blocks in reading order, each caption before or behind its figure or table."""
    owners = _owners(blocks)
    ordered = _sort([block for k, block in enumerate(blocks) if k not in owners])
    for k, owner in sorted(owners.items(), key=lambda one: -blocks[one[0]].rect[1]):
        caption, figure = blocks[k], blocks[owner]
        at = next(j for j, block in enumerate(ordered) if block is figure)
        below = caption.rect[1] + caption.rect[3] > figure.rect[1] + figure.rect[3]
        ordered.insert(at + below, caption)
    return ordered


def _owners(blocks: Sequence[PageBlock]) -> dict[int, int]:
    """The places of captions, each with the place of the nearest figure or table."""
    owners: dict[int, int] = {}
    pairs = [
        (apart(caption.rect, other.rect), k, j)
        for k, caption in enumerate(blocks)
        for j, other in enumerate(blocks)
        if caption.label in OWN and other.label == OWN[caption.label]
    ]
    for distance, k, j in sorted(pairs):
        if k not in owners and j not in owners.values() and distance < FAR * blocks[k].height:
            owners[k] = j
    return owners


def reading_order(
    rects: Sequence[Rect], heads: Collection[int] = (), height: float = LINE
) -> list[int]:
    """The places of `rects` in the order in which a person reads them; `heads` are the places of
    headings, `height` is that of the text's lines in pixels."""
    # All distances are in line heights.
    scaled = [(x1 / height, y1 / height, x2 / height, y2 / height) for x1, y1, x2, y2 in rects]
    places = list(range(len(rects)))
    if len(rects) > MAX_BLOCKS:
        return _by_rows(scaled, places)
    bands = _cards(scaled, places, heads)
    return [k for band in bands for k in _xy_cut(scaled, band, 0, frozenset(heads))]


def _cards(rects: Sequence[Rect], places: list[int], heads: Collection[int]) -> list[list[int]]:
    """The places, in bands where headings stand side by side with an empty strip above: boxes that
    are laid out in rows, and not columns of running text."""
    tops = [
        min(rects[k][1], rects[j][1])
        for k in heads
        for j in heads
        if rects[k][2] < rects[j][0] and abs(rects[k][1] - rects[j][1]) < SAME_TOP
    ]
    bands: list[list[int]] = [[]]
    limits = sorted(set(tops))
    clear = [
        y for y in limits if all(rect[3] <= y + SLACK or rect[1] >= y - SLACK for rect in rects)
    ]
    if len(clear) < 2:
        return [places]
    for top, bottom in pairwise([float("-inf"), *clear, float("inf")]):
        bands.append([k for k in places if top <= rects[k][1] + SLACK < bottom])
    return bands


def _by_rows(rects: Sequence[Rect], places: list[int]) -> list[int]:
    rows: list[list[int]] = []
    for k in sorted(places, key=lambda k: (rects[k][1], rects[k][0])):
        if (
            rows
            and rects[k][1] - rects[rows[-1][0]][1] < SAME_TOP
            and _is_beside(rects, k, rows[-1])
        ):
            rows[-1].append(k)
        else:
            rows.append([k])
    return [k for row in rows for k in sorted(row, key=lambda k: rects[k][0])]


def _is_beside(rects: Sequence[Rect], place: int, others: list[int]) -> bool:
    return all(shared_columns(rects[place], rects[k]) <= 0 for k in others)


def _xy_cut(
    rects: Sequence[Rect], places: list[int], depth: int, heads: frozenset[int]
) -> list[int]:
    if len(places) <= 1 or depth > MAX_DEPTH:
        return _by_rows(rects, places)
    divider = _divider(rects, places, heads)
    if divider:
        top = min(rects[k][1] for k in divider)
        above = [k for k in places if k not in divider and rects[k][3] <= top + SLACK]
        below = [k for k in places if k not in divider and k not in above]
        last = [
            k
            for k in above
            if k in heads and top - rects[k][3] < HEADED and _ends_column(rects, k, above)
        ]
        return [
            *_xy_cut(rects, [k for k in above if k not in last], depth + 1, heads),
            *_by_rows(rects, last),
            *divider,
            *_xy_cut(rects, below, depth + 1, heads),
        ]
    gutter = _gutter(rects, places)
    if gutter is None or _is_of_rows(rects, gutter):
        return _by_rows(rects, places)
    return _by_columns(rects, gutter, depth, heads)


def _ends_column(rects: Sequence[Rect], head: int, places: list[int]) -> bool:
    """Whether a heading is the last of several blocks in its column: it heads what divides the
    columns."""
    column = [k for k in places if shared_columns(rects[k], rects[head]) > 0]
    return len(column) > 1 and max(column, key=lambda k: rects[k][1]) == head


def _divider(rects: Sequence[Rect], places: list[int], heads: frozenset[int]) -> list[int]:
    """The widest block that has everything else above or below it, if it is wide enough, or a
    heading in the middle; with what continues its row."""
    left, _, right, _ = hull(rects[k] for k in places)
    for k in sorted(places, key=lambda k: rects[k][0] - rects[k][2]):
        off = abs(rects[k][0] + rects[k][2] - left - right) / 2
        heading = k in heads and (
            off < CENTRED * (right - left)
            or (
                rects[k][0] < left + CENTRED * (right - left)
                and _heads_columns(rects, places, k, heads)
            )
        )
        wide = rects[k][2] - rects[k][0] >= FULL_WIDTH * (right - left)
        if not wide and not heading:
            continue
        row = [j for j in places if j == k or shared_rows(rects[j], rects[k]) > SLACK]
        if len(row) == 1 or (wide and _is_row(rects, row, places)):
            return sorted(row, key=lambda j: rects[j][0])
    return []


def _is_row(rects: Sequence[Rect], row: list[int], places: list[int]) -> bool:
    """Whether some places are all of one line, with everything else above or below it."""
    side_by_side = all(_is_beside(rects, k, row[:j]) for j, k in enumerate(row))
    return (
        side_by_side
        and all(_is_line(rects[k]) for k in row)
        and all(
            shared_rows(rects[j], rects[k]) <= SLACK for k in row for j in places if j not in row
        )
    )


def _is_line(rect: Rect) -> bool:
    return rect[3] - rect[1] < ROW


def _heads_columns(
    rects: Sequence[Rect], places: list[int], head: int, heads: frozenset[int]
) -> bool:
    """Whether a heading at the left edge stands over columns: they begin side by side below it, one
    of them right below it. A heading beside that text begins a section of its own: then the gap in
    its column is at the same height by coincidence, and the columns continue past both headings."""
    below = [k for k in places if rects[k][1] >= rects[head][3] - SLACK]
    top = min((rects[k][1] for k in below), default=0.0)
    first = [k for k in below if rects[k][1] - top < 2 * SAME_TOP]
    beside = [k for k in first if rects[k][0] > rects[head][2] or rects[k][2] < rects[head][0]]
    under = [k for k in first if k not in beside]
    near = top - rects[head][3] < 2 * (rects[head][3] - rects[head][1])
    apart = heads.isdisjoint(beside) or not heads.isdisjoint(under)
    return near and apart and bool(beside) and bool(under)


@dataclass(frozen=True)
class _Gutter:
    """A vertical gap: what lies left and right of it, and what crosses it."""

    left: list[int]
    right: list[int]
    crossing: list[int]


def _gutter(rects: Sequence[Rect], places: list[int]) -> _Gutter | None:
    """The gap with the most text side by side and the least across it."""
    best, best_gain = None, 0.0
    starts = sorted({rects[k][0] for k in places})
    last = float("-inf")
    for end in sorted({rects[k][2] for k in places}):
        start = next((x for x in starts if x >= end - SAME_TOP), None)
        if start is None:
            break
        if end - last < SLACK:
            continue
        last = end
        gutter = _split(rects, places, (end + start) / 2)
        if gutter.left and gutter.right:
            gain = _gain(rects, gutter)
            if gain > best_gain:
                best, best_gain = gutter, gain
    return best


def _is_of_rows(rects: Sequence[Rect], gutter: _Gutter) -> bool:
    """Whether what stands right of a gutter is single lines, each beside one on the left, as the
    page numbers of a table of contents."""
    return len(gutter.right) >= ROWS and all(
        _is_line(rects[k])
        and any(
            _is_line(rects[j])
            and shared_rows(rects[j], rects[k]) > 0.5 * (rects[k][3] - rects[k][1])
            for j in gutter.left
        )
        for k in gutter.right
    )


def _split(rects: Sequence[Rect], places: list[int], x: float) -> _Gutter:
    gutter = _Gutter([], [], [])
    for k in places:
        if rects[k][2] <= x + SLACK:
            gutter.left.append(k)
        elif rects[k][0] >= x - SLACK:
            gutter.right.append(k)
        else:
            gutter.crossing.append(k)
    return gutter


def _gain(rects: Sequence[Rect], gutter: _Gutter) -> float:
    beside = _shared_height(rects, gutter.left, gutter.right)
    across = _shared_height(rects, gutter.crossing, [*gutter.left, *gutter.right])
    return beside - 1.2 * across


def _shared_height(rects: Sequence[Rect], some: list[int], others: list[int]) -> float:
    """The height that each of `some` shares with the one beside it, in all, less the gaps to the
    next one where there is none."""
    if not some or not others:
        return 0.0
    one, other = np.array([rects[k] for k in some]), np.array([rects[k] for k in others])
    bottoms = np.minimum.outer(one[:, 3], other[:, 3])
    tops = np.maximum.outer(one[:, 1], other[:, 1])
    # However far below the other column a block is, it counts against columns only so much.
    least = ALONE * (one[:, 3] - one[:, 1])
    return float(np.maximum((bottoms - tops).max(axis=1), -least).sum())


def _by_columns(
    rects: Sequence[Rect], gutter: _Gutter, depth: int, heads: frozenset[int]
) -> list[int]:
    """Left column, then right, between one crossing block and the next."""

    def middle(k: int) -> float:
        return (rects[k][1] + rects[k][3]) / 2

    crossing = sorted(gutter.crossing, key=middle)
    limits = [float("-inf"), *map(middle, crossing), float("inf")]
    ordered: list[int] = []
    for (top, bottom), divider in zip(pairwise(limits), [*crossing, None], strict=True):
        for side in (gutter.left, gutter.right):
            part = [k for k in side if top <= middle(k) < bottom]
            ordered += _xy_cut(rects, part, depth + 1, heads)
        if divider is not None:
            ordered.append(divider)
    return ordered

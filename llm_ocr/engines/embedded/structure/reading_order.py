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
    _, top, _, bottom = hull(block.rect for block in body) if body else (0, 0, 0, float("inf"))
    above = [
        one
        for one in edge
        if one.label == HEADER or (one.label != FOOTER and one.rect[3] < (top + bottom) / 2)
    ]
    return [
        *_sort(above),
        *_with_captions([block for block in body if block.label != "footnote"]),
        *_sort([block for block in body if block.label == "footnote"]),
        *_sort([block for block in edge if block not in above]),
    ]


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
    scaled = [(x1 / height, y1 / height, x2 / height, y2 / height) for x1, y1, x2, y2 in rects]
    places, layout = list(range(len(rects))), _Layout(scaled, frozenset(heads))
    if len(rects) > MAX_BLOCKS:
        return layout.by_rows(places)
    return [k for band in layout.bands(places) for k in layout.xy_cut(band, 0)]


@dataclass(frozen=True)
class _Gutter:
    """A vertical gap: what lies left and right of it, and what crosses it."""

    left: list[int]
    right: list[int]
    crossing: list[int]


@dataclass(frozen=True)
class _Layout:
    """Rectangles, in line heights, and the places of those that are headings."""

    rects: Sequence[Rect]
    heads: frozenset[int]

    def bands(self, places: Sequence[int]) -> list[list[int]]:
        """Places between the tops of headings that stand side by side with an empty strip above:
        boxes that are laid out in rows, and not columns of running text."""
        heads = [self.rects[k] for k in self.heads]
        tops = {
            min(left[1], right[1])
            for left in heads
            for right in heads
            if left[2] < right[0] and abs(left[1] - right[1]) < SAME_TOP
        }
        clear = [
            y
            for y in sorted(tops)
            if all(y2 <= y + SLACK or y1 >= y - SLACK for _, y1, _, y2 in self.rects)
        ]
        limits = [float("-inf"), *(clear if len(clear) > 1 else ()), float("inf")]
        return [
            [k for k in places if top <= self.rects[k][1] + SLACK < bottom]
            for top, bottom in pairwise(limits)
        ]

    def by_rows(self, places: Sequence[int]) -> list[int]:
        """Places from top to bottom, those side by side from left to right."""
        rects = self.rects
        rows: list[list[int]] = []
        for k in sorted(places, key=lambda k: (rects[k][1], rects[k][0])):
            is_level = bool(rows) and rects[k][1] - rects[rows[-1][0]][1] < SAME_TOP
            if is_level and self._is_beside(k, rows[-1]):
                rows[-1].append(k)
            else:
                rows.append([k])
        return [k for row in rows for k in sorted(row, key=lambda k: rects[k][0])]

    def xy_cut(self, places: Sequence[int], depth: int) -> list[int]:
        """Places as read between the blocks that divide them, or column by column."""
        rects = self.rects
        if len(places) <= 1 or depth > MAX_DEPTH:
            return self.by_rows(places)
        divider = self._divider(places)
        if divider:
            top = min(rects[k][1] for k in divider)
            above = [k for k in places if k not in divider and rects[k][3] <= top + SLACK]
            below = [k for k in places if k not in divider and k not in above]
            # What heads the divider may stand below one of the columns above it.
            last = [
                k
                for k in above
                if k in self.heads and top - rects[k][3] < HEADED and self._ends_column(k, above)
            ]
            first = self.xy_cut([k for k in above if k not in last], depth + 1)
            return [*first, *self.by_rows(last), *divider, *self.xy_cut(below, depth + 1)]
        gutter = self._gutter(places)
        if gutter is None or self._is_of_rows(gutter):
            return self.by_rows(places)
        return self._by_columns(gutter, depth)

    def _is_beside(self, place: int, others: Sequence[int]) -> bool:
        return all(shared_columns(self.rects[place], self.rects[k]) <= 0 for k in others)

    def _is_line(self, place: int) -> bool:
        return self.rects[place][3] - self.rects[place][1] < ROW

    def _ends_column(self, head: int, places: Sequence[int]) -> bool:
        """Whether a heading is the last of several blocks in its column."""
        column = [k for k in places if not self._is_beside(k, [head])]
        return len(column) > 1 and max(column, key=lambda k: self.rects[k][1]) == head

    def _divider(self, places: Sequence[int]) -> list[int]:
        """The widest block that has everything else above or below it, if it is wide enough, or a
        heading in the middle or over columns; with what continues its row."""
        rects = self.rects
        left, _, right, _ = hull(rects[k] for k in places)
        near = CENTRED * (right - left)
        for k in sorted(places, key=lambda k: rects[k][0] - rects[k][2]):
            is_wide = rects[k][2] - rects[k][0] >= FULL_WIDTH * (right - left)
            is_centered = abs(rects[k][0] + rects[k][2] - left - right) / 2 < near
            heads = k in self.heads and (
                is_centered or (rects[k][0] < left + near and self._heads_columns(k, places))
            )
            row = [j for j in places if j == k or shared_rows(rects[j], rects[k]) > SLACK]
            if (is_wide and self._is_row(row, places)) or (heads and len(row) == 1):
                return sorted(row, key=lambda j: rects[j][0])
        return []

    def _is_row(self, row: Sequence[int], places: Sequence[int]) -> bool:
        """Whether it is one place, or some that are all of one line, with everything else above or
        below it."""
        return len(row) == 1 or (
            all(self._is_beside(k, row[:j]) and self._is_line(k) for j, k in enumerate(row))
            and all(
                shared_rows(self.rects[j], self.rects[k]) <= SLACK
                for k in row
                for j in places
                if j not in row
            )
        )

    def _heads_columns(self, head: int, places: Sequence[int]) -> bool:
        """Whether a heading at the left edge stands over columns: they begin side by side below it,
        one of them right below it. A heading beside that text begins a section of its own: then the
        gap in its column is at the same height by coincidence."""
        rects = self.rects
        below = [k for k in places if rects[k][1] >= rects[head][3] - SLACK]
        top = min((rects[k][1] for k in below), default=0.0)
        first = [k for k in below if rects[k][1] - top < 2 * SAME_TOP]
        beside = [k for k in first if rects[k][0] > rects[head][2] or rects[k][2] < rects[head][0]]
        under = [k for k in first if k not in beside]
        near = top - rects[head][3] < 2 * (rects[head][3] - rects[head][1])
        is_own = self.heads.isdisjoint(beside) or not self.heads.isdisjoint(under)
        return near and is_own and bool(beside) and bool(under)

    def _gutter(self, places: Sequence[int]) -> _Gutter | None:
        """The gap with the most text side by side and the least across it."""
        best, best_gain = None, 0.0
        starts = sorted({self.rects[k][0] for k in places})
        last = float("-inf")
        for end in sorted({self.rects[k][2] for k in places}):
            start = next((x for x in starts if x >= end - SAME_TOP), None)
            if start is None:
                break
            if end - last < SLACK:
                continue
            last = end
            gutter = self._split(places, (end + start) / 2)
            gain = self._gain(gutter) if gutter.left and gutter.right else 0.0
            if gain > best_gain:
                best, best_gain = gutter, gain
        return best

    def _split(self, places: Sequence[int], x: float) -> _Gutter:
        left = [k for k in places if self.rects[k][2] <= x + SLACK]
        right = [k for k in places if k not in left and self.rects[k][0] >= x - SLACK]
        return _Gutter(left, right, [k for k in places if k not in left and k not in right])

    def _gain(self, gutter: _Gutter) -> float:
        beside = self._shared_height(gutter.left, gutter.right)
        across = self._shared_height(gutter.crossing, [*gutter.left, *gutter.right])
        return beside - 1.2 * across

    def _shared_height(self, some: Sequence[int], others: Sequence[int]) -> float:
        """The height that each of `some` shares with the one beside it, in all, less the gaps to
        the next one where there is none."""
        if not some or not others:
            return 0.0
        one, other = (np.array([self.rects[k] for k in part]) for part in (some, others))
        bottoms = np.minimum.outer(one[:, 3], other[:, 3])
        tops = np.maximum.outer(one[:, 1], other[:, 1])
        # However far below the other column a block is, it counts against columns only so much.
        least = ALONE * (one[:, 3] - one[:, 1])
        return float(np.maximum((bottoms - tops).max(axis=1), -least).sum())

    def _is_of_rows(self, gutter: _Gutter) -> bool:
        """Whether what stands right of a gutter is single lines, each beside one on the left, as
        the page numbers of a table of contents."""
        rects = self.rects
        return len(gutter.right) >= ROWS and all(
            self._is_line(k)
            and any(
                self._is_line(j)
                and shared_rows(rects[j], rects[k]) > 0.5 * (rects[k][3] - rects[k][1])
                for j in gutter.left
            )
            for k in gutter.right
        )

    def _by_columns(self, gutter: _Gutter, depth: int) -> list[int]:
        """Left column, then right, between one crossing block and the next."""
        middles = [(y1 + y2) / 2 for _, y1, _, y2 in self.rects]
        crossing = sorted(gutter.crossing, key=middles.__getitem__)
        limits = [float("-inf"), *(middles[k] for k in crossing), float("inf")]
        ordered: list[int] = []
        for (top, bottom), divider in zip(pairwise(limits), [*crossing, None], strict=True):
            for side in (gutter.left, gutter.right):
                part = [k for k in side if top <= middles[k] < bottom]
                ordered += self.xy_cut(part, depth + 1)
            ordered += [] if divider is None else [divider]
        return ordered

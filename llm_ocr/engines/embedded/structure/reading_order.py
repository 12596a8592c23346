"""Blocks of a page in reading order: headers, the body with its captions, notes, footers.

A recursive XY-cut: rows that end columns divide the body, gutters divide what lies between them.
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
    layout = _Layout(scaled, frozenset(heads))
    return layout.order(range(len(rects)), MAX_DEPTH if len(rects) <= MAX_BLOCKS else 0)


@dataclass(frozen=True)
class _Layout:
    """Rectangles, in line heights, and the places of those that are headings."""

    rects: Sequence[Rect]
    heads: frozenset[int]

    def order(self, places: Sequence[int], depth: int) -> list[int]:
        """Places section by section, or column by column, or else row by row."""
        sections = self._sections(places) if len(places) > 1 and depth else []
        if len(sections) > 1:
            return [k for section in sections for k in self.order(section, depth - 1)]
        gutter = self._gutter(places) if sections else None
        if gutter is None or self._is_of_rows(*gutter[:2]):
            return self._by_rows(places)
        return self._by_columns(*gutter, depth - 1)

    def _sections(self, places: Sequence[int]) -> list[list[int]]:
        """Places divided by what ends columns, which is a section of its own, and above boxes that
        stand in rows."""
        rows = self._rows(places)
        boxes = [row for row in rows if self._begins_boxes(row)]
        sections: list[list[int]] = [[]]
        for row, below in zip(rows, [*rows[1:], []], strict=True):
            if self._divides(row, below, places):
                sections += [row, []]
            elif len(boxes) > 1 and row in boxes:
                sections.append(row)
            else:
                sections[-1] = sections[-1] + row
        sections = [section for section in sections if section]
        for section, following in pairwise(sections):
            # What heads the next section may stand below one of the columns above it.
            top = min(self.rects[k][1] for k in following)
            near = [k for k in section if top - self.rects[k][3] < HEADED]
            last = [k for k in near if k in self.heads and self._ends_column(k, section)]
            section[:] = [k for k in section if k not in last]
            following += last
        return sections

    def _rows(self, places: Sequence[int]) -> list[list[int]]:
        """Places with everything else above or below them, together."""
        rows: list[list[int]] = []
        bottom = float("-inf")
        for k in sorted(places, key=lambda k: self.rects[k][1]):
            if self.rects[k][1] >= bottom - SLACK:
                rows.append([])
            rows[-1].append(k)
            bottom = max(bottom, self.rects[k][3])
        return rows

    def _divides(self, row: Sequence[int], below: Sequence[int], places: Sequence[int]) -> bool:
        """Whether a row ends columns: a wide block, or parts of a line; or a heading in the middle,
        or at the left over columns."""
        left, _, right, _ = hull(self.rects[k] for k in places)
        x1, _, x2, _ = max((self.rects[k] for k in row), key=lambda rect: rect[2] - rect[0])
        if x2 - x1 >= FULL_WIDTH * (right - left):
            return len(row) == 1 or all(map(self._is_line, row))
        near = CENTRED * (right - left)
        is_centered = abs(x1 + x2 - left - right) / 2 < near
        return (len(row) == 1 and row[0] in self.heads) and (
            is_centered or (x1 < left + near and self._heads_columns(row[0], below))
        )

    def _begins_boxes(self, row: Sequence[int]) -> bool:
        """Whether headings stand side by side at the top of a row: it is of boxes, and not of
        columns of running text."""
        top = min(self.rects[k][1] for k in row)
        heads = [k for k in row if k in self.heads and self.rects[k][1] - top < SAME_TOP]
        return any(self._is_beside(k, heads[:1]) for k in heads)

    def _heads_columns(self, head: int, below: Sequence[int]) -> bool:
        """Whether a heading at the left edge stands right over columns, which begin side by side
        below it. A heading beside that text begins a section of its own: then the gap in its column
        is at the same height by coincidence."""
        top = min((self.rects[k][1] for k in below), default=0.0)
        first = [k for k in below if self.rects[k][1] - top < 2 * SAME_TOP]
        beside = [k for k in first if self._is_beside(k, [head])]
        under = [k for k in first if k not in beside]
        near = top - self.rects[head][3] < 2 * self._height(head)
        is_own = self.heads.isdisjoint(beside) or not self.heads.isdisjoint(under)
        return near and is_own and bool(beside) and bool(under)

    def _ends_column(self, head: int, places: Sequence[int]) -> bool:
        """Whether a heading is the last of several blocks in its column."""
        column = [k for k in places if not self._is_beside(k, [head])]
        return len(column) > 1 and max(column, key=lambda k: self.rects[k][1]) == head

    def _is_beside(self, place: int, others: Sequence[int]) -> bool:
        return all(shared_columns(self.rects[place], self.rects[k]) <= 0 for k in others)

    def _height(self, place: int) -> float:
        return self.rects[place][3] - self.rects[place][1]

    def _is_line(self, place: int) -> bool:
        return self._height(place) < ROW

    def _by_rows(self, places: Sequence[int]) -> list[int]:
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

    def _gutter(self, places: Sequence[int]) -> tuple[list[int], list[int], list[int]] | None:
        """What lies left and right of the vertical gap with the most text side by side and the
        least across it, and what crosses it."""
        best, best_gain = None, 0.0
        for end in sorted({self.rects[k][2] for k in places}):
            starts = [self.rects[k][0] for k in places if self.rects[k][0] >= end - SAME_TOP]
            x = (end + min(starts, default=end)) / 2
            left = [k for k in places if self.rects[k][2] <= x + SLACK]
            right = [k for k in places if k not in left and self.rects[k][0] >= x - SLACK]
            crossing = [k for k in places if k not in left and k not in right]
            gain = self._shared_height(left, right)
            gain -= 1.2 * self._shared_height(crossing, [*left, *right])
            if left and right and gain > best_gain:
                best, best_gain = (left, right, crossing), gain
        return best

    def _is_of_rows(self, left: Sequence[int], right: Sequence[int]) -> bool:
        """Whether what stands on the right is single lines, each beside one on the left, as the
        page numbers of a table of contents."""
        lines = [self.rects[k] for k in left if self._is_line(k)]
        return len(right) >= ROWS and all(
            self._is_line(k)
            and any(shared_rows(one, self.rects[k]) > 0.5 * self._height(k) for one in lines)
            for k in right
        )

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

    def _by_columns(
        self, left: Sequence[int], right: Sequence[int], crossing: Sequence[int], depth: int
    ) -> list[int]:
        """Left column, then right, between one crossing block and the next."""
        middles = [(y1 + y2) / 2 for _, y1, _, y2 in self.rects]
        between = sorted(crossing, key=middles.__getitem__)
        limits = [float("-inf"), *(middles[k] for k in between), float("inf")]
        ordered: list[int] = []
        for k, (top, bottom) in enumerate(pairwise(limits)):
            for side in (left, right):
                ordered += self.order([k for k in side if top <= middles[k] < bottom], depth)
            ordered += between[k : k + 1]
        return ordered

"""The strips between columns of running text, which are often narrower than a gap in a line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llm_ocr.engines.embedded.geometry import Line, typical_height

# Columns of running text: lines on end, and words in each.
RUN, PROSE_WORDS = 4, 2.5
# In line heights: the least width of a gutter, and how far the text of its columns may be from it.
NARROWEST, NEAR = 0.3, 1.5
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True)
class Gutter:
    """A strip that no line crosses, with running text on both sides of it."""

    x: float
    top: float
    bottom: float

    def divides(self, one: Line, other: Line) -> bool:
        left, right = sorted((one, other), key=lambda line: line.rect[0])
        return (
            left.rect[2] <= self.x <= right.rect[0]
            and self.top <= one.middle <= self.bottom
            and self.top <= other.middle <= self.bottom
        )


def gutters(lines: Sequence[Line]) -> list[Gutter]:
    """Those between any columns of text that lines stand in."""
    if len(lines) < 2 * RUN:
        return []
    height = typical_height(lines)
    rects = np.array([line.rect for line in lines])
    words = np.array([words_in(line) for line in lines])
    found: list[Gutter] = []
    for start in sorted({round(x / 4) * 4 for x in rects[:, 2]}):
        begins = rects[rects[:, 0] >= start + NARROWEST * height, 0]
        if not len(begins) or begins.min() > start + 2 * NEAR * height:
            continue
        x = (start + float(begins.min())) / 2
        crossing = (rects[:, 0] < x - 1) & (rects[:, 2] > x + 1)
        ends = np.sort((rects[crossing, 1] + rects[crossing, 3]) / 2)
        middles = (rects[:, 1] + rects[:, 3]) / 2
        part = np.searchsorted(ends, middles)
        left = ~crossing & (np.abs(rects[:, 2] - x) < NEAR * height)
        right = ~crossing & (np.abs(rects[:, 0] - x) < NEAR * height)
        for k in np.unique(part[left]):
            sides = left & (part == k), right & (part == k)
            if all(side.sum() >= RUN and words[side].mean() >= PROSE_WORDS for side in sides):
                both = rects[sides[0] | sides[1]]
                found.append(Gutter(x, float(both[:, 1].min()), float(both[:, 3].max())))
    return found


def words_in(line: Line) -> int:
    """How many words of two letters or more."""
    return len(_WORD.findall(line.text))

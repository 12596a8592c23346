"""The strips between columns of running text, which are often narrower than a gap in a line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llm_ocr.engines.embedded.geometry import OcrLine, typical_height

# Columns of running text: lines on end, and words in each.
RUN, PROSE_WORDS = 4, 2.5
# In line heights: the least width of a gutter, and how far the text of its columns may be from it.
NARROWEST, NEAR = 0.3, 1.5
# A line across a gutter goes on for so much on both sides, in its heights; another only sticks out.
ACROSS = 2.0
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True)
class Gutter:
    """A strip that no line crosses, with running text on both sides of it."""

    x: float
    top: float
    bottom: float

    def divides(self, one: OcrLine, other: OcrLine) -> bool:
        """Whether lines stand on both sides of it, or one right above or below it, across it."""
        if self._is_crossed(one) or self._is_crossed(other):
            return self._is_beside(one) or self._is_beside(other)
        left, right = sorted((one, other), key=lambda line: line.rect[0])
        return (
            left.rect[2] <= self.x <= right.rect[0]
            and self._is_beside(one)
            and self._is_beside(other)
        )

    def _is_beside(self, line: OcrLine) -> bool:
        return self.top <= line.middle <= self.bottom

    def _is_crossed(self, line: OcrLine) -> bool:
        reach = ACROSS * line.height
        return line.rect[0] + reach < self.x < line.rect[2] - reach


def gutters(lines: Sequence[OcrLine]) -> list[Gutter]:
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


def words_in(line: OcrLine) -> int:
    """How many words of two letters or more."""
    return len(_WORD.findall(line.text))

"""Lines of text -> the columns that they run on in, whatever the layout model says."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from llm_ocr.engines.embedded.geometry import OcrLine, hull, shared_columns, typical_height
from llm_ocr.engines.embedded.words.rows import MARK, SYMBOL, rows_of

# Columns of running text: lines on end, and words in each.
RUN, PROSE_WORDS = 4, 2.5
# In line heights: the least width of a gutter, and how far the text of its columns may be from it.
NARROWEST, NEAR = 0.3, 1.5
# A line across a gutter goes on for so much on both sides, in its heights; another only sticks out.
ACROSS = 2.0
# Lines of one group: how far apart, as shares of their height, and how much of a size.
CLOSE = 0.7
ALIKE = 1.33
# Parts of one row are no further apart than this, in line heights; a gutter is wider.
SAME_ROW = 1.3
# A line is compared with so many of a group's last lines: a justified line of a narrow column may
# have several parts, with gaps as wide as those between columns.
WINDOW = 8
# How far a number or bullet may be from the text that it belongs to, in line heights.
TAB = 5.0
# Letters that word processors print for bullets: of Courier, and of Wingdings without that font.
LETTERS_AS_BULLETS = ("o", "§")
_WORD = re.compile(r"[^\W\d_]{2,}")
_BEGINS_TEXT = re.compile(r"[\"“‘'(]?[^\W\d_]")


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


def is_prose(lines: Sequence[OcrLine]) -> bool:
    """Whether most lines run on below each other in columns of text; a table's cells do not."""
    columns = [part for part in close_together(lines, CLOSE) if len(part) >= RUN]
    running = [
        part
        for part in columns
        if sum(map(words_in, part)) >= PROSE_WORDS * len(part) and _is_full(part)
    ]
    return len(columns) > 0 and sum(map(len, running)) > 0.6 * len(lines)


def _is_full(lines: Sequence[OcrLine]) -> bool:
    """Whether most of a column's lines reach from its left edge to its right one."""
    left, _, right, _ = hull(line.rect for line in lines)
    full = sum(line.width > 0.8 * (right - left) for line in lines)
    return full > 0.6 * len(lines)


def fills_width(rows: Sequence[Sequence[OcrLine]]) -> bool:
    """Whether most rows but the last reach from the left edge to the right one, as running text
    does."""
    left, _, right, _ = hull(line.rect for row in rows for line in row)
    full = sum(row[-1].rect[2] - row[0].rect[0] > 0.8 * (right - left) for row in rows[:-1])
    return full >= 0.5 * (len(rows) - 1)


def close_together(lines: Sequence[OcrLine], closeness: float) -> list[list[OcrLine]]:
    """Lines close below or beside each other and of one size."""
    found: list[list[OcrLine]] = []
    between = gutters(lines)
    for line in sorted(lines, key=lambda line: (line.rect[1], line.rect[0])):
        fitting = (
            group
            for group in reversed(found)
            if (
                any(_beside(other, line) for other in group[-WINDOW:])
                or any(follows(other, line, closeness) for other in group[-WINDOW:])
            )
            and not any(
                gutter.divides(other, line) for gutter in between for other in group[-WINDOW:]
            )
        )
        group = next(fitting, None)
        if group is None:
            found.append([line])
        else:
            group.append(line)
    return found


def follows(above: OcrLine, line: OcrLine, closeness: float) -> bool:
    """Whether a line is of one size with another, and no further below it than `closeness` of their
    height."""
    gap = line.rect[1] - above.rect[3]
    narrower = min(above.width, line.width)
    return (
        gap < closeness * min(above.height, line.height)
        and line.rect[1] > above.rect[1] + 0.3 * above.height
        and shared_columns(above.rect, line.rect) > 0.3 * narrower
        and 1 / ALIKE < line.height / above.height < ALIKE
        and above.bold == line.bold
    )


def is_apart(left: OcrLine, right: OcrLine) -> bool:
    """Whether parts of a row are further apart than those of one line."""
    return right.rect[0] - left.rect[2] > SAME_ROW * min(left.height, right.height)


def _beside(one: OcrLine, line: OcrLine) -> bool:
    gap, height = -shared_columns(one.rect, line.rect), min(one.height, line.height)
    return (
        abs(one.middle - line.middle) < 0.5 * height
        and -0.5 * line.height < gap < SAME_ROW * height
    )


def with_joined_marks(lines: Sequence[OcrLine]) -> list[OcrLine]:
    """Lines, those that are only a section's number, or an item's number or bullet, being one with
    the text behind their tab."""
    between = gutters(lines)
    joined: list[OcrLine] = []
    for row in rows_of(lines):
        parts = [row[0]]
        for line in row[1:]:
            mark = parts[-1]
            sign = mark.text.strip()
            if (
                (MARK.fullmatch(sign) or sign in LETTERS_AS_BULLETS)
                and _BEGINS_TEXT.match(line.text.strip())
                and not any(gutter.divides(mark, line) for gutter in between)
                and 0 < line.rect[0] - mark.rect[2] < TAB * line.height
            ):
                if SYMBOL.fullmatch(sign) or sign in LETTERS_AS_BULLETS:
                    sign = "•"
                text = f"{sign} {line.text.strip()}"
                parts[-1] = replace(line, text=text, words=(*mark.words, *line.words))
            else:
                parts.append(line)
        joined += parts
    return joined

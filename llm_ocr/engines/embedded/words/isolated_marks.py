"""Bullets, dashes and single characters that stand alone, which the detector doesn't see."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from llm_ocr.engines.embedded.geometry import Rect, Word
from llm_ocr.engines.embedded.words.detect import Image, TextBox

BULLET_TEXT = "\u2022"
# All sizes are in heights of the page's strips. A pixel is ink if it is so much darker (0..255)
# than what is around it.
DARKER, AROUND = 25, 2.0
# A piece of ink belongs to a known line if this share of it is in the line's strip; it is a part of
# a drawing from one size on, a speck up to the other.
KNOWN, DRAWING, SPECK = 0.1, 1.5, 0.05
# Pieces that are no further apart are one mark, which is neither smaller nor larger than this.
JOINED, SMALLEST, WIDEST, HIGHEST = 0.2, 0.15, 2.5, 0.9
# A mark is in the row of a strip if their middles are no further apart; it stands alone if no other
# mark is so near in the row, or below and above.
SAME_ROW, ALONE, ALONE_DOWN = 0.3, 1.2, 0.7
MARGIN = 0.2
# A bullet is about as wide as high, not larger than this, and mostly filled.
BULLET, ROUND, FILLED = 0.5, 1.6, 0.55
# A dash is no higher and no longer than this, so many times as long as high, and no further from
# the middle of its row. From the other length on it is an em dash.
DASH, DASH_LENGTH, FLAT, DASH_OFFSET, EM = 0.2, 1.2, 2.5, 0.2, 0.55
# What begins items is no further from their text, and there are so many, below each other.
TO_ITEM, FEWEST, BELOW = 2.0, 2, 0.2
# From so many marks on, in all and for each strip, they are no text, but noise or a drawing.
MOST, MOST_SHARE = 20, 1.0


@dataclass(frozen=True)
class IsolatedMarks:
    """Marks outside of all strips: `characters` are strips to be read, `dashes` are strips with the
    dash in each. `bullets` begin the items of lists, as bullets and dashes do: each with the index
    of its item's strip."""

    characters: Sequence[TextBox] = ()
    dashes: Sequence[tuple[TextBox, str]] = ()
    bullets: Sequence[tuple[int, Word]] = ()


@dataclass(frozen=True)
class _Mark:
    """A piece of ink and the share of its rectangle that it fills. `unit` is a strip's height."""

    rect: Rect
    fill: float
    unit: float

    @property
    def width(self) -> float:
        return (self.rect[2] - self.rect[0]) / self.unit

    @property
    def height(self) -> float:
        return (self.rect[3] - self.rect[1]) / self.unit

    @property
    def text(self) -> str:
        """The dash or bullet that it looks like; empty: something else."""
        if self.fill < FILLED:
            return ""
        if self.height <= DASH and FLAT * self.height <= self.width <= DASH_LENGTH:
            return dash_text(self.width)
        low, high = sorted((self.width, self.height))
        return BULLET_TEXT if high <= min(BULLET, ROUND * low) else ""


@dataclass(frozen=True)
class _Item:
    """A mark with the index of the strip to its right, and the space between them in pixels."""

    mark: _Mark
    strip: int
    space: float


def dash_text(width: float) -> str:
    """An em dash, or an en dash, by its width in heights of a strip."""
    return "\u2014" if width >= EM else "\u2013"


def find_isolated_marks(
    image: Image, strips: Sequence[TextBox], slope: float, bullets: Sequence[float] = ()
) -> IsolatedMarks:
    """What stands in the rows of strips without being in one, on an image (height x width x 3,
    BGR) whose lines sink by `slope` pixels for each that they run to the right. `bullets` are the
    left edges of those that were read."""
    lying = [k for k, strip in enumerate(strips) if not strip.is_tall]
    if not lying:
        return IsolatedMarks()
    unit = float(np.median([strips[k].height for k in lying]))
    marks = _marks(image, strips, unit)
    if len(marks) > max(MOST, MOST_SHARE * len(strips)):
        return IsolatedMarks()
    boxes = np.array([_level_box(strips[k], slope) for k in lying])
    heights, middles = boxes[:, 3] - boxes[:, 1], (boxes[:, 1] + boxes[:, 3]) / 2
    items: list[_Item] = []
    characters: list[TextBox] = []
    dashes: list[tuple[_Mark, TextBox]] = []
    for mark in _alone(marks, unit):
        x1, y1, x2, y2 = mark.rect
        sunk = slope * (x1 + x2) / 2
        offsets = np.abs(middles - (y1 + y2) / 2 + sunk) / heights
        gaps = np.maximum(boxes[:, 0] - x2, x1 - boxes[:, 2])
        nearest = int(np.where(offsets < SAME_ROW, gaps, np.inf).argmin())
        if offsets[nearest] >= SAME_ROW:
            continue
        top, bottom = boxes[nearest, [1, 3]] + sunk
        strip = TextBox.around((x1 - MARGIN * unit, top, x2 + MARGIN * unit, bottom))
        if mark.text and boxes[nearest, 0] > x1 and gaps[nearest] < TO_ITEM * unit:
            items.append(_Item(mark, lying[nearest], float(gaps[nearest])))
        if mark.text != BULLET_TEXT and mark.text and offsets[nearest] < DASH_OFFSET:
            dashes.append((mark, strip))
        elif mark.text != BULLET_TEXT and mark.height * unit <= HIGHEST * heights[nearest]:
            characters.append(strip)
    of_lists = [one for one in items if _is_of_list(one, items, bullets)]
    known = [one.mark for one in of_lists]
    return IsolatedMarks(
        characters,
        [(strip, mark.text) for mark, strip in dashes if mark not in known],
        [(one.strip, Word(one.mark.rect, one.mark.text)) for one in of_lists],
    )


def _marks(image: Image, strips: Sequence[TextBox], unit: float) -> list[_Mark]:
    """Pieces of ink of a character's size that are in no strip."""
    gray = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    ink = cv2.adaptiveThreshold(
        gray, 1, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, int(AROUND * unit) | 1, DARKER
    )
    known = np.zeros(gray.shape, np.uint8)
    for strip in strips:
        cv2.fillConvexPoly(known, strip.corners.astype(np.int32), 1)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(ink)
    inside = np.bincount(labels[(known > 0) & (ink > 0)], minlength=count)
    sizes = stats[:, 2:4].max(axis=1)
    rest = (inside < KNOWN * stats[:, 4]) & (sizes < DRAWING * unit)
    rest &= stats[:, 4] > (SPECK * unit) ** 2
    rest[0] = False
    if not rest.any():
        return []
    kernel = np.ones((max(1, int(JOINED * unit)),) * 2, np.uint8)
    ink = rest.astype(np.uint8)[labels]
    joined = cv2.morphologyEx(ink, cv2.MORPH_CLOSE, kernel)
    _, _, stats, _ = cv2.connectedComponentsWithStats(joined)
    return [
        _Mark((x, y, x + width, y + height), float(ink[y : y + height, x : x + width].mean()), unit)
        for x, y, width, height, _ in stats[1:].tolist()
        if width <= WIDEST * unit and height <= unit and max(width, height) >= SMALLEST * unit
    ]


def _level_box(strip: TextBox, slope: float) -> Rect:
    """A strip's left, top, right and bottom, its page being turned level."""
    (x1, _), (x2, _) = strip.corners.min(axis=0).tolist(), strip.corners.max(axis=0).tolist()
    middle_x, middle_y = strip.corners.mean(axis=0).tolist()
    level = middle_y - slope * middle_x
    return x1, level - strip.height / 2, x2, level + strip.height / 2


def _alone(marks: Sequence[_Mark], unit: float) -> list[_Mark]:
    """Marks with one neighbor at most: a row of dashes is a rule, what is strewn is noise."""
    x1, y1, x2, y2 = np.array([mark.rect for mark in marks], np.float32).reshape(-1, 4).T
    across = np.maximum(x1 - x2[:, None], x1[:, None] - x2)
    down = np.abs(y1 + y2 - (y1 + y2)[:, None]) / 2
    near = (across < ALONE * unit) & (down < unit / 2) | (across < 0) & (down < ALONE_DOWN * unit)
    crowded = near.sum(axis=1) > 2
    beside_crowd = (near & crowded).any(axis=1)
    return [mark for mark, is_crowded in zip(marks, beside_crowd, strict=True) if not is_crowded]


def _is_of_list(item: _Item, items: Sequence[_Item], bullets: Sequence[float]) -> bool:
    """Whether there are others like it, so far from their text, or bullets that were read, above or
    below it."""
    near = BELOW * item.mark.unit
    if item.mark.text == BULLET_TEXT and any(abs(x - item.mark.rect[0]) < near for x in bullets):
        return True
    alike = [
        other
        for other in items
        if other.mark.text == item.mark.text
        and abs(other.mark.rect[0] - item.mark.rect[0]) < near
        and abs(other.space - item.space) < near
    ]
    return len(alike) >= FEWEST

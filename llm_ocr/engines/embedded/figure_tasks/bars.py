"""Bars of a chart with the labels below them and the values printed at their ends.

Only printed values count: a chart whose bars have none, or whose values don't fit the bars'
heights, is not read.
"""

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.parsing.figure_data import CHART, FigureData, Series

# How much a pixel differs from the background to be part of a bar (0..255).
INKED = 40
# A bar is filled, at least this wide and high in shares of the picture, and all bars are about as
# wide and stand on one line.
FILLED, NARROWEST, LOWEST, ALIKE, LEVEL = 0.85, 0.015, 0.01, 1.4, 0.015
# How far values may be off the bars' heights, as a share of the highest.
MOST_OFF = 0.08
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class _Read:
    label: str
    value: Word
    bar: Rect


def bar_chart(image: Image, lines: Sequence[OcrLine]) -> FigureData | None:
    """The chart's points, if each bar has a label and a value that fits its height."""
    bars = _bars(image, lines)
    if len(bars) < 2:
        return None
    words = [word for line in lines for word in line.words]
    slots = _slots(bars)
    read = [_read(bar, slot, words) for bar, slot in zip(bars, slots, strict=True)]
    whole = [one for one in read if one is not None]
    if len(whole) < len(bars) or not _fits(whole):
        return None
    points = tuple((one.label, _number(one.value.text)) for one in whole)
    title = _title(lines, whole, image.shape[1])
    return FigureData(CHART, title=title, series=(Series(None, points),))


def _bars(image: Image, lines: Sequence[OcrLine]) -> list[Rect]:
    """Filled rectangles of one width on one line, from left to right."""
    height, width = image.shape[:2]
    mask = _ink_mask(image)
    for word in (word for line in lines for word in line.words):
        x1, y1, x2, y2 = (int(value) for value in word.rect)
        inside = mask[max(0, y1) : y2, max(0, x1) : x2]
        # Text on a bar leaves the bar whole.
        if inside.size and inside.mean() < 0.6:
            inside[:] = 0
    # Axes and grids, which would hold the bars together, are thinner than any bar.
    least = max(5, int(LOWEST * height)), max(5, int(NARROWEST * width))
    solid = cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones(least, np.uint8))
    rects = [
        rect
        for rect, filled in _components(solid)
        if filled > FILLED and rect[3] - rect[1] >= LOWEST * height
    ]
    return sorted(_on_one_line(rects, LEVEL * height))


def _ink_mask(image: Image) -> npt.NDArray[np.uint8]:
    edge = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    background = np.median(edge, axis=0)
    inked: npt.NDArray[np.uint8] = (np.abs(image - background).max(axis=2) > INKED).view(np.uint8)
    return inked


def _components(mask: npt.NDArray[Any]) -> Iterable[tuple[Rect, float]]:
    """Connected areas with the share of their rectangle that they fill."""
    found: Any = cv2.connectedComponentsWithStats(mask, connectivity=4)
    for x, y, width, height, pixels in found[2][1:]:
        yield (float(x), float(y), float(x + width), float(y + height)), pixels / (width * height)


def _on_one_line(rects: Sequence[Rect], off: float) -> list[Rect]:
    """The most rectangles that stand on one line and are alike in width."""
    best: list[Rect] = []
    for one in rects:
        wide = one[2] - one[0]
        alike = [
            other
            for other in rects
            if abs(other[3] - one[3]) <= off and 1 / ALIKE < (other[2] - other[0]) / wide < ALIKE
        ]
        best = max(best, alike, key=len)
    return best


def _slots(bars: Sequence[Rect]) -> list[tuple[float, float]]:
    """The stretch around each bar where its label and value stand."""
    middles = [(bar[0] + bar[2]) / 2 for bar in bars]
    pitch = min(after - before for before, after in pairwise(middles))
    return [(middle - pitch / 2, middle + pitch / 2) for middle in middles]


def _read(bar: Rect, slot: tuple[float, float], words: Sequence[Word]) -> _Read | None:
    near = [one for one in words if slot[0] < (one.rect[0] + one.rect[2]) / 2 < slot[1]]
    below = [one for one in near if one.rect[1] >= bar[3] - _tall(one) / 3]
    if not below:
        return None
    top = min(one.rect[1] for one in below)
    first = [one for one in below if one.rect[1] < top + _tall(one) / 2]
    label = " ".join(one.text for one in sorted(first, key=lambda one: one.rect[0]))
    above = [
        one
        for one in near
        if _number(one.text) is not None and abs(one.rect[3] - bar[1]) < 1.5 * _tall(one)
    ]
    return _Read(label, above[0], bar) if len(above) == 1 else None


def _tall(word: Word) -> float:
    return word.rect[3] - word.rect[1]


def _number(text: str) -> float | int | None:
    """A number as it is printed, without signs of which nobody knows what they separate."""
    if not _NUMBER.fullmatch(text.strip()):
        return None
    return float(text) if "." in text else int(text)


def _fits(read: Sequence[_Read]) -> bool:
    """Whether the bars are as high as their values say."""
    values = [float(_number(one.value.text) or 0) for one in read]
    heights = [one.bar[3] - one.bar[1] for one in read]
    if min(values) <= 0:
        return False
    scale = statistics.median(h / v for h, v in zip(heights, values, strict=True))
    most = MOST_OFF * max(heights)
    return all(abs(h - scale * v) <= most for h, v in zip(heights, values, strict=True))


def _title(lines: Sequence[OcrLine], read: Sequence[_Read], width: int) -> str | None:
    """The only line above all values that stands in the middle."""
    top = min(one.value.rect[1] for one in read)
    above = [
        line
        for line in lines
        if line.rect[3] < top and 0.25 * width < (line.rect[0] + line.rect[2]) / 2 < 0.75 * width
    ]
    return above[0].text.strip() if len(above) == 1 else None

"""Where lines of text stand on an image: PP-OCRv6's detector, from the wheel of rapidocr."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.geometry import Rect
from llm_ocr.engines.embedded.models import Array, Model, in_wheel, load

Image = npt.NDArray[np.uint8]
# Middle, size, angle in degrees, as OpenCV has it.
_RotatedRect = tuple[Sequence[float], Sequence[float], float]

# The longest side that is searched, and what both sides must be multiples of. Where half of the
# lines found are lower than this in pixels there are more, too small to be seen: a larger image is
# searched then. (A newspaper of 802 lines showed 162 of them.)
LONGEST_SIDE, STEP = 1280, 32
TINY, LARGER_SIDE = 13.0, 1920
# Paper is dark up to this (0..255).
DARK = 100
# A pixel is text from this probability on, and a line is one if its pixels have this on average.
IS_TEXT, IS_LINE = 0.3, 0.5
# A core so many times as long as high may have a bump: up to this share of its length is off its
# middle by more than the other share of its height.
BUMPED_LENGTH, BUMPED_SHARE, BUMP = 6.0, 0.2, 0.25
# The detector marks the core of a line. Its whole is the core, moved outwards on all sides by
# this share of area / perimeter.
GROWN = 1.6
SMALLEST_CORE, SMALLEST_LINE = 3.0, 5.0
MOST_LINES = 3000
# Taller than wide by this factor: the text runs up or down.
UPRIGHT = 1.5
# A strip so many times as long as high lies as it seems to; one lies aslant on purpose if it is so
# long, and by so much (radians; 5 degrees).
SURE_LENGTH, ASLANT_LENGTH, ASLANT = 7.0, 2.0, 0.09


@dataclass(frozen=True)
class TextBox:
    """A line's place: its corners, clockwise from where its text begins at the top (4 x 2).

    `core` are points around the core that the detector marked (n x 2).
    """

    corners: Array
    core: Array | None = None

    @classmethod
    def around(cls, rect: Rect) -> "TextBox":
        """The place that a rectangle is."""
        x1, y1, x2, y2 = rect
        return cls(np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2)], np.float32))

    @property
    def width(self) -> float:
        return float(np.linalg.norm(self.corners[1] - self.corners[0]))

    @property
    def height(self) -> float:
        return float(np.linalg.norm(self.corners[3] - self.corners[0]))

    @property
    def slope(self) -> float:
        """How many pixels it sinks for each that it runs to the right."""
        across, down = self.corners[1] + self.corners[2] - self.corners[0] - self.corners[3]
        return float(down / across) if across > 0 else 0.0

    @property
    def is_tall(self) -> bool:
        return self.height > UPRIGHT * self.width

    def rotate(self, turns: int) -> "TextBox":
        """The same place, its text beginning `turns` corners further on."""
        return TextBox(np.roll(self.corners, -turns, axis=0), self.core)

    def begin_at(self, share: float) -> "TextBox":
        """The same place without what comes before a share of its width."""
        top, after, below, bottom = self.corners
        left = top + share * (after - top), bottom + share * (below - bottom)
        return TextBox(np.array([left[0], after, below, left[1]], np.float32), self.core)

    def along(self, slope: float) -> "TextBox":
        """The same place with its sides along lines that sink by `slope`, unless it is long enough
        to know better, or clearly lies otherwise. A short strip's own slope is a guess."""
        across, down = self.corners[1] - self.corners[0]
        length = self.width / max(1.0, self.height)
        aslant = abs(math.atan2(down, across) - math.atan(slope)) > ASLANT
        if self.core is None or length > SURE_LENGTH or (length > ASLANT_LENGTH and aslant):
            return self
        ahead = np.array([1.0, slope], np.float32) / math.hypot(1.0, slope)
        axes = np.array([ahead, (-ahead[1], ahead[0])], np.float32)
        placed = self.core @ axes.T
        begin, end = placed.min(axis=0), placed.max(axis=0)
        width, height = (end - begin).tolist()
        out = _growth(width, height) / 2
        level = TextBox.around((*(begin - out), *(end + out)))
        return TextBox(level.corners @ axes, self.core)


class Detector:
    """Finds lines; may be used by several threads at once."""

    def __init__(self, model: Model | None = None) -> None:
        self._model = model or load(in_wheel("rapidocr", "models", "PP-OCRv6_det_small.onnx"))

    def strips(self, image: Image) -> list[TextBox]:
        """Places of lines on an image (height x width x 3, BGR), in no particular order.

        Each begins at the corner that is at the left and top of the image.
        """
        strips = self._detect(image, LONGEST_SIDE)
        longest = max(image.shape[:2])
        lows = [min(strip.width, strip.height) for strip in strips]
        if strips and longest > LONGEST_SIDE and _is_tiny(lows, LONGEST_SIDE / longest):
            return self._detect(image, LARGER_SIDE)
        return strips

    def _detect(self, image: Image, longest_side: int) -> list[TextBox]:
        height, width = image.shape[:2]
        shrink = min(1.0, longest_side / max(height, width))
        size = [max(STEP, round(side * shrink / STEP) * STEP) for side in (width, height)]
        small = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
        batch = (small.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)[None]
        heat = self._model(np.ascontiguousarray(batch))[0][0, 0]
        scale = np.array([width / size[0], height / size[1]], dtype=np.float32)
        limit = np.array([width, height], dtype=np.float32)
        return [
            TextBox(np.clip(corners * scale, 0, limit), core * scale)
            for corners, core in _rectangles(heat)
        ]


def normalize_background(image: Image) -> Image:
    """An image whose paper is dark with its colors turned round, and any other as it is."""
    return image if np.median(image[::4, ::4]) > DARK else np.asarray(255 - image, np.uint8)


def _is_tiny(heights: Sequence[float], shrink: float) -> bool:
    return statistics.median(heights) * shrink < TINY


def _rectangles(heat: Array) -> list[tuple[Array, Array]]:
    """Corners and cores of the lines on a map of text probabilities, in its pixels."""
    mask = cv2.dilate((heat > IS_TEXT).astype(np.uint8), np.ones((2, 2), np.uint8))
    outlines: Any
    outlines, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    found = []
    for outline in outlines[:MOST_LINES]:
        middle, (width, height), angle = _without_bumps(outline)
        if min(width, height) < SMALLEST_CORE:
            continue
        if _mean_inside(heat, cv2.boxPoints((middle, (width, height), angle))) < IS_LINE:
            continue
        out = _growth(width, height)
        if min(width, height) + out >= SMALLEST_LINE:
            grown = cv2.boxPoints((middle, (width + out, height + out), angle))
            core = cv2.convexHull(outline)[:, 0].astype(np.float32)
            found.append((_from_left_top(grown), core))
    return found


def _without_bumps(outline: npt.NDArray[Any]) -> _RotatedRect:
    """The smallest rectangle around an outline: middle, size and angle in degrees.

    A footnote mark sticks out of its line. The rectangle around both would be askew, and cut off
    the line's letters, so a bump on a short part of a long line doesn't count.
    """
    middle, (width, height), angle = around = cv2.minAreaRect(outline)
    if width < height:
        width, height, angle = height, width, angle + 90
    if width < BUMPED_LENGTH * height:
        return around
    x, y, *size = cv2.boundingRect(outline)
    inside = np.zeros(size[::-1], np.uint8)
    cv2.fillPoly(inside, [outline - (x, y)], 1)
    ahead = np.array([math.cos(math.radians(angle)), math.sin(math.radians(angle))])
    down = np.array([-ahead[1], ahead[0]])
    points = np.argwhere(inside)[:, ::-1] + (x, y) - middle
    columns = np.round(points @ ahead + width / 2).astype(int).clip(0)
    top, bottom = np.full((2, columns.max() + 1), np.nan)
    np.fmin.at(top, columns, points @ down)
    np.fmax.at(bottom, columns, points @ down)
    at = np.flatnonzero(np.isfinite(top))
    centers, thickness = (top + bottom)[at] / 2, float(np.median((bottom - top)[at])) + 1
    half = len(at) // 2
    run = np.median(at[half:]) - np.median(at[:half])
    slope = float((np.median(centers[half:]) - np.median(centers[:half])) / run)
    level = centers - slope * at
    begin = float(np.median(level))
    bumped = float((np.abs(level - begin) > BUMP * thickness).mean())
    if height < (1 + BUMP) * thickness or bumped > BUMPED_SHARE:
        return around
    sunk = begin + slope * width / 2
    center = np.array(middle) + sunk * down
    return tuple(center), (width, thickness), angle + math.degrees(math.atan(slope))


def _growth(width: float, height: float) -> float:
    """How much wider and higher a line is than its core."""
    return GROWN * width * height / (width + height)


def _mean_inside(heat: Array, corners: npt.NDArray[Any]) -> float:
    x1, y1 = np.maximum(np.floor(corners.min(axis=0)), 0).astype(int)
    x2, y2 = np.ceil(corners.max(axis=0)).astype(int) + 1
    part = heat[y1:y2, x1:x2]
    inside = np.zeros(part.shape, np.uint8)
    cv2.fillPoly(inside, [(corners - (x1, y1)).astype(np.int32)], 1)
    return float(cv2.mean(part, inside)[0])


def _from_left_top(corners: npt.NDArray[Any]) -> Array:
    """A rectangle's corners, clockwise from the one that is at the left and top."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = (half[np.argsort(half[:, 1], kind="stable")] for half in (by_x[:2], by_x[2:]))
    return np.array([left[0], right[0], right[1], left[1]], dtype=np.float32)

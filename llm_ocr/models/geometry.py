"""Convert between a page image and what a model sees: the resized image, and boxes on its grid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from llm_ocr.records import Box

# The steps of a grid of thousandths.
THOUSAND = 1000


class BoxUnit(StrEnum):
    """What a model that is asked for boxes gives them in: thousandths of its image's sides, or
    pixels of the image as its processor has resized it."""

    THOUSANDTHS = "thousandths"
    PIXELS = "pixels"


@dataclass(frozen=True)
class Resizing:
    """How a vision model's processor resizes an image before the model sees it.

    The Qwen family and its relatives round each side to a multiple of `unit` px and keep the area
    within `min_pixels` and `max_pixels`. A square of one unit becomes one token, and boxes may be
    in the resized image's pixels. Source: https://github.com/QwenLM/Qwen3-VL (image resolution),
    transformers' image processors.
    """

    unit: int
    min_pixels: int
    max_pixels: int

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height in pixels of an image of that size after resizing."""
        unit = self.unit
        across, down = round(width / unit), round(height / unit)
        area = max(1, width * height)
        if across * down * unit**2 > self.max_pixels:
            shrink = math.sqrt(area / self.max_pixels)
            across, down = math.floor(width / shrink / unit), math.floor(height / shrink / unit)
        elif across * down * unit**2 < self.min_pixels:
            grow = math.sqrt(self.min_pixels / area)
            across, down = math.ceil(width * grow / unit), math.ceil(height * grow / unit)
        return max(1, across) * self.unit, max(1, down) * self.unit

    def tokens(self, width: int, height: int) -> int:
        """How many tokens of the prompt an image of that size takes."""
        across, down = self.size(width, height)
        return (across // self.unit) * (down // self.unit)


def box_from_grid(
    corners: Sequence[object], grid: tuple[int, int], size: tuple[int, int]
) -> Box | None:
    """`[x1, y1, x2, y2]` on a grid of `grid` steps across and down, as a box in an image of `size`
    pixels.

    Swapped corners are corrected and the box is clipped to the image. None for anything but four
    finite numbers, and for a box without an area on the image.
    """
    numbers = [_to_float(value) for value in corners]
    if len(numbers) != 4 or not all(map(math.isfinite, numbers)):
        return None
    xs = [_scale(numbers[k], grid[0], size[0]) for k in (0, 2)]
    ys = [_scale(numbers[k], grid[1], size[1]) for k in (1, 3)]
    box = Box(min(xs), min(ys), max(xs), max(ys))
    return box if box.area > 0 else None


def _scale(value: float, steps: int, length: int) -> float:
    return min(max(value, 0.0), float(steps)) / steps * length


def _to_float(value: object) -> float:
    """The value as a float; infinite for one that is not a number, or too large."""
    try:
        return float(value) if isinstance(value, int | float) else math.inf
    except OverflowError:
        return math.inf

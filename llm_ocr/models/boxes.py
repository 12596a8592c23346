"""A model's box, told on its own grid, as a box in pixels of the image that it was shown."""

import math
from collections.abc import Sequence

from llm_ocr.records import Box


def box_on(corners: Sequence[object], grid: tuple[int, int], size: tuple[int, int]) -> Box | None:
    """`[x1, y1, x2, y2]` on a grid of `grid` steps across and down, in an image of `size` pixels.

    Swapped corners are mended and the box is clipped to the image. None for anything else than
    four finite numbers, and for a box without an area on the image.
    """
    numbers = [_number(value) for value in corners]
    if len(numbers) != 4 or not all(map(math.isfinite, numbers)):
        return None
    across = [_scaled(numbers[k], grid[0], size[0]) for k in (0, 2)]
    down = [_scaled(numbers[k], grid[1], size[1]) for k in (1, 3)]
    box = Box(min(across), min(down), max(across), max(down))
    return box if box.area > 0 else None


def _scaled(value: float, steps: int, length: int) -> float:
    return min(max(value, 0.0), float(steps)) / steps * length


def _number(value: object) -> float:
    """The value as a float; infinite where it is none, or too large for one."""
    try:
        return float(value) if isinstance(value, int | float) else math.inf
    except OverflowError:
        return math.inf

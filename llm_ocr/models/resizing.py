"""How a vision model's own processor resizes an image before it looks at it.

The Qwen family and its kin round each side to a multiple of a unit and keep the area within two
limits; a unit square becomes one token, and boxes may be told in the resized image's pixels.
Source: https://github.com/QwenLM/Qwen3-VL (image resolution), transformers' image processors.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Resizing:
    """Sides become multiples of `unit` px; the area stays within `min_pixels` and `max_pixels`."""

    unit: int
    min_pixels: int
    max_pixels: int

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height in pixels of what the model sees of an image of that size."""
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

"""The transform from page space to pixels, and the rotation of a page's text."""

import ctypes
import math
from collections import Counter
from functools import cache
from typing import Any

import pypdfium2.raw as pdfium_c

from llm_ocr.records import Box

# The least cosine between a character's direction and the page's rows or columns.
MIN_COSINE = 0.98
# A page is turned only if this many characters, and this share of all, run in one other direction.
MIN_CHARACTERS, MIN_SHARE = 25, 0.8
# pdfium rounds to whole pixels: a page a thousand times as large keeps three decimal places.
PRECISION = 1000


class PageTransform:
    """Page space -> pixels of a page rendered at `size`, rotated clockwise by `turn` degrees in
    addition to its /Rotate."""

    def __init__(self, page: Any, size: tuple[int, int], turn: int = 0) -> None:  # noqa: ANN401
        self.size = size
        far = 1000.0
        self._origin = _to_device(page, size, turn, 0, 0)
        self._along, self._up = (
            tuple(
                (side - start) / far
                for side, start in zip(
                    _to_device(page, size, turn, *point), self._origin, strict=True
                )
            )
            for point in ((far, 0), (0, far))
        )

    def box(self, left: float, bottom: float, right: float, top: float) -> Box:
        (ax, ay), (bx, by) = self._point(left, bottom), self._point(right, top)
        return Box(min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))

    def clipped_box(self, left: float, bottom: float, right: float, top: float) -> Box:
        """The part of the box that is on the page."""
        box, (width, height) = self.box(left, bottom, right, top), self.size
        return Box(max(0.0, box.x1), max(0.0, box.y1), min(width, box.x2), min(height, box.y2))

    def direction(self, angle: float) -> int | None:
        """The direction of text at an angle in page space (radians, clockwise) as clockwise degrees
        from the page's rows: 0, 90, 180 or 270; None for other angles."""
        across, up = math.cos(angle), -math.sin(angle)
        x = self._along[0] * across + self._up[0] * up
        y = self._along[1] * across + self._up[1] * up
        length = math.hypot(x, y) * MIN_COSINE
        ways = ((x, 0), (y, 90), (-x, 180), (-y, 270))
        return next((degrees for part, degrees in ways if part >= length > 0), None)

    def _point(self, x: float, y: float) -> tuple[float, float]:
        return (
            self._origin[0] + self._along[0] * x + self._up[0] * y,
            self._origin[1] + self._along[1] * x + self._up[1] * y,
        )


def detect_text_rotation(page: Any, raw: Any) -> int:  # noqa: ANN401
    """The clockwise rotation in degrees that makes (nearly) all text of a page upright."""
    width, height = (max(1, math.ceil(side)) for side in page.get_size())
    direction_at = cache(PageTransform(page, (width, height)).direction)
    angle, total = pdfium_c.FPDFText_GetCharAngle, pdfium_c.FPDFText_CountChars(raw)
    directions: Counter[int | None] = Counter()
    for k in range(total):
        direction = direction_at(round(angle(raw, k), 2))
        directions[direction] += 1
        # On most pages a fifth of the characters shows that they are upright. To look at all of
        # them takes two thirds of the time of drawing the page.
        if direction == 0 and total - directions[0] < MIN_SHARE * total:
            return 0
    direction, count = directions.most_common(1)[0] if directions else (0, 0)
    if not direction or count < MIN_CHARACTERS or count < MIN_SHARE * total:
        return 0
    return 360 - direction


def _to_device(
    page: Any,  # noqa: ANN401
    size: tuple[int, int],
    turn: int,
    x: float,
    y: float,
) -> tuple[float, float]:
    device = ctypes.c_int(), ctypes.c_int()
    sides = size[0] * PRECISION, size[1] * PRECISION
    pdfium_c.FPDF_PageToDevice(page, 0, 0, *sides, turn // 90, x, y, *device)
    return device[0].value / PRECISION, device[1].value / PRECISION

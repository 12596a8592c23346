"""The transform from page space to pixels, and the rotation of a page's text."""

import ctypes
import math
from collections import Counter
from typing import Any

import pypdfium2.raw as pdfium_c

from llm_ocr.records import Box

# Cosine from which on a character runs along the page's rows, or exactly across them.
STRAIGHT = 0.98
# A page is turned only if so many characters, and this share of all, run in one other direction.
FEWEST, MOST = 25, 0.8
# pdfium rounds to whole pixels: on a page drawn a thousand times as large nothing is lost.
FINE = 1000


class PageTransform:
    """Page space -> pixels of a page rendered at `size`, rotated clockwise by `turn` degrees in
    addition to its /Rotate."""

    def __init__(self, page: Any, size: tuple[int, int], turn: int = 0) -> None:  # noqa: ANN401
        self.size = size
        far = 1000.0
        self._origin = _on_device(page, size, turn, 0, 0)
        along, up = (_on_device(page, size, turn, *at) for at in ((far, 0), (0, far)))
        self._along = tuple(
            (there - here) / far for there, here in zip(along, self._origin, strict=True)
        )
        self._up = tuple((there - here) / far for there, here in zip(up, self._origin, strict=True))

    def box(self, left: float, bottom: float, right: float, top: float) -> Box:
        (ax, ay), (bx, by) = self._point(left, bottom), self._point(right, top)
        return Box(min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))

    def clipped(self, left: float, bottom: float, right: float, top: float) -> Box:
        """The part of `box` that is on the page."""
        box, (width, height) = self.box(left, bottom, right, top), self.size
        return Box(max(0.0, box.x1), max(0.0, box.y1), min(width, box.x2), min(height, box.y2))

    def direction(self, angle: float) -> int | None:
        """Clockwise degrees from the page's rows at which text of this angle (radians, clockwise
        in page space) runs: 0, 90, 180 or 270; None for other angles."""
        across, up = math.cos(angle), -math.sin(angle)
        x = self._along[0] * across + self._up[0] * up
        y = self._along[1] * across + self._up[1] * up
        length = math.hypot(x, y) * STRAIGHT
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
    frame, angle = PageTransform(page, (width, height)), pdfium_c.FPDFText_GetCharAngle
    angles = Counter(round(angle(raw, k), 2) for k in range(pdfium_c.FPDFText_CountChars(raw)))
    ways: Counter[int | None] = Counter()
    for one, count in angles.items():
        ways[frame.direction(one)] += count
    way, count = ways.most_common(1)[0] if ways else (0, 0)
    if not way or count < FEWEST or count < MOST * ways.total():
        return 0
    return 360 - way


def _on_device(
    page: Any,  # noqa: ANN401
    size: tuple[int, int],
    turn: int,
    x: float,
    y: float,
) -> tuple[float, float]:
    found = ctypes.c_int(), ctypes.c_int()
    sides = size[0] * FINE, size[1] * FINE
    pdfium_c.FPDF_PageToDevice(page, 0, 0, *sides, turn // 90, x, y, *found)
    return found[0].value / FINE, found[1].value / FINE

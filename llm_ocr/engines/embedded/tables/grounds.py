"""Grounds: parts of a table with a color of their own, such as a dark head or shaded rows.

What parts them is seen as a rule is, though no line is drawn: the edge of a dark head is where its
table's first row begins.
"""

from collections.abc import Iterable

import cv2
import numpy as np
import numpy.typing as npt

# The window whose median is the ground, in heights of a word: letters fill less than half of it.
WINDOW = 0.8
# How much two grounds differ (0..255): light shades by about 12, noise and shadows by less.
STEP = 7
# An edge is no shorter than this, in heights of a word.
SHORTEST_EDGE = 4.0
# Below this share of the paper's brightness a ground is dark, and what is printed on it light.
DARK = 0.6

Mask = npt.NDArray[np.uint8]


def ground_of(gray: Mask, height: float) -> Mask:
    """What letters and rules are printed on, at each pixel; `height` is that of a usual word."""
    window = max(3, 2 * int(WINDOW * height / 2) + 1)
    return np.asarray(cv2.medianBlur(gray, window), dtype=np.uint8)


def as_on_paper(gray: Mask, ground: Mask) -> Mask:
    """Pixels with what is light on a dark ground turned round, so that it is dark on light."""
    dark = ground < DARK * float(np.median(ground))
    return np.where(dark, 255 - gray, gray).astype(np.uint8)


def edges_across(ground: Mask, height: float) -> Iterable[tuple[float, float, float]]:
    """Edges between grounds above each other: y, and the x at which they start and end."""
    if ground.shape[0] < 4:
        return
    steps = np.zeros(ground.shape, np.uint8)
    above, below = ground[:-2].astype(np.int16), ground[2:].astype(np.int16)
    steps[1:-1] = np.abs(below - above) > STEP
    # A scan's edge wanders by a pixel.
    wide = cv2.dilate(steps, np.ones((3, 1), np.uint8))
    long = np.ones((1, max(3, int(SHORTEST_EDGE * height))), np.uint8)
    found = cv2.connectedComponentsWithStats(
        np.asarray(cv2.morphologyEx(wide, cv2.MORPH_OPEN, long), np.uint8)
    )
    for (left, _, width, tall, _), (_, y) in zip(found[2][1:], found[3][1:], strict=True):
        if tall <= height / 2:
            yield float(y), float(left), float(left + width)

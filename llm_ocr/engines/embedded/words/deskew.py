"""How a page lies on an image: quarter turns and skew, made good, and the way back."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from llm_ocr.engines.embedded.geometry import Rect
from llm_ocr.engines.embedded.models import Array
from llm_ocr.engines.embedded.words.detect import Image, TextBox

# Only strips at least this many times as long as high say which way the page lies.
TELLING = 3.0
# A page lies on its side if its tall strips are this many times as long as its wide ones together.
SIDEWAYS, FEWEST_TALL = 3.0, 2
# Skew in degrees: less is left alone, more is no scanner's doing. A strip is sure to about one
# degree, n of them together to 1 / n. So much of the text must agree so nearly.
LEAST_SKEW, ONE_STRIP, MOST_SKEW = 0.15, 1.0, 5.0
AGREEING, NEAR = 0.6, 0.6
FEWEST_SKEWED = 3


@dataclass(frozen=True)
class DeskewTransform:
    """How a page was made upright: `turned` degrees clockwise (0, 90, 180 or 270), which made the
    image `width` x `height`, then `skew` degrees counterclockwise about its middle.

    All points are of the image as turned, or of the upright page, which is as large.
    """

    width: int
    height: int
    turned: int = 0
    skew: float = 0.0

    def deskew(self, image: Image) -> Image:
        """The image, which is turned already, without its skew."""
        if not self.skew:
            return image
        size = self.width, self.height
        upright = cv2.warpAffine(image, self._matrix(), size, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(upright, np.uint8)

    def forth(self, points: Array) -> Array:
        """Points (n x 2) of the image, on the upright page."""
        return _map(self._matrix(), points)

    def back(self, rect: Rect) -> Rect:
        """The rectangle on the image that holds one of the upright page."""
        if not self.skew:
            return rect
        x1, y1, x2, y2 = rect
        corners = np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2)], dtype=np.float32)
        points = _map(cv2.invertAffineTransform(self._matrix()), corners)
        points = np.clip(points, 0, np.array([self.width, self.height]))
        (left, top), (right, bottom) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
        return left, top, right, bottom

    def _matrix(self) -> Any:  # noqa: ANN401
        """From the image to the upright page (2 x 3)."""
        return cv2.getRotationMatrix2D((self.width / 2, self.height / 2), self.skew, 1.0)


def rotate_image(image: Image, degrees: int) -> Image:
    """An image turned clockwise by 0, 90, 180 or 270 degrees."""
    return np.ascontiguousarray(np.rot90(image, -degrees // 90))


def _map(matrix: Any, points: Array) -> Array:  # noqa: ANN401
    mapped: Array = (points @ matrix[:, :2].T + matrix[:, 2]).astype(np.float32)
    return mapped


def is_sideways(strips: Sequence[TextBox]) -> bool:
    """Whether nearly all of the text runs up or down."""
    tall = [one.height for one in strips if one.height > TELLING * one.width]
    wide = [one.width for one in strips if one.width > TELLING * one.height]
    return len(tall) >= min(FEWEST_TALL, max(1, len(strips))) and sum(tall) > SIDEWAYS * sum(wide)


def skew_of(strips: Sequence[TextBox]) -> float:
    """The degrees by which the text sinks to the right; 0 where it hardly does, or disagrees."""
    telling = [one for one in strips if one.width > TELLING * one.height]
    if len(telling) < FEWEST_SKEWED:
        return 0.0
    angles = np.array([math.degrees(math.atan(one.slope)) for one in telling])
    # The longer a strip is, the surer is its angle: short ones seem to lie level.
    weights = np.array([one.width for one in telling]) ** 2
    order = np.argsort(angles)
    reached = np.cumsum(weights[order])
    middle = float(angles[order][np.searchsorted(reached, reached[-1] / 2)])
    agree = np.abs(angles - middle) < NEAR
    skew = float(np.average(angles[agree], weights=weights[agree] ** 2))
    least = LEAST_SKEW + ONE_STRIP / len(telling)
    agreeing = float(weights[agree].sum() / reached[-1])
    return skew if least <= abs(skew) <= MOST_SKEW and agreeing >= AGREEING else 0.0

"""Where the detector looks, with a model that draws the lines that it should see."""

import math

import numpy as np
import pytest

from llm_ocr.engines.embedded.models import Array
from llm_ocr.engines.embedded.words.detect import Detector, TextBox


class Drawn:
    """A model that sees one line across the middle, `high` pixels of each thousand that it gets."""

    def __init__(self, high: int) -> None:
        self.high, self.searched = high, list[int]()

    def __call__(self, batch: Array) -> list[Array]:
        _, _, height, width = batch.shape
        self.searched.append(max(height, width))
        heat = np.zeros((1, 1, height, width), np.float32)
        core = max(4, self.high * height // 1000)
        heat[0, 0, height // 2 : height // 2 + core, width // 4 : width // 2] = 0.9
        return [heat]


@pytest.mark.parametrize(
    ("high", "height", "searched"),
    [(20, 2200, [1280]), (4, 2200, [1280, 1920]), (4, 1200, [1216])],
)
def test_tiny_lines_are_searched_again_on_a_larger_image(
    high: int, height: int, searched: list[int]
) -> None:
    model = Drawn(high)
    strips = Detector(model).strips(np.zeros((height, 1000, 3), np.uint8))
    assert model.searched == searched
    assert len(strips) == 1


def test_a_strip_is_the_line_that_the_model_saw_on_the_image_as_it_is() -> None:
    [strip] = Detector(Drawn(20)).strips(np.zeros((2560, 2000, 3), np.uint8))
    left, top = strip.corners.min(axis=0).tolist()
    right, bottom = strip.corners.max(axis=0).tolist()
    assert left < 500 < 1000 < right
    assert top < 1280 < 1330 < bottom
    assert (right - left, bottom - top) == pytest.approx((580, 130), abs=25)
    assert strip.slope == pytest.approx(0, abs=0.001)


def sloped(width: float, degrees: float) -> TextBox:
    """A strip that is told to lie level, around a core of 20 pixels' height that does not."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    box = np.array([(0, 0), (width, 0), (width, 20), (0, 20)], np.float32)
    core = (box @ np.array([(cos, sin), (-sin, cos)], np.float32)).astype(np.float32)
    (x1, y1), (x2, y2) = core.min(axis=0), core.max(axis=0)
    return TextBox(np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2)], np.float32), core)


@pytest.mark.parametrize("width", [30, 120])
def test_a_strip_along_its_page_is_as_high_as_its_line(width: float) -> None:
    guess = sloped(width, 3.0)
    strip = guess.along(math.tan(math.radians(3.0)))
    out = strip.width - width
    assert out > 10, "grown on all sides"
    assert strip.height == pytest.approx(20 + out, abs=0.01)
    assert strip.slope == pytest.approx(math.tan(math.radians(3.0)), abs=0.001)
    assert strip.corners.mean(axis=0) == pytest.approx(guess.corners.mean(axis=0), abs=0.01)


def test_a_strip_that_is_long_or_lies_otherwise_on_purpose_stays() -> None:
    assert sloped(300, 0.0).along(math.tan(math.radians(3.0))).slope == 0, "a warped page's"
    assert sloped(120, 0.0).along(math.tan(math.radians(12.0))).slope == 0
    assert sloped(30, 0.0).along(math.tan(math.radians(12.0))).slope > 0.2, "too short to tell"


class WithMark:
    """A model that sees a long line with a footnote mark that sticks out of one of its ends."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, batch: Array) -> list[Array]:
        heat = np.zeros((1, 1, *batch.shape[2:]), np.float32)
        heat[0, 0, 300:310, 100:700] = 0.9
        heat[0, 0, 288:310, self.left : self.left + 20] = 0.9
        return [heat]


@pytest.mark.parametrize("left", [80, 700])
def test_a_line_with_a_footnote_mark_is_level_and_no_higher(left: int) -> None:
    [strip] = Detector(WithMark(left)).strips(np.zeros((640, 960, 3), np.uint8))
    assert strip.slope == pytest.approx(0, abs=0.002)
    assert strip.height == pytest.approx(11 + 1.6 * 11, abs=1)
    assert strip.width == pytest.approx(620 + 1.6 * 10, abs=4)
    assert strip.corners.mean(axis=0)[1] == pytest.approx(305, abs=1.5)

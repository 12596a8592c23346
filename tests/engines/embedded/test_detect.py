"""Where the detector looks, with a model that draws the lines that it should see."""

import numpy as np
import pytest

from llm_ocr.engines.embedded.detect import Detector
from llm_ocr.engines.embedded.models import Array


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

"""Bullets, dashes and single characters outside of the lines that the detector finds."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from llm_ocr.engines.embedded.reader import Reader

ITEMS = ("The gauge was read", "The keeper was old", "The bridge is closed")


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader()


def sheet(lines: dict[tuple[int, int], str]) -> Image.Image:
    image = Image.new("RGB", (900, 700), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=26)
    for place, text in lines.items():
        draw.text(place, text, fill="black", font=font)
    return image


def texts(reader: Reader, image: Image.Image) -> list[str]:
    pixels = np.ascontiguousarray(np.asarray(image)[:, :, ::-1])
    lines = sorted(reader.read(pixels).lines, key=lambda line: (round(line.middle / 20), line.rect))
    return [line.text for line in lines]


def dash(image: Image.Image, left: int, middle: int, width: int = 20) -> None:
    ImageDraw.Draw(image).rectangle((left, middle - 1, left + width, middle + 1), fill="black")


def bullet(image: Image.Image, left: int, middle: int, shape: str = "ellipse") -> None:
    getattr(ImageDraw.Draw(image), shape)((left, middle - 5, left + 10, middle + 5), fill="black")


@pytest.mark.parametrize("shape", ["ellipse", "rectangle"])
def test_bullets_far_from_their_items_begin_them(reader: Reader, shape: str) -> None:
    image = sheet({(140, 100 + 50 * k): item for k, item in enumerate(ITEMS)})
    for k in range(3):
        bullet(image, 90, 118 + 50 * k, shape)
    assert texts(reader, image) == [f"• {item}" for item in ITEMS]


@pytest.mark.parametrize("shape", ["ellipse", "rectangle"])
@pytest.mark.parametrize("far", [14, 18, 28])
def test_bullets_that_the_detector_takes_into_the_line_begin_it(
    reader: Reader, far: int, shape: str
) -> None:
    """The recognizer reads some of them, and is silent about others."""
    items = ["1 History", "2 Applications", "3 Types of gauges"]
    image = sheet({(140, 100 + 50 * k): item for k, item in enumerate(items)})
    for k in range(3):
        bullet(image, 130 - far, 118 + 50 * k, shape)
    found = texts(reader, image)
    assert [one[2:] for one in found] == items
    assert {one[:2] for one in found} <= {"• ", "● ", "■ "}


@pytest.mark.parametrize(
    ("left", "middles"), [(90, [118]), (405, [118, 168, 218]), (90, [143, 193, 243])]
)
def test_specks_are_no_bullets(reader: Reader, left: int, middles: list[int]) -> None:
    """One alone, those behind the text, and those between its lines."""
    image = sheet({(140, 100 + 50 * k): item for k, item in enumerate(ITEMS)})
    for middle in middles:
        bullet(image, left, middle)
    assert texts(reader, image) == list(ITEMS)


def test_dashes_begin_the_items_of_a_list(reader: Reader) -> None:
    image = sheet({(140, 100 + 50 * k): item for k, item in enumerate(ITEMS)})
    for k in range(3):
        dash(image, 100, 118 + 50 * k, width=14)
    assert texts(reader, image) == [f"– {item}" for item in ITEMS]


def test_a_dash_in_a_cell_of_its_own_is_read(reader: Reader) -> None:
    rows = {(100, 100 + 50 * k): item for k, item in enumerate(ITEMS)}
    image = sheet({**rows, (600, 100): "1,024", (600, 200): "3,811"})
    dash(image, 622, 168)
    assert texts(reader, image) == [ITEMS[0], "1,024", ITEMS[1], "—", ITEMS[2], "3,811"]


def test_a_broken_rule_is_no_text(reader: Reader) -> None:
    image = sheet({(100, 100 + 50 * k): item for k, item in enumerate(ITEMS)})
    for left in range(400, 800, 34):
        dash(image, left, 168)
    assert texts(reader, image) == list(ITEMS)

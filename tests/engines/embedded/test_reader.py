"""A page read as a whole, by the engine's models."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont, ImageOps

from llm_ocr.engines.embedded.answer import to_grounding_markup
from llm_ocr.engines.embedded.reader import Reader

ROWS = [["River", "94", "9.8", "71"], ["Canal", "71", "8.4", "12"], ["Harbour", "12", "1.4", "33"]]
HEADS = ["Rainfall in mm", "Flow per day", "Days of frost"]
COLUMNS, LINES = (100, 340, 440, 540, 640), (200, 420, 470, 520, 570)


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader()


@pytest.fixture(scope="module")
def drawn() -> Image.Image:
    page = Image.new("RGB", (1000, 1300), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=26)
    draw.text((100, 80), "The table below has heads that run up.", fill="black", font=font)
    for x in COLUMNS:
        draw.line((x, LINES[0], x, LINES[-1]), fill="black", width=2)
    for y in LINES:
        draw.line((COLUMNS[0], y, COLUMNS[-1], y), fill="black", width=2)
    for x, head in zip(COLUMNS[1:], HEADS, strict=False):
        strip = Image.new("RGB", (200, 40), "white")
        ImageDraw.Draw(strip).text((5, 3), head, fill="black", font=font)
        page.paste(strip.rotate(90, expand=True), (x + 30, LINES[0] + 10))
    for y, row in zip(LINES[1:], ROWS, strict=False):
        for x, cell in zip(COLUMNS, row, strict=False):
            draw.text((x + 12, y + 10), cell, fill="black", font=font)
    return page


@pytest.fixture(scope="module", params=[False, True], ids=["on light paper", "on dark paper"])
def answer(request: pytest.FixtureRequest, reader: Reader, drawn: Image.Image) -> str:
    return read(reader, ImageOps.invert(drawn) if request.param else drawn)


def read(reader: Reader, page: Image.Image) -> str:
    return to_grounding_markup(reader.read(np.ascontiguousarray(np.asarray(page)[:, :, ::-1])))


def test_heads_of_a_table_that_run_up_are_its_cells(answer: str) -> None:
    heads = "".join(f"<th>{head}</th>" for head in HEADS)
    assert f"<tr><th></th>{heads}</tr>" in answer
    for row in ROWS:
        assert "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" in answer


def test_a_sentence_at_the_top_of_a_page_is_no_header(answer: str) -> None:
    assert "<|ref|>header<|/ref|>" not in answer
    assert "The table below has heads that run up." in answer


@pytest.mark.parametrize(("stroke", "heads"), [(1, True), (0, False)], ids=["bold", "plain"])
def test_a_line_in_bold_is_a_heading_without_room_around_it(
    reader: Reader, stroke: int, heads: bool
) -> None:
    page = Image.new("RGB", (1000, 1300), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=26)
    text = "Every Sunday of the year the river was read at the bridge."
    for k in range(9):
        said, thicker = ("Keepers of the gauge", stroke) if k == 4 else (text, 0)
        draw.text((100, 300 + 36 * k), said, fill="black", font=font, stroke_width=thicker)
    assert ("## Keepers of the gauge\n" in read(reader, page)) is heads

"""Pages cut between their lines, and boxes on the parts brought back to the page."""

import io
from collections.abc import Sequence
from itertools import pairwise

import pytest
from PIL import Image, ImageDraw, ImageFont

from llm_ocr.document.tiling import Tile, merge_tiles, tile_page, to_page_coordinates
from llm_ocr.inference.model_item import PromptRequest
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR, GRID
from llm_ocr.records import Block, Box, ImagePolicy, ParsedAnswer
from tests.documents import decoded

POLICY = ImagePolicy(longest_side=2000, jpeg_quality=95)
WIDTH, HEIGHT = 600, 900
# A line of text each 50 rows, where even cuts would go through it.
LINES = range(40, HEIGHT - 40, 50)


def jpeg_of(page: Image.Image) -> bytes:
    sink = io.BytesIO()
    page.save(sink, "JPEG", quality=95)
    return sink.getvalue()


def page_of_lines() -> bytes:
    page = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=26)
    for top in LINES:
        draw.text((40, top), "The gauge was read again", font=font, fill="black", anchor="lt")
    return jpeg_of(page)


def bounds(strips: Sequence[Tile]) -> list[tuple[int, int]]:
    """The rows of the page that each strip shows: first, and behind its last."""
    return [(one.top, round(one.top + one.height * one.scale)) for one in strips]


def has_ink(page: bytes, row: int) -> bool:
    return min(decoded(page).convert("L").crop((0, row, WIDTH, row + 1)).tobytes()) < 128


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("bands", [1, 2, 3, 5, 8])
def test_strips_cover_the_page_and_do_not_overlap(bands: int, scale: float) -> None:
    strips = tile_page(page_of_lines(), POLICY, scale=scale, bands=bands)
    rows = bounds(strips)
    assert len(strips) == bands
    assert rows[0][0] == 0
    for (_, end), (start, _) in pairwise([*rows, (HEIGHT, HEIGHT)]):
        assert abs(end - start) <= 1, "but for a rounded pixel"


@pytest.mark.parametrize("bands", [2, 3, 5])
def test_no_line_is_cut(bands: int) -> None:
    page, even = page_of_lines(), [HEIGHT * k // bands for k in range(1, bands)]
    assert any(has_ink(page, row) for row in even), "an even cut would go through a line"
    rows = [one.top for one in tile_page(page, POLICY, bands=bands)[1:]]
    assert not any(has_ink(page, row) for row in rows)
    assert all(abs(row - wanted) <= 25 for row, wanted in zip(rows, even, strict=True))


def test_a_page_without_gaps_is_cut_evenly() -> None:
    page = jpeg_of(Image.new("RGB", (WIDTH, HEIGHT), (90, 60, 30)))
    assert bounds(tile_page(page, POLICY, bands=3)) == [(0, 300), (300, 600), (600, 900)]


def test_a_page_with_fewer_rows_than_bands_is_still_whole() -> None:
    strips = tile_page(jpeg_of(Image.new("RGB", (40, 2), "white")), POLICY, bands=4)
    assert bounds(strips) == [(0, 1), (1, 2)]


def test_downscaled_page_is_whole_and_has_its_scale() -> None:
    (strip,) = tile_page(page_of_lines(), POLICY, scale=0.5)
    assert (strip.width, strip.height, strip.top, strip.scale) == (300, 450, 0, 2.0)
    assert decoded(strip.jpeg).size == (300, 450)


def test_strips_too_small_for_the_model_are_enlarged() -> None:
    policy = ImagePolicy(longest_side=2000, smallest_side=1200)
    strips = tile_page(page_of_lines(), policy, bands=3)
    assert len(strips) == 3
    for strip in strips:
        assert (strip.width, strip.scale) == (1200, 0.5)
        assert decoded(strip.jpeg).size == (strip.width, strip.height)


# One in each third of the page, none across a cut.
MARKS = {
    "red": Box(50, 60, 350, 180),
    "lime": Box(210, 400, 580, 520),
    "blue": Box(20, 700, 90, 880),
}


def page_of_marks() -> bytes:
    page = Image.new("RGB", (WIDTH, HEIGHT), "white")
    for color, box in MARKS.items():
        page.paste(color, (int(box.x1), int(box.y1), int(box.x2), int(box.y2)))
    return jpeg_of(page)


def marks_in(strip: Tile) -> str:
    """What a model says that sees: a grounded block for each mark, top to bottom."""
    said = ""
    for color, name in (("R", "red"), ("G", "lime"), ("B", "blue")):
        channels = dict(zip("RGB", decoded(strip.jpeg).convert("RGB").split(), strict=True))
        # Bright in no other channel: white is bright in all.
        others = [channel for letter, channel in channels.items() if letter != color]
        dark = [channel.point(lambda value: 255 * (value < 110)) for channel in others]
        seen = Image.composite(dark[0], Image.new("L", dark[0].size), dark[1]).getbbox()
        if seen is not None:
            sides = (strip.width, strip.height) * 2
            grid = [round(GRID * at / side) for at, side in zip(seen, sides, strict=True)]
            said += f"<|ref|>{name}<|/ref|><|det|>[{grid}]<|/det|>\n{name}\n\n"
    return said


def question(strip: Tile) -> PromptRequest:
    request = ChatRequest("", strip.jpeg, 1)
    return PromptRequest(request, strip.width, strip.height, strip.top, strip.scale)


@pytest.mark.parametrize("smallest_side", [0, 1000])
@pytest.mark.parametrize(("scale", "bands"), [(1.0, 1), (0.6, 1), (1.0, 3), (0.6, 3), (0.45, 2)])
def test_boxes_are_mapped_back_to_the_page(scale: float, bands: int, smallest_side: int) -> None:
    policy = ImagePolicy(longest_side=2000, jpeg_quality=95, smallest_side=smallest_side)
    parts = [
        to_page_coordinates(
            DEEPSEEK_OCR, question(strip), Answer(marks_in(strip), "stop", 1, 1, 1.0, 1)
        )
        for strip in tile_page(page_of_marks(), policy, scale=scale, bands=bands)
    ]
    blocks = merge_tiles(parts).blocks
    assert [block.label for block in blocks] == list(MARKS)
    for block in blocks:
        assert block.box is not None
        corners = vars(block.box).values(), vars(MARKS[block.label]).values()
        assert list(corners[0]) == pytest.approx(list(corners[1]), abs=2)


def test_block_without_a_box_keeps_none() -> None:
    about = PromptRequest(ChatRequest("", b"", 1), 100, 100, top=300, scale=2.0)
    parsed = to_page_coordinates(DEEPSEEK_OCR, about, Answer("Words alone.", "stop", 1, 1, 1.0, 1))
    assert parsed.blocks == (Block("text", "Words alone.", None),)


def test_strips_are_joined_in_order_with_each_note_once() -> None:
    first, second = Block("text", "first", None), Block("text", "second", None)
    parts = [ParsedAnswer((first,), ("mended", "a")), ParsedAnswer((second,), ("mended", "b"))]
    assert merge_tiles(parts) == ParsedAnswer((first, second), ("mended", "a", "b"))


def test_light_lines_on_a_dark_page_are_not_cut() -> None:
    page = Image.new("RGB", (600, 900), (25, 25, 30))
    lines = range(40, 860, 50)
    for top in lines:
        for x in range(40, 560, 12):
            page.paste((255, 255, 255), (x, top, x + 6, top + 26))
    sink = io.BytesIO()
    page.save(sink, "JPEG", quality=95)
    policy = ImagePolicy(longest_side=2000, jpeg_quality=95)
    strips = tile_page(sink.getvalue(), policy, bands=3)
    assert len(strips) == 3
    for strip in strips[1:]:
        assert not any(top < strip.top < top + 26 for top in lines), strip.top

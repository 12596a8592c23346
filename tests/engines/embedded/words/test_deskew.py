"""Pages that come turned or askew, through the engine's API, and the way back to the image sent."""

import base64
import io
from collections.abc import Iterator

import aiohttp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from llm_ocr.engines.embedded.words.deskew import DeskewTransform, is_sideways, skew_of
from llm_ocr.engines.embedded.words.detect import TextBox
from llm_ocr.models.deepseek_ocr import parse
from llm_ocr.records import Block, Box
from tests.engines.embedded.running import running_engine

WIDTH, HEIGHT = 800, 1000
FIRST = (100, 150)
LINES = (
    ("The gauge at the bridge was read", "on every Sunday of the year."),
    ("In spring the river rose, and the", "meadows lay under water."),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from running_engine(tmp_path_factory.mktemp("engine") / "engine.log")


def page() -> Image.Image:
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=30)
    for k, paragraph in enumerate(LINES):
        for j, line in enumerate(paragraph):
            draw.text((FIRST[0], FIRST[1] + 300 * k + 42 * j), line, fill="black", font=font)
    return image


async def blocks_of(
    engine: str, image: Image.Image, turned: int = 0, size: tuple[int, int] | None = None
) -> tuple[Block, ...]:
    """What is read on an image, which must be told as lying like this; places are on a page of
    `size` (the image's own)."""
    sink = io.BytesIO()
    image.save(sink, "PNG")
    url = "data:image/png;base64," + base64.b64encode(sink.getvalue()).decode()
    prompt = "<|grounding|>Convert the document to markdown."
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": prompt}]
    body = {"messages": [{"role": "user", "content": parts}]}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{engine}/chat/completions", json=body) as response:
            assert response.status == 200
            whole = await response.json()
    assert whole["llm_ocr"]["turned"] == turned
    return parse(whole["choices"][0]["message"]["content"], *(size or image.size)).blocks


def first_box(blocks: tuple[Block, ...]) -> Box:
    texts = [block.text.strip().lstrip("# ") for block in blocks]
    assert texts == [" ".join(paragraph) for paragraph in LINES]
    box = blocks[0].box
    assert box is not None
    return box


@pytest.mark.parametrize(
    ("how", "turned"),
    [
        (Image.Transpose.ROTATE_90, 90),
        (Image.Transpose.ROTATE_180, 180),
        (Image.Transpose.ROTATE_270, 270),
    ],
)
async def test_a_turned_page_is_read_upright_and_its_boxes_are_on_the_upright_page(
    engine: str, how: Image.Transpose, turned: int
) -> None:
    sent = page().transpose(how)
    box = first_box(await blocks_of(engine, sent, turned, (WIDTH, HEIGHT)))
    assert (box.x1, box.y1) == pytest.approx(FIRST, abs=15)


async def test_a_page_askew_is_straightened(engine: str) -> None:
    askew = page().rotate(-2.5, resample=Image.Resampling.BICUBIC, fillcolor="white")
    straight = first_box(await blocks_of(engine, page()))
    box = first_box(await blocks_of(engine, askew))
    # The rectangle around a slanting paragraph is higher than the paragraph.
    rise = (straight.x2 - straight.x1) * np.tan(np.radians(2.5))
    assert box.y2 - box.y1 == pytest.approx(straight.y2 - straight.y1 + rise, abs=12)


frames = st.builds(
    DeskewTransform,
    st.integers(50, 3000),
    st.integers(50, 3000),
    skew=st.floats(-5, 5),
)


@given(frames, st.floats(0.1, 0.9), st.floats(0.1, 0.9))
def test_the_way_back_undoes_the_way_forth(
    frame: DeskewTransform, across: float, down: float
) -> None:
    x, y = across * frame.width, down * frame.height
    point = np.array([(x, y)], dtype=np.float32)
    [(u, v)] = frame.forth(point).tolist()
    left, top, right, bottom = frame.back((u, v, u, v))
    assert (left, top) == pytest.approx((x, y), abs=0.05)
    assert (right, bottom) == pytest.approx((x, y), abs=0.05)


@pytest.mark.parametrize("skew", [0.0, 2.0])
def test_pixels_move_where_points_do(skew: float) -> None:
    image = np.zeros((200, 300, 3), np.uint8)
    image[40:50, 200:210] = 255
    frame = DeskewTransform(300, 200, skew=skew)
    rows, columns = np.nonzero(frame.deskew(image)[:, :, 0] > 127)
    [(x, y)] = frame.forth(np.array([(205, 45)], dtype=np.float32)).tolist()
    assert (columns.mean() + 0.5, rows.mean() + 0.5) == pytest.approx((x, y), abs=0.6)


def strip(x: float, y: float, width: float, height: float, slope: float = 0.0) -> TextBox:
    sunk = y + slope * width
    corners = [(x, y), (x + width, sunk), (x + width, sunk + height), (x, y + height)]
    return TextBox(np.array(corners, dtype=np.float32))


def test_skew_is_what_most_of_the_text_has() -> None:
    text = [strip(100, 50 * k, 600, 30, 0.03) for k in range(12)]
    assert skew_of(text) == pytest.approx(1.72, abs=0.01)
    assert skew_of(text[:2]) == 0, "too little to know"
    assert skew_of([strip(100, 50 * k, 600, 30, 0.002) for k in range(12)]) == 0, "hardly any"
    assert skew_of([strip(100, 50 * k, 600, 30, 0.3) for k in range(12)]) == 0, "on purpose"
    short = [strip(100, 50 * k, 120, 30, 0.022) for k in range(12)]
    assert skew_of([*text, *short]) == pytest.approx(1.72, abs=0.01), "long ones are surer"
    level = [strip(100, 50 * k, 120, 30) for k in range(40)]
    assert skew_of([*text, *level]) == pytest.approx(1.72, abs=0.01), "short ones seem level"
    mixed = [strip(100, 50 * k, 600, 30, 0.03 * (k % 3 - 1)) for k in range(12)]
    assert skew_of(mixed) == 0, "each line has its own"


def test_a_few_tall_strips_among_wide_ones_are_a_chart_and_no_turned_page() -> None:
    tall = [strip(40 * k, 100, 20, 300) for k in range(4)]
    wide = [strip(300, 50 * k, 400, 30) for k in range(8)]
    assert is_sideways(tall)
    assert not is_sideways([*tall, *wide])
    assert not is_sideways([tall[0], *wide[:1]])
    assert not is_sideways([])

"""The embedded engine asked about figures: what it reads is there, what it can't is not said."""

import base64
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import aiohttp
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from llm_ocr.engines.embedded.serving.command import EMBEDDED
from llm_ocr.models.profile import Task
from tests.engines.embedded.running import running_engine

CLASSES = ["chart", "table", "diagram", "photo", "logo", "other"]
MONTHS = ("May", "June", "July", "August")
YEAR = ("Jan", "Feb", "Mar", "Apr", *("May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"))
RAIN = (71, 94, 118, 40)


class Pen:
    """Draws a figure."""

    def __init__(self, width: int = 900, height: int = 650) -> None:
        self.image = Image.new("RGB", (width, height), "white")
        self.draw = ImageDraw.Draw(self.image)

    def text(self, x: float, y: float, words: str, size: int = 28) -> None:
        font = ImageFont.load_default(size=size)
        self.draw.text((x, y), words, fill="black", font=font, anchor="mm")

    def jpeg(self) -> bytes:
        sink = io.BytesIO()
        self.image.save(sink, "JPEG", quality=92)
        return sink.getvalue()


def bars(values: Sequence[int] = RAIN, *, printed: bool = True, title: bool = True) -> bytes:
    """Bars as high as `RAIN` says, with `values` printed over them."""
    pen = Pen()
    if title:
        pen.text(450, 40, "Rain in the valley", 36)
    pen.draw.line((100, 90, 100, 560), fill="black", width=3)
    pen.draw.line((100, 560, 860, 560), fill="black", width=3)
    for k, (month, high, value) in enumerate(zip(MONTHS, RAIN, values, strict=True)):
        x, top = 200 + 180 * k, 560 - 3.2 * high
        pen.draw.rectangle((x - 45, top, x + 45, 560), fill=(60, 110, 180))
        pen.text(x, 600, month)
        if printed:
            pen.text(x, top - 24, str(value))
    for k in range(4):
        pen.text(60, 560 - 128 * k, str(40 * k))
    return pen.jpeg()


def plot() -> bytes:
    """Bars and a line between two scales, with no value printed, over labels in a row."""
    pen = Pen(1290, 500)
    pen.text(130, 25, "Rainfall (mm)")
    pen.text(560, 25, "rainfall")
    pen.text(1130, 25, "Discharge (m³/s)")
    for k in range(5):
        y = 420 - 80 * k
        pen.draw.line((120, y, 1180, y), fill=(200, 200, 200), width=3)
        pen.text(80, y, str(30 * k))
        pen.text(1220, y, str(3 * k))
    for k, month in enumerate(YEAR):
        x = 165 + 87 * k
        pen.draw.rectangle((x - 25, 420 - 40 - 23 * (k % 7), x + 25, 420), fill=(140, 175, 210))
        pen.text(x, 455, month, 24)
    return pen.jpeg()


def table() -> bytes:
    rows = [["Month", "Rain", "Flow"], ["January", "94", "9.8"], ["March", "71", "8.4"]]
    pen = Pen(760, 320)
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            left, top = 20 + 240 * c, 20 + 90 * r
            pen.draw.rectangle((left, top, left + 240, top + 90), outline="black", width=2)
            pen.text(left + 120, top + 45, cell, 32)
    return pen.jpeg()


def diagram() -> bytes:
    pen = Pen()
    for k, words in enumerate(("Read the gauge", "Write it down", "Send the letter")):
        top = 40 + 200 * k
        pen.draw.rectangle((200, top, 700, top + 120), outline="black", width=3)
        pen.text(450, top + 60, words, 34)
        if k:
            pen.draw.line((450, top - 80, 450, top), fill="black", width=3)
    return pen.jpeg()


def logo() -> bytes:
    pen = Pen(400, 400)
    pen.draw.ellipse((60, 60, 340, 340), fill=(180, 30, 40))
    pen.text(200, 200, "Inn", 90)
    return pen.jpeg()


def photo() -> bytes:
    """Shades with grain, as a camera makes them."""
    shades = np.asarray(Image.radial_gradient("L").resize((700, 500)), dtype=float)
    grain = np.random.default_rng(1).normal(0, 18, (500, 700, 3))
    pixels = np.clip(shades[:, :, None] * (0.9, 0.7, 0.5) + grain, 0, 255).astype(np.uint8)
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, "JPEG", quality=92)
    return sink.getvalue()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of one engine for this module."""
    yield from running_engine(tmp_path_factory.mktemp("engine") / "engine.log")


async def ask(engine: str, task: Task, image: bytes, **guide: object) -> tuple[int, Any]:
    url = "data:image/jpeg;base64," + base64.b64encode(image).decode()
    picture = {"type": "image_url", "image_url": {"url": url}}
    prompt = {"type": "text", "text": EMBEDDED.prompt(task).text}
    message = {"role": "user", "content": [picture, prompt]}
    body = {"model": EMBEDDED.model, "messages": [message], "max_tokens": 4000, **guide}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{engine}/chat/completions", json=body) as response:
            return response.status, await response.json()


async def said(engine: str, task: Task, image: bytes, **guide: object) -> str:
    status, body = await ask(engine, task, image, **guide)
    assert status == 200, body
    return str(body["choices"][0]["message"]["content"])


async def test_a_bar_chart_gives_the_values_that_are_printed_at_its_bars(engine: str) -> None:
    data = json.loads(await said(engine, Task.DATA, bars()))
    assert (data["kind"], data["title"]) == ("chart", "Rain in the valley")
    (series,) = data["series"]
    points = [(one["x"], one["y"]) for one in series["points"]]
    assert points == list(zip(MONTHS, RAIN, strict=True))


@pytest.mark.parametrize("chart", [bars(printed=False), bars(values=(94, 40, 71, 118))])
async def test_bars_without_values_or_with_others_give_nothing(engine: str, chart: bytes) -> None:
    assert await said(engine, Task.DATA, chart) == ""


async def test_a_table_gives_its_rows(engine: str) -> None:
    data = json.loads(await said(engine, Task.DATA, table()))
    assert (data["kind"], data["columns"]) == ("table", ["Month", "Rain", "Flow"])
    assert data["rows"] == [["January", "94", "9.8"], ["March", "71", "8.4"]]


@pytest.mark.parametrize(
    "picture",
    [photo(), diagram(), logo(), plot()],
    ids=["photo", "diagram", "logo", "plot"],
)
async def test_what_has_no_data_gives_none(engine: str, picture: bytes) -> None:
    assert await said(engine, Task.DATA, picture) == ""


@pytest.mark.parametrize(
    ("picture", "kind"),
    [
        (bars(), "chart"),
        (bars(printed=False, title=False), "chart"),
        (plot(), "chart"),
        (table(), "table"),
        (diagram(), "diagram"),
        (photo(), "photo"),
        (logo(), "logo"),
    ],
    ids=["values", "axes", "plot", "table", "diagram", "photo", "logo"],
)
async def test_a_class_is_chosen_by_the_picture(engine: str, picture: bytes, kind: str) -> None:
    choice = {"structured_outputs": {"choice": CLASSES}}
    assert await said(engine, Task.CLASSIFY, picture, **choice) == kind


async def test_a_class_is_one_of_those_that_were_asked_for_or_none(engine: str) -> None:
    async def of(*classes: str) -> str:
        choice = {"structured_outputs": {"choice": list(classes)}}
        return await said(engine, Task.CLASSIFY, table(), **choice)

    assert await of("photograph", "Tables") == "Tables"
    assert await of("photograph", "none") == "none"
    assert await of("photograph", "map") == ""
    status, body = await ask(engine, Task.CLASSIFY, table(), structured_outputs={"choice": "map"})
    assert (status, body["error"]["type"]) == (400, "BadRequestError")


async def test_a_caption_is_one_line_of_what_was_measured_and_read(engine: str) -> None:
    caption = await said(engine, Task.CAPTION, diagram())
    assert "with the text “Read the gauge”" in caption
    assert len(caption) <= 120
    assert "\n" not in caption
    assert await said(engine, Task.CAPTION, photo()) == "Photograph-like picture."

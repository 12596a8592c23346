"""The embedded engine as what it is: a process that is asked over HTTP, and really reads."""

import asyncio
import base64
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from PIL import Image, ImageDraw, ImageFont

from llm_ocr.engines.embedded.serving.command import embedded_command
from llm_ocr.engines.launch import Engine
from llm_ocr.models.deepseek_ocr import parse
from llm_ocr.records import Block

GROUNDED = "<|grounding|>Convert the document to markdown."
WIDTH, HEIGHT = 1000, 1300
ROWS = [["Month", "Rain", "Flow"], ["January", "94", "9.8"], ["March", "71", "8.4"]]


class Pen:
    """Draws a page, and remembers nothing."""

    def __init__(self) -> None:
        self.image = Image.new("RGB", (WIDTH, HEIGHT), "white")
        self._draw = ImageDraw.Draw(self.image)

    def text(self, x: int, y: int, words: str, size: int = 26) -> None:
        font = ImageFont.load_default(size=size)
        for k, line in enumerate(words.split("\n")):
            self._draw.text((x, y + k * size * 1.4), line, fill="black", font=font)

    def table(self, x: int, y: int, width: int = 240, height: int = 60) -> None:
        for r, row in enumerate(ROWS):
            for c, cell in enumerate(row):
                left, top = x + c * width, y + r * height
                self._draw.rectangle((left, top, left + width, top + height), outline="black")
                self.text(left + 15, top + 15, cell)

    def jpeg(self) -> bytes:
        sink = io.BytesIO()
        self.image.save(sink, "JPEG", quality=92)
        return sink.getvalue()


def report() -> bytes:
    pen = Pen()
    pen.text(120, 90, "Water in the valley", size=52)
    pen.text(
        120, 240, "The gauge at the bridge was read on every\nSunday of the year by two keepers."
    )
    pen.text(120, 420, "In spring the river rose and the meadows\nwere under water for nine days.")
    pen.table(120, 620)
    return pen.jpeg()


def columns() -> bytes:
    pen = Pen()
    left = ["The first column begins", "with words about rain", "and it ends with snow."]
    right = ["Another column follows", "and speaks of the wind", "until the last of words."]
    for k in range(3):
        pen.text(70, 200 + 40 * k, left[k])
        pen.text(560, 200 + 40 * k, right[k])
    return pen.jpeg()


def png(image: Image.Image) -> bytes:
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return sink.getvalue()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of one engine for this module; nothing may be fetched by it."""
    log_path = tmp_path_factory.mktemp("engine") / "engine.log"
    loop = asyncio.new_event_loop()
    closed = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in closed.items():
            patch.setenv(name, value)
        running = loop.run_until_complete(Engine(embedded_command(2), log_path).__aenter__())
    yield running.base_url
    loop.run_until_complete(running.stop())
    loop.close()


def content(prompt: str, *images: bytes) -> dict[str, Any]:
    urls = ["data:image/jpeg;base64," + base64.b64encode(image).decode() for image in images]
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    message = {"role": "user", "content": [*parts, {"type": "text", "text": prompt}]}
    return {"model": "llm-ocr-embedded", "messages": [message], "max_tokens": 4000}


async def post(
    engine: str, body: object, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    data = body if isinstance(body, bytes) else None
    async with aiohttp.ClientSession() as session:
        url = f"{engine}/chat/completions"
        sent = {"data": data} if data is not None else {"json": body}
        async with session.post(url, headers=headers, **sent) as response:
            return response.status, await response.json()


async def ask(engine: str, prompt: str, image: bytes) -> str:
    status, body = await post(engine, content(prompt, image))
    assert status == 200, body
    return str(body["choices"][0]["message"]["content"])


async def get(engine: str, path: str) -> str:
    async with aiohttp.ClientSession() as session:
        async with session.get(engine.removesuffix("/v1") + path) as response:
            assert response.status == 200
            return await response.text()


def block_with(blocks: tuple[Block, ...], words: str) -> Block:
    found = [block for block in blocks if words in block.text]
    assert len(found) == 1, words
    return found[0]


async def test_a_page_comes_back_as_labeled_blocks_where_they_stand(engine: str) -> None:
    answer = await ask(engine, GROUNDED, report())
    blocks = parse(answer, WIDTH, HEIGHT).blocks
    title = block_with(blocks, "Water in the valley")
    assert title.label == "title"
    assert title.text.strip().startswith("# ")
    first = block_with(blocks, "The gauge at the bridge was read on every Sunday")
    assert first.box is not None
    assert first.box.x1 == pytest.approx(120, abs=15)
    assert first.box.y1 == pytest.approx(240, abs=20)
    table = block_with(blocks, "<table>")
    assert "<td>January</td><td>94</td><td>9.8</td>" in table.text
    assert table.box is not None
    assert (table.box.y1, table.box.y2) == pytest.approx((630, 800), abs=40)
    order = [blocks.index(block) for block in (title, first, table)]
    assert order == sorted(order)


async def test_columns_are_read_one_after_the_other(engine: str) -> None:
    text = await ask(engine, "Free OCR.", columns())
    places = [text.index(words) for words in ("first column", "snow", "Another column", "last of")]
    assert places == sorted(places)
    assert "<|" not in text


async def test_the_task_field_decides_whatever_the_prompt_says(engine: str) -> None:
    body = {**content("Describe this image in detail.", columns()), "llm_ocr": {"task": "free_ocr"}}
    status, answer = await post(engine, body)
    assert status == 200
    assert answer["choices"][0]["message"]["content"] == await ask(engine, "Free OCR.", columns())


async def test_a_picture_is_described_by_what_was_measured_and_read(engine: str) -> None:
    pen = Pen()
    pen.text(300, 600, "Level in metres", size=48)
    said = await ask(engine, "Describe this image in detail.", pen.jpeg())
    assert "1000 x 1300 pixels" in said
    assert "“Level in metres”" in said
    gradient = Image.linear_gradient("L").resize((400, 300)).convert("RGB")
    said = await ask(engine, "Parse the figure.", png(gradient))
    assert "400 x 300 pixels. No text was read in it." in said


async def test_a_blank_page_says_nothing(engine: str) -> None:
    blank = png(Image.new("RGB", (600, 800), "white"))
    status, body = await post(engine, content(GROUNDED, blank))
    assert status == 200
    assert body["choices"][0]["message"]["content"] == ""
    assert body["choices"][0]["finish_reason"] == "stop"


async def test_requests_are_answered_together_while_it_stays_responsive(engine: str) -> None:
    asking = [asyncio.ensure_future(ask(engine, "Free OCR.", columns())) for _ in range(4)]
    most = 0.0
    while not all(task.done() for task in asking):
        await get(engine, "/health")
        metrics = await get(engine, "/metrics")
        most = max(most, metric(metrics, "num_requests_running"))
    assert most == 2, "one for each of its threads"
    assert len({await task for task in asking}) == 1


def metric(text: str, name: str, labels: str = "") -> float:
    lines = [line for line in text.splitlines() if line.startswith(f"vllm:{name}{{{labels}")]
    assert len(lines) == 1, name
    return float(lines[0].split()[-1])


async def test_metrics_have_the_names_of_vllm_and_grow(engine: str) -> None:
    before = await get(engine, "/metrics")
    await ask(engine, "Free OCR.", columns())
    after = await get(engine, "/metrics")
    for name, labels in (
        ("prompt_tokens_total", ""),
        ("generation_tokens_total", ""),
        ("request_success_total", 'finished_reason="stop"'),
    ):
        assert metric(after, name, labels) > metric(before, name, labels)
    assert metric(after, "num_requests_waiting") == metric(after, "kv_cache_usage_perc") == 0


async def test_an_answer_is_cut_at_max_tokens(engine: str) -> None:
    body = {**content("Free OCR.", columns()), "max_tokens": 5}
    status, said = await post(engine, body, {"X-Request-Id": "mine"})
    assert (status, said["id"]) == (200, "chatcmpl-mine")
    assert said["choices"][0]["finish_reason"] == "length"
    assert len(said["choices"][0]["message"]["content"]) == 20
    assert said["usage"]["completion_tokens"] == 5


async def test_the_model_is_listed(engine: str) -> None:
    models = await get(engine, "/v1/models")
    assert '"id": "llm-ocr-embedded"' in models
    assert '"backend": "onnxruntime"' in models


def with_url(url: str) -> dict[str, Any]:
    body = content("Free OCR.", b"")
    body["messages"][0]["content"][0]["image_url"]["url"] = url
    return body


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({**content("Free OCR.", b"x"), "model": "other"}, 404, "`other` does not exist"),
        (b"{", 400, "not JSON"),
        (b"[]", 400, "not a JSON object"),
        ({"messages": "?"}, 400, "not of the chat API's form"),
        (content("Free OCR."), 400, "one image is needed, 0 were sent"),
        (content("Free OCR.", b"a", b"b"), 400, "one image is needed, 2 were sent"),
        (with_url("http://127.0.0.1/page.png"), 400, "none are fetched"),
        (with_url("data:image/png;base64,%%%"), 400, "not base64"),
        (content("Free OCR.", b"no image"), 400, "cannot identify or decode"),
        (content("Free OCR.", report()[:4000]), 400, "cannot identify or decode"),
        ({**content("Free OCR.", b"x"), "stream": True}, 400, "stream is not supported"),
        ({**content("Free OCR.", b"x"), "max_tokens": 0}, 400, "max_tokens must be"),
        (
            {**content("Free OCR.", b"x"), "llm_ocr": {"task": "sing"}},
            400,
            "llm_ocr.task must be one of document, free_ocr",
        ),
    ],
)
async def test_what_cannot_be_answered_is_refused_in_the_words_of_vllm(
    engine: str, body: object, status: int, said: str
) -> None:
    got, answer = await post(engine, body)
    assert got == status
    assert said in answer["error"]["message"]
    assert answer["error"]["code"] == status
    assert {"type", "param"} <= answer["error"].keys()


async def test_sigterm_ends_it_while_it_reads(tmp_path: Path) -> None:
    running = await Engine(embedded_command(1), tmp_path / "engine.log").__aenter__()
    try:
        asking = asyncio.ensure_future(ask(running.base_url, "Free OCR.", columns()))
        while metric(await get(running.base_url, "/metrics"), "num_requests_running") == 0:
            assert not asking.done()
        supervisor = running._process
        assert supervisor is not None
        [engine] = children(supervisor.pid)
        os.kill(engine, signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(supervisor.wait) == 0
        with pytest.raises(aiohttp.ClientError):
            await asking
    finally:
        await running.stop()


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    found = [(task / "children").read_text().split() for task in tasks.iterdir()]
    return [int(child) for some in found for child in some]


def test_without_its_extra_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "rapidocr.py").write_text("raise ModuleNotFoundError('rapidocr')")
    done = subprocess.run(
        [sys.executable, "-m", "llm_ocr.engines.embedded"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert 'uv sync --inexact --extra cpu, or pip install ".[cpu]"' in done.stderr

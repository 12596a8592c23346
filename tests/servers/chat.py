"""An engine that answers at once, with the same words for the same image, or as it is told to.

    python -m tests.servers.chat --port P [--dies-of-wide-pages] [--hangs-once FILE]
        [--dies-midway FILE] [--rambles-of-wide-pages] [--grows MIB]
        [--grows-once FOLDER]

Speaks the part of the OpenAI chat API that the client uses. Started in a test's own process with
`serving(...)`, or as a process of its own where it has to survive or be killed.
"""

import argparse
import asyncio
import base64
import hashlib
import io
import itertools
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Any

from aiohttp import web
from PIL import Image

from llm_ocr.engines.check import MONTHS, SENTENCES, probes
from llm_ocr.models.two_step import MINERU_2_5_PRO
from llm_ocr.sources.raster import squeeze

ROOT = Path(__file__).parents[2]
# Requests for so few tokens only ask whether the server is there.
PROBE_TOKENS = 16
Reply = Callable[[dict[str, Any]], "Awaitable[web.StreamResponse] | web.StreamResponse | Pieces"]
Metrics = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Pieces:
    """An answer as a stream, a token a character, in pieces of these texts.

    With a finish reason of None the connection is cut where the end would be; `then` is called
    before.
    """

    texts: Iterable[str]
    finish_reason: str | None = "stop"
    then: Callable[[], None] = lambda: None


def image_of(body: dict[str, Any]) -> bytes:
    """The image in a request."""
    parts = body["messages"][0]["content"]
    url = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    return base64.b64decode(url.split(",", 1)[1])


def prompt_of(body: dict[str, Any]) -> str:
    """The text in a request."""
    parts = body["messages"][0]["content"]
    return str(next(part["text"] for part in parts if part["type"] == "text"))


def grounded(body: dict[str, Any]) -> str:
    """A grounded page, every second one with a figure, or a description, by the image alone."""
    words = hashlib.sha256(image_of(body)).hexdigest()[:16]
    if "<|grounding|>" not in prompt_of(body):
        return f"A picture whose digest is {words}."
    page = (
        "<|ref|>title<|/ref|><|det|>[[100, 50, 900, 90]]<|/det|>\n"
        f"# Page {words}\n\n"
        "<|ref|>text<|/ref|><|det|>[[100, 120, 900, 400]]<|/det|>\n"
        "What stands on the page.\n\n"
    )
    if int(words, 16) % 2:
        return page
    return (
        f"{page}<|ref|>image<|/ref|><|det|>[[200, 450, 800, 700]]<|/det|>\n"
        "<|ref|>image_caption<|/ref|><|det|>[[200, 710, 800, 740]]<|/det|>\n"
        f"<center>Figure 1: {words}</center>\n"
    )


# A page with a figure and no caption.
FIGURE = (
    "<|ref|>title<|/ref|><|det|>[[100, 50, 900, 90]]<|/det|>\n# Read\n\n"
    "<|ref|>image<|/ref|><|det|>[[200, 450, 800, 700]]<|/det|>\n"
)


@cache
def check_pages() -> Mapping[bytes, int]:
    """The places of the model check's pages in `probes()`, by their JPEGs, also as squares."""
    steps, quality = MINERU_2_5_PRO.two_step, MINERU_2_5_PRO.image.jpeg_quality
    assert steps is not None
    pages = {probe.jpeg: place for place, probe in enumerate(probes())}
    squares = {squeeze(jpeg, steps.layout_side, quality): place for jpeg, place in pages.items()}
    return {**pages, **squares}


def check_answer(body: dict[str, Any]) -> str | None:
    """What passes the model check if `body` asks one of its pages, in the model's own format."""
    parts = body["messages"][0]["content"]
    if isinstance(parts, str) or not any(part["type"] == "image_url" for part in parts):
        return None
    place = check_pages().get(image_of(body))
    if place is None:
        return None
    prompt = "".join(part["text"] for part in parts if part["type"] == "text")
    text, headline = " ".join(SENTENCES), SENTENCES[0]
    rows = "".join(f"<tr><td>{month}</td><td></td></tr>" for month in MONTHS)
    table = f"<table>{rows}</table>"
    if "Layout Detection" in prompt:
        region = "<|box_start|>100 {} 900 {}<|box_end|><|ref_start|>image<|ref_end|>\n"
        return region.format(80, 400) + region.format(540, 850)
    if "images/bbox_" in prompt:
        figure = '<img src="images/bbox_100_{}_900_{}.jpg" />\n\n'
        return (text, table, headline, figure.format(80, 400) + figure.format(540, 850))[place]
    if prompt == "grounding":
        marked = "![{}](100,{},900,{}) "
        return (
            marked.format("text", 50, 300) + text,
            marked.format("table", 50, 600) + table,
            marked.format("text", 400, 500) + headline,
            marked.format("image", 80, 400) + marked.format("image", 540, 850),
        )[place]
    if "data-label" in prompt:
        block = '<div data-bbox="100 {} 900 {}" data-label="{}">{}</div>'
        return (
            block.format(50, 300, "Text", text),
            block.format(50, 600, "Table", table),
            block.format(400, 500, "Text", headline),
            block.format(80, 400, "Image", "") + block.format(540, 850, "Figure", ""),
        )[place]
    if "<|grounding|>" in prompt or "document parsing" in prompt:
        boxed = "<|ref|>{}<|/ref|><|det|>[[100, {}, 900, {}]]<|/det|>\n"
        return (
            boxed.format("text", 50, 300) + text,
            boxed.format("table", 50, 600) + table,
            boxed.format("text", 400, 500) + headline,
            boxed.format("image", 80, 400) + boxed.format("image", 540, 850),
        )[place]
    if "qwenvl html" in prompt.lower():
        box = 'data-bbox="100 50 900 300"'
        return (
            f"<p {box}>{text}</p>",
            table.replace("<table>", f"<table {box}>"),
            f"<p {box}>{headline}</p>",
            f'<img {box}/><img data-bbox="100 500 900 800"/>',
        )[place]
    if "bbox" in prompt:
        figure = "figure" if "'figure'" in prompt else "Picture"
        cells = (
            [{"bbox": [100, 50, 900, 300], "category": "Text", "text": text}],
            [{"bbox": [100, 50, 900, 600], "category": "Table", "text": table}],
            [{"bbox": [30, 200, 600, 240], "category": "Text", "text": headline}],
            [{"bbox": [100, top, 900, top + 300], "category": figure} for top in (80, 540)],
        )[place]
        return json.dumps(cells)
    # Markdown, with places of figures as LightOnOCR writes them.
    figures = "![image](image_1.png)100,80,900,400\n\n![image](image_2.png)100,540,900,850"
    return (text, table, headline, figures)[place]


def answer(text: str, finish_reason: str = "stop", **usage: int) -> web.Response:
    """A chat completion."""
    counts = {"prompt_tokens": 300, "completion_tokens": max(1, len(text) // 4), **usage}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "usage": counts}
    return web.json_response({**body, "choices": [{**choice, "finish_reason": finish_reason}]})


def refusal(status: int, message: str, **headers: str) -> web.Response:
    """An error as vLLM sends it."""
    error = {"message": message, "type": "Error", "param": None, "code": status}
    return web.json_response({"error": error}, status=status, headers=headers)


def at_once(body: dict[str, Any]) -> web.Response:
    return answer(grounded(body))


def begun(body: dict[str, Any]) -> str:
    """What the answer is to go on from."""
    return "".join(message["content"] for message in body["messages"][1:])


def dies_midway(noted: Path) -> Reply:
    """Ends the process in the middle of its first page; after that it goes on with what it said."""

    def reply(body: dict[str, Any]) -> Pieces:
        text = grounded(body)
        middle = len(text) // 2
        if noted.exists() or body["max_tokens"] <= PROBE_TOKENS:
            return Pieces([text.removeprefix(begun(body))])
        noted.touch()
        return Pieces([text[:middle]], None, then=lambda: os._exit(1))

    return reply


def dies_of_wide_pages(body: dict[str, Any]) -> web.Response:
    """Ends the process at a page twice as wide as high."""
    with Image.open(io.BytesIO(image_of(body))) as image:
        if image.width > 2 * image.height and body["max_tokens"] > PROBE_TOKENS:
            os._exit(1)
    return at_once(body)


def rambles_of_wide_pages(body: dict[str, Any]) -> web.StreamResponse | Pieces:
    """Never ends, and never says the same twice, about a page twice as wide as high."""
    with Image.open(io.BytesIO(image_of(body))) as image:
        if image.width <= 2 * image.height or body["max_tokens"] <= PROBE_TOKENS:
            return at_once(body)
    return Pieces(hashlib.shake_256(b"%d" % k).hexdigest(20_000) for k in itertools.count())


def hangs_once(noted: Path) -> Reply:
    """Answers probes, then nothing at all; after that, when `noted` exists, everything."""

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        if body["max_tokens"] > PROBE_TOKENS:
            noted.touch()
            await asyncio.Event().wait()
        return at_once(body)

    return at_once if noted.exists() else reply


def grows(mib: int, reply: Reply) -> Reply:
    """Keeps so much more memory with each page, probes aside, and answers as `reply` does."""
    kept: list[bytearray] = []

    def grown(
        body: dict[str, Any],
    ) -> "Awaitable[web.StreamResponse] | web.StreamResponse | Pieces":
        if body["max_tokens"] > PROBE_TOKENS:
            kept.append(bytearray(b"x") * (mib << 20))
        return reply(body)

    return grown


def grows_once(folder: Path) -> Reply:
    """Keeps 300 MiB at the first page, whose answer waits until there is a file `noticed`. A server
    that finds the file `grown` is another one, and keeps nothing."""
    kept: list[bytearray] = []

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        if body["max_tokens"] > PROBE_TOKENS and not (folder / "grown").exists():
            (folder / "grown").touch()
            kept.append(bytearray(b"x") * (300 << 20))
            while not (folder / "noticed").exists():
                await asyncio.sleep(0.01)
        return at_once(body)

    return reply


def _event(body: dict[str, Any], text: str, said: int, finish_reason: str | None) -> bytes:
    """A piece, as vLLM sends it."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 300 + len(begun(body)), "completion_tokens": said}
    chunk = {"object": "chat.completion.chunk", "choices": [choice], "usage": usage}
    return f"data: {json.dumps(chunk)}\n\n".encode()


class ChatServer:
    """What was asked, and how it is answered.

    The pages of the model check are answered as the check expects and are not among `requests`,
    unless `passes_check` is false: then `reply` answers them, too. `version` is that of its vLLM.
    """

    # None: it reports none, as servers other than vLLM.
    version: str | None = None

    def __init__(
        self, reply: Reply = at_once, metrics: Metrics | None = None, *, passes_check: bool = True
    ) -> None:
        self.reply, self.metrics, self.passes_check = reply, metrics, passes_check
        # Pages of the model check that were asked.
        self.checks = 0
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.in_flight = self.most_in_flight = 0
        # Streams that the client left before their end.
        self.left = 0
        self.base_url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        if self.passes_check and (known := check_answer(body)) is not None:
            self.checks += 1
            return answer(known)
        self.requests.append(body)
        self.headers.append(request.headers)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            reply = self.reply(body)
            if isinstance(reply, Awaitable):
                reply = await reply
            if not isinstance(reply, Pieces):
                return reply
            return await self._stream(request, body, reply)
        finally:
            self.in_flight -= 1

    async def _stream(
        self, request: web.Request, body: dict[str, Any], pieces: Pieces
    ) -> web.StreamResponse:
        if not body.get("stream"):
            return answer("".join(pieces.texts), pieces.finish_reason or "stop")
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        said = 0
        try:
            for text in pieces.texts:
                said += len(text)
                await stream.write(_event(body, text, said, None))
        except ConnectionError:
            self.left += 1
            return stream
        pieces.then()
        if pieces.finish_reason is None and request.transport is not None:
            request.transport.close()
            return stream
        await stream.write(_event(body, "", said, pieces.finish_reason) + b"data: [DONE]\n\n")
        return stream

    def application(self) -> web.Application:
        application = web.Application(client_max_size=1 << 26)
        application.router.add_post("/v1/chat/completions", self.handle)
        application.router.add_get("/health", self.health)
        application.router.add_get("/version", self.report_version)
        if self.metrics is not None:
            application.router.add_get("/metrics", self.metrics)
        return application

    async def health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def report_version(self, request: web.Request) -> web.Response:
        if self.version is None:
            raise web.HTTPNotFound
        return web.json_response({"version": self.version})


@asynccontextmanager
async def serving(
    reply: Reply = at_once,
    port: int = 0,
    metrics: Metrics | None = None,
    *,
    passes_check: bool = True,
) -> AsyncIterator[ChatServer]:
    """A server in this process, on a free port, gone afterwards."""
    server = ChatServer(reply, metrics, passes_check=passes_check)
    runner = web.AppRunner(server.application(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    bound = runner.addresses[0][1]
    server.base_url = f"http://127.0.0.1:{bound}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()


@contextmanager
def serving_beside(
    reply: Reply = at_once,
    port: int = 0,
    metrics: Metrics | None = None,
    *,
    passes_check: bool = True,
) -> Iterator[ChatServer]:
    """A server in a thread beside this one, for code that runs an event loop of its own."""
    ready: Queue[ChatServer] = Queue()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serving(reply, port, metrics, passes_check=passes_check) as server:
            ready.put(server)
            await ended.wait()

    ended = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield ready.get(timeout=10)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


# In place of `vllm`: tells a version, and serves as this module does.
VLLM = """#!/bin/sh
[ "$1" = --version ] && echo 0.32.0 && exit
cd {root} && exec {python} -m {module} {options} "$@"
"""


def vllm_shim(folder: Path, options: str = "", module: str = "tests.servers.chat") -> str:
    """The path of a command that a run may launch as its vLLM."""
    path = folder / "vllm"
    filled = {"root": ROOT, "python": sys.executable, "module": module, "options": options}
    path.write_text(VLLM.format(**filled))
    path.chmod(0o755)
    return str(path)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dies-of-wide-pages", action="store_true")
    parser.add_argument("--rambles-of-wide-pages", action="store_true")
    parser.add_argument("--hangs-once", type=Path, metavar="FILE")
    parser.add_argument("--dies-midway", type=Path, metavar="FILE")
    parser.add_argument("--grows", type=int, metavar="MIB")
    parser.add_argument("--grows-once", type=Path, metavar="FOLDER")
    arguments, _ = parser.parse_known_args()
    reply: Reply = at_once
    if arguments.dies_of_wide_pages:
        reply = dies_of_wide_pages
    elif arguments.rambles_of_wide_pages:
        reply = rambles_of_wide_pages
    elif arguments.hangs_once:
        reply = hangs_once(arguments.hangs_once)
    elif arguments.dies_midway:
        reply = dies_midway(arguments.dies_midway)
    elif arguments.grows_once:
        reply = grows_once(arguments.grows_once)
    if arguments.grows:
        reply = grows(arguments.grows, reply)
    async with serving(reply, port=arguments.port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())

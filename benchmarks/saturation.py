"""How busy each way of asking keeps a GPU, on a simulated one (`benchmarks.simserver`).

    python -m benchmarks.saturation [--pages 2000] [--gpu a100 h100 l40s l4] [--speed-up 20]
        [--seed 0] [--client "window of 512" "llm_ocr, no width given" "llm_ocr, long pages first"]
    python -m benchmarks.saturation --find-limit [--gpu a100]

All clients ask for the same pages, each on a fresh server. Pages a minute are simulated ones; the
share is of what the GPU does with all pages queued from the start. CPU is of this process alone.
Nothing but the GPU is sped up, and sending pages takes no simulated time; what else the machine
does takes `--speed-up` times the share that it takes beside a GPU. `--find-limit` shows where that
begins to be felt. `benchmarks.feed` compares orders and windows without requests, in less time.
"""

import argparse
import asyncio
import base64
import io
import json
import random
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial

import psutil
from PIL import Image, ImageDraw, ImageFont

from benchmarks.material import ROOT
from benchmarks.simpages import PROMPT_TOKENS, read_ask
from benchmarks.simulation import GPUS, Request, Simulation
from llm_ocr.document.page import LONG_ANSWER
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyController, ConcurrencyLimiter
from llm_ocr.inference.quality import QualitySignals, assess
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer
from llm_ocr.inference.server_status import scrape
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from llm_ocr.models.profile import Task

MODEL = DEEPSEEK_OCR.model
SERVER = [sys.executable, "-m", "benchmarks.simserver"]
PROMPT = DEEPSEEK_OCR.prompts[Task.DOCUMENT]
# Drawings that the pages share; what tells them apart is a comment in the JPEG.
DRAWINGS = 12
WINDOWS = (96, 112, 128, 192, 256, 384, 448, 512, 576, 640)
# Those that are measured unless others are chosen.
USUAL = (
    *("unlimited window", "llm_ocr, no width given", "llm_ocr, long pages first"),
    *("window of 256", "barriers of 128", "barriers of 256"),
)
SPEED_UPS = (5, 10, 20, 40, 80, 160)


class Pages:
    """Requests for pages, made as they are taken: the images of thousands don't fit in memory."""

    def __init__(self, number: int, seed: int = 0) -> None:
        self.number, self.seed = number, seed
        self._drawings = [_drawing(random.Random(k)) for k in range(DRAWINGS)]

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, k: int) -> ChatRequest:
        comment = f"page {k}".encode()
        # Behind the start-of-image marker: FF FE, the length of what follows, the comment.
        segment = b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment
        drawing = self._drawings[k % DRAWINGS]
        jpeg = drawing[:2] + segment + drawing[2:]
        return ChatRequest(PROMPT.text, jpeg, PROMPT.max_tokens, DEEPSEEK_OCR.sampling, LONG_ANSWER)

    @cached_property
    def tokens(self) -> list[int]:
        """The lengths of the answers that the server will give."""
        return [self._tokens(k) for k in range(self.number)]

    def _tokens(self, k: int) -> int:
        jpeg = self[k].jpeg
        assert jpeg is not None, "a page is asked about with its image"
        parts = [{"type": "text", "text": PROMPT.text}]
        body = json.dumps({"messages": [{"content": parts}], "max_tokens": PROMPT.max_tokens})
        image = b'{"image": ";base64,%s", ' % base64.b64encode(jpeg)
        return read_ask(image + body[1:].encode(), self.seed).tokens


def _drawing(chance: random.Random) -> bytes:
    """Lines of letters and some grain: a JPEG of 100 to 300 KB, as scanned pages are."""
    width, height = 1240, 1754
    grain = Image.frombytes("L", (width, height), chance.randbytes(width * height))
    page = Image.blend(Image.new("L", (width, height), "white"), grain, chance.uniform(0.01, 0.035))
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=chance.randint(16, 24))
    for y in range(80, height - 80, chance.randint(26, 40)):
        letters = "".join(chance.choices("abcdefghijklmnop qrstuvwxyz ", k=chance.randint(30, 95)))
        draw.text((80, y), letters, fill=20, font=font)
    sink = io.BytesIO()
    page.convert("RGB").save(sink, "JPEG", quality=chance.randint(50, 68))
    return sink.getvalue()


Client = Callable[[str, Pages], Coroutine[None, None, int]]


async def ours(base_url: str, pages: Pages, noise: float | None = None) -> int:
    """This project's client as a run uses it: no width given, the server's metrics decide.

    With `noise`, long pages first, by expected lengths that differ from what they get by a random
    factor, whose logarithm has this standard deviation.
    """
    error = random.Random(pages.seed)
    priorities = [
        0 if noise is None else int(tokens * error.lognormvariate(0, noise)).bit_length()
        for tokens in pages.tokens
    ]
    limiter = ConcurrencyLimiter(1)
    async with ChatClient(base_url, MODEL, limiter=limiter, streams=True) as client:
        load = partial(scrape, base_url, client.headers)
        controller = ConcurrencyController(
            limiter, client.stats, load, DEEPSEEK_OCR.serving.page_tokens
        )
        await controller.start()
        following = asyncio.create_task(controller.run())
        numbers = range(len(pages))
        await asyncio.gather(*(_ask_and_judge(client, pages, k, priorities[k]) for k in numbers))
        following.cancel()
    return limiter.peak_in_flight


async def _ask_and_judge(client: ChatClient, pages: Pages, k: int, priority: int) -> None:
    """As a run does, where that is part of what a page costs."""
    answer = await client.ask(pages[k], priority=priority)
    assert await asyncio.to_thread(_is_good, answer)


def _is_good(answer: Answer) -> bool:
    blocks = DEEPSEEK_OCR.parse(answer.text, 1240, 1754).blocks
    return assess(answer, blocks, QualitySignals(ink=0.1)).is_good


async def fixed(width: int, base_url: str, pages: Pages) -> int:
    """A limit that stays as it is."""
    limiter = ConcurrencyLimiter(width)
    async with ChatClient(base_url, MODEL, limiter=limiter) as client:
        await _ask_all(client, pages)
    return limiter.peak_in_flight


async def unlimited(base_url: str, pages: Pages) -> int:
    """Everything at once; the server queues what it can't hold."""
    return await fixed(len(pages), base_url, pages)


async def barriers(width: int, base_url: str, pages: Pages) -> int:
    """A batch, and the next one when its last page is answered."""
    limiter = ConcurrencyLimiter(width)
    async with ChatClient(base_url, MODEL, limiter=limiter) as client:
        for start in range(0, len(pages), width):
            await _ask_all(client, pages, start, start + width)
    return limiter.peak_in_flight


async def _ask_all(
    client: ChatClient, pages: Pages, start: int = 0, end: int = sys.maxsize
) -> None:
    numbers = range(start, min(end, len(pages)))
    await asyncio.gather(*(client.ask(pages[k]) for k in numbers))


CLIENTS: dict[str, Client] = {
    "unlimited window": unlimited,
    "llm_ocr, no width given": ours,
    "llm_ocr, long pages first": partial(ours, noise=0.5),
    **{f"window of {width}": partial(fixed, width) for width in WINDOWS},
    "barriers of 128": partial(barriers, 128),
    "barriers of 256": partial(barriers, 256),
}


@dataclass(frozen=True)
class Measured:
    """One client on a fresh server: seconds by both clocks, CPU here and there, most in flight."""

    pages: int
    seconds: float
    simulated_seconds: float
    cpu: float
    server_cpu: float
    most_in_flight: int

    @property
    def speed(self) -> float:
        """Pages in a simulated minute."""
        return 60 * self.pages / self.simulated_seconds


def measure(client: Client, pages: Pages, gpu: str, speed_up: float) -> Measured:
    with simulated(gpu, speed_up, pages.seed) as (base_url, server):
        busy, at = cpu_seconds(server), simulated_seconds(base_url)
        cpu, began = time.process_time(), time.monotonic()
        most = asyncio.run(client(base_url, pages))
        seconds, cpu, at = (
            time.monotonic() - began,
            time.process_time() - cpu,
            simulated_seconds(base_url) - at,
        )
        return Measured(len(pages), seconds, at, cpu, cpu_seconds(server) - busy, most)


def simulated_seconds(base_url: str) -> float:
    """The server's simulated seconds."""
    with urllib.request.urlopen(base_url.removesuffix("v1") + "metrics") as response:
        return float(response.read().rsplit(b"simulated_seconds ", 1)[1])


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def simulated(gpu: str, speed_up: float, seed: int = 0) -> Iterator[tuple[str, psutil.Process]]:
    """The base URL and the process of a fresh server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*SERVER, "--gpu", gpu, "--speed-up", str(speed_up)]
    command += ["--port", str(port), "--seed", str(seed)]
    server = subprocess.Popen(command, cwd=ROOT)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}/v1", psutil.Process(server.pid)
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    for _ in range(400):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"the simulated server on port {port} did not start")


def without_a_client(gpu: str, pages: Pages) -> float:
    """Pages a minute if all of them were queued at the start, and sending them took no time."""
    simulation = Simulation(GPUS[gpu])
    for tokens in pages.tokens:
        simulation.add(Request(PROMPT_TOKENS, tokens), 0.0)
    while (due := simulation.next_event()) is not None:
        simulation.advance(due)
    return 60 * len(pages) / simulation.now


def compare(gpu: str, pages: Pages, speed_up: float, clients: list[str]) -> None:
    print(f"\n{gpu}, {len(pages)} pages, {speed_up:g} times as fast")
    print(f"{'client':26}{'pages/min':>10}{'share':>8}{'CPU ms/page':>13}{'in flight':>11}")
    best = without_a_client(gpu, pages)
    print(f"{'(all queued, no client)':26}{best:10.1f}{1:8.0%}", flush=True)
    for name in clients:
        got = measure(CLIENTS[name], pages, gpu, speed_up)
        speed = got.speed
        cpu = 1000 * got.cpu / got.pages
        row = f"{speed:10.1f}{speed / best:8.0%}{cpu:13.1f}{got.most_in_flight:11}"
        print(f"{name:26}{row}", flush=True)


def find_limit(gpu: str, pages: Pages) -> None:
    """Where the machine, and not the simulated GPU, begins to set the pace."""
    print(f"\n{gpu}, {len(pages)} pages, window of 256; CPU in shares of one core")
    print(
        f"{'speed-up':>8}{'pages/min':>11}{'of the first':>14}{'server CPU':>12}{'client CPU':>12}"
    )
    first = 0.0
    for speed_up in SPEED_UPS:
        got = measure(partial(fixed, 256), pages, gpu, speed_up)
        speed = got.speed
        first = first or speed
        shares = f"{got.server_cpu / got.seconds:12.0%}{got.cpu / got.seconds:12.0%}"
        lost = "  <- binds" if speed < 0.98 * first else ""
        print(f"{speed_up:8}{speed:11.1f}{speed / first:14.1%}{shares}{lost}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, help="default 2000, or 512 with --find-limit")
    parser.add_argument("--gpu", nargs="*", choices=list(GPUS), default=list(GPUS))
    parser.add_argument("--speed-up", type=float, default=20.0)
    parser.add_argument("--client", nargs="*", choices=list(CLIENTS), default=list(USUAL))
    parser.add_argument("--seed", type=int, default=0, help="of the answers' lengths")
    parser.add_argument("--find-limit", action="store_true")
    arguments = parser.parse_args()
    # A window of all pages is as many connections.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    pages = Pages(arguments.pages or (512 if arguments.find_limit else 2000), arguments.seed)
    for gpu in arguments.gpu:
        if arguments.find_limit:
            find_limit(gpu, pages)
        else:
            compare(gpu, pages, arguments.speed_up, arguments.client)


if __name__ == "__main__":
    main()

"""The order in which pages reach a GPU, and how the window opens: arithmetic alone, no requests.

    python -m benchmarks.feed [--pages 2000 10000] [--gpu a100 h100 l40s l4] [--seed 11]
        [--noise 0.5]

The GPU is `benchmarks.simulation`, the window and the order are llm_ocr's own code
(`ConcurrencyController`, `ItemQueue`), driven in simulated seconds; pages cost the client nothing.
All rows of a GPU read the same pages. The fixed windows take them in the order in which they come;
the best of the sweep is 1. What a page is expected to have differs from what it has by a random
factor, whose logarithm has a standard deviation of `--noise`. The limit is what the GPU would take
without a beginning and an end: all tokens at the speed of the middle of a run of 10,000 pages.
`benchmarks.saturation` sends real requests.
"""

import argparse
import asyncio
import math
import random
from dataclasses import dataclass

from benchmarks.simpages import MEDIAN_TOKENS, MOST_TOKENS, PROMPT_TOKENS, SPREAD
from benchmarks.simulation import GPUS, Gpu, Request, Simulation
from llm_ocr.batch.item_queue import ItemQueue, ordered_count
from llm_ocr.inference.concurrency import (
    MAX_INTERVAL,
    MIN_INTERVAL,
    SAMPLES_PER_ANSWER,
    ConcurrencyController,
    ConcurrencyLimiter,
    RequestStats,
)
from llm_ocr.inference.responses import Answer
from llm_ocr.inference.server_status import ServerLoad
from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR

WINDOWS = (64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 1024)
# Pages of the run whose middle gives the speed without a beginning and an end.
STEADY_PAGES = 10_000
# Pages that a run renders ahead of the window, with eight processes.
AHEAD = 16


@dataclass(frozen=True)
class Page:
    """The tokens that a page's answer has, and those that it is expected to have."""

    tokens: int
    expected: int


@dataclass(frozen=True)
class Result:
    """Simulated seconds, until the window was full and until the last answer; preemptions."""

    seconds: float
    full_after: float
    preemptions: int


def draw_pages(number: int, seed: int, noise: float) -> list[Page]:
    """Pages with the lengths that `benchmarks.simpages` gives them."""
    chance, error = random.Random(seed), random.Random(seed + 1)
    pages: list[Page] = []
    for _ in range(number):
        drawn = chance.lognormvariate(math.log(MEDIAN_TOKENS), SPREAD)
        tokens = max(1, int(min(drawn, MOST_TOKENS)))
        pages.append(Page(tokens, max(1, int(tokens * error.lognormvariate(0, noise)))))
    return pages


class Run:
    """A run over pages on a fresh GPU, in simulated time; `is_ordered` as a run of llm_ocr does."""

    def __init__(self, gpu: Gpu, pages: list[Page], limit: int, *, is_ordered: bool) -> None:
        self.simulation = Simulation(gpu)
        self.limiter, self.stats = ConcurrencyLimiter(limit), RequestStats()
        self._unread, self._left = iter(pages), len(pages)
        self._is_ordered, self._queue = is_ordered, ItemQueue[Page]()
        self.unanswered, self.full_after = len(pages), 0.0

    def load(self) -> ServerLoad:
        """What the server's metrics would say."""
        simulation, counters = self.simulation, self.simulation.counters
        kv_tokens = simulation.gpu.kv_tokens
        return ServerLoad(
            simulation.running,
            simulation.waiting,
            simulation.kv_used / kv_tokens,
            kv_tokens,
            counters.preemptions,
            counters.prompt_tokens,
            counters.generation_tokens,
        )

    def start_pages(self) -> None:
        """Read pages and start them, as `StageRunner` does."""
        limiter = self.limiter
        while True:
            while len(self._queue) and not limiter.is_full:
                limiter.in_flight += 1
                tokens = self._queue.get().tokens
                self.simulation.add(Request(PROMPT_TOKENS, tokens), self.simulation.now)
            most = ordered_count(limiter.limit + AHEAD)
            is_ordered = self._is_ordered and self._left <= most
            if not self._left or len(self._queue) >= (most if is_ordered else 1):
                break
            page = next(self._unread)
            self._left -= 1
            self._queue.put(page, page.expected if is_ordered else None)
        if not self.full_after and self.simulation.running >= 0.95 * limiter.limit:
            self.full_after = self.simulation.now

    def advance(self, until: float | None = None) -> float:
        """Let time pass until the next event, or `until`; returns the time."""
        due = self.simulation.next_event()
        at = min(time for time in (due, until) if time is not None)
        for request in self.simulation.advance(at):
            self.unanswered -= 1
            self.limiter.in_flight -= 1
            seconds = request.finished - request.arrived
            self.stats.add(Answer("", "stop", 0, 0, seconds, 1))
        self.start_pages()
        return at

    @property
    def result(self) -> Result:
        counters = self.simulation.counters
        return Result(self.simulation.now, self.full_after, counters.preemptions)


def fixed_window(gpu: Gpu, pages: list[Page], width: int) -> Result:
    """A limit that stays as it is."""
    run = Run(gpu, pages, width, is_ordered=False)
    run.start_pages()
    while run.unanswered:
        run.advance()
    return run.result


async def ours(gpu: Gpu, pages: list[Page], *, is_ordered: bool) -> Result:
    """This project's window, and with `is_ordered` its order."""
    run = Run(gpu, pages, 1, is_ordered=is_ordered)

    async def probe() -> ServerLoad:
        return run.load()

    page_tokens = DEEPSEEK_OCR.serving.page_tokens
    controller = ConcurrencyController(run.limiter, run.stats, probe, page_tokens)
    await controller.start()
    run.start_pages()
    sample = MIN_INTERVAL
    while run.unanswered:
        if run.advance(sample) < sample:
            continue
        run.limiter.set_limit(controller.next_limit(controller.snapshot(run.load()), sample))
        run.start_pages()
        interval = run.stats.mean_seconds / SAMPLES_PER_ANSWER
        sample += min(MAX_INTERVAL, max(MIN_INTERVAL, interval))
    return run.result


def steady_speed(gpu: Gpu, pages: list[Page], width: int) -> float:
    """Tokens of answers per second, between a fifth and three fifths of the pages."""
    run = Run(gpu, pages, width, is_ordered=False)
    run.start_pages()
    marks: list[tuple[float, int]] = []
    for share in (0.8, 0.4):
        while run.unanswered > share * len(pages):
            run.advance()
        counters = run.simulation.counters
        marks.append((run.simulation.now, counters.generation_tokens))
    (began, before), (ended, after) = marks
    return (after - before) / (ended - began)


def compare(name: str, number: int, seed: int, noise: float) -> None:
    gpu, pages = GPUS[name], draw_pages(number, seed, noise)
    print(f"\n{name}, {number} pages, seed {seed}, expected lengths off by e^{noise:g}")
    print(f"{'':26}{'pages/min':>10}{'of the best':>13}{'preempted':>11}{'full after':>12}")
    swept = {width: fixed_window(gpu, pages, width) for width in WINDOWS}
    swept[number] = fixed_window(gpu, pages, number)
    width = min(swept, key=lambda one: swept[one].seconds)
    best = swept[width].seconds

    def tell(what: str, result: Result) -> None:
        speed, ratio = 60 * number / result.seconds, best / result.seconds
        rest = f"{result.preemptions:11}{result.full_after:10.1f} s"
        print(f"{what:26}{speed:10.1f}{ratio:13.3f}{rest}", flush=True)

    tell(f"best window: {width}", swept[width])
    tell("all queued", swept[number])
    tell("llm_ocr, as they come", asyncio.run(ours(gpu, pages, is_ordered=False)))
    tell("llm_ocr", asyncio.run(ours(gpu, pages, is_ordered=True)))
    long_run = draw_pages(STEADY_PAGES, seed, noise)
    least = sum(page.tokens for page in pages) / steady_speed(gpu, long_run, width)
    print(f"{'no beginning and end':26}{60 * number / least:10.1f}{best / least:13.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, nargs="*", default=[2000, 10_000])
    parser.add_argument("--gpu", nargs="*", choices=list(GPUS), default=list(GPUS))
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--noise", type=float, default=0.5)
    arguments = parser.parse_args()
    for gpu in arguments.gpu:
        for number in arguments.pages:
            compare(gpu, number, arguments.seed, arguments.noise)


if __name__ == "__main__":
    main()

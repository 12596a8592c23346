"""Latencies of documents if a service cost nothing: simulated GPUs alone, in virtual time.

`ideal_latencies` sends the pages of each document as it arrives to the GPU with the fewest requests
in progress, at most `window` to each. Nothing runs meanwhile but arithmetic
(`benchmarks.simulation`), so thousands of documents take seconds.
"""

import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from benchmarks.simpages import MEDIAN_TOKENS, MOST_TOKENS, PROMPT_TOKENS, SPREAD
from benchmarks.simulation import Gpu, Request, Simulation

# Draws for the mean length of an answer: its error is below 0.3%.
DRAWS = 100_000


@dataclass(eq=False)
class _Document:
    arrived: float
    pages_left: int
    finished: float = 0.0


def draw_tokens(rng: random.Random) -> int:
    """The length of a page's answer, from the same distribution as `benchmarks.simpages`."""
    drawn = MEDIAN_TOKENS * rng.lognormvariate(0.0, SPREAD)
    return max(1, int(min(drawn, MOST_TOKENS)))


@cache
def mean_tokens() -> float:
    """The mean length of a page's answer."""
    rng = random.Random(0)
    return sum(draw_tokens(rng) for _ in range(DRAWS)) / DRAWS


def saturated_pages_per_second(gpu: Gpu, window: int, pages: int = 2000) -> float:
    """What one GPU answers with `window` requests in progress all the time."""
    rng = random.Random(1)
    simulation = Simulation(gpu)
    answered = started = 0
    warm_up = pages // 4
    began = 0.0
    while answered < pages:
        while simulation.running + simulation.waiting < window:
            simulation.add(Request(PROMPT_TOKENS, draw_tokens(rng)), simulation.now)
            started += 1
        due = simulation.next_event()
        assert due is not None, "requests are in progress"
        answered += len(simulation.advance(due))
        if not began and answered >= warm_up:
            warm_up, began = answered, simulation.now
    return (answered - warm_up) / (simulation.now - began)


def quantile(seconds: Sequence[float], share: float) -> float:
    """Between the values of the two nearest ranks."""
    ranked = sorted(seconds)
    rank = share * (len(ranked) - 1)
    below = math.floor(rank)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (rank - below) * (ranked[above] - ranked[below])


def arrival_times(count: int, per_second: float, *, is_random: bool) -> list[float]:
    """Arrivals at equal intervals, or at random ones (a Poisson process)."""
    rng = random.Random(2)
    gaps = (rng.expovariate(per_second) if is_random else 1 / per_second for _ in range(count))
    return list(accumulate(gaps))


def ideal_latencies(
    gpu: Gpu, gpus: int, window: int, arrivals: Sequence[float], pages: int
) -> list[float]:
    """The seconds from each document's arrival to its last page, in the order of arrivals."""
    rng = random.Random(3)
    simulations = [Simulation(gpu) for _ in range(gpus)]
    in_progress: dict[Request, _Document] = {}
    waiting: deque[tuple[Request, _Document]] = deque()
    documents: list[_Document] = []
    unfinished, arriving = len(arrivals), deque(arrivals)
    while unfinished:
        due = [event for one in simulations if (event := one.next_event()) is not None]
        now = min([*due, *([arriving[0]] if arriving else [])])
        for simulation in simulations:
            for request in simulation.advance(now):
                document = in_progress.pop(request)
                document.pages_left -= 1
                if not document.pages_left:
                    document.finished = request.finished
                    unfinished -= 1
        while arriving and arriving[0] <= now:
            document = _Document(arriving.popleft(), pages)
            documents.append(document)
            waiting += [(Request(PROMPT_TOKENS, draw_tokens(rng)), document) for _ in range(pages)]
        while waiting:
            least = min(simulations, key=lambda one: one.running + one.waiting)
            if least.running + least.waiting >= window:
                break
            request, document = waiting.popleft()
            in_progress[request] = document
            least.add(request, now)
    return [document.finished - document.arrived for document in documents]

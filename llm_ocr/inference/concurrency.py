"""Limit the requests in flight, and adapt the limit to the server's load.

The limit is as high as keeps the server's queue short, but never empty.
"""

import asyncio
import heapq
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

from llm_ocr.inference.responses import Answer
from llm_ocr.inference.server_status import ServerLoad

log = logging.getLogger(__name__)

# For servers without metrics: the limit to start with, and the highest that is tried.
INITIAL_LIMIT_WITHOUT_METRICS = 32
MAX_LIMIT_WITHOUT_METRICS = 128
# Eight GPUs behind one server, each with the 1,024 sequences that vLLM runs there at most.
MAX_LIMIT = 8192
# Up to where the KV cache is filled: the requests that run need more until they end. At 0.95 an
# H100 preempts pages in order of length; at 0.85 the L4 takes 2% longer (`benchmarks.feed`).
KV_FULL = 0.93
# The share of the first window's requests that must be answered before the limit may exceed what
# was estimated to fit: before, they have written little, and the cache looks emptier than it will
# be. Without this an H100 preempts 800 of 2,000 pages in order of length, and takes 5% longer; with
# half as much, up to 340, and 2%; with twice as much nothing changes by more than 0.4%.
SETTLED_SHARE = 0.5
# A larger share of overloads (429, 503, time-outs) among recent responses means too much load;
# a smaller one is noise.
OVERLOAD_SHARE = 0.1
# How much of the counts before a sample still counts at the next one.
DECAY = 0.9
# Samples taken in the time of one answer, and the shortest and longest interval between two
# samples in seconds.
SAMPLES_PER_ANSWER = 25
MIN_INTERVAL, MAX_INTERVAL = 0.05, 2.0
# Samples with an overlong queue before it is believed: at first all requests wait for prefill.
OVERLONG_SAMPLES = 4


class ConcurrencyLimiter:
    """At most `limit` slots are taken at once; those that wait get one by priority, then in order.

    When the limit is lowered, slots that are taken stay taken until they are released.
    """

    def __init__(self, limit: int) -> None:
        self.in_flight = 0
        self.peak_in_flight = 0
        self._limit = limit
        self._is_paused = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()
        self._listeners: list[Callable[[int], None]] = []

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def waiting(self) -> int:
        return sum(not slot.done() for _, _, slot in self._waiting)

    @property
    def is_full(self) -> bool:
        return self.in_flight >= self._limit

    def set_limit(self, limit: int) -> None:
        """Change the limit (at least 1). A higher one admits those that wait at once."""
        limit = max(1, limit)
        if limit == self._limit:
            return
        self._limit = limit
        self._admit()
        for listener in self._listeners:
            listener(limit)

    def subscribe(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with the current limit, and with each new one."""
        self._listeners.append(listener)
        listener(self._limit)

    async def acquire(self, priority: int = 0) -> None:
        """Wait for a slot; higher `priority` goes first. Pair with `release`."""
        if not self._waiting and not self.is_full and not self._is_paused:
            self._take()
            return
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-priority, next(self._arrivals), slot))
        self._admit()
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                self.release()
            raise

    def release(self) -> None:
        self.in_flight -= 1
        self._admit()

    def pause(self) -> None:
        """Admit nobody until `resume`; slots that are taken stay taken until they are released."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._admit()

    @asynccontextmanager
    async def slot(self, priority: int = 0) -> AsyncIterator[None]:
        """Hold a slot while the block runs."""
        await self.acquire(priority)
        try:
            yield
        finally:
            self.release()

    def _take(self) -> None:
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def _admit(self) -> None:
        while self._waiting and not self.is_full and not self._is_paused:
            _, _, slot = heapq.heappop(self._waiting)
            if not slot.done():
                self._take()
                slot.set_result(None)


@dataclass
class RequestStats:
    """Counts of a client's requests so far.

    `overloads` are rejections for load (429, 503) and time-outs; `waiting_for_retry` are the
    requests that wait for their next attempt now; `mean_seconds` is a moving average of the time
    per answer; `last_answer_at` is a `time.monotonic()`.
    """

    answers: int = 0
    retries: int = 0
    overloads: int = 0
    waiting_for_retry: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    mean_seconds: float = 0.0
    last_answer_at: float = 0.0

    def add(self, answer: Answer) -> None:
        self.answers += 1
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        self.last_answer_at = time.monotonic()
        weight = 1 / min(self.answers, 32)
        self.mean_seconds += weight * (answer.seconds - self.mean_seconds)


LoadProbe = Callable[[], Awaitable[ServerLoad | None]]


@dataclass(frozen=True)
class LoadSnapshot:
    """The server's load, and the client's counts of answers and overloads, at one moment."""

    load: ServerLoad | None
    answers: int
    overloads: int


def initial_limit(load: ServerLoad | None, page_tokens: int) -> int:
    """As many pages of `page_tokens` as fit in the KV cache, and a few more to queue."""
    if load is None:
        return INITIAL_LIMIT_WITHOUT_METRICS
    if load.kv_tokens is None:
        return 2 * INITIAL_LIMIT_WITHOUT_METRICS
    return min(MAX_LIMIT, max(4, math.ceil(1.05 * load.kv_tokens / page_tokens)))


class ConcurrencyController:
    """Adjusts the limit of `limiter` to the server's load and to how it responds."""

    def __init__(
        self, limiter: ConcurrencyLimiter, stats: RequestStats, probe: LoadProbe, page_tokens: int
    ) -> None:
        self.limiter = limiter
        self.last_load: ServerLoad | None = None
        self._stats, self._probe, self._page_tokens = stats, probe, page_tokens
        self._previous = LoadSnapshot(None, 0, 0)
        self._has_metrics = False
        self._answers_at_start = 0
        self._overlong = 0
        self._hold_until = 0.0
        self._recent_overloads = self._recent_answers = 0.0

    async def start(self) -> None:
        """Set the initial limit."""
        self.last_load = await self._probe()
        self._previous = self.snapshot(self.last_load)
        self._answers_at_start = self._stats.answers
        self.limiter.set_limit(initial_limit(self.last_load, self._page_tokens))

    async def run(self) -> None:
        """Adjust the limit until cancelled."""
        while True:
            interval = self._stats.mean_seconds / SAMPLES_PER_ANSWER
            await asyncio.sleep(min(MAX_INTERVAL, max(MIN_INTERVAL, interval)))
            self.last_load = await self._probe()
            now = asyncio.get_running_loop().time()
            limit = self.next_limit(self.snapshot(self.last_load), now)
            if limit != self.limiter.limit:
                log.debug("limit %d -> %d (%s)", self.limiter.limit, limit, self.last_load)
                self.limiter.set_limit(limit)

    def next_limit(self, snapshot: LoadSnapshot, now: float) -> int:
        """The limit after `snapshot`, taken at `now` (seconds of a monotonic clock)."""
        previous, self._previous = self._previous, snapshot
        limit, load, previous_load = self.limiter.limit, snapshot.load, previous.load
        if self._is_overloaded(previous, snapshot):
            return self._lower_limit(0.8, now)
        if load is None:
            # A server that had metrics before is restarting, or too busy to send them.
            may_grow = (
                not self._has_metrics
                and limit < MAX_LIMIT_WITHOUT_METRICS
                and self._may_increase(now)
            )
            grown = min(MAX_LIMIT_WITHOUT_METRICS, limit + max(1, limit // 20))
            return grown if may_grow else limit
        self._has_metrics = True
        if previous_load is not None and load.preemptions > previous_load.preemptions:
            return self._lower_limit(0.95, now)
        if load.kv_usage >= KV_FULL:
            # Requests that run will need more: those that end are not replaced.
            return min(limit, max(1, math.ceil(load.running * KV_FULL / load.kv_usage)))
        queue = max(2, math.ceil(load.running * 0.04))
        if load.waiting < queue:
            self._overlong = 0
            growth = max(queue - load.waiting, limit // 8)
            if load.kv_usage > 0:
                # As many more of the size of those that run.
                growth = min(growth, int(load.running * (KV_FULL / load.kv_usage - 1)))
            may_grow = self._may_increase(now) and self._is_settled(snapshot)
            return min(MAX_LIMIT, limit + growth) if may_grow else limit
        # Until the first answer, samples may come faster than the server's steps.
        is_growing = (
            previous_load is None
            or load.running > previous_load.running
            or snapshot.answers == self._answers_at_start
        )
        self._overlong = 0 if load.waiting <= 2 * queue or is_growing else self._overlong + 1
        if self._overlong < OVERLONG_SAMPLES:
            return limit
        self._overlong = 0
        return limit - (load.waiting - 2 * queue + 1) // 2

    def snapshot(self, load: ServerLoad | None) -> LoadSnapshot:
        """The load, and the counts of now."""
        return LoadSnapshot(load, self._stats.answers, self._stats.overloads)

    def _is_overloaded(self, previous: LoadSnapshot, snapshot: LoadSnapshot) -> bool:
        """Whether many of the recent responses were overloads."""
        overloads = snapshot.overloads - previous.overloads
        answers = snapshot.answers - previous.answers
        self._recent_overloads = DECAY * self._recent_overloads + overloads
        self._recent_answers = DECAY * self._recent_answers + answers
        recent = self._recent_overloads + self._recent_answers
        return self._recent_overloads > max(1.0, OVERLOAD_SHARE * recent)

    def _may_increase(self, now: float) -> bool:
        """Whether a higher limit would be used, and the last decrease has had its effect."""
        return self.limiter.is_full and now >= self._hold_until

    def _is_settled(self, snapshot: LoadSnapshot) -> bool:
        """Whether the use of the KV cache is that of requests of all ages, or is not reported."""
        if snapshot.load is None or snapshot.load.kv_tokens is None:
            return True
        answers = snapshot.answers - self._answers_at_start
        return answers >= SETTLED_SHARE * self.limiter.limit

    def _lower_limit(self, factor: float, now: float) -> int:
        """A lower limit; the current one within a quarter of an answer's time of the last."""
        if now < self._hold_until:
            return self.limiter.limit
        self._hold_until = now + max(MIN_INTERVAL, self._stats.mean_seconds / 4)
        self._recent_overloads = 0.0
        return max(1, int(min(self.limiter.limit, self.limiter.in_flight) * factor))

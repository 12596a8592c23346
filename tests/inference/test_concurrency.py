"""The limiter, and the rules of its controller, sample by sample.

benchmarks/saturation.py measures what the rules achieve.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from llm_ocr.inference.concurrency import (
    INITIAL_LIMIT_WITHOUT_METRICS,
    MAX_LIMIT_WITHOUT_METRICS,
    ConcurrencyController,
    ConcurrencyLimiter,
    LoadSnapshot,
    RequestStats,
    initial_limit,
)
from llm_ocr.inference.responses import Answer
from llm_ocr.inference.server_status import ServerLoad


def load(running: int, waiting: int, kv: float = 0.5, preemptions: int = 0) -> ServerLoad:
    return ServerLoad(running, waiting, kv, 200_000, preemptions, 0, 0)


def times() -> Iterator[float]:
    """Times far enough apart for every decrease to have had its effect."""
    now = 0.0
    while True:
        yield now
        now += 1000.0


class SampledController:
    """A controller that is given its samples, with a limiter that is full."""

    def __init__(self, limit: int) -> None:
        self.limiter, self.stats = ConcurrencyLimiter(limit), RequestStats(mean_seconds=10.0)
        self.controller = ConcurrencyController(self.limiter, self.stats, self._no_load, 2000)
        self._times = times()

    async def _no_load(self) -> ServerLoad | None:
        return None

    def sample(self, seen: ServerLoad | None, answers: int = 0, overloads: int = 0) -> int:
        while not self.limiter.is_full:
            self.limiter.in_flight += 1
        self.stats.answers += answers
        self.stats.overloads += overloads
        snapshot = LoadSnapshot(seen, self.stats.answers, self.stats.overloads)
        self.limiter.set_limit(self.controller.next_limit(snapshot, next(self._times)))
        self.limiter.in_flight = min(self.limiter.in_flight, self.limiter.limit)
        return self.limiter.limit


def test_the_initial_limit_fills_the_kv_cache() -> None:
    assert 400 < initial_limit(load(0, 0), 500) < 440
    assert initial_limit(load(0, 0), 10**9) == 4
    assert initial_limit(None, 500) == INITIAL_LIMIT_WITHOUT_METRICS


def test_the_limit_grows_while_the_server_has_room_and_no_queue() -> None:
    sampled = SampledController(32)
    limits = [sampled.sample(load(sampled.limiter.limit, 0), answers=16) for _ in range(10)]
    assert limits == sorted(limits)
    assert limits[-1] > 90


def test_the_limit_exceeds_the_estimate_only_after_some_answers() -> None:
    """The cache use of requests that have just begun says nothing about what they will need."""
    sampled = SampledController(100)
    assert {sampled.sample(load(100, 0, kv=0.3), answers=1) for _ in range(20)} == {100}
    assert sampled.sample(load(100, 0, kv=0.3), answers=30) > 100


def test_the_limit_grows_no_further_than_the_kv_cache_has_room() -> None:
    sampled = SampledController(400)
    assert sampled.sample(load(400, 0, kv=0.9), answers=400) == 413
    assert sampled.sample(load(413, 0, kv=0.929)) == 413


def test_a_full_kv_cache_lowers_the_limit_before_anything_is_preempted() -> None:
    sampled = SampledController(400)
    assert sampled.sample(load(400, 0, kv=0.97), answers=400) == 384
    # A cache that holds a few requests only is not left empty.
    few = SampledController(4)
    assert few.sample(load(4, 0, kv=0.97), answers=4) == 4


def test_a_short_queue_keeps_the_limit() -> None:
    sampled = SampledController(104)
    assert {sampled.sample(load(100, 4)) for _ in range(10)} == {104}


def test_the_limit_does_not_grow_while_the_limiter_is_not_full() -> None:
    sampled = SampledController(64)
    sampled.limiter.in_flight = 0
    snapshot = LoadSnapshot(load(5, 0), 0, 0)
    assert sampled.controller.next_limit(snapshot, 0.0) == 64


def test_requests_waiting_for_prefill_are_no_overlong_queue() -> None:
    """At the start all requests wait, while more and more of them run. Before the first answer
    several samples may be taken in one of the server's steps."""
    sampled = SampledController(400)
    limits = [sampled.sample(load(running, 400 - running)) for running in range(18, 200, 18)]
    limits += [sampled.sample(load(200, 200)) for _ in range(10)]
    limits += [sampled.sample(load(running, 400 - running), 1) for running in range(218, 360, 18)]
    assert set(limits) == {400}


def test_an_overlong_queue_is_shortened_but_never_emptied() -> None:
    sampled = SampledController(400)
    limits = [sampled.sample(load(100, sampled.limiter.limit - 100), 1) for _ in range(100)]
    assert limits == sorted(limits, reverse=True)
    assert 100 < limits[-1] <= 110


def test_preemption_lowers_the_limit_a_little_until_there_is_room_again() -> None:
    sampled = SampledController(100)
    sampled.sample(load(90, 10, kv=0.9), answers=100)
    assert sampled.sample(load(90, 10, kv=0.9, preemptions=3)) == 95
    assert sampled.sample(load(90, 4, kv=0.9, preemptions=3)) == 95
    assert sampled.sample(load(91, 0, kv=0.8, preemptions=3)) > 95


def test_many_overloads_lower_the_limit_and_a_few_do_not() -> None:
    sampled = SampledController(100)
    sampled.sample(load(96, 4))
    for _ in range(50):
        sampled.sample(load(96, 4), answers=95, overloads=5)
    assert sampled.limiter.limit == 100
    for _ in range(2):
        sampled.sample(load(96, 4), answers=50, overloads=50)
    assert sampled.limiter.limit == 80


def test_without_metrics_the_limit_grows_to_a_maximum() -> None:
    sampled = SampledController(INITIAL_LIMIT_WITHOUT_METRICS)
    for _ in range(200):
        sampled.sample(None, answers=10)
    assert sampled.limiter.limit == MAX_LIMIT_WITHOUT_METRICS
    sampled.sample(None, answers=10, overloads=30)
    assert sampled.limiter.limit < MAX_LIMIT_WITHOUT_METRICS


def test_the_limit_stays_when_the_metrics_fail() -> None:
    sampled = SampledController(500)
    sampled.sample(load(480, 20))
    assert {sampled.sample(None) for _ in range(5)} == {500}


async def test_the_controller_follows_the_server_until_cancelled() -> None:
    async def empty_queue() -> ServerLoad | None:
        if limiter.limit > 60:
            raised.set()
        return load(limiter.limit, 0)

    limiter, stats, raised = ConcurrencyLimiter(8), RequestStats(), asyncio.Event()
    controller = ConcurrencyController(limiter, stats, empty_queue, page_tokens=20_000)
    await controller.start()
    assert limiter.limit == 11
    limiter.in_flight = stats.answers = 10_000
    following = asyncio.create_task(controller.run())
    async with asyncio.timeout(20):
        await raised.wait()
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    assert controller.last_load == load(
        controller.last_load.running if controller.last_load else 0, 0
    )


def test_stats_keep_a_moving_average_of_seconds() -> None:
    stats = RequestStats()
    for seconds in (2.0, 4.0):
        stats.add(Answer("", "stop", 10, 20, seconds, 1))
    assert (stats.mean_seconds, stats.answers, stats.prompt_tokens) == (3.0, 2, 20)


async def start_tasks(
    count: int, limiter: ConcurrencyLimiter, priority: int = 0
) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(limiter.acquire(priority)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def admitted(tasks: list[asyncio.Task[None]]) -> int:
    return sum(task.done() and not task.cancelled() for task in tasks)


async def run_ready_tasks() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_than_the_limit_are_in_flight() -> None:
    limiter = ConcurrencyLimiter(2)
    tasks = await start_tasks(5, limiter)
    assert (admitted(tasks), limiter.in_flight, limiter.waiting) == (2, 2, 3)
    limiter.release()
    await run_ready_tasks()
    assert (admitted(tasks), limiter.in_flight, limiter.peak_in_flight) == (3, 2, 2)


async def test_raising_the_limit_admits_waiting_tasks_at_once() -> None:
    limiter = ConcurrencyLimiter(1)
    tasks = await start_tasks(5, limiter)
    limiter.set_limit(4)
    await run_ready_tasks()
    assert (admitted(tasks), limiter.in_flight) == (4, 4)


async def test_lowering_the_limit_admits_no_task_until_enough_have_released() -> None:
    limiter = ConcurrencyLimiter(3)
    tasks = await start_tasks(5, limiter)
    limiter.set_limit(2)
    limiter.release()
    await run_ready_tasks()
    assert (admitted(tasks), limiter.in_flight) == (3, 2)
    limiter.release()
    await run_ready_tasks()
    assert (admitted(tasks), limiter.in_flight) == (4, 2)


async def test_a_higher_priority_is_admitted_before_earlier_tasks() -> None:
    limiter = ConcurrencyLimiter(1)
    await start_tasks(1, limiter)
    (normal,) = await start_tasks(1, limiter)
    (urgent,) = await start_tasks(1, limiter, priority=1)
    limiter.release()
    await run_ready_tasks()
    assert urgent.done()
    assert not normal.done()


async def test_a_cancelled_waiter_takes_no_slot() -> None:
    limiter = ConcurrencyLimiter(1)
    await start_tasks(1, limiter)
    first, second = await start_tasks(2, limiter)
    first.cancel()
    await run_ready_tasks()
    limiter.release()
    await run_ready_tasks()
    assert second.done()
    assert limiter.in_flight == 1


async def test_the_slot_of_a_task_cancelled_on_admission_goes_to_the_next() -> None:
    limiter = ConcurrencyLimiter(1)
    await start_tasks(1, limiter)
    first, second = await start_tasks(2, limiter)
    limiter.release()  # the first gets the slot, and is cancelled before it resumes
    first.cancel()
    await run_ready_tasks()
    assert second.done()
    assert limiter.in_flight == 1


async def test_a_slot_is_released_when_its_block_raises() -> None:
    limiter = ConcurrencyLimiter(1)
    with pytest.raises(RuntimeError):
        async with limiter.slot():
            raise RuntimeError
    assert limiter.in_flight == 0


async def test_listeners_get_the_current_limit_and_each_change() -> None:
    limiter, limits = ConcurrencyLimiter(3), list[int]()
    limiter.subscribe(limits.append)
    limiter.set_limit(5)
    limiter.set_limit(5)
    limiter.set_limit(0)
    assert limits == [3, 5, 1]


async def test_a_paused_limiter_admits_nobody_until_it_resumes() -> None:
    limiter, ended = ConcurrencyLimiter(2), asyncio.Event()

    async def hold() -> None:
        async with limiter.slot():
            await ended.wait()

    held = asyncio.create_task(hold())
    await asyncio.sleep(0)
    limiter.pause()
    waiting = [asyncio.create_task(hold()) for _ in range(2)]
    await asyncio.sleep(0)
    limiter.set_limit(3)
    assert (limiter.in_flight, limiter.waiting) == (1, 2)
    ended.set()
    await held
    assert (limiter.in_flight, limiter.waiting) == (0, 2)
    limiter.resume()
    await asyncio.gather(*waiting)
    assert limiter.peak_in_flight == 2

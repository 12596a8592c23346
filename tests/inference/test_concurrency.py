"""The width's rules, look by look; benchmarks/saturation.py shows what they come to."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from llm_ocr.inference.concurrency import BLIND_LIMIT, BLIND_START, Governor, Look, first_width
from llm_ocr.inference.metrics import ServerLoad
from llm_ocr.inference.replies import Answer
from llm_ocr.inference.traffic import Traffic
from llm_ocr.inference.window import Window


def load(running: int, waiting: int, kv: float = 0.5, preemptions: int = 0) -> ServerLoad:
    return ServerLoad(running, waiting, kv, 200_000, preemptions, 0, 0)


def times() -> Iterator[float]:
    """Moments far enough apart for every narrowing to have had its effect."""
    now = 0.0
    while True:
        yield now
        now += 1000.0


class Governed:
    """A governor whose looks are given, with a window that is full."""

    def __init__(self, width: int) -> None:
        self.window, self.traffic = Window(width), Traffic(seconds=10.0)
        self.governor = Governor(self.window, self.traffic, self._nothing, 2000)
        self._times = times()

    async def _nothing(self) -> ServerLoad | None:
        return None

    def look(self, seen: ServerLoad | None, answers: int = 0, push_backs: int = 0) -> int:
        while not self.window.is_full:
            self.window.inside += 1
        self.traffic.answers += answers
        self.traffic.push_backs += push_backs
        look = Look(seen, self.traffic.answers, self.traffic.push_backs)
        self.window.resize(self.governor.next_width(look, next(self._times)))
        self.window.inside = min(self.window.inside, self.window.width)
        return self.window.width


def test_the_first_width_is_what_the_cache_has_room_for() -> None:
    assert 400 < first_width(load(0, 0), 500) < 440
    assert first_width(load(0, 0), 10**9) == 4
    assert first_width(None, 500) == BLIND_START


def test_it_widens_while_the_server_has_no_queue_and_room() -> None:
    governed = Governed(32)
    widths = [governed.look(load(running=governed.window.width, waiting=0)) for _ in range(10)]
    assert widths == sorted(widths)
    assert widths[-1] > 90


def test_a_short_queue_is_right() -> None:
    governed = Governed(104)
    assert {governed.look(load(100, 4)) for _ in range(10)} == {104}


def test_it_does_not_widen_when_its_own_window_is_not_full() -> None:
    governed = Governed(64)
    governed.window.inside = 0
    look = Look(load(5, 0), 0, 0)
    assert governed.governor.next_width(look, 0.0) == 64


def test_a_queue_of_prefills_is_no_overlong_queue() -> None:
    """At the start everything waits, while more and more of it runs."""
    governed = Governed(400)
    widths = [governed.look(load(running, 400 - running)) for running in range(18, 360, 18)]
    assert set(widths) == {400}


def test_an_overlong_queue_is_shortened_but_never_emptied() -> None:
    governed = Governed(400)
    widths = [governed.look(load(100, governed.window.width - 100)) for _ in range(100)]
    assert widths == sorted(widths, reverse=True)
    assert 100 < widths[-1] <= 110


def test_preemption_narrows_a_little_and_it_widens_again_when_there_is_room() -> None:
    governed = Governed(100)
    governed.look(load(90, 10, kv=1.0))
    assert governed.look(load(90, 10, kv=1.0, preemptions=3)) == 95
    assert governed.look(load(90, 4, kv=0.97, preemptions=3)) == 95
    assert governed.look(load(91, 0, kv=0.8, preemptions=3)) > 95


def test_many_refusals_narrow_and_a_few_do_not() -> None:
    governed = Governed(100)
    governed.look(load(96, 4))
    for _ in range(50):
        governed.look(load(96, 4), answers=95, push_backs=5)
    assert governed.window.width == 100
    for _ in range(2):
        governed.look(load(96, 4), answers=50, push_backs=50)
    assert governed.window.width == 80


def test_a_server_that_says_nothing_is_felt_out_up_to_a_limit() -> None:
    governed = Governed(BLIND_START)
    for _ in range(200):
        governed.look(None, answers=10)
    assert governed.window.width == BLIND_LIMIT
    governed.look(None, answers=10, push_backs=30)
    assert governed.window.width < BLIND_LIMIT


def test_a_server_that_falls_silent_keeps_its_width() -> None:
    governed = Governed(500)
    governed.look(load(480, 20))
    assert {governed.look(None) for _ in range(5)} == {500}


async def test_it_follows_a_server_until_it_is_cancelled() -> None:
    async def empty_queue() -> ServerLoad | None:
        if window.width > 60:
            wide.set()
        return load(window.width, 0)

    window, traffic, wide = Window(8), Traffic(), asyncio.Event()
    governor = Governor(window, traffic, empty_queue, page_tokens=20_000)
    await governor.start()
    assert window.width == 11
    window.inside = 10_000
    following = asyncio.create_task(governor.run())
    async with asyncio.timeout(20):
        await wide.wait()
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    assert governor.last == load(governor.last.running if governor.last else 0, 0)


def test_traffic_keeps_a_recent_mean() -> None:
    traffic = Traffic()
    for seconds in (2.0, 4.0):
        traffic.count(Answer("", "stop", 10, 20, seconds, 1))
    assert (traffic.seconds, traffic.answers, traffic.prompt_tokens) == (3.0, 2, 20)

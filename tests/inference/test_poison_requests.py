import asyncio

from llm_ocr.inference.poison_requests import (
    ALONE,
    GROUP,
    GROUP_SIZE,
    PROVEN,
    PoisonRequestDetector,
    suspicion_after_crash,
)


class HeldItems:
    """Items that hold their slots until `end`."""

    def __init__(self, detector: PoisonRequestDetector) -> None:
        self.detector = detector
        self.running: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def add(self, name: str, crashes: int) -> None:
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._one(name, crashes))
        await settle()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await settle()

    async def _one(self, name: str, crashes: int) -> None:
        async with self.detector.slot(crashes):
            self.running.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_an_item_in_flight_at_four_quick_crashes_is_proven() -> None:
    suspicion = 0.0
    for _ in range(4):
        assert suspicion < PROVEN
        suspicion = suspicion_after_crash(suspicion, answered=3, limit=8)
    assert suspicion >= PROVEN


def test_crashes_long_after_an_item_was_sent_raise_little_suspicion() -> None:
    suspicion = suspicion_after_crash(0.0, answered=3, limit=8)
    for _ in range(2):
        suspicion = suspicion_after_crash(suspicion, answered=600, limit=8)
    assert suspicion < GROUP


def test_no_item_is_proven_that_did_not_run_alone() -> None:
    for early in range(8):
        suspicion = 0.0
        for k in range(20):
            before, suspicion = (
                suspicion,
                suspicion_after_crash(suspicion, answered=3 if k >= early else 600, limit=8),
            )
            if suspicion >= PROVEN:
                break
        assert suspicion >= PROVEN, "it is never found"
        assert before >= ALONE


async def test_after_one_crash_all_items_run_together() -> None:
    items = HeldItems(PoisonRequestDetector())
    await items.add("clean", 0)
    await items.add("once", 1)
    assert items.running == ["clean", "once"]


async def test_few_suspects_wait_until_nothing_else_is_left() -> None:
    items = HeldItems(PoisonRequestDetector())
    await items.add("clean", 0)
    await items.add("twice", GROUP)
    await items.add("late", 0)
    assert items.running == ["clean", "late"]
    await items.end("clean")
    assert items.running == ["late"]
    await items.end("late")
    assert items.running == ["twice"]


async def test_while_suspects_run_nothing_else_does() -> None:
    items = HeldItems(PoisonRequestDetector())
    await items.add("twice", GROUP)
    await items.add("late", 0)
    assert items.running == ["twice"]
    await items.end("twice")
    assert items.running == ["late"]


async def test_more_suspects_than_a_group_go_before_other_items() -> None:
    items = HeldItems(PoisonRequestDetector())
    await items.add("clean", 0)
    for k in range(GROUP_SIZE + 1):
        await items.add(str(k), GROUP)
    await items.add("late", 0)
    assert items.running == ["clean"]
    await items.end("clean")
    assert items.running == [str(k) for k in range(GROUP_SIZE)]
    for k in range(GROUP_SIZE + 1):
        await items.end(str(k))
    assert items.running == ["late"]


async def test_the_size_of_a_group_is_limited() -> None:
    items = HeldItems(PoisonRequestDetector())
    for k in range(GROUP_SIZE + 3):
        await items.add(str(k), GROUP)
    assert len(items.running) == GROUP_SIZE
    await items.end("0")
    assert len(items.running) == GROUP_SIZE


async def test_the_most_suspicious_items_run_first_and_alone() -> None:
    items = HeldItems(PoisonRequestDetector())
    await items.add("clean", 0)
    await items.add("twice", GROUP)
    await items.add("a", ALONE)
    await items.add("b", ALONE)
    await items.end("clean")
    assert items.running == ["a"]
    await items.end("a")
    assert items.running == ["b"]
    await items.end("b")
    assert items.running == ["twice"]


async def test_a_cancelled_suspect_delays_no_other_item() -> None:
    items = HeldItems(PoisonRequestDetector())
    await items.add("clean", 0)
    for k in range(GROUP_SIZE + 1):
        await items.add(str(k), GROUP)
    await items.add("late", 0)
    items.tasks["0"].cancel()
    await settle()
    assert items.running == ["clean", "late"]

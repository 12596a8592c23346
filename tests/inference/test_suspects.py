import asyncio

from llm_ocr.inference.suspects import (
    ALONE,
    GROUP,
    GROUP_SIZE,
    PROVEN,
    Suspects,
    guilt_of,
)


class Asked:
    """Items that hold a turn until they are told to end."""

    def __init__(self, suspects: Suspects) -> None:
        self.suspects = suspects
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
        async with self.suspects.turn(crashes):
            self.running.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_is_in_flight_at_each_of_four_quick_deaths_is_found() -> None:
    guilt = 0.0
    for _ in range(4):
        assert guilt < PROVEN
        guilt = guilt_of(guilt, answered=3, width=8)
    assert guilt >= PROVEN


def test_deaths_long_after_an_item_was_sent_say_little_of_it() -> None:
    guilt = guilt_of(0.0, answered=3, width=8)
    for _ in range(2):
        guilt = guilt_of(guilt, answered=600, width=8)
    assert guilt < GROUP


def test_nothing_is_held_guilty_that_was_not_asked_alone() -> None:
    for early in range(8):
        guilt = 0.0
        for k in range(20):
            before, guilt = guilt, guilt_of(guilt, answered=3 if k >= early else 600, width=8)
            if guilt >= PROVEN:
                assert before >= ALONE
                break
        else:
            raise AssertionError("it is never found")


async def test_after_one_death_everything_goes_on_together() -> None:
    asked = Asked(Suspects())
    await asked.add("clean", 0)
    await asked.add("once", 1)
    assert asked.running == ["clean", "once"]


async def test_few_suspects_wait_until_nothing_else_is_left() -> None:
    asked = Asked(Suspects())
    await asked.add("clean", 0)
    await asked.add("twice", GROUP)
    await asked.add("late", 0)
    assert asked.running == ["clean", "late"]
    await asked.end("clean")
    assert asked.running == ["late"]
    await asked.end("late")
    assert asked.running == ["twice"]


async def test_while_suspects_run_nothing_else_does() -> None:
    asked = Asked(Suspects())
    await asked.add("twice", GROUP)
    await asked.add("late", 0)
    assert asked.running == ["twice"]
    await asked.end("twice")
    assert asked.running == ["late"]


async def test_more_suspects_than_a_group_hold_the_others_back() -> None:
    asked = Asked(Suspects())
    await asked.add("clean", 0)
    for k in range(GROUP_SIZE + 1):
        await asked.add(str(k), GROUP)
    await asked.add("late", 0)
    assert asked.running == ["clean"]
    await asked.end("clean")
    assert asked.running == [str(k) for k in range(GROUP_SIZE)]
    for k in range(GROUP_SIZE + 1):
        await asked.end(str(k))
    assert asked.running == ["late"]


async def test_a_group_is_small() -> None:
    asked = Asked(Suspects())
    for k in range(GROUP_SIZE + 3):
        await asked.add(str(k), GROUP)
    assert len(asked.running) == GROUP_SIZE
    await asked.end("0")
    assert len(asked.running) == GROUP_SIZE


async def test_the_gravest_suspects_go_first_and_each_alone() -> None:
    asked = Asked(Suspects())
    await asked.add("clean", 0)
    await asked.add("twice", GROUP)
    await asked.add("a", ALONE)
    await asked.add("b", ALONE)
    await asked.end("clean")
    assert asked.running == ["a"]
    await asked.end("a")
    assert asked.running == ["b"]
    await asked.end("b")
    assert asked.running == ["twice"]


async def test_a_suspect_that_gives_up_holds_nobody_back() -> None:
    asked = Asked(Suspects())
    await asked.add("clean", 0)
    for k in range(GROUP_SIZE + 1):
        await asked.add(str(k), GROUP)
    await asked.add("late", 0)
    asked.tasks["0"].cancel()
    await settle()
    assert asked.running == ["clean", "late"]

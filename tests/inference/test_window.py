import asyncio

import pytest

from llm_ocr.inference.window import Window


async def started(count: int, window: Window, priority: int = 0) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(window.enter(priority)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def inside(tasks: list[asyncio.Task[None]]) -> int:
    return sum(task.done() and not task.cancelled() for task in tasks)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_than_the_width_come_in() -> None:
    window = Window(2)
    tasks = await started(5, window)
    assert (inside(tasks), window.inside, window.waiting) == (2, 2, 3)
    window.leave()
    await settle()
    assert (inside(tasks), window.inside, window.most_inside) == (3, 2, 2)


async def test_widening_lets_those_who_wait_in_at_once() -> None:
    window = Window(1)
    tasks = await started(5, window)
    window.resize(4)
    await settle()
    assert (inside(tasks), window.inside) == (4, 4)


async def test_narrowing_lets_nobody_in_until_enough_have_left() -> None:
    window = Window(3)
    tasks = await started(5, window)
    window.resize(2)
    window.leave()
    await settle()
    assert (inside(tasks), window.inside) == (3, 2)
    window.leave()
    await settle()
    assert (inside(tasks), window.inside) == (4, 2)


async def test_the_urgent_come_in_before_those_who_came_earlier() -> None:
    window = Window(1)
    await started(1, window)
    (patient,) = await started(1, window)
    (urgent,) = await started(1, window, priority=1)
    window.leave()
    await settle()
    assert urgent.done()
    assert not patient.done()


async def test_one_who_gives_up_waiting_takes_no_place() -> None:
    window = Window(1)
    await started(1, window)
    first, second = await started(2, window)
    first.cancel()
    await settle()
    window.leave()
    await settle()
    assert second.done()
    assert window.inside == 1


async def test_a_place_that_was_given_to_one_who_is_cancelled_goes_to_the_next() -> None:
    window = Window(1)
    await started(1, window)
    first, second = await started(2, window)
    window.leave()  # the first has its place, and is cancelled before it runs on
    first.cancel()
    await settle()
    assert second.done()
    assert window.inside == 1


async def test_a_place_is_given_back_when_its_block_fails() -> None:
    window = Window(1)
    with pytest.raises(RuntimeError):
        async with window.place():
            raise RuntimeError
    assert window.inside == 0


async def test_followers_hear_of_the_width_now_and_later() -> None:
    window, heard = Window(3), list[int]()
    window.follow(heard.append)
    window.resize(5)
    window.resize(5)
    window.resize(0)
    assert heard == [3, 5, 1]

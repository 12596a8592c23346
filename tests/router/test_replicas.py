"""Which replica gets a request, and what becomes of requests that wait."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from llm_ocr.router.metrics import RouterMetrics
from llm_ocr.router.replicas import NoReplicaError, Replica, ReplicaSet


def replica(name: str, limit: int = 1, *, max_failures: int = 3, ready: bool = True) -> Replica:
    metrics = RouterMetrics().of_replica("m", name)
    made = Replica(name, "m", limit, max_failures, metrics, notify=lambda line: None)
    if ready:
        made.record_success()
    return made


async def test_the_replica_with_the_least_load_is_next() -> None:
    cpu, gpu = replica("cpu", 2), replica("gpu", 8)
    replicas = ReplicaSet("m", [cpu, gpu], queue_size=0)
    async with AsyncExitStack() as stack:
        order = [(await stack.enter_async_context(replicas.lease())).name for _ in range(10)]
    # By the share of each one's limit, as one is slower than the other.
    assert sorted(order[:2]) == ["cpu", "gpu"]
    assert order.count("gpu") == 8
    assert order[2:5] == ["gpu"] * 3
    assert (cpu.in_flight, gpu.in_flight) == (0, 0)


async def test_idle_replicas_take_turns() -> None:
    replicas = ReplicaSet("m", [replica(name, 8) for name in "abc"], queue_size=0)
    used = []
    for _ in range(6):
        async with replicas.lease() as one:
            used.append(one.name)
    assert used == list("abcabc")


async def test_requests_wait_in_order_up_to_the_size_of_the_queue() -> None:
    replicas = ReplicaSet("m", [replica("a")], queue_size=2)
    order: list[int] = []

    async def use(number: int) -> None:
        async with replicas.lease():
            order.append(number)

    async with replicas.lease():
        tasks = [asyncio.create_task(use(number)) for number in range(2)]
        await asyncio.sleep(0)
        assert replicas.waiting == 2
        with pytest.raises(NoReplicaError, match="queue is full") as caught:
            await use(2)
        assert (caught.value.reason, caught.value.retry_after) == ("queue_full", 1)
    await asyncio.gather(*tasks)
    assert order == [0, 1]


async def test_a_request_that_is_cancelled_leaves_the_queue_and_no_slot_is_lost() -> None:
    one = replica("a")
    replicas = ReplicaSet("m", [one], queue_size=8)

    async def use() -> None:
        async with replicas.lease():
            pass

    async with replicas.lease():
        waiting, chosen = asyncio.create_task(use()), asyncio.create_task(use())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert replicas.waiting == 1
    # It has been given the slot, but has not run since.
    chosen.cancel()
    await asyncio.wait({chosen})
    assert (one.in_flight, replicas.waiting) == (0, 0)
    async with asyncio.timeout(5), replicas.lease():
        assert one.in_flight == 1


async def test_failures_in_a_row_take_a_replica_out_until_it_answers() -> None:
    one = replica("a", 8)
    replicas = ReplicaSet("m", [one], queue_size=8)
    one.record_failure()
    one.record_failure()
    one.record_success()
    one.record_failure()
    one.record_failure()
    assert replicas.is_ready
    one.record_failure()
    assert not replicas.is_ready
    with pytest.raises(NoReplicaError) as caught:
        async with replicas.lease():
            pass
    assert (caught.value.reason, caught.value.retry_after) == ("not_ready", 5)
    one.record_success()
    async with replicas.lease() as found:
        assert found is one
        one.record_failure(is_down=True)
        assert not one.is_ready


async def test_requests_wait_for_a_paused_replica_or_go_to_others() -> None:
    one, other = replica("a", 4), replica("b")
    replicas = ReplicaSet("m", [one, other], queue_size=8)
    one.pause()
    async with replicas.lease() as found:
        assert found is other
        waiting = asyncio.create_task(replicas.lease().__aenter__())
        await asyncio.sleep(0)
        assert (replicas.is_ready, replicas.waiting) == (True, 1)
        one.resume()
        assert await waiting is one


async def test_requests_do_not_wait_for_replicas_that_are_gone() -> None:
    one = replica("a")
    replicas = ReplicaSet("m", [one], queue_size=8)

    async def use() -> None:
        async with replicas.lease():
            pass

    async with replicas.lease():
        waiting = asyncio.create_task(use())
        await asyncio.sleep(0)
        one.record_failure(is_down=True)
        with pytest.raises(NoReplicaError):
            await waiting


async def test_a_resent_request_goes_to_another_replica_if_there_is_one() -> None:
    first, second = replica("a", 4), replica("b", 4)
    replicas = ReplicaSet("m", [first, second], queue_size=4)
    for _ in range(3):
        async with replicas.lease(excluded=first) as found:
            assert found is second
    second.record_failure(is_down=True)
    async with replicas.lease(excluded=first) as found:
        assert found is first


async def test_a_request_that_waits_for_another_replica_does_not_hold_up_others() -> None:
    first, second = replica("a"), replica("b")
    replicas = ReplicaSet("m", [first, second], queue_size=4)
    used: list[str] = []

    async def use(excluded: Replica | None) -> None:
        async with replicas.lease(excluded) as one:
            used.append(one.name)

    async with AsyncExitStack() as stack:
        busy = [await stack.enter_async_context(replicas.lease()) for _ in range(2)]
        assert busy == [first, second]
        resent, other = asyncio.create_task(use(first)), asyncio.create_task(use(None))
        await asyncio.sleep(0)
        assert replicas.waiting == 2
        # `first` gets room, which only the later request may use.
        first.in_flight -= 1
        first.record_success()
        await other
        assert used == ["a"]
        assert not resent.done()
        first.in_flight += 1
    await resent
    assert used == ["a", "b"]

"""Find the item that crashes the engine among those that were in flight when it crashed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# What a crash of the engine adds to the suspicion of an item that was in flight: a full 1 if it
# came soon after the item was sent, as it does when the item is the cause; less if many others were
# answered in between, as when an engine crashes for another reason. At first all items run
# together; from a suspicion of 2 they run in small groups, from 3 alone; at 4 an item is taken for
# the cause.
SOON, LATE = 1.0, 0.4
PROVEN = 4
GROUP = 2
ALONE = 3
GROUP_SIZE = 16


def suspicion_after_crash(suspicion: float, answered: int, limit: int) -> float:
    """An item's suspicion after a crash. `answered` other items were answered since it was sent,
    with up to `limit` in flight."""
    is_soon = suspicion >= GROUP or answered < limit
    return suspicion + (SOON if is_soon else LATE)


class PoisonRequestDetector:
    """Schedules items by their suspicion, so that the next crash tells who caused it.

    A group of suspects runs while nothing else is in flight: the next crash accuses only them. A
    few suspects wait until nothing else is left, because an idle engine is expensive, and two
    crashes for other reasons leave only a few long pages under suspicion; more of them go first.
    """

    def __init__(self) -> None:
        self._running: Counter[int] = Counter()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def slot(self, suspicion: float) -> AsyncIterator[None]:
        """Hold a slot for an item of that `suspicion` while the block runs."""
        level = int(suspicion) if suspicion >= GROUP else 0
        await self._acquire(level)
        try:
            yield
        finally:
            self._running[level] -= 1
            self._admit()

    async def _acquire(self, level: int) -> None:
        if not self._waiting and self._may_start(level):
            self._running[level] += 1
            return
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((level, slot))
        self._admit()
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                self._running[level] -= 1
            self._admit()
            raise

    def _admit(self) -> None:
        self._waiting = [(level, slot) for level, slot in self._waiting if not slot.done()]
        for level in (ALONE, GROUP, 0):
            for slot in [slot for waiting, slot in self._waiting if waiting == level]:
                if slot.done() or not self._may_start(level):
                    break
                self._running[level] += 1
                slot.set_result(None)

    def _may_start(self, level: int) -> bool:
        """Whether nothing of another level is in flight, and no other level goes first."""
        suspects = [waiting for waiting, slot in self._waiting if waiting and not slot.done()]
        if self._running.total() > self._running[level]:
            return False
        if not level:
            return len(suspects) <= GROUP_SIZE
        if any(waiting > level for waiting in suspects):
            return False
        return self._running[level] < (1 if level == ALONE else GROUP_SIZE)

"""Finding the item that kills the engine among those that were in flight when it died."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# What a death of the engine adds to the guilt of an item that was in flight: all of 1 if it came
# soon after the item was sent, as it does when an item kills; little if many others were answered
# in between, as when an engine dies by chance. At first everything goes on together; from a guilt
# of 2 the suspects go in small groups, from 3 each alone; at 4 an item is held to be what kills.
SOON, LATE = 1.0, 0.4
PROVEN = 4
GROUP = 2
ALONE = 3
GROUP_SIZE = 16


def guilt_of(guilt: float, answered: int, width: int) -> float:
    """An item's guilt after a death, before which `answered` others were answered since it was
    sent, while `width` were in flight."""
    is_soon = guilt >= GROUP or answered < width
    return guilt + (SOON if is_soon else LATE)


class Suspects:
    """Turns to ask, by an item's guilt.

    A group of suspects is asked while nothing else is in flight, so that the next death accuses
    nobody but them. Few suspects wait until nothing else is left, as an idle engine is dear, and
    an engine that died twice by chance leaves a few long pages behind; more of them go first.
    """

    def __init__(self) -> None:
        self._running: Counter[int] = Counter()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def turn(self, guilt: float) -> AsyncIterator[None]:
        """A turn for an item of that `guilt`, for as long as the block runs."""
        level = int(guilt) if guilt >= GROUP else 0
        await self._enter(level)
        try:
            yield
        finally:
            self._running[level] -= 1
            self._let_in()

    async def _enter(self, level: int) -> None:
        if not self._waiting and self._may_start(level):
            self._running[level] += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((level, turn))
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._running[level] -= 1
            self._let_in()
            raise

    def _let_in(self) -> None:
        self._waiting = [one for one in self._waiting if not one[1].done()]
        for level in (ALONE, GROUP, 0):
            for turn in [turn for wanted, turn in self._waiting if wanted == level]:
                if turn.done() or not self._may_start(level):
                    break
                self._running[level] += 1
                turn.set_result(None)

    def _may_start(self, level: int) -> bool:
        """Whether nothing of another level is in flight, and nobody goes before this one."""
        waiting = [wanted for wanted, turn in self._waiting if wanted and not turn.done()]
        if self._running.total() > self._running[level]:
            return False
        if not level:
            return len(waiting) <= GROUP_SIZE
        if any(wanted > level for wanted in waiting):
            return False
        return self._running[level] < (1 if level == ALONE else GROUP_SIZE)

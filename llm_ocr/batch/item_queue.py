"""Order the items that wait for a slot: at the end of a run, no long one starts last."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Generic, Protocol, TypeVar, runtime_checkable

# How many items are ordered, as a multiple of the items in progress: while the longest answer is
# written, a window starts six to eight times as many, and these should be shorter. With half as
# many, an L4 that reads 2,000 pages loses an eighth of the gain; with twice as many, none gains
# more than 0.2% (`benchmarks.feed`).
ORDERED_WINDOWS = 8
# And at most so many, whose documents may have been fetched. With half as many, an A100 that reads
# 2,000 pages loses a third of the gain; with twice as many, one that reads 10,000 gains 0.6%.
MOST_ORDERED = 2048

T = TypeVar("T")


@runtime_checkable
class MeasuredItem(Protocol):
    """An item of which it is known, before it is done, how long its answer will be."""

    async def expected_tokens(self) -> int:
        """About how many tokens the answer will have; 0 if nothing is known."""
        ...


def ordered_count(slots: int) -> int:
    """How many of the last items are ordered, where `slots` are in progress at once."""
    return min(MOST_ORDERED, ORDERED_WINDOWS * slots)


class ItemQueue(Generic[T]):
    """Items that were read and have no slot yet. Those put without a length come out first, then
    those of the greatest length, each in the order in which they were put.

    Lengths within a factor of two count as equal: expectations are no better than that, pages of a
    document stay together, and sequences that are all as long as can be would fill the KV cache at
    the same time.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[bool, int, int, T]] = []
        self._arrivals = count()
        self._changed = asyncio.Event()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def put(self, item: T, expected_tokens: int | None = None) -> None:
        is_ordered, length = expected_tokens is not None, (expected_tokens or 0).bit_length()
        heapq.heappush(self._heap, (is_ordered, -length, next(self._arrivals), item))
        self._changed.set()

    def get(self) -> T:
        """The next item. Raises IndexError if there is none."""
        *_, item = heapq.heappop(self._heap)
        self._changed.set()
        return item

    def close(self) -> None:
        """No more items will come."""
        self._is_closed = True
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition of the queue."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

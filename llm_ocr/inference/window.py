"""A window of things under way, whose width may change while they are."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count


class Window:
    """At most `width` things are under way; those that wait come in by priority, then in order.

    What is inside when the window narrows stays inside.
    """

    def __init__(self, width: int) -> None:
        self.inside = 0
        self.most_inside = 0
        self._width = width
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()
        self._followers: list[Callable[[int], None]] = []

    @property
    def width(self) -> int:
        return self._width

    @property
    def waiting(self) -> int:
        return sum(not place.done() for _, _, place in self._waiting)

    @property
    def is_full(self) -> bool:
        return self.inside >= self._width

    def resize(self, width: int) -> None:
        """Change the width (at least 1); those who wait come in at once where there is room."""
        width = max(1, width)
        if width == self._width:
            return
        self._width = width
        self._let_in()
        for follower in self._followers:
            follower(width)

    def follow(self, follower: Callable[[int], None]) -> None:
        """Call `follower` with the width now, and whenever it changes."""
        self._followers.append(follower)
        follower(self._width)

    async def enter(self, priority: int = 0) -> None:
        """Wait for a place; higher `priority` goes first. Pair with `leave`."""
        if not self._waiting and not self.is_full:
            self._take()
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-priority, next(self._arrivals), place))
        self._let_in()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        self.inside -= 1
        self._let_in()

    @asynccontextmanager
    async def place(self, priority: int = 0) -> AsyncIterator[None]:
        """A place for as long as the block runs."""
        await self.enter(priority)
        try:
            yield
        finally:
            self.leave()

    def _take(self) -> None:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)

    def _let_in(self) -> None:
        while self._waiting and not self.is_full:
            _, _, place = heapq.heappop(self._waiting)
            if not place.done():
                self._take()
                place.set_result(None)

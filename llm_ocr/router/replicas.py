"""The replicas of a model: which of them are ready, and which one gets a request next."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from llm_ocr.engines.launch import Engine
from llm_ocr.router.metrics import ReplicaMetrics


class NoReplicaError(Exception):
    """No replica of a model is ready, or its queue is full; `retry_after` is in seconds."""

    def __init__(self, message: str, reason: str, retry_after: int) -> None:
        super().__init__(message)
        self.reason, self.retry_after = reason, retry_after


@dataclass(eq=False)
class Replica:
    """A server of a model, and its requests in flight.

    `base_url` is that of a server that runs already, or of the `engine` while one runs.
    `max_failures` in a row make it unready until a probe succeeds.
    """

    name: str
    served_model: str
    max_concurrency: int
    max_failures: int
    metrics: ReplicaMetrics
    # Receives a line when it becomes ready or unready.
    notify: Callable[[str], None]
    base_url: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    engine: Engine | None = None
    in_flight: int = 0
    last_used: float = 0.0
    last_success: float = 0.0
    # Called when requests that wait may get a replica, or won't get one any more.
    on_change: Callable[[], None] = lambda: None
    _failures: int = 0
    _is_healthy: bool = False
    _is_paused: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether it may get requests, now or, while its engine is restarted, in a while."""
        is_down = self.engine is not None and self.engine.is_down
        return self._is_healthy and (self._is_paused or not is_down)

    @property
    def has_room(self) -> bool:
        """Whether it may get one more request now."""
        return self.is_ready and not self._is_paused and self.in_flight < self.max_concurrency

    @property
    def load(self) -> float:
        """Requests in flight as a share of those that it may get at a time."""
        return self.in_flight / self.max_concurrency

    @property
    def is_idle(self) -> bool:
        return not self.in_flight

    def pause(self) -> None:
        """Get no more requests: they wait, or go to others."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.on_change()

    def forgive(self) -> None:
        """Nothing: requests that are cut off are sent once more, whatever the reason."""

    def record_success(self) -> None:
        """Note that it answered a request or a probe."""
        self._failures, self.last_success = 0, time.monotonic()
        if self.engine is not None:
            self.engine.answered()
        self._set_healthy(True)

    def record_failure(self, *, is_down: bool = False) -> None:
        """Note a failure; `is_down`: nobody listens there."""
        self._failures += 1
        self.metrics.failures.inc()
        if is_down or self._failures >= self.max_failures:
            self._set_healthy(False)

    def _set_healthy(self, is_healthy: bool) -> None:
        if is_healthy != self._is_healthy:
            self.notify(f"{self.name} is {'ready' if is_healthy else 'not ready'}")
            self._is_healthy = is_healthy
        self.on_change()


@dataclass(eq=False)
class _Waiter:
    granted: "asyncio.Future[Replica]"
    excluded: Replica | None


class ReplicaSet:
    """The replicas of one model, and the requests that wait for one of them, at most
    `queue_size`."""

    def __init__(self, model: str, replicas: Sequence[Replica], queue_size: int) -> None:
        self.model, self.replicas, self._queue_size = model, replicas, queue_size
        self._waiting: deque[_Waiter] = deque()
        for replica in replicas:
            replica.on_change = self._dispatch

    @property
    def waiting(self) -> int:
        """The requests that wait for a replica."""
        return len(self._waiting)

    @property
    def capacity(self) -> int:
        """The requests that its replicas and its queue can hold."""
        return sum(replica.max_concurrency for replica in self.replicas) + self._queue_size

    @property
    def is_ready(self) -> bool:
        return any(replica.is_ready for replica in self.replicas)

    @asynccontextmanager
    async def lease(self, excluded: Replica | None = None) -> AsyncIterator[Replica]:
        """The ready replica with the least load, once it has room. Not `excluded`, unless it is the
        only one that is ready. Raises NoReplicaError."""
        replica = await self._acquire(excluded)
        try:
            yield replica
        finally:
            replica.in_flight -= 1
            self._dispatch()

    async def _acquire(self, excluded: Replica | None) -> Replica:
        if not self.is_ready:
            raise self._unready_error()
        # Those that wait are first, unless only others have room.
        waiter = _Waiter(asyncio.get_running_loop().create_future(), excluded)
        self._waiting.append(waiter)
        self._dispatch()
        if not waiter.granted.done() and len(self._waiting) > self._queue_size:
            self._waiting.remove(waiter)
            message = f"all replicas of {self.model} are busy, and the queue is full"
            raise NoReplicaError(message, "queue_full", retry_after=1)
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.granted.cancelled() and waiter.granted.exception() is None:
                waiter.granted.result().in_flight -= 1
                self._dispatch()
            raise

    def _dispatch(self) -> None:
        """Give replicas with room to the requests that wait, in order."""
        if not self.is_ready:
            while self._waiting:
                self._waiting.popleft().granted.set_exception(self._unready_error())
            return
        blocked: list[_Waiter] = []
        while self._waiting and self._pick(None) is not None:
            waiter = self._waiting.popleft()
            if waiter.granted.done():
                # Its client left; it will find that it isn't in the queue.
                continue
            replica = self._pick(waiter.excluded)
            if replica is None:
                blocked.append(waiter)
                continue
            replica.in_flight += 1
            replica.last_used = time.monotonic()
            waiter.granted.set_result(replica)
        self._waiting.extendleft(reversed(blocked))

    def _pick(self, excluded: Replica | None) -> Replica | None:
        ready = [replica for replica in self.replicas if replica.is_ready]
        others = [replica for replica in ready if replica is not excluded] or ready
        free = [replica for replica in others if replica.has_room]
        return min(free, key=lambda replica: (replica.load, replica.last_used), default=None)

    def _unready_error(self) -> NoReplicaError:
        return NoReplicaError(f"no replica of {self.model} is ready", "not_ready", retry_after=5)

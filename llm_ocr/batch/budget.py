"""Enforce `max_cost`: a worker's share of the budget, and the stop when it is used up."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from llm_ocr.batch.events import Note, Notify
from llm_ocr.batch.interruption import BudgetExceededError, CancellationToken
from llm_ocr.batch.partition import WorkerPartition
from llm_ocr.report.sessions import SessionLog
from llm_ocr.settings import Settings

# Seconds for pages in flight when the budget was used up, before they are dropped.
DRAIN_SECONDS = 300.0
# Seconds between two looks at the clock: a long sleep would not notice that the machine slept too.
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Budget:
    """`whole` is what the run may cost, `part` what this worker may still spend of it, at
    `price_per_hour`; all in US dollars."""

    whole: float
    part: float
    price_per_hour: float
    share: WorkerPartition

    @property
    def seconds(self) -> float | None:
        """How long this session may last; None: without limit."""
        return 3600 * self.part / self.price_per_hour if self.price_per_hour else None

    @property
    def message(self) -> str:
        alone = self.share.count == 1
        mine = "" if alone else f", share of worker {self.share.index} of {self.share.count}"
        return f"budget exhausted (`max_cost` {self.whole:g}{mine})"


def remaining_budget(
    settings: Settings, share: WorkerPartition, sessions: Sequence[SessionLog]
) -> Budget | None:
    """The budget of a session that begins now; None: there is no limit.

    The run's budget is divided among its workers. The cost of a worker's own earlier sessions is
    taken from its part, so that a worker that a platform restarts gets no new budget; the cost of
    sessions with another number of workers, from the whole.
    """
    if settings.max_cost is None or settings.price_per_hour is None:
        return None
    others = sum(log.cost or 0.0 for log in sessions if log.workers != share.count)
    own = sum(
        log.cost or 0.0
        for log in sessions
        if (log.worker, log.workers) == (share.index, share.count)
    )
    part = max(0.0, (settings.max_cost - others) / share.count - own)
    return Budget(settings.max_cost, part, settings.price_per_hour, share)


@asynccontextmanager
async def enforce_budget(
    budget: Budget | None, started: float, stop: CancellationToken, notify: Notify, *, drains: bool
) -> AsyncIterator[None]:
    """Drain the run when the budget is used up; stop it then, or with `drains` only if that takes
    too long. The session `started` then (`time.monotonic()`)."""
    if budget is None or budget.seconds is None:
        yield
        return
    end = started + budget.seconds
    if monotonic() >= end:
        stop.drain(BudgetExceededError(budget.message))
        yield
        return
    watching = asyncio.create_task(_watch(budget, end, stop, notify, drains))
    try:
        yield
    finally:
        watching.cancel()


async def _watch(
    budget: Budget, end: float, stop: CancellationToken, notify: Notify, drains: bool
) -> None:
    while (left := end - monotonic()) > 0:
        await asyncio.sleep(min(left, LOOK_SECONDS))
    stop.drain(BudgetExceededError(budget.message))
    if drains:
        notify(Note("`max_cost` reached: finishing the pages in flight, starting no new ones"))
        await asyncio.sleep(DRAIN_SECONDS)
    stop.request(preempted=False)

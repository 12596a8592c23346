"""What a worker may spend of a run's --max-cost, and what happens when it is spent."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from llm_ocr.pipeline.events import Note, Notify
from llm_ocr.pipeline.interruption import BudgetSpentError, Stop
from llm_ocr.pipeline.share import Share
from llm_ocr.report.sessions import SessionRecord
from llm_ocr.settings import Settings

# Seconds for pages that were asked about when the budget was spent, before they are dropped.
DRAIN_SECONDS = 300.0
# Seconds between two looks at the clock: a long sleep would not notice that the machine slept too.
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Budget:
    """`whole` is what the run may cost, `part` what of it this worker may still spend from now on,
    at `price_per_hour`; all in US dollars."""

    whole: float
    part: float
    price_per_hour: float
    share: Share

    @property
    def seconds(self) -> float | None:
        """Of this session until it is spent; None: it never is."""
        return 3600 * self.part / self.price_per_hour if self.price_per_hour else None

    @property
    def message(self) -> str:
        alone = self.share.count == 1
        mine = "" if alone else f", worker {self.share.index}'s part of {self.share.count}"
        return (
            f"what the run may cost is spent (--max-cost {self.whole:g}{mine}); the same command "
            "with a larger --max-cost, or without, goes on with it"
        )


def budget_of(settings: Settings, share: Share, sessions: Sequence[SessionRecord]) -> Budget | None:
    """The budget of a session that begins now; None: there is no limit.

    The run's is divided among its workers. What a worker's own earlier sessions cost is taken from
    its part, so that one that a platform starts again has no new budget; what other numbers of
    workers spent, from the whole.
    """
    if settings.max_cost is None or settings.price_per_hour is None:
        return None
    others = sum(one.cost or 0.0 for one in sessions if one.workers != share.count)
    own = sum(
        one.cost or 0.0
        for one in sessions
        if (one.worker, one.workers) == (share.index, share.count)
    )
    part = max(0.0, (settings.max_cost - others) / share.count - own)
    return Budget(settings.max_cost, part, settings.price_per_hour, share)


@asynccontextmanager
async def within(
    budget: Budget | None, started: float, stop: Stop, notify: Notify, *, drains: bool
) -> AsyncIterator[None]:
    """Close `stop` when the budget is spent, and where what has begun `drains`, ask it to stop only
    if that takes too long. The session `started` then (`time.monotonic()`)."""
    if budget is None or budget.seconds is None:
        yield
        return
    end = started + budget.seconds
    if monotonic() >= end:
        stop.close(BudgetSpentError(budget.message))
        yield
        return
    watching = asyncio.create_task(_watch(budget, end, stop, notify, drains))
    try:
        yield
    finally:
        watching.cancel()


async def _watch(budget: Budget, end: float, stop: Stop, notify: Notify, drains: bool) -> None:
    while (left := end - monotonic()) > 0:
        await asyncio.sleep(min(left, LOOK_SECONDS))
    stop.close(BudgetSpentError(budget.message))
    if drains:
        notify(Note("--max-cost is spent: pages in flight are finished, no more are begun"))
        await asyncio.sleep(DRAIN_SECONDS)
    stop.ask(preempted=False)

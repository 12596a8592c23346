"""A process of a crew: it does the shards that another process hands it, and reports."""

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import monotonic

from llm_ocr.inference.replies import EngineFailedError
from llm_ocr.pipeline.again import Again, Elsewhere
from llm_ocr.pipeline.crew import Here, Site, render_pool, stage_named
from llm_ocr.pipeline.due import STAGES
from llm_ocr.pipeline.events import Event, ItemsDone, Note, ShardDone
from llm_ocr.pipeline.interruption import Stop, StoppedError
from llm_ocr.pipeline.loop import Work
from llm_ocr.pipeline.planning import standing_plan
from llm_ocr.report.summary import Session
from llm_ocr.settings import Settings
from llm_ocr.storage.store import StorageError, Store, open_store
from llm_ocr.tables.counts import BalanceError, Counts
from llm_ocr.tables.ledger import Ledger

# Seconds between two reports where nothing asks for one sooner.
REPORT_SECONDS = 1.0
Ended = EngineFailedError | StorageError | BalanceError


@dataclass(frozen=True)
class Report:
    """What happened since the last report, and since the beginning: how many shards were taken up,
    and the session. `error` is what ended the process's work, if something did."""

    events: tuple[Event, ...]
    taken: int
    session: Session
    error: Ended | None = None


@dataclass(frozen=True)
class Task:
    """A shard that a stage is to do; `again` makes what does it again, if that is wanted."""

    stage: str
    work: Work
    again: Elsewhere | None = None


class Hand:
    """`hand.start(); hand.give(Task("extract", work)); await hand.report(); await hand.finish()`.

    A shard is taken up when the items of those before it are all under way, so that the window
    stays full as long as one shard waits. The engine stays up from one stage to the next.
    """

    def __init__(self, out: str, settings: Settings) -> None:
        self._store, self._settings = open_store(out), settings
        self._session = Session(monotonic())
        self._stop = Stop()
        self._given: asyncio.Queue[Task | None] = asyncio.Queue()
        self._first_given: list[Task | None] = []
        self._taken = 0
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._log = _Notes(self._events)
        self._here: Here | None = None

    def start(self) -> None:
        """Begin, in the event loop that runs."""
        logging.getLogger("llm_ocr").addHandler(self._log)
        self._living = asyncio.create_task(self._live())

    def give(self, task: "Task") -> None:
        """Have the shard done, after all that was given before."""
        self._given.put_nowait(task)

    async def report(self) -> Report:
        """Wait until there is something to tell, a second at most, and tell it.

        Raises what the work ended with where that is no error that a run knows.
        """
        changed = asyncio.ensure_future(self._changed.wait())
        waited_for = {changed, self._living}
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(waited_for, timeout=REPORT_SECONDS, return_when=first)
        changed.cancel()
        self._changed.clear()
        if self._here is not None:
            self._here.account()
        events = tuple(_merged(self._events.popleft() for _ in range(len(self._events))))
        return Report(events, self._taken, self._session, self._error())

    async def finish(self) -> Report:
        """End in order, once everything that was given is done, and report for the last time."""
        self._given.put_nowait(None)
        return await self._ended()

    async def stop(self) -> Report:
        """Stage what is finished, end the engine, and report for the last time."""
        self._stop.ask(preempted=False)
        return await self._ended()

    async def _ended(self) -> Report:
        await asyncio.wait({self._living})
        logging.getLogger("llm_ocr").removeHandler(self._log)
        return await self.report()

    def _error(self) -> Ended | None:
        if not self._living.done():
            return None
        try:
            self._living.result()
        except StoppedError:
            return None
        except (EngineFailedError, StorageError, BalanceError) as error:
            return error
        return None

    async def _live(self) -> None:
        store, settings = self._store, self._settings
        async with render_pool(settings) as pool:
            ledger = Ledger(store, STAGES)
            site = Site(store, ledger, settings, pool, self._session, self._stop, self._tell)
            async with Here(site) as self._here:
                while (first := await self._stop.before(self._first())) is not None:
                    name = first.stage
                    # What others have done of the stages before is looked up when one begins.
                    await asyncio.to_thread(ledger.refresh)
                    again = await asyncio.to_thread(self._again, first, ledger)
                    stage = await asyncio.to_thread(stage_named, name, site, again)
                    own = await asyncio.to_thread(self._work_again, again)
                    await self._here.do_as_it_comes(stage, self._of_stage(name, own))
                    for why, pages in (again.left_alone if again else {}).items():
                        self._tell(Note(f"{pages:,} pages were left as they are: {why}"))

    def _again(self, first: "Task", ledger: Ledger) -> Again | None:
        return None if first.again is None else first.again(self._store, ledger)

    def _work_again(self, again: Again | None) -> dict[str, Work] | None:
        """What there is to do again, by shard, as this process sees it."""
        if again is None:
            return None
        return {one.shard.name: one for one in again.work(standing_plan(self._store))}

    async def _first(self) -> "Task | None":
        """The first of what was given and not yet taken up; None if no more will be given."""
        if not self._first_given:
            self._first_given.append(await self._given.get())
        return self._first_given[0]

    async def _of_stage(self, stage: str, own: Mapping[str, Work] | None) -> AsyncIterator[Work]:
        """Take up the shards given, as long as they are of this stage. Of those that are done again
        (`own`) a shard that isn't there was done meanwhile."""
        while (first := await self._first()) is not None and first.stage == stage:
            self._first_given.clear()
            self._taken += 1
            self._changed.set()
            work = first.work
            yield work if own is None else own.get(work.shard.name, replace(work, kept=_done))

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        if isinstance(event, ShardDone):
            self._changed.set()


def _done(store: Store) -> None:
    """`Work.kept` of a shard that there is nothing to do of."""


class _Notes(logging.Handler):
    """Warnings become notes: nobody reads the log of a process elsewhere."""

    def __init__(self, events: deque[Event]) -> None:
        super().__init__(logging.WARNING)
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        self._events.append(Note(self.format(record)))


def _merged(events: Iterable[Event]) -> Iterator[Event]:
    """The same with items that ended alike counted together, before everything else."""
    items: Counter[tuple[str, str, bool]] = Counter()
    others: list[Event] = []
    for event in events:
        if isinstance(event, ItemsDone):
            items[event.stage, event.status, event.fresh] += event.count
        else:
            others.append(event)
    for (stage, status, fresh), count in items.items():
        yield ItemsDone(stage, status, count, fresh)
    yield from others


def add_up(session: Session, several: Iterable[Session]) -> None:
    """Make the session what several processes did together."""
    parts = list(several)
    session.counts = {}
    for part in parts:
        for stage, counts in part.counts.items():
            session.counts.setdefault(stage, Counts()).add(counts)
    session.retries = sum(part.retries for part in parts)
    session.engine_restarts = sum(part.engine_restarts for part in parts)
    session.seconds_down = sum(part.seconds_down for part in parts)
    session.preemptions = sum(part.preemptions for part in parts)
    session.widest_window = max((part.widest_window for part in parts), default=0)
    session.engines = list(dict.fromkeys(one for part in parts for one in part.engines))
    busy = [part.gpu_busy for part in parts if part.gpu_busy is not None]
    session.gpu_busy = sum(busy) / len(busy) if busy else None
    held_back: defaultdict[str, float] = defaultdict(float)
    seen = [part.held_back for part in parts if part.held_back]
    for shares in seen:
        for name, share in shares.items():
            held_back[name] += share / len(seen)
    session.held_back = dict(sorted(held_back.items(), key=lambda one: -one[1]))

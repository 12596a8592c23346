"""A worker process runs the shards that a remote executor assigns to it, and reports back."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import monotonic

from llm_ocr.batch.events import Event, ItemsDone, ShardDone
from llm_ocr.batch.executor import LocalExecutor, create_stage
from llm_ocr.batch.interruption import CancellationToken, StoppedError
from llm_ocr.batch.planning import load_plan
from llm_ocr.batch.rework import ReworkFactory
from llm_ocr.batch.stage_runner import RunContext, ShardTask
from llm_ocr.document.configure import render_pool
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.report.summary import SessionStats
from llm_ocr.settings import Settings
from llm_ocr.storage.store import StorageError, Store, open_store
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.counts import CountMismatchError, Counts
from llm_ocr.tables.schema import STAGES

# Seconds between two reports where nothing asks for one sooner.
REPORT_SECONDS = 1.0
WorkerError = EngineFailedError | StorageError | CountMismatchError


@dataclass(frozen=True)
class WorkerReport:
    """`events` since the last report; since the beginning, how many shards were `started`, and the
    session. `error` is what ended the worker, if it failed."""

    events: tuple[Event, ...]
    started: int
    session: SessionStats
    error: WorkerError | None = None


@dataclass(frozen=True)
class ShardAssignment:
    """A shard to run through a stage; `rework` creates the stage that reprocesses it, if asked
    for."""

    stage: str
    work: ShardTask
    rework: ReworkFactory | None = None


class RemoteShardWorker:
    """Runs assigned shards one after another, with an engine of its own.

        worker.start()
        worker.assign(ShardAssignment("extract", work))
        await worker.report()
        await worker.finish()

    A shard is started when all items of those before it are in flight, so that the window stays
    full as long as one shard waits. The engine stays up from one stage to the next.
    """

    def __init__(self, out: str, settings: Settings) -> None:
        self._store, self._settings = open_store(out), settings
        self._session = SessionStats(monotonic())
        self._stop = CancellationToken()
        self._assigned: asyncio.Queue[ShardAssignment | None] = asyncio.Queue()
        self._lookahead: list[ShardAssignment | None] = []
        self._started = 0
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._executor: LocalExecutor | None = None

    def start(self) -> None:
        """Start in the running event loop."""
        self._running = asyncio.create_task(self._run())

    def assign(self, task: "ShardAssignment") -> None:
        """Queue the shard behind all that were assigned before."""
        self._assigned.put_nowait(task)

    async def report(self) -> WorkerReport:
        """Wait until there is something to report, a second at most, and report it.

        Raises the error that ended the worker if it isn't one of `WorkerError`.
        """
        changed = asyncio.ensure_future(self._changed.wait())
        waited_for = {changed, self._running}
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(waited_for, timeout=REPORT_SECONDS, return_when=first)
        changed.cancel()
        self._changed.clear()
        if self._executor is not None:
            self._executor.update_session()
        events = tuple(_merge_items(self._events.popleft() for _ in range(len(self._events))))
        return WorkerReport(events, self._started, self._session, self._error())

    def notify(self, event: Event) -> None:
        """Add the event to the next report."""
        self._events.append(event)
        if isinstance(event, ShardDone):
            self._changed.set()

    async def finish(self) -> WorkerReport:
        """End once everything that was assigned is done, and report for the last time."""
        self._assigned.put_nowait(None)
        return await self._finished()

    async def stop(self) -> WorkerReport:
        """Stage what is finished, stop the engine, and report for the last time."""
        self._stop.request(preempted=False)
        return await self._finished()

    async def _finished(self) -> WorkerReport:
        await asyncio.wait({self._running})
        return await self.report()

    def _error(self) -> WorkerError | None:
        if not self._running.done():
            return None
        try:
            self._running.result()
        except StoppedError:
            return None
        except (EngineFailedError, StorageError, CountMismatchError) as error:
            return error
        return None

    async def _run(self) -> None:
        store, settings = self._store, self._settings
        async with render_pool(settings) as pool:
            commit_index = CommitIndex(store, STAGES)
            context = RunContext(
                store, commit_index, settings, pool, self._session, self._stop, self.notify
            )
            async with LocalExecutor(context) as self._executor:
                while (first := await self._stop.guard(self._peek())) is not None:
                    name = first.stage
                    # What other workers did of earlier stages is looked up when a stage begins.
                    await asyncio.to_thread(commit_index.refresh)
                    if first.rework is None:
                        stage = await asyncio.to_thread(create_stage, name, context)
                        await self._executor.run_stream(stage, self._shards_of_stage(name, None))
                        continue
                    rework = await asyncio.to_thread(first.rework, context)
                    tasks = rework.tasks(await asyncio.to_thread(load_plan, store))
                    own = {task.shard.name: task for task in tasks}
                    await self._executor.run_stream(rework, self._shards_of_stage(name, own))
                    for note in rework.notes():
                        self.notify(note)

    async def _peek(self) -> "ShardAssignment | None":
        """The next assignment, which stays in the queue; None if there will be no more."""
        if not self._lookahead:
            self._lookahead.append(await self._assigned.get())
        return self._lookahead[0]

    async def _shards_of_stage(
        self, stage: str, own: Mapping[str, ShardTask] | None
    ) -> AsyncIterator[ShardTask]:
        """Start the assigned shards as long as they are of this stage. When reprocessing (`own`), a
        shard that isn't there was done meanwhile."""
        while (first := await self._peek()) is not None and first.stage == stage:
            self._lookahead.clear()
            self._started += 1
            self._changed.set()
            work = first.work
            yield (
                work
                if own is None
                else own.get(work.shard.name, replace(work, unchanged_ids=_nothing_left))
            )


def _nothing_left(store: Store) -> None:
    """`ShardTask.unchanged_ids` of a shard with nothing left to do."""


def _merge_items(events: Iterable[Event]) -> Iterator[Event]:
    """The same events, with items of the same status counted together and put first."""
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


def merge_sessions(session: SessionStats, several: Iterable[SessionStats]) -> None:
    """Make the session the sum of the sessions of several processes."""
    parts = list(several)
    session.counts = {}
    for part in parts:
        for stage, counts in part.counts.items():
            session.counts.setdefault(stage, Counts()).add(counts)
    session.retries = sum(part.retries for part in parts)
    session.engine_restarts = sum(part.engine_restarts for part in parts)
    session.memory_restarts = sum(part.memory_restarts for part in parts)
    session.downtime_seconds = sum(part.downtime_seconds for part in parts)
    session.preemptions = sum(part.preemptions for part in parts)
    session.peak_concurrency = max((part.peak_concurrency for part in parts), default=0)
    session.engines = list(dict.fromkeys(one for part in parts for one in part.engines))
    busy = [part.gpu_utilization for part in parts if part.gpu_utilization is not None]
    session.gpu_utilization = sum(busy) / len(busy) if busy else None
    bottlenecks: defaultdict[str, float] = defaultdict(float)
    seen = [part.bottlenecks for part in parts if part.bottlenecks]
    for shares in seen:
        for name, share in shares.items():
            bottlenecks[name] += share / len(seen)
    session.bottlenecks = dict(sorted(bottlenecks.items(), key=lambda one: -one[1]))

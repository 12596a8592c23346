"""An executor that runs shards on engines of a Ray cluster.

Only shards' names and counts travel through Ray; pages and results are read from and written to
the stores by the nodes.
"""

import asyncio
import logging
import math
import os
from collections import Counter, deque
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self, TypeVar

import ray
from ray.exceptions import RayActorError

from llm_ocr.batch.events import Event, ItemsDone, Note, ShardDone
from llm_ocr.batch.pending import publish_committed, uncommitted_shards
from llm_ocr.batch.rework import ReworkFactory, ReworkStage
from llm_ocr.batch.shard_worker import (
    RemoteShardWorker,
    ShardAssignment,
    WorkerReport,
    merge_sessions,
)
from llm_ocr.batch.stage_runner import RunContext, ShardTask, nothing_unchanged
from llm_ocr.batch.stages import Stage
from llm_ocr.batch.telemetry import Telemetry
from llm_ocr.document.configure import step_target
from llm_ocr.engines.targets import EngineKind
from llm_ocr.inference.responses import EngineFailedError, WrongServerError
from llm_ocr.messages import pluralize
from llm_ocr.platforms.cluster import (
    SCHEDULING_SECONDS,
    ClusterError,
    EngineAllocation,
    death_reason,
    import_error_advice,
)
from llm_ocr.platforms.worker_config import (
    WorkerConfig,
    create_worker_config,
    preflight_error,
)
from llm_ocr.report.summary import SessionStats
from llm_ocr.settings import Settings
from llm_ocr.tables.counts import Counts

# Shards queued at an engine in addition to those that it has started, so that its window stays full
# until more arrive.
AHEAD = 2
# How often an engine's process may die without finishing a shard before the engine is given up.
MAX_DEATHS = 5
# Seconds for a stop to stage what is finished, and to end the engine.
STOP_SECONDS = 60.0
Result = TypeVar("Result")


@dataclass
class _Engine:
    """The driver's state of an engine, whose process may have been restarted.

    `shards` are assigned to it and not committed; `assigned` and `started` count the shards of its
    current process; `open_items` are reported items that are in no committed shard yet.
    """

    number: int
    actor: Any = None
    is_up: bool = False
    is_waiting: bool = False
    shards: dict[str, ShardTask] = field(default_factory=dict)
    assigned: int = 0
    started: int = 0
    open_items: Counter[str] = field(default_factory=Counter)
    deaths: int = 0

    @property
    def name(self) -> str:
        return f"engine {self.number}"


class EngineActor:
    """The Ray actor of an engine, which wraps a RemoteShardWorker. Call `start` first."""

    async def start(self, config: WorkerConfig) -> str | None:
        """Start the worker; returns why this node can't work on the run, if so."""
        os.environ.update(config.environment)
        error = await asyncio.to_thread(preflight_error, config)
        if error is None:
            self._worker = RemoteShardWorker(config.out, config.settings)
            # This process is the worker's alone.
            logging.getLogger("llm_ocr").addHandler(_WarningsAsNotes(self._worker))
            self._worker.start()
        return error

    async def assign(self, task: ShardAssignment) -> None:
        self._worker.assign(task)

    async def report(self) -> WorkerReport:
        return await self._worker.report()

    async def finish(self) -> WorkerReport:
        return await self._worker.finish()

    async def stop(self) -> WorkerReport:
        return await self._worker.stop()


class _WarningsAsNotes(logging.Handler):
    """Reports warnings as notes: nobody reads the log of a process on another machine."""

    def __init__(self, worker: RemoteShardWorker) -> None:
        super().__init__(logging.WARNING)
        self._worker = worker

    def emit(self, record: logging.LogRecord) -> None:
        self._worker.notify(Note(self.format(record)))


def engine_kind(settings: Settings) -> EngineKind | EngineFailedError:
    """The engine that would be started on this machine, or why none would be."""
    try:
        return step_target(settings, "extract").kind
    except EngineFailedError as error:
        return error


class RayExecutor:
    """Runs shards on as many engines as the cluster has room and the run has work for. Engines are
    started on demand."""

    def __init__(self, context: RunContext, allocation: EngineAllocation) -> None:
        self._context, self._allocation = context, allocation
        self._telemetry = Telemetry(context.settings, context.notify)
        self._engines: list[_Engine] = []
        self._is_closing = False
        self._engine_tasks: list[asyncio.Task[None]] = []
        self._failures: list[EngineFailedError] = []
        self._sessions: dict[Any, SessionStats] = {}
        self._stage: Stage[Any] | None = None
        self._rework: ReworkFactory | None = None
        self._unchanged: set[str] = set()
        self._queue: deque[ShardTask] = deque()
        self._unfinished: set[str] = set()
        self._committed = Counts()
        self._outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        await self._telemetry.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closing = True
        how = "finish" if error is None else "stop"
        await asyncio.gather(*(self._shut_down(engine, how) for engine in self._engines))
        # Not cancelled: Ray's client fails on references that are no longer awaited.
        await asyncio.gather(*self._engine_tasks)
        self.update_session()
        await self._telemetry.__aexit__(kind, error, trace)

    @property
    def engines(self) -> int:
        """See `Executor.engines`."""
        return self._allocation.engines

    async def run(self, stage: Stage[Any], work: Sequence[ShardTask]) -> Counts:
        """See `Executor.run`. Raises ClusterError if a node writes to another run than this."""
        if not work:
            return Counts()
        self._rework = None
        if isinstance(stage, ReworkStage):
            # What stays unchanged in a shard is looked up where it is processed.
            work = [replace(task, unchanged_ids=nothing_unchanged) for task in work]
            self._rework = stage.factory()
        self._stage, self._committed, self._unchanged = stage, Counts(), set()
        self._queue, self._unfinished = deque(work), {task.shard.name for task in work}
        self._outcome = asyncio.get_running_loop().create_future()
        await self._start_engines(work)
        self._assign()
        self._end_stage_if_done()
        await self._context.stop.guard(_result(self._outcome))
        store = self._context.store
        changed = [task for task in work if task.shard.name not in self._unchanged]
        missing = await asyncio.to_thread(uncommitted_shards, store, stage.name, changed)
        if missing:
            raise ClusterError(
                f"{pluralize(len(missing), 'shard')} finished by nodes can't be found in "
                f"{store.uri} (the first is {missing[0]}): a node has another folder of that name. "
                "Choose a location that all nodes can access"
            )
        return self._committed

    def update_session(self) -> None:
        """See `Executor.update_session`; from the engines' last reports."""
        merge_sessions(self._context.session, self._sessions.values())

    async def _start_engines(self, work: Sequence[ShardTask]) -> None:
        """Start engines where there are fewer than there is room and work for."""
        missing = min(self._allocation.engines, len(work)) - len(self._engines)
        if missing <= 0:
            return
        config = await asyncio.to_thread(
            create_worker_config, self._context, self._allocation, work
        )
        for _ in range(missing):
            engine = _Engine(len(self._engines) + 1)
            self._engines.append(engine)
            self._engine_tasks.append(asyncio.create_task(self._supervise(engine, config)))

    async def _supervise(self, engine: _Engine, config: WorkerConfig) -> None:
        """Keep the engine running until it fails for good; any other error fails the run."""
        try:
            await self._run_with_restarts(engine, config)
        except Exception as error:  # noqa: BLE001 - raised again where the run waits
            self._fail(error)

    async def _run_with_restarts(self, engine: _Engine, config: WorkerConfig) -> None:
        try:
            while not self._is_closing:
                try:
                    await self._run_engine(engine, config)
                except RayActorError as error:
                    await self._on_actor_death(engine, error)
        except WrongServerError:
            raise
        except EngineFailedError as error:
            self._failures.append(error)
            if len(self._failures) < len(self._engines):
                note = f"{engine.name} failed, the run continues on the others: {error}"
                self._context.notify(Note(note))
            await self._requeue(engine)

    async def _run_engine(self, engine: _Engine, config: WorkerConfig) -> None:
        allocation = self._allocation
        remote = ray.remote(EngineActor).options(
            num_cpus=allocation.cpus,
            num_gpus=allocation.gpus,
            max_restarts=0,
            scheduling_strategy="SPREAD",
        )
        engine.actor = remote.remote()
        starting = asyncio.ensure_future(
            _await_reference(engine.actor.start.remote(config.for_engine(engine.number)))
        )
        if not (await asyncio.wait({starting}, timeout=SCHEDULING_SECONDS))[0]:
            engine.is_waiting = True
            note = f"{engine.name} is waiting for a node with {allocation.resources} available"
            self._context.notify(Note(note))
        problem = await starting
        if problem is not None:
            raise ClusterError(problem)
        engine.is_up, engine.is_waiting = True, False
        self._assign()
        while not self._is_closing:
            report: WorkerReport = await engine.actor.report.remote()
            self._handle_report(engine, report)
            if report.error is not None:
                raise report.error

    def _assign(self) -> None:
        """Assign each engine as many shards as it can use, but not more than its share of all."""
        assert self._stage is not None
        working = sum(not engine.is_waiting for engine in self._engines) - len(self._failures)
        share = math.ceil(len(self._unfinished) / max(1, working))
        for engine in self._engines:
            while (
                self._queue
                and engine.is_up
                and engine.assigned - engine.started < AHEAD
                and len(engine.shards) < share
            ):
                work = self._queue.popleft()
                engine.shards[work.shard.name] = work
                engine.assigned += 1
                engine.actor.assign.remote(ShardAssignment(self._stage.name, work, self._rework))

    def _handle_report(self, engine: _Engine, report: WorkerReport) -> None:
        self._sessions[engine.actor] = report.session
        engine.started = report.started
        for event in report.events:
            self._handle_event(engine, event)
        self._assign()
        self._end_stage_if_done()

    def _handle_event(self, engine: _Engine, event: Event) -> None:
        match event:
            case ItemsDone():
                engine.open_items[event.status] += event.count
                self._telemetry.notify(event)
            case ShardDone(_, shard, counts):
                engine.deaths = 0
                engine.shards.pop(shard, None)
                engine.open_items.subtract(counts.statuses)
                if not counts.items:
                    # Nothing was to be done, so there may be no new commit.
                    self._unchanged.add(shard)
                self._finish_shard(shard, counts)
            case Note(text):
                self._context.notify(Note(f"{engine.name}: {text}"))

    def _finish_shard(self, shard: str, counts: Counts) -> None:
        self._unfinished.discard(shard)
        self._committed.add(counts)

    def _end_stage_if_done(self) -> None:
        """End the stage if all shards are done, or no engine is left."""
        if self._outcome.done():
            return
        if not self._unfinished:
            self._outcome.set_result(None)
        elif len(self._failures) == len(self._engines):
            self._outcome.set_exception(self._failures[0])

    def _fail(self, error: Exception) -> None:
        if not self._outcome.done():
            self._outcome.set_exception(error)

    async def _on_actor_death(self, engine: _Engine, error: RayActorError) -> None:
        """Requeue the shards of a process that died. Raises EngineFailedError if too many did."""
        if self._is_closing:
            return
        problem = import_error_advice(error)
        if problem is not None:
            raise ClusterError(problem)
        engine.deaths += 1
        why = death_reason(error)
        if engine.deaths > MAX_DEATHS:
            raise EngineFailedError(
                f"the process of {engine.name} died {engine.deaths} times in a row: {why}"
            )
        self._context.notify(Note(f"{engine.name} died and is being restarted: {why}"))
        await self._requeue(engine)

    async def _requeue(self, engine: _Engine) -> None:
        """Queue the engine's shards that are not committed for other engines."""
        assert self._stage is not None
        actor, tasks, stage = engine.actor, list(engine.shards.values()), self._stage.name
        # An unreachable process may still run: a shard that is processed twice is committed once.
        ray.kill(actor)
        for status, count in engine.open_items.items():
            # Items that were not committed will be reported again.
            self._context.notify(ItemsDone(stage, status, -count, fresh=True))
        engine.is_up, engine.assigned, engine.started = False, 0, 0
        engine.shards, engine.open_items = {}, Counter()
        for work in tasks:
            counts = await asyncio.to_thread(publish_committed, self._context.store, stage, work)
            if counts is None:
                self._queue.appendleft(work)
                continue
            for status, count in counts.statuses.items():
                self._context.notify(ItemsDone(stage, status, count, fresh=True))
            self._finish_shard(work.shard.name, counts)
        self._assign()
        self._end_stage_if_done()

    async def _shut_down(self, engine: _Engine, how: str) -> None:
        """End the engine: `finish` after its last shard, `stop` now, with finished items staged."""
        if engine.actor is None:
            return
        if engine.is_up:
            call = _await_reference(getattr(engine.actor, how).remote())
            with suppress(RayActorError, TimeoutError):
                report = await asyncio.wait_for(call, STOP_SECONDS)
                self._sessions[engine.actor] = report.session
        ray.kill(engine.actor)


async def _await_reference(answer: Awaitable[Result]) -> Result:
    """A coroutine for a Ray reference, which can be awaited but is not a coroutine."""
    return await answer


async def _result(outcome: "asyncio.Future[None]") -> None:
    await outcome

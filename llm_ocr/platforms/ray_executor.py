"""An executor that runs shards on engines of a Ray cluster.

Only shards' names and counts travel through Ray; pages and results are read from and written to
the stores by the nodes.
"""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self, TypeVar

import ray
from ray.exceptions import RayActorError

from llm_ocr.inference.replies import EngineFailedError, WrongServerError
from llm_ocr.messages import counted
from llm_ocr.pipeline.events import Event, ItemsDone, Note, ShardDone
from llm_ocr.pipeline.executor import RunContext
from llm_ocr.pipeline.pending import publish_committed, uncommitted_shards
from llm_ocr.pipeline.rework import Rework, ReworkFactory
from llm_ocr.pipeline.shard_worker import ShardAssignment, WorkerReport, merge_sessions
from llm_ocr.pipeline.stage_runner import ShardTask, nothing_unchanged
from llm_ocr.pipeline.telemetry import Telemetry
from llm_ocr.platforms.cluster import PLACE_SECONDS, ClusterError, Room, import_problem, reason_of
from llm_ocr.platforms.orders import Orders, orders_for
from llm_ocr.platforms.ray_actor import EngineActor
from llm_ocr.report.summary import Session
from llm_ocr.stages.stage import Stage
from llm_ocr.tables.counts import Counts

# Shards that wait at an engine beside those that it has started up: its window stays full while it
# asks for more.
AHEAD = 2
# Deaths of one engine's process without a shard done between them; at the next it is assigned up.
MAX_DEATHS = 5
# Seconds for a stop to stage what is finished, and to end the engine.
STOP_SECONDS = 60.0
Result = TypeVar("Result")


@dataclass
class _Engine:
    """One engine as the driver knows it; its process may have been restarted.

    `held` are the shards it has; `assigned` and `started` count those of its current process;
    `open_items` are items that it reported and that are in no committed shard yet.
    """

    number: int
    actor: Any = None
    is_up: bool = False
    is_waiting: bool = False
    held: dict[str, ShardTask] = field(default_factory=dict)
    assigned: int = 0
    started: int = 0
    open_items: Counter[str] = field(default_factory=Counter)
    deaths: int = 0

    @property
    def name(self) -> str:
        return f"engine {self.number}"


class RayExecutor:
    """As many engines as there is room and work for, started with the first shard."""

    def __init__(self, context: RunContext, room: Room) -> None:
        self._context, self._room = context, room
        self._telemetry = Telemetry(context.settings, context.notify)
        self._engines: list[_Engine] = []
        self._is_closing = False
        self._employed: list[asyncio.Task[None]] = []
        self._failures: list[EngineFailedError] = []
        self._sessions: dict[Any, Session] = {}
        self._stage: Stage[Any] | None = None
        self._again: ReworkFactory | None = None
        self._as_it_was: set[str] = set()
        self._todo: deque[ShardTask] = deque()
        self._left: set[str] = set()
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
        await asyncio.gather(*(self._dismiss(engine, how) for engine in self._engines))
        # Not cancelled: Ray's client trips over references that nobody waits for any more.
        await asyncio.gather(*self._employed)
        self.update_session()
        await self._telemetry.__aexit__(kind, error, trace)

    async def run(
        self, stage: Stage[Any], work: Sequence[ShardTask], again: Rework | None = None
    ) -> Counts:
        """As `Executor.run`. Raises ClusterError where a node writes to another place than this."""
        if not work:
            return Counts()
        if again is not None:
            # What is kept of each shard is looked up where it is done.
            work = [replace(one, unchanged_ids=nothing_unchanged) for one in work]
        self._stage, self._committed = stage, Counts()
        self._again, self._as_it_was = again.factory() if again else None, set()
        self._todo, self._left = deque(work), {one.shard.name for one in work}
        self._outcome = asyncio.get_running_loop().create_future()
        await self._executor(work)
        self._hand_out()
        self._conclude()
        await self._context.stop.guard(_result(self._outcome))
        store = self._context.store
        changed = [one for one in work if one.shard.name not in self._as_it_was]
        gone = await asyncio.to_thread(uncommitted_shards, store, stage.name, changed)
        if gone:
            raise ClusterError(
                f"{counted(len(gone), 'shard')} done by nodes can't be found in {store.uri} (the "
                f"first is {gone[0]}): a node writes to another place of that name. Give an --out "
                "that all nodes see"
            )
        return self._committed

    def update_session(self) -> None:
        """As `Executor.update_session`, from the engines' last reports."""
        merge_sessions(self._context.session, self._sessions.values())

    async def _executor(self, work: Sequence[ShardTask]) -> None:
        """Start engines where there are fewer than there is room and work for."""
        missing = min(self._room.engines, len(work)) - len(self._engines)
        if missing <= 0:
            return
        orders = await asyncio.to_thread(orders_for, self._context, self._room, work)
        for _ in range(missing):
            engine = _Engine(len(self._engines) + 1)
            self._engines.append(engine)
            self._employed.append(asyncio.create_task(self._employ(engine, orders)))

    async def _employ(self, engine: _Engine, orders: Orders) -> None:
        """Keep the engine at work until it fails for good; what is more than that fails the run."""
        try:
            await self._restart_and_work(engine, orders)
        except Exception as error:  # noqa: BLE001 - raised again where the run waits
            self._fail(error)

    async def _restart_and_work(self, engine: _Engine, orders: Orders) -> None:
        try:
            while not self._is_closing:
                try:
                    await self._work_with(engine, orders)
                except RayActorError as error:
                    await self._bury(engine, error)
        except WrongServerError:
            raise
        except EngineFailedError as error:
            self._failures.append(error)
            if len(self._failures) < len(self._engines):
                self._context.notify(Note(f"{engine.name} failed, the others go on: {error}"))
            await self._take_back(engine)

    async def _work_with(self, engine: _Engine, orders: Orders) -> None:
        room = self._room
        remote = ray.remote(EngineActor).options(
            num_cpus=room.cpus, num_gpus=room.gpus, max_restarts=0, scheduling_strategy="SPREAD"
        )
        engine.actor = remote.remote()
        starting = asyncio.ensure_future(
            _awaited(engine.actor.start.remote(orders.of_engine(engine.number)))
        )
        if not (await asyncio.wait({starting}, timeout=PLACE_SECONDS))[0]:
            engine.is_waiting = True
            waits = f"{engine.name} waits for a node with {room.each} to spare"
            self._context.notify(Note(waits))
        problem = await starting
        if problem is not None:
            raise ClusterError(problem)
        engine.is_up, engine.is_waiting = True, False
        self._hand_out()
        while not self._is_closing:
            report: WorkerReport = await engine.actor.report.remote()
            self._hear(engine, report)
            if report.error is not None:
                raise report.error

    def _hand_out(self) -> None:
        """Give each engine as many shards as it has use for, and no more than its share of all."""
        assert self._stage is not None
        working = sum(not one.is_waiting for one in self._engines) - len(self._failures)
        share = math.ceil(len(self._left) / max(1, working))
        for engine in self._engines:
            while (
                self._todo
                and engine.is_up
                and engine.assigned - engine.started < AHEAD
                and len(engine.held) < share
            ):
                work = self._todo.popleft()
                engine.held[work.shard.name] = work
                engine.assigned += 1
                engine.actor.assign.remote(ShardAssignment(self._stage.name, work, self._again))

    def _hear(self, engine: _Engine, report: WorkerReport) -> None:
        self._sessions[engine.actor] = report.session
        engine.started = report.started
        for event in report.events:
            self._note(engine, event)
        self._hand_out()
        self._conclude()

    def _note(self, engine: _Engine, event: Event) -> None:
        match event:
            case ItemsDone():
                engine.open_items[event.status] += event.count
                self._telemetry.notify(event)
            case ShardDone(_, shard, counts):
                engine.deaths = 0
                engine.held.pop(shard, None)
                engine.open_items.subtract(counts.statuses)
                if not counts.items:
                    # There was nothing to do, so that there may be no new commit.
                    self._as_it_was.add(shard)
                self._done(shard, counts)
            case Note(text):
                self._context.notify(Note(f"{engine.name}: {text}"))

    def _done(self, shard: str, counts: Counts) -> None:
        self._left.discard(shard)
        self._committed.add(counts)

    def _conclude(self) -> None:
        """Let the stage end if all is done, or nobody is left to do it."""
        if self._outcome.done():
            return
        if not self._left:
            self._outcome.set_result(None)
        elif len(self._failures) == len(self._engines):
            self._outcome.set_exception(self._failures[0])

    def _fail(self, error: Exception) -> None:
        if not self._outcome.done():
            self._outcome.set_exception(error)

    async def _bury(self, engine: _Engine, error: RayActorError) -> None:
        """Take up what a process that died left. Raises EngineFailedError if too many did."""
        if self._is_closing:
            return
        problem = import_problem(error)
        if problem is not None:
            raise ClusterError(problem)
        engine.deaths += 1
        why = reason_of(error)
        if engine.deaths > MAX_DEATHS:
            raise EngineFailedError(
                f"the process of {engine.name} died {engine.deaths} times in a row: {why}"
            )
        self._context.notify(Note(f"{engine.name} died and is started again: {why}"))
        await self._take_back(engine)

    async def _take_back(self, engine: _Engine) -> None:
        """Have others do what the engine did not commit."""
        actor, held, stage = engine.actor, list(engine.held.values()), self._stage
        assert stage is not None
        # One that can't be reached may still run: what two do is committed once.
        ray.kill(actor)
        for status, count in engine.open_items.items():
            # What was not committed will be told of again.
            self._context.notify(ItemsDone(stage.name, status, -count, fresh=True))
        engine.is_up, engine.assigned, engine.started = False, 0, 0
        engine.held, engine.open_items = {}, Counter()
        for work in held:
            counts = await asyncio.to_thread(publish_committed, self._context.store, stage, work)
            if counts is None:
                self._todo.appendleft(work)
                continue
            for status, count in counts.statuses.items():
                self._context.notify(ItemsDone(stage.name, status, count, fresh=True))
            self._done(work.shard.name, counts)
        self._hand_out()
        self._conclude()

    async def _dismiss(self, engine: _Engine, how: str) -> None:
        """End the engine: in order, or at once with what is finished staged."""
        if engine.actor is None:
            return
        if engine.is_up:
            call = _awaited(getattr(engine.actor, how).remote())
            with suppress(RayActorError, TimeoutError):
                report = await asyncio.wait_for(call, STOP_SECONDS)
                self._sessions[engine.actor] = report.session
        ray.kill(engine.actor)


async def _awaited(answer: Awaitable[Result]) -> Result:
    """Ray's references can be awaited, but are no coroutines."""
    return await answer


async def _result(outcome: "asyncio.Future[None]") -> None:
    await outcome

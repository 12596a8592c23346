"""Executors run the shards of a stage, in this process or on remote workers."""

import asyncio
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from llm_ocr.batch.bottleneck import BottleneckSampler, LoadSample
from llm_ocr.batch.deduplication import DeduplicatedExtractStage
from llm_ocr.batch.events import Note
from llm_ocr.batch.pending import read_shard
from llm_ocr.batch.requests import describe_stage
from llm_ocr.batch.stage_runner import RunContext, ShardTask, StageRunner
from llm_ocr.batch.stages import AnyItem, ExtractStage, Stage, assemble_stage, parse_stage
from llm_ocr.batch.telemetry import Telemetry
from llm_ocr.document.configure import (
    check_target,
    extract_step,
    parse_spec,
    render_workers,
    step_target,
)
from llm_ocr.document.items import AskModel, ask_in_slots, ask_nothing
from llm_ocr.document.processor import ItemSlots
from llm_ocr.engines.pool import EnginePool
from llm_ocr.engines.session import EngineSession
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.schema import Row


class Executor(Protocol):
    """Runs the shards of stages."""

    @property
    def engines(self) -> int:
        """How many engines work on different shards at the same time, at most."""
        ...

    async def run(self, stage: Stage[Any], work: Sequence[ShardTask]) -> Counts:
        """Run, commit and publish the shards; returns counts of what was committed.

        Raises what StageRunner raises.
        """
        ...

    def update_session(self) -> None:
        """Write what has been done so far into the session."""
        ...


ExecutorFactory = Callable[[RunContext], AbstractAsyncContextManager[Executor]]


def create_stage(name: str, context: RunContext) -> Stage[Any]:
    """The stage. Raises EngineFailedError if no engine on this machine can serve the model."""

    def read_rows(table: str, shard: str, columns: Sequence[str] | None) -> Iterator[Row]:
        return read_shard(context.store, context.commit_index, table, shard, columns)

    settings = context.settings
    if name == "assemble":
        return assemble_stage(read_rows)
    if name == "describe":
        return describe_stage(context.store, context.commit_index, settings, read_rows)
    profile = step_target(settings, name).model.profile
    if name == "parse":
        return parse_stage(read_rows, parse_spec(settings), profile)
    return DeduplicatedExtractStage(extract_step(settings, context.pool, profile))


class LocalExecutor:
    """Runs shards in this process: renders pages, asks its engine, and writes the rows."""

    engines = 1

    def __init__(self, context: RunContext) -> None:
        self._pace = BottleneckSampler()
        self._stack = AsyncExitStack()
        settings, notify = context.settings, context.notify
        # An object store can't be appended to line by line.
        self._own_log_dir: Path | None = None
        if settings.log_dir is not None:
            log_dir = settings.log_dir
        elif context.store.folder is not None:
            log_dir = context.store.folder / "logs"
        else:
            # A random name: another user of this machine could put a link at a predictable one.
            log_dir = self._own_log_dir = Path(tempfile.mkdtemp(prefix="llm-ocr-"))
        self._telemetry = Telemetry(settings, notify)
        self._context = replace(context, notify=self._telemetry.notify)
        self._engines = EnginePool(
            settings, log_dir, lambda text: notify(Note(text)), self._telemetry.observe
        )

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._telemetry)
        await self._stack.enter_async_context(self._engines)
        self._telemetry.include(self._engines)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.update_session()
        await self._stack.aclose()
        if self._own_log_dir is not None:
            with suppress(OSError):
                # Fails if an engine ran, so that its log is kept.
                self._own_log_dir.rmdir()

    async def run(self, stage: Stage[Any], work: Sequence[ShardTask]) -> Counts:
        """As `Executor.run`."""
        if not work:
            return Counts()
        # Only pages are measured before they are read. Nobody takes over a shard that is open here.
        is_ordered = isinstance(stage, ExtractStage) and not self._context.settings.steal_work
        expected = sum(task.expected_items for task in work) if is_ordered else None
        return await self.run_stream(stage, _stream(work), expected)

    async def run_stream(
        self,
        stage: Stage[Any],
        work: AsyncIterable[ShardTask],
        expected_items: int | None = None,
    ) -> Counts:
        """Like `run`, with shards that become known one by one; `expected_items` as in
        `StageRunner.run`."""
        if not stage.asks_model:
            return await self._loop(stage, ask_nothing, work, None)
        target = await asyncio.to_thread(step_target, self._context.settings, stage.name)
        async with self._engines.lease(target) as engine_session:
            settings, is_parse = self._context.settings, stage.name == "parse"
            check = await asyncio.to_thread(check_target, settings) if is_parse else None
            for_pages = stage.name == "extract"
            ladder = self._engines.ladder(engine_session, for_pages=for_pages, check=check)
            ask_model: AskModel = ladder.run
            if is_parse:
                # Parts of long documents are asked about one slot each, whichever document they
                # are of.
                ask_model = ask_in_slots(self._slots(engine_session), ask_model)
            return await self._loop(stage, ask_model, work, engine_session, expected_items)

    async def _loop(
        self,
        stage: Stage[AnyItem],
        ask_model: AskModel,
        work: AsyncIterable[ShardTask],
        engine_session: EngineSession | None,
        expected_items: int | None = None,
    ) -> Counts:
        runner = StageRunner(self._context, stage, ask_model, self._slots(engine_session))
        sampling = asyncio.create_task(
            self._pace.watch(lambda: _load_sample(runner, engine_session))
        )
        try:
            await runner.run(work, expected_items)
        finally:
            sampling.cancel()
            await asyncio.to_thread(self._context.commit_index.write)
        return runner.committed

    def _slots(self, engine_session: EngineSession | None) -> ConcurrencyLimiter:
        """Slots for requests in flight, and for the pages rendered ahead of them."""
        ahead = 2 * render_workers(self._context.settings)
        if engine_session is None:
            return ConcurrencyLimiter(ahead)
        return ItemSlots(ahead).of(engine_session)

    def update_session(self) -> None:
        """As `Executor.update_session`."""
        session, engine_pool = self._context.session, list(self._engines)
        session.bottlenecks = self._pace.shares
        session.engines = list(
            dict.fromkeys(one.answered_by for one in engine_pool if one.answered_by)
        )
        session.gpu_utilization = self._telemetry.gpu_utilization
        session.retries = sum(engine_session.client.stats.retries for engine_session in engine_pool)
        session.engine_restarts = sum(engine_session.restarts for engine_session in engine_pool)
        session.memory_restarts = sum(
            engine_session.memory_restarts for engine_session in engine_pool
        )
        session.downtime_seconds = sum(
            engine_session.downtime_seconds for engine_session in engine_pool
        )
        session.peak_concurrency = max(
            (engine_session.limiter.peak_in_flight for engine_session in engine_pool), default=0
        )
        session.preemptions = sum(engine_session.preemptions for engine_session in engine_pool)


async def _stream(work: Sequence[ShardTask]) -> AsyncIterator[ShardTask]:
    for shard in work:
        yield shard


def _load_sample(
    runner: StageRunner[AnyItem], engine_session: EngineSession | None
) -> LoadSample | None:
    if engine_session is None:
        return None
    limiter, stats = engine_session.limiter, engine_session.client.stats
    queued = limiter.waiting + (engine_session.load.waiting if engine_session.load else 0)
    return LoadSample(
        runner.slots.in_flight,
        limiter.in_flight,
        limiter.limit,
        queued,
        stats.waiting_for_retry,
        runner.finishing,
        engine_session.is_starting,
    )

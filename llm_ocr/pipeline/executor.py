"""Executors run the shards of a stage, in this process or on remote workers."""

import asyncio
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from llm_ocr.engines.embedded.command import available_cores
from llm_ocr.inference.window import Window
from llm_ocr.models.catalog import profile_named
from llm_ocr.pipeline.bottleneck import BottleneckSampler, LoadSample
from llm_ocr.pipeline.engine_pool import EnginePool
from llm_ocr.pipeline.engine_session import EngineSession
from llm_ocr.pipeline.engine_targets import EngineTarget, model_for_stage, resolve_engine
from llm_ocr.pipeline.events import Notify
from llm_ocr.pipeline.figure_tasks import describe_stage
from llm_ocr.pipeline.interruption import CancellationToken
from llm_ocr.pipeline.parse_request import parse_stage
from llm_ocr.pipeline.pending import read_shard
from llm_ocr.pipeline.rework import Rework
from llm_ocr.pipeline.stage_runner import ReadItem, ShardTask, StageLimits, StageRunner
from llm_ocr.pipeline.telemetry import Telemetry
from llm_ocr.report.summary import SessionStats
from llm_ocr.settings import Settings
from llm_ocr.sources.render_pool import RenderLimits, RenderPool
from llm_ocr.stages.assemble import AssembleStage
from llm_ocr.stages.deduplication import DeduplicatedExtractStage
from llm_ocr.stages.extract import ExtractStage
from llm_ocr.stages.parse import ParseStage, read_record
from llm_ocr.stages.reparse import ReparseStage
from llm_ocr.stages.stage import AnyItem, Item, ModelResult, Stage, Usage
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.schema import Row


@dataclass(frozen=True)
class RunContext:
    """What an executor works with. It fills `session` as it works, and observes `stop`."""

    store: Store
    commit_index: CommitIndex
    settings: Settings
    pool: RenderPool
    session: SessionStats
    stop: CancellationToken
    notify: Notify


class Executor(Protocol):
    """Runs the shards of stages."""

    async def run(
        self, stage: Stage[Any], work: Sequence[ShardTask], again: Rework | None = None
    ) -> Counts:
        """Run, commit and publish the shards; returns counts of what was committed.

        `again` is the plan that the stage was made from, where it reprocesses committed shards.
        Raises what StageRunner raises.
        """
        ...

    def update_session(self) -> None:
        """Write what has been done so far into the session."""
        ...


ExecutorFactory = Callable[[RunContext], AbstractAsyncContextManager[Executor]]


def render_pool(settings: Settings) -> RenderPool:
    """The processes that render pages, as configured by the settings."""
    password = settings.password
    return RenderPool(
        _render_workers(settings),
        password=None if password is None else password.get_secret_value(),
        limits=RenderLimits(
            max_pixels=settings.max_pixels,
            timeout=settings.render_timeout,
            keep_metadata=settings.keep_metadata,
        ),
    )


def _render_workers(settings: Settings) -> int:
    return settings.render_workers or min(available_cores(), 8)


def create_stage(name: str, context: RunContext, again: Rework | None = None) -> Stage[Any]:
    """The stage; with `again`, the stage that reprocesses what that plan selects.

    Raises EngineFailedError if no engine on this machine can serve the model.
    """

    def read_rows(table: str, shard: str, columns: Sequence[str] | None) -> Iterator[Row]:
        return read_shard(context.store, context.commit_index, table, shard, columns)

    settings = context.settings
    if name == "assemble":
        return AssembleStage(read_rows)
    if name == "parse":
        return parse_stage(context.store, settings, read_rows)
    if name == "describe":
        return describe_stage(context.store, context.commit_index, settings, read_rows)
    if again is not None and not again.asks:
        return again.stage(ExtractStage(context.pool, profile_named(settings.model)))
    profile = _target(name, settings).reader.profile
    extract = ExtractStage(
        context.pool, profile, settings.selection, settings.min_agreement, settings.text_layer
    )
    return again.stage(extract) if again is not None else DeduplicatedExtractStage(extract)


def _target(stage: str, settings: Settings) -> EngineTarget:
    return resolve_engine(settings, model_for_stage(settings, stage))


class LocalExecutor:
    """Runs shards in this process: renders pages, asks its engine, and writes the rows."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
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
        self._askers = EnginePool(settings, log_dir, notify, self._telemetry.observe)

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._telemetry)
        await self._stack.enter_async_context(self._askers)
        self._telemetry.include(self._askers)
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

    async def run(
        self, stage: Stage[Any], work: Sequence[ShardTask], again: Rework | None = None
    ) -> Counts:
        """As `Executor.run`."""
        return await self.run_stream(stage, _stream(work)) if work else Counts()

    async def run_stream(self, stage: Stage[Any], work: AsyncIterable[ShardTask]) -> Counts:
        """Like `run`, with shards that become known one by one."""
        if isinstance(stage, AssembleStage | ReparseStage):
            return await self._loop(stage, _no_answer, work, None)
        target = await asyncio.to_thread(_target, stage.name, self._context.settings)
        engine_session = await self._askers.engine_session(target)
        best = self._askers.ladder(engine_session, stage.name).run
        if isinstance(stage, ParseStage):
            # Parts of long documents are asked about one slot each, whichever document they are of.
            places = self._slots(engine_session)
            best = partial(read_record, best, places, target.reader.profile)
        return await self._loop(stage, best, work, engine_session)

    async def _loop(
        self,
        stage: Stage[AnyItem],
        read: ReadItem[AnyItem],
        work: AsyncIterable[ShardTask],
        engine_session: EngineSession | None,
    ) -> Counts:
        context = self._context
        tempo = StageLimits(
            items=self._slots(engine_session),
            part_items=context.settings.flush_pages,
            flush_seconds=context.settings.flush_seconds,
        )
        fresh = context.session.counts.setdefault(stage.name, Counts())
        notify = self._telemetry.notify
        loop = StageRunner(
            context.store, context.commit_index, stage, read, tempo, context.stop, notify, fresh
        )
        watching = asyncio.create_task(
            self._pace.watch(lambda: _moment(loop, tempo, engine_session))
        )
        try:
            await loop.run(work)
        finally:
            watching.cancel()
            await asyncio.to_thread(context.commit_index.write)
        return loop.committed

    def _slots(self, engine_session: EngineSession | None) -> Window:
        """Slots for the window's requests, and for the pages rendered ahead that keep it full."""
        ahead = 2 * _render_workers(self._context.settings)
        slots = Window(ahead)
        if engine_session is not None:
            engine_session.window.follow(lambda width: slots.resize(width + ahead))
        return slots

    def update_session(self) -> None:
        """As `Executor.update_session`."""
        session, engine_pool = self._context.session, list(self._askers)
        session.bottlenecks = self._pace.shares
        session.engines = list(
            dict.fromkeys(one.answered_by for one in engine_pool if one.answered_by)
        )
        session.gpu_utilization = self._telemetry.gpu_utilization
        session.retries = sum(
            engine_session.client.traffic.retries for engine_session in engine_pool
        )
        session.engine_restarts = sum(engine_session.restarts for engine_session in engine_pool)
        session.downtime_seconds = sum(
            one.engine.downtime_seconds for one in engine_pool if one.engine
        )
        session.peak_concurrency = max(
            (engine_session.window.most_inside for engine_session in engine_pool), default=0
        )
        session.preemptions = sum(
            engine_session.load.preemptions for engine_session in engine_pool if engine_session.load
        )


async def _stream(work: Sequence[ShardTask]) -> AsyncIterator[ShardTask]:
    for shard in work:
        yield shard


async def _no_answer(item: Item, usage: Usage) -> ModelResult | None:
    """The answer of stages that ask no model."""
    return None


def _moment(
    loop: StageRunner[AnyItem], tempo: StageLimits, engine_session: EngineSession | None
) -> LoadSample | None:
    if engine_session is None:
        return None
    window, traffic = engine_session.window, engine_session.client.traffic
    queued = window.waiting + (engine_session.load.waiting if engine_session.load else 0)
    return LoadSample(
        tempo.items.inside,
        window.inside,
        window.width,
        queued,
        traffic.between_tries,
        loop.finishing,
        engine_session.is_starting,
    )

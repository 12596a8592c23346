"""Who does the shards of a stage: this process with its engine, or others whom it hands them."""

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
from llm_ocr.models.catalogue import profile_named
from llm_ocr.pipeline.again import Again
from llm_ocr.pipeline.asked import parse_stage
from llm_ocr.pipeline.askers import Askers
from llm_ocr.pipeline.asking import Asker
from llm_ocr.pipeline.describing import describe_stage
from llm_ocr.pipeline.due import read_shard
from llm_ocr.pipeline.events import Notify
from llm_ocr.pipeline.interruption import Stop
from llm_ocr.pipeline.loop import ReadItem, StageLoop, Tempo, Work
from llm_ocr.pipeline.pace import Moment, Pace
from llm_ocr.pipeline.targets import Target, model_for, target_of
from llm_ocr.pipeline.telemetry import Telemetry
from llm_ocr.report.summary import Session
from llm_ocr.settings import Settings
from llm_ocr.sources.pool import RenderLimits, RenderPool
from llm_ocr.stages.assemble import AssembleStage
from llm_ocr.stages.extract import ExtractStage
from llm_ocr.stages.parse import ParseStage, read_record
from llm_ocr.stages.reparse import ReparseStage
from llm_ocr.stages.stage import AnyItem, Item, Reading, Spent, Stage
from llm_ocr.stages.twins import OnceStage
from llm_ocr.storage.store import Store
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.ledger import Ledger
from llm_ocr.tables.schema import Row


@dataclass(frozen=True)
class Site:
    """What a crew works with. It fills `session` as it works, and heeds `stop`."""

    store: Store
    ledger: Ledger
    settings: Settings
    pool: RenderPool
    session: Session
    stop: Stop
    notify: Notify


class Crew(Protocol):
    """Does shards."""

    async def do(
        self, stage: Stage[Any], work: Sequence[Work], again: Again | None = None
    ) -> Counts:
        """Do, commit and publish the shards; what of them was committed. Raises as StageLoop.

        `again` is what the stage was made from, if it does shards again.
        """
        ...

    def account(self) -> None:
        """Bring the session up to date."""
        ...


Hire = Callable[[Site], AbstractAsyncContextManager[Crew]]


def render_pool(settings: Settings) -> RenderPool:
    """Processes that draw pages, as the settings want them."""
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


def stage_named(name: str, site: Site, again: Again | None = None) -> Stage[Any]:
    """The stage, or what is done `again` of it.

    Raises EngineFailedError where nobody here can serve the model.
    """

    def rows_of(table: str, shard: str, columns: Sequence[str] | None) -> Iterator[Row]:
        return read_shard(site.store, site.ledger, table, shard, columns)

    settings = site.settings
    if name == "assemble":
        return AssembleStage(rows_of)
    if name == "parse":
        return parse_stage(site.store, settings, rows_of)
    if name == "describe":
        return describe_stage(site.store, site.ledger, settings, rows_of)
    if again is not None and not again.asks:
        return again.stage(ExtractStage(site.pool, profile_named(settings.model)))
    profile = _target(name, settings).reader.profile
    extract = ExtractStage(
        site.pool, profile, settings.selection, settings.min_agreement, settings.text_layer
    )
    return again.stage(extract) if again is not None else OnceStage(extract)


def _target(stage: str, settings: Settings) -> Target:
    return target_of(settings, model_for(settings, stage))


class Here:
    """This process does the work itself: it draws, asks its engine, and writes the rows."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._pace = Pace()
        self._stack = AsyncExitStack()
        settings, notify = site.settings, site.notify
        # A bucket takes no line at a time.
        self._own_log_dir: Path | None = None
        if settings.log_dir is not None:
            log_dir = settings.log_dir
        elif site.store.folder is not None:
            log_dir = site.store.folder / "logs"
        else:
            # By no name that another user of this machine could foresee, and put a link at.
            log_dir = self._own_log_dir = Path(tempfile.mkdtemp(prefix="llm-ocr-"))
        self._telemetry = Telemetry(settings, notify)
        self._askers = Askers(settings, log_dir, notify, self._telemetry.observe)

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
        self.account()
        await self._stack.aclose()
        if self._own_log_dir is not None:
            with suppress(OSError):
                # Where an engine ran, its log stays.
                self._own_log_dir.rmdir()

    async def do(
        self, stage: Stage[Any], work: Sequence[Work], again: Again | None = None
    ) -> Counts:
        """As `Crew.do`."""
        return await self.do_as_it_comes(stage, _in_turn(work)) if work else Counts()

    async def do_as_it_comes(self, stage: Stage[Any], work: AsyncIterable[Work]) -> Counts:
        """As `do`, with shards that become known one after another."""
        if isinstance(stage, AssembleStage | ReparseStage):
            return await self._loop(stage, _nothing, work, None)
        target = await asyncio.to_thread(_target, stage.name, self._site.settings)
        asker = await self._askers.asker(target)
        best = self._askers.climber(asker, stage.name).best
        if isinstance(stage, ParseStage):
            # Of long documents a part at a time, of whichever document it is.
            places = self._slots(asker)
            best = partial(read_record, best, places, target.reader.profile)
        return await self._loop(stage, best, work, asker)

    async def _loop(
        self,
        stage: Stage[AnyItem],
        read: ReadItem[AnyItem],
        work: AsyncIterable[Work],
        asker: Asker | None,
    ) -> Counts:
        site = self._site
        tempo = Tempo(
            items=self._slots(asker),
            part_items=site.settings.part_pages,
            part_seconds=site.settings.part_seconds,
        )
        fresh = site.session.counts.setdefault(stage.name, Counts())
        notify = self._telemetry.notify
        loop = StageLoop(site.store, site.ledger, stage, read, tempo, site.stop, notify, fresh)
        watching = asyncio.create_task(self._pace.watch(lambda: _moment(loop, tempo, asker)))
        try:
            await loop.run(work)
        finally:
            watching.cancel()
            await asyncio.to_thread(site.ledger.write)
        return loop.committed

    def _slots(self, asker: Asker | None) -> Window:
        """The window, and as many pages being drawn or waiting as keep it full."""
        ahead = 2 * _render_workers(self._site.settings)
        slots = Window(ahead)
        if asker is not None:
            asker.window.follow(lambda width: slots.resize(width + ahead))
        return slots

    def account(self) -> None:
        """As `Crew.account`."""
        session, askers = self._site.session, list(self._askers)
        session.held_back = self._pace.shares
        session.engines = list(dict.fromkeys(one.answered_by for one in askers if one.answered_by))
        session.gpu_busy = self._telemetry.gpu_busy
        session.retries = sum(asker.client.traffic.retries for asker in askers)
        session.engine_restarts = sum(asker.restarts for asker in askers)
        session.seconds_down = sum(one.engine.seconds_down for one in askers if one.engine)
        session.widest_window = max((asker.window.most_inside for asker in askers), default=0)
        session.preemptions = sum(asker.load.preemptions for asker in askers if asker.load)


async def _in_turn(work: Sequence[Work]) -> AsyncIterator[Work]:
    for one in work:
        yield one


async def _nothing(item: Item, spent: Spent) -> Reading | None:
    """For a stage that asks nobody."""
    return None


def _moment(loop: StageLoop[AnyItem], tempo: Tempo, asker: Asker | None) -> Moment | None:
    if asker is None:
        return None
    window, traffic = asker.window, asker.client.traffic
    queued = window.waiting + (asker.load.waiting if asker.load else 0)
    return Moment(
        tempo.items.inside,
        window.inside,
        window.width,
        queued,
        traffic.between_tries,
        loop.finishing,
        asker.is_starting,
    )

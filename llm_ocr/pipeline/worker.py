"""One worker's run: plan, stages over shards, outputs, account."""

import asyncio
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from llm_ocr.engines.embedded.command import available_cores
from llm_ocr.inference.window import Window
from llm_ocr.models.catalogue import profile_named
from llm_ocr.pipeline.again import Again, Prepare
from llm_ocr.pipeline.askers import Askers
from llm_ocr.pipeline.asking import Asker
from llm_ocr.pipeline.due import (
    STAGES,
    due,
    expected_items,
    missing,
    read_shard,
    settle,
    sweep_orphans,
    undone,
)
from llm_ocr.pipeline.events import ItemsDone, Note, Notify, StageEnded, StageStarted, ignore
from llm_ocr.pipeline.interruption import Stop, run_until_stopped
from llm_ocr.pipeline.loop import ReadItem, StageLoop, Tempo, Work
from llm_ocr.pipeline.pace import Pace, moment
from llm_ocr.pipeline.planning import Planning, absolute, make_plan, standing_plan, updated_plan
from llm_ocr.pipeline.record import new_record, recorded
from llm_ocr.pipeline.share import share_of
from llm_ocr.pipeline.targets import target_of
from llm_ocr.pipeline.telemetry import Telemetry
from llm_ocr.report.outputs import SUMMARY_PATH, write_outputs
from llm_ocr.report.summary import Session, Summary, summarise
from llm_ocr.settings import Settings
from llm_ocr.sources.pool import RenderLimits, RenderPool
from llm_ocr.stages.assemble import AssembleStage
from llm_ocr.stages.describe import DescribeStage
from llm_ocr.stages.extract import ExtractStage
from llm_ocr.stages.stage import AnyItem, Item, Reading, Spent, Stage
from llm_ocr.stages.twins import OnceStage
from llm_ocr.storage.store import open_store
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.ledger import Ledger
from llm_ocr.tables.plan import Plan, Shard
from llm_ocr.tables.schema import Row


def run(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    settings: Settings | None = None,
    *,
    stages: Sequence[str] = STAGES,
    update: bool = False,
    notify: Notify | None = None,
    **overrides: Any,  # noqa: ANN401
) -> Summary:
    """Read documents and write their tables, Markdown and viewer to `out`; go on where it stopped.

    `inputs` are files, folders, globs or list files (`@files.txt`). With `update`, documents that
    they hold since the run was planned are added. `overrides` are fields of `Settings`. Works in a
    notebook, where an event loop runs already. Raises NoInputError, SettingsMismatchError or
    RunInUseError before anything is done; EngineFailedError, StorageError, BalanceError or
    StoppedError when the run can't go on. Failed pages are rows, not exceptions.
    """
    chosen = (
        Settings(**overrides)
        if settings is None
        else Settings(**{**settings.model_dump(), **overrides})
    )
    several = [inputs] if isinstance(inputs, str | Path) else inputs
    wanted = [name for name in stages if chosen.describe or name != "describe"]
    worker = Worker(str(out), chosen, notify, plan=updated_plan if update else make_plan)
    return worker.run([absolute(str(one)) for one in several], wanted)


def resume(
    out: str | Path,
    settings: Settings | None = None,
    *,
    stages: Sequence[str],
    notify: Notify | None = None,
) -> Summary:
    """Run stages over the run that stands in `out`; raises NoRunError where there is none."""
    return Worker(str(out), settings or Settings(), notify).run(None, stages)


class Worker:
    """One process's work on a run; `prepare` finds what is to be extracted again instead of what
    is due."""

    def __init__(
        self,
        out: str,
        settings: Settings,
        notify: Notify | None,
        prepare: Prepare | None = None,
        plan: Planning = make_plan,
    ) -> None:
        self._settings = settings
        self._notify = notify or ignore
        self._store = open_store(out)
        self._counted = self._notify
        self._pace = Pace()
        self._session = Session(time.monotonic())
        self._share = share_of(settings, os.environ)
        self._ledger = Ledger(self._store, STAGES)
        self._prepare, self._make_plan = prepare, plan
        self._again: Again | None = None

    def run(self, inputs: list[str] | None, stages: Sequence[str]) -> Summary:
        """Do what is due of `stages`; `inputs` None takes the plan that stands."""
        alone = self._store.sole_writer() if self._share.count == 1 else nullcontext()
        with alone:
            return run_until_stopped(lambda stop: self._run(inputs, stages, stop))

    async def _run(self, inputs: list[str] | None, stages: Sequence[str], stop: Stop) -> Summary:
        # A bucket takes no line at a time.
        beside = self._store.folder or Path(tempfile.gettempdir()) / f"llm-ocr-{os.getpid()}"
        log_dir = self._settings.log_dir or beside / "logs"
        async with (
            self._pool() as pool,
            Telemetry(self._settings, self._notify) as telemetry,
            Askers(self._settings, log_dir, self._notify, telemetry.observe) as askers,
        ):
            telemetry.include(askers)
            self._counted = telemetry.notify
            plan = await stop.before(self._plan(inputs, pool))
            await asyncio.to_thread(self._ledger.refresh)
            ordered = [name for name in STAGES if name in stages]
            if self._prepare is not None:
                self._again = await asyncio.to_thread(
                    self._prepare, self._store, self._ledger, plan, self._share
                )
                ordered = self._stages_again()
            told = (inputs, self._store.uri, self._settings, self._asking(ordered))
            command = self._again.command if self._again else None
            record = await asyncio.to_thread(new_record, *told, command)
            async with recorded(self._store, record, self._session, askers):
                async for part in self._parts(plan, ordered):
                    for name in ordered:
                        await self._run_stage(name, part, pool, askers, stop)
                    await asyncio.to_thread(self._ledger.write)
            self._session.held_back = self._pace.shares
            self._session.gpu_busy = telemetry.gpu_busy
        return await asyncio.to_thread(self._account, plan, ordered)

    async def _parts(self, plan: Plan, stages: Sequence[str]) -> AsyncIterator[Plan]:
        """What this worker does: its own shards, then one by one what others have not done."""
        yield self._share.of(plan)
        while self._settings.until_complete:
            await asyncio.to_thread(self._ledger.refresh)
            left = self._undone(plan, stages)
            if not left:
                return
            # By chance, so that workers who have finished seldom choose the same.
            yield Plan((random.choice(left),), plan.settings)

    def _undone(self, plan: Plan, stages: Sequence[str]) -> list[Shard]:
        if self._prepare is None:
            return undone(self._ledger, plan, stages)
        again = self._again.work(plan) if self._again else []
        return [one.shard for one in again] or undone(self._ledger, plan, stages[1:])

    def _stages_again(self) -> list[str]:
        """Extract, and the later stages that the run has been through so far."""
        later = [name for name in STAGES[1:] if self._ledger.committed(name)]
        wanted = [name for name in later if self._settings.describe or name != "describe"]
        return ["extract", *wanted]

    def _asking(self, stages: Sequence[str]) -> list[str]:
        """Those of the stages that ask someone, if it is needed."""
        return [name for name in stages if name != "extract" or not self._again or self._again.asks]

    def _account(self, plan: Plan, stages: Sequence[str]) -> Summary:
        if self._share.count > 1:
            self._ledger.refresh()
        summary = summarise(self._store, self._ledger, plan, self._session)
        left = missing(self._ledger, plan, stages)
        if left:
            self._notify(Note(_unfinished(left, len(plan.shards))))
            return summary
        self._notify(Note("writing Markdown, viewer, card and summary"))
        if self._session.did_anything or not self._store.exists(SUMMARY_PATH):
            viewer_pages = self._settings.viewer_pages
            write_outputs(self._store, summary, plan.settings, viewer_pages)
        self._ledger.gather()
        sweep_orphans(self._store, self._ledger)
        return summary

    async def _plan(self, inputs: list[str] | None, pool: RenderPool) -> Plan:
        if inputs is None:
            return await asyncio.to_thread(standing_plan, self._store)
        return await self._make_plan(self._store, self._settings, inputs, pool, self._notify)

    def _pool(self) -> RenderPool:
        settings, password = self._settings, self._settings.password
        return RenderPool(
            self._render_workers,
            password=None if password is None else password.get_secret_value(),
            limits=RenderLimits(max_pixels=settings.max_pixels, timeout=settings.render_timeout),
        )

    def _read(self, table: str, shard: str, columns: Sequence[str] | None) -> Iterator[Row]:
        return read_shard(self._store, self._ledger, table, shard, columns)

    async def _run_stage(
        self, name: str, plan: Plan, pool: RenderPool, askers: Askers, stop: Stop
    ) -> None:
        settings = self._settings
        if name == "assemble":
            await self._loop(AssembleStage(self._read), _nothing, plan, None, stop)
            return
        if self._again and name == "extract" and not self._again.asks:
            stage = self._again.stage(ExtractStage(pool, profile_named(settings.model)))
            await self._loop(stage, _nothing, plan, None, stop)
            return
        described_by = settings.describe_model if name == "describe" else None
        target = await asyncio.to_thread(target_of, settings, described_by or settings.model)
        asker = await askers.asker(target)
        best = askers.climber(asker, name).best
        if name == "describe":
            await self._loop(DescribeStage(self._read), best, plan, asker, stop)
            return
        profile = target.reader.profile
        extract = ExtractStage(pool, profile, settings.selection, settings.min_agreement)
        stage = self._again.stage(extract) if self._again else OnceStage(extract)
        await self._loop(stage, best, plan, asker, stop)

    async def _loop(
        self,
        stage: Stage[AnyItem],
        read: ReadItem[AnyItem],
        plan: Plan,
        asker: Asker | None,
        stop: Stop,
    ) -> None:
        if stage.name == "extract" and self._prepare is not None:
            work, done, expected = await asyncio.to_thread(self._work_again, stage, plan)
        else:
            work, done = await asyncio.to_thread(due, self._store, self._ledger, stage, plan)
            ahead = sum(expected_items(self._ledger, stage.name, one) for one in work)
            expected = done.items + ahead
        self._notify(StageStarted(stage.name, expected))
        for status, count in done.statuses.items():
            self._notify(ItemsDone(stage.name, status, count, fresh=False))
        if work:
            # Written last and from everything: until then there is none.
            self._store.delete([SUMMARY_PATH])
        tempo = Tempo(
            items=self._slots(asker),
            part_items=self._settings.part_pages,
            part_seconds=self._settings.part_seconds,
        )
        loop = StageLoop(self._store, self._ledger, stage, read, tempo, stop, self._counted)
        watching = asyncio.create_task(self._pace.watch(lambda: moment(loop, tempo, asker)))
        try:
            await loop.run(work)
        finally:
            watching.cancel()
            self._session.counts.setdefault(stage.name, Counts()).add(loop.fresh)
        self._notify(StageEnded(stage.name, done.items + loop.committed.items))

    def _work_again(self, stage: Stage[AnyItem], plan: Plan) -> tuple[list[Work], Counts, int]:
        settle(self._store, self._ledger, stage.name, stage.tables, plan)
        again = self._again
        work = again.work(plan) if again else []
        return work, Counts(), sum(again.expected(one) for one in work) if again else 0

    def _slots(self, asker: Asker | None) -> Window:
        """The window, and as many pages being drawn or waiting as keep it full."""
        ahead = 2 * self._render_workers
        slots = Window(ahead)
        if asker is not None:
            asker.window.follow(lambda width: slots.resize(width + ahead))
        return slots

    @property
    def _render_workers(self) -> int:
        return self._settings.render_workers or min(available_cores(), 8)


def _unfinished(left: Mapping[str, int], shards: int) -> str:
    said = ", ".join(
        f"{name} has {count:,} of {shards:,} shards to do" for name, count in left.items()
    )
    return f"{said}: Markdown, viewer and summary come with the last one"


async def _nothing(item: Item, spent: Spent) -> Reading | None:
    """For a stage that asks nobody."""
    return None

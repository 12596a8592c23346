"""One worker's run: plan, stages over shards, outputs, account."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_ocr.pipeline.counting import counted
from llm_ocr.pipeline.crew import Crew, Here, Hire, Site, render_pool, stage_named
from llm_ocr.pipeline.destination import destination_of
from llm_ocr.pipeline.due import STAGES, due, expected_items, left
from llm_ocr.pipeline.events import ItemsDone, Note, Notify, StageEnded, StageStarted, ignore
from llm_ocr.pipeline.interruption import Stop, run_until_stopped
from llm_ocr.pipeline.record import new_record, recorded
from llm_ocr.pipeline.share import share_of
from llm_ocr.pipeline.targets import identity
from llm_ocr.report.outputs import write_outputs
from llm_ocr.report.status import NoRunError
from llm_ocr.report.summary import SUMMARY_PATH, Session, Summary, summarise
from llm_ocr.settings import Settings
from llm_ocr.sources.files import is_remote
from llm_ocr.sources.open import list_documents
from llm_ocr.sources.pool import RenderPool
from llm_ocr.tables.plan import (
    Plan,
    check_settings,
    cut_shards,
    read_plan,
    write_plan,
)


def run(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    settings: Settings | None = None,
    *,
    stages: Sequence[str] = STAGES,
    notify: Notify | None = None,
    hire: Hire = Here,
    **overrides: Any,  # noqa: ANN401
) -> Summary:
    """Read documents and write their tables, Markdown and viewer to `out`; go on where it stopped.

    `inputs` are files, folders, globs or list files (`@files.txt`). `overrides` are fields of
    `Settings`; `hire` says who does the shards. Works in a notebook, where an event loop runs
    already. Raises NoInputError, SettingsMismatchError or RunInUseError before anything is done;
    EngineFailedError, StorageError, BalanceError or StoppedError when the run can't go on. Failed
    pages are rows, not exceptions.
    """
    chosen = (
        Settings(**overrides)
        if settings is None
        else Settings(**{**settings.model_dump(), **overrides})
    )
    several = [inputs] if isinstance(inputs, str | Path) else inputs
    wanted = [name for name in stages if chosen.describe or name != "describe"]
    worker = Worker(str(out), chosen, notify, hire)
    return worker.run([_absolute(str(one)) for one in several], wanted)


def resume(
    out: str | Path,
    settings: Settings | None = None,
    *,
    stages: Sequence[str],
    notify: Notify | None = None,
) -> Summary:
    """Run stages over the run that stands in `out`; raises NoRunError where there is none."""
    return Worker(str(out), settings or Settings(), notify).run(None, stages)


def _absolute(source: str) -> str:
    """An input as part of a run's identity: the same from any working directory."""
    if is_remote(source):
        return source.rstrip("/")
    listed = source.startswith("@")
    path = Path(source.removeprefix("@")).expanduser()
    return ("@" if listed else "") + str(Path.cwd() / path)


class Worker:
    """One process's work on a run; whom it hires does the shards."""

    def __init__(
        self, out: str, settings: Settings, notify: Notify | None, hire: Hire = Here
    ) -> None:
        self._settings = settings
        self._notify = notify or ignore
        self._destination = destination_of(out, settings)
        self._store = self._destination.store
        self._hire = hire
        self._session = Session(time.monotonic())
        self._share = share_of(settings, os.environ)

    def run(self, inputs: list[str] | None, stages: Sequence[str]) -> Summary:
        """Do what is due of `stages`; `inputs` None takes the plan that stands."""
        alone = self._store.sole_writer() if self._share.count == 1 else nullcontext()
        with alone:
            return run_until_stopped(lambda stop: self._run(inputs, stages, stop))

    async def _run(self, inputs: list[str] | None, stages: Sequence[str], stop: Stop) -> Summary:
        async with render_pool(self._settings) as pool:
            site = Site(self._store, self._settings, pool, self._session, stop, self._notify)
            async with self._hire(site) as crew:
                plan = await stop.before(self._plan(inputs, pool))
                ordered = [name for name in STAGES if name in stages]
                told = (inputs, self._store.uri, self._settings, ordered)
                record = await asyncio.to_thread(new_record, *told)
                async with recorded(self._store, record, self._session, crew):
                    async for part in self._parts(plan, ordered):
                        for name in ordered:
                            await self._run_stage(name, part, pool, crew)
        return await asyncio.to_thread(self._account, plan, ordered)

    async def _parts(self, plan: Plan, stages: Sequence[str]) -> AsyncIterator[Plan]:
        """What this worker does: its own shards, then one by one what others have not done."""
        yield self._share.of(plan)
        while self._settings.until_complete:
            undone = await asyncio.to_thread(left, self._store, plan, stages)
            if not undone:
                return
            # By chance, so that workers who have finished seldom choose the same.
            yield Plan((random.choice(undone),), plan.settings)

    def _account(self, plan: Plan, stages: Sequence[str]) -> Summary:
        done = summarise(self._store, plan, self._session)
        summary = replace(done, out=self._destination.uri)
        if left(self._store, plan, stages):
            said = "not all shards are done: Markdown, viewer and summary come with the last one"
            self._notify(Note(said))
            return summary
        self._notify(Note("writing Markdown, viewer, card and summary"))
        if self._session.did_anything or not self._store.exists(SUMMARY_PATH):
            viewer_pages = self._settings.viewer_pages
            write_outputs(self._store, summary, plan.settings, viewer_pages)
        self._destination.publish(self._notify)
        return summary

    async def _plan(self, inputs: list[str] | None, pool: RenderPool) -> Plan:
        if inputs is not None:
            await asyncio.to_thread(self._destination.make, private=not self._settings.public)
        plan = await asyncio.to_thread(read_plan, self._store)
        if inputs is None:
            if plan is None:
                raise NoRunError(f"{self._store.uri} holds no run; start one with `llm-ocr run`")
            return plan
        wanted = identity(self._settings, inputs)
        if plan is not None:
            check_settings(self._store, plan, wanted)
            return plan
        await asyncio.to_thread(self._destination.check_free)
        listed = await asyncio.to_thread(list_documents, inputs)
        planned = await counted(listed, self._settings, pool, self._notify)
        shards = cut_shards(planned, self._settings.shard_pages)
        return await asyncio.to_thread(write_plan, self._store, Plan(shards, wanted))

    async def _run_stage(self, name: str, plan: Plan, pool: RenderPool, crew: Crew) -> None:
        store = self._store
        stage = await asyncio.to_thread(stage_named, name, store, self._settings, pool)
        work, done = await asyncio.to_thread(due, store, stage, plan)
        expected = done.items + sum(expected_items(store, name, one) for one in work)
        self._notify(StageStarted(name, expected))
        for status, count in done.statuses.items():
            self._notify(ItemsDone(name, status, count, fresh=False))
        if work:
            # Written last and from everything: until then there is none.
            store.delete([SUMMARY_PATH])
        committed = await crew.do(stage, work)
        self._notify(StageEnded(name, done.items + committed.items))

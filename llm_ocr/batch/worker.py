"""Run one worker: plan, run stages over shards, write outputs and the summary."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_ocr.batch.budget import Budget, enforce_budget, remaining_budget
from llm_ocr.batch.destination import open_destination
from llm_ocr.batch.events import ItemsDone, Note, Notify, StageEnded, StageStarted, discard
from llm_ocr.batch.executor import (
    Executor,
    ExecutorFactory,
    LocalExecutor,
    create_stage,
)
from llm_ocr.batch.interruption import CancellationToken, run_until_stopped
from llm_ocr.batch.partition import worker_partition
from llm_ocr.batch.pending import (
    DEFAULT_STAGES,
    RequestedTasks,
    delete_orphaned_staging,
    pending_shards,
    publish_unpublished_commits,
    stale_shard_count,
    unfinished_counts,
    unfinished_shards,
)
from llm_ocr.batch.planning import Planning, load_plan, make_plan, updated_plan
from llm_ocr.batch.progress import shown
from llm_ocr.batch.requests import requested_statuses, requested_tasks, save_requests
from llm_ocr.batch.rework import ReworkPlanner, ReworkStage
from llm_ocr.batch.session_log import log_session, new_session_record
from llm_ocr.batch.stage_runner import RunContext, ShardTask
from llm_ocr.batch.stages import AnyItem, Stage
from llm_ocr.document.configure import render_pool
from llm_ocr.messages import pluralize
from llm_ocr.report.outputs import read_record_counts, write_outputs
from llm_ocr.report.sessions import read_sessions
from llm_ocr.report.summary import SUMMARY_PATH, SessionStats, Summary, summarize
from llm_ocr.settings import PageRouting, Settings
from llm_ocr.sources.inputs import absolute_input
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.compact import presplit_shards
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.plan import Plan, Shard
from llm_ocr.tables.schema import STAGE_TABLES, STAGES

STALE = "records made from older page text; run `llm-ocr parse` on this run again to refresh them"
NOT_ROUTED = "no page was read by the embedded engine: none was simple, or it was not free"
# A folder on the Hub should not have more: https://huggingface.co/docs/hub/storage-limits
MOST_FILES = 10_000


def run(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    settings: Settings | None = None,
    *,
    stages: Sequence[str] = DEFAULT_STAGES,
    update: bool = False,
    notify: Notify | None = None,
    progress: bool = True,
    executor: ExecutorFactory = LocalExecutor,
    stop: CancellationToken | None = None,
    **overrides: Any,  # noqa: ANN401
) -> Summary:
    """Read documents and write their tables, Markdown and viewer to `out`, or resume that.

    `inputs` are files, folders, globs or list files (`@files.txt`); with `update`, documents that
    are new in them since the run was planned are added to it. `overrides` are fields of `Settings`;
    `executor` runs the shards. Works in any thread, and in a notebook, where an event loop runs
    already. Progress is shown there and on a terminal, unless `progress` is False; `notify`
    receives it instead, if given. Ctrl-C and a request of `stop` end the run in order. Raises
    UnknownTaskError, NoInputError, SettingsMismatchError or RunInUseError before anything is done;
    EngineFailedError, StorageError, CountMismatchError or StoppedError (BudgetExceededError, with
    `max_cost`) when the run can't continue. Failed pages are rows, not exceptions.
    """
    chosen = (
        Settings(**overrides)
        if settings is None
        else Settings(**{**settings.model_dump(), **overrides})
    )
    several = [inputs] if isinstance(inputs, str | Path) else inputs
    places = [absolute_input(str(source)) for source in several]
    wanted = [name for name in stages if chosen.describe or name != "describe"]
    with shown(notify, progress) as show:
        planning = updated_plan if update else make_plan
        return Worker(str(out), chosen, show, executor, plan=planning).run(places, wanted, stop)


def resume(
    out: str | Path,
    settings: Settings,
    *,
    stages: Sequence[str],
    notify: Notify | None = None,
    progress: bool = True,
    executor: ExecutorFactory = LocalExecutor,
    stop: CancellationToken | None = None,
) -> Summary:
    """Run stages over the existing run in `out`; raises NoRunError where there is none."""
    with shown(notify, progress) as show:
        return Worker(str(out), settings, show, executor).run(None, stages, stop)


class Worker:
    """One process's work on a run; its executor runs the shards. With `prepare`, it reprocesses
    what that selects, instead of what is pending."""

    def __init__(
        self,
        out: str,
        settings: Settings,
        notify: Notify | None,
        executor: ExecutorFactory = LocalExecutor,
        prepare: ReworkPlanner | None = None,
        plan: Planning = make_plan,
    ) -> None:
        self._settings = settings
        self._notify = notify or discard
        self._destination = open_destination(out, settings)
        self._store = self._destination.store
        self._executor = executor
        self._session = SessionStats(time.monotonic())
        self._share = worker_partition(settings, os.environ)
        self._commit_index = CommitIndex(self._store, STAGES)
        self._prepare, self._make_plan = prepare, plan
        self._rework: ReworkStage[Any] | None = None
        self._reworked: set[str] = set()
        self._wanted: RequestedTasks = {}

    def run(
        self,
        inputs: list[str] | None,
        stages: Sequence[str],
        stop: CancellationToken | None = None,
    ) -> Summary:
        """Do what is pending of `stages`; `inputs` None uses the existing plan."""
        self._wanted = requested_tasks(self._settings, stages)
        alone = self._store.exclusive_lock() if self._share.count == 1 else nullcontext()
        with alone:
            return run_until_stopped(lambda own: self._run(inputs, stages, own), stop)

    async def _run(
        self, inputs: list[str] | None, stages: Sequence[str], stop: CancellationToken
    ) -> Summary:
        store, settings = self._store, self._settings
        stop.request_after(settings.time_limit)
        async with render_pool(settings) as pool:
            context = RunContext(
                store, self._commit_index, settings, pool, self._session, stop, self._notify
            )
            async with self._executor(context) as executor:
                plan = await stop.guard(self._plan(inputs, context, executor.engines))
                await asyncio.to_thread(self._commit_index.refresh)
                ordered = [name for name in STAGES if name in stages]
                if self._prepare is not None:
                    self._rework = await asyncio.to_thread(
                        self._prepare, context, plan, self._share
                    )
                    ordered = self._reprocessing_stages()
                record = await asyncio.to_thread(
                    new_session_record,
                    inputs,
                    self._destination.uri,
                    settings,
                    self._stages_with_model(ordered),
                    self._share,
                    self._rework.command if self._rework else None,
                )
                async with (
                    log_session(store, record, self._session, executor),
                    await self._budget_enforced(stop),
                ):
                    async for part in self._parts(plan, ordered):
                        for name in ordered:
                            await self._run_stage(name, part, context, executor)
                        await asyncio.to_thread(self._commit_index.write)
        summary = await asyncio.to_thread(self._account, plan, ordered)
        for note in self._rework.notes() if self._rework is not None else ():
            self._notify(note)
        return summary

    async def _budget_enforced(self, stop: CancellationToken) -> AbstractAsyncContextManager[None]:
        """Enforce what `max_cost` leaves for this session."""
        budget: Budget | None = None
        if self._settings.max_cost is not None:
            sessions = await asyncio.to_thread(read_sessions, self._store)
            budget = remaining_budget(self._settings, self._share, sessions)
        begun, drains = self._session.started, self._executor is LocalExecutor
        return enforce_budget(budget, begun, stop, self._notify, drains=drains)

    async def _parts(self, plan: Plan, stages: Sequence[str]) -> AsyncIterator[Plan]:
        """This worker's own shards; then, with `steal_work`, one by one those that are left."""
        yield self._share.select(plan)
        while self._settings.steal_work:
            await asyncio.to_thread(self._commit_index.refresh)
            left = self._unfinished(plan, stages)
            if not left:
                return
            # At random, so that workers that have finished seldom choose the same.
            yield Plan((random.choice(left),), plan.settings)

    def _unfinished(self, plan: Plan, stages: Sequence[str]) -> list[Shard]:
        if self._prepare is None:
            return unfinished_shards(self._commit_index, plan, stages, self._wanted)
        return [task.shard for task in self._rework_tasks(plan)] or unfinished_shards(
            self._commit_index, plan, stages[1:]
        )

    def _reprocessing_stages(self) -> list[str]:
        """Extract, and the later stages that the run has done so far."""
        later = [
            name for name in DEFAULT_STAGES[1:] if self._commit_index.committed_generations(name)
        ]
        wanted = [name for name in later if self._settings.describe or name != "describe"]
        return ["extract", *wanted]

    def _stages_with_model(self, stages: Sequence[str]) -> list[str]:
        """The stages without an extract that only parses stored answers."""
        asks = self._rework is None or self._rework.asks_model
        return [name for name in stages if name != "extract" or asks]

    def _account(self, plan: Plan, stages: Sequence[str]) -> Summary:
        if self._share.count > 1:
            self._commit_index.refresh()
        done = summarize(self._store, self._commit_index, plan, self._session)
        summary = replace(done, out=self._destination.uri)
        left = unfinished_counts(self._commit_index, plan, stages, self._wanted)
        if left:
            self._notify(Note(_unfinished_message(left, len(plan.shards))))
            return summary
        self._notify(Note("writing Markdown, viewer, dataset card and summary"))
        if self._session.did_anything or not self._store.exists(SUMMARY_PATH):
            summary = write_outputs(
                *(self._store, summary, plan.settings, self._settings.viewer_pages),
                markdown=self._writes_markdown(summary.documents),
            )
        else:
            summary = summary.with_records(read_record_counts(self._store))
        stale = stale_shard_count(self._commit_index, plan, "parse")
        if stale:
            self._notify(Note(f"{pluralize(stale, 'shard')} with {STALE}"))
        if self._settings.route is PageRouting.AUTO and not summary.routed:
            self._notify(Note(NOT_ROUTED))
        self._commit_index.consolidate()
        delete_orphaned_staging(self._store, self._commit_index)
        self._destination.publish(self._notify)
        return summary

    def _writes_markdown(self, documents: int) -> bool:
        if self._settings.markdown is not None:
            return self._settings.markdown
        if documents > MOST_FILES:
            skipped = f"{documents:,} documents: Markdown files skipped; the text is in the table"
            self._notify(Note(f"{skipped} `documents` (`markdown` writes the files anyway)"))
        return documents <= MOST_FILES

    async def _plan(self, inputs: list[str] | None, context: RunContext, engines: int) -> Plan:
        if inputs is None:
            return await asyncio.to_thread(load_plan, self._store)
        await asyncio.to_thread(self._destination.prepare, private=not self._settings.public)
        return await self._make_plan(context, inputs, self._share.count * engines)

    async def _run_stage(
        self, name: str, plan: Plan, context: RunContext, executor: Executor
    ) -> None:
        stage: Stage[Any]
        if self._rework is not None and name == "extract":
            stage = self._rework
        else:
            stage = await asyncio.to_thread(create_stage, name, context)
        await asyncio.to_thread(
            publish_unpublished_commits, self._store, self._commit_index, name, plan
        )
        work, done = await asyncio.to_thread(self._pending, stage, plan)
        if work and context.stop.drain_reason is not None:
            raise context.stop.drain_reason
        ahead = sum(task.expected_items for task in work)
        self._notify(StageStarted(name, done.items + ahead))
        for status, count in done.statuses.items():
            self._notify(ItemsDone(name, status, count, fresh=False))
        if work:
            # It is written last, from everything: until then there must be none.
            self._store.delete([SUMMARY_PATH])
            await asyncio.to_thread(save_requests, self._store, self._settings, name)
        replaced = frozenset(task.shard.name for task in work if task.generation > 0)
        await asyncio.to_thread(presplit_shards, self._store, STAGE_TABLES[name], replaced)
        committed = await executor.run(stage, work)
        if stage is self._rework:
            self._reworked.update(task.shard.name for task in work)
        if work and self._executor is not LocalExecutor:
            # Other processes committed the shards.
            await asyncio.to_thread(self._commit_index.refresh)
        self._notify(StageEnded(name, done.items + committed.items))

    def _rework_tasks(self, plan: Plan) -> list[ShardTask]:
        """The shards to reprocess that this session has not looked at."""
        tasks = [] if self._rework is None else self._rework.tasks(plan)
        return [task for task in tasks if task.shard.name not in self._reworked]

    def _pending(self, stage: Stage[AnyItem], plan: Plan) -> tuple[list[ShardTask], Counts]:
        """The stage's pending shards, and the counts of the others."""
        if stage.name == "extract" and self._prepare is not None:
            return self._rework_tasks(plan), Counts()
        statuses = requested_statuses(self._settings)
        return pending_shards(self._commit_index, stage, plan, statuses)


def _unfinished_message(left: Mapping[str, int], shards: int) -> str:
    counts = ", ".join(
        f"{name} has {count:,} of {pluralize(shards, 'shard')} left" for name, count in left.items()
    )
    return f"{counts}: Markdown, viewer and summary are written after the last one"

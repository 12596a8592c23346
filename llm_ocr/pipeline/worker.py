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

from llm_ocr.messages import pluralize
from llm_ocr.pipeline.budget import Budget, enforce_budget, remaining_budget
from llm_ocr.pipeline.destination import open_destination
from llm_ocr.pipeline.events import ItemsDone, Note, Notify, StageEnded, StageStarted, discard
from llm_ocr.pipeline.executor import (
    Executor,
    ExecutorFactory,
    LocalExecutor,
    RunContext,
    create_stage,
    render_pool,
)
from llm_ocr.pipeline.interruption import CancellationToken, run_until_stopped
from llm_ocr.pipeline.parse_request import requested_statuses, requested_tasks
from llm_ocr.pipeline.partition import worker_partition
from llm_ocr.pipeline.pending import (
    DEFAULT_STAGES,
    STAGES,
    RequestedTasks,
    delete_orphaned_staging,
    expected_items,
    pending_shards,
    publish_unpublished_commits,
    stale_shard_count,
    unfinished_counts,
    unfinished_shards,
)
from llm_ocr.pipeline.planning import Planning, absolute, load_plan, make_plan, updated_plan
from llm_ocr.pipeline.progress import shown
from llm_ocr.pipeline.rework import Rework, ReworkPlanner
from llm_ocr.pipeline.session_log import log_session, new_session_record
from llm_ocr.pipeline.stage_runner import ShardTask
from llm_ocr.report.outputs import read_record_counts, write_outputs
from llm_ocr.report.sessions import read_sessions
from llm_ocr.report.summary import SUMMARY_PATH, SessionStats, Summary, summarize
from llm_ocr.settings import Settings
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.stages.stage import AnyItem, Stage
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.compact import presplit_shards
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.plan import Plan, Shard

STALE = "records made from older page text; run `llm-ocr parse` on this run again to refresh them"
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
    **overrides: Any,  # noqa: ANN401
) -> Summary:
    """Read documents and write their tables, Markdown and viewer to `out`; go on where it stopped.

    `inputs` are files, folders, globs or list files (`@files.txt`). With `update`, documents that
    they hold since the run was planned are added. `overrides` are fields of `Settings`; `executor`
    runs the shards. Works in a notebook, where an event loop runs already. Progress is shown there
    and on a terminal, unless `progress` is False; `notify` receives it instead, if given. Raises
    UnknownTaskError, NoInputError, SettingsMismatchError or RunInUseError before anything is done;
    EngineFailedError, StorageError, CountMismatchError or StoppedError (BudgetExceededError, with
    `max_cost`) when the run can't go on. Failed pages are rows, not exceptions.
    """
    chosen = (
        Settings(**overrides)
        if settings is None
        else Settings(**{**settings.model_dump(), **overrides})
    )
    several = [inputs] if isinstance(inputs, str | Path) else inputs
    places = [absolute(str(one)) for one in several]
    wanted = [name for name in stages if chosen.describe or name != "describe"]
    with shown(notify, progress) as tell:
        worker = Worker(
            str(out), chosen, tell, executor, plan=updated_plan if update else make_plan
        )
        return worker.run(places, wanted)


def resume(
    out: str | Path,
    settings: Settings | None = None,
    *,
    stages: Sequence[str],
    notify: Notify | None = None,
    progress: bool = True,
    executor: ExecutorFactory = LocalExecutor,
) -> Summary:
    """Run stages over the existing run in `out`; raises NoRunError where there is none."""
    with shown(notify, progress) as tell:
        return Worker(str(out), settings or Settings(), tell, executor).run(None, stages)


class Worker:
    """One process's work on a run; its executor runs the shards. `prepare` finds what is to be
    reprocessed, instead of what is due."""

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
        self._again: Rework | None = None
        self._wanted: RequestedTasks = {}

    def run(self, inputs: list[str] | None, stages: Sequence[str]) -> Summary:
        """Do what is pending of `stages`; `inputs` None uses the existing plan."""
        self._wanted = requested_tasks(self._settings, stages)
        alone = self._store.exclusive_lock() if self._share.count == 1 else nullcontext()
        with alone:
            return run_until_stopped(
                lambda stop: self._run(inputs, stages, stop), self._settings.stop_seconds
            )

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
                plan = await stop.guard(self._plan(inputs, pool))
                await asyncio.to_thread(self._commit_index.refresh)
                ordered = [name for name in STAGES if name in stages]
                if self._prepare is not None:
                    self._again = await asyncio.to_thread(
                        self._prepare, store, self._commit_index, plan, self._share
                    )
                    ordered = self._stages_again()
                asking = self._asking(ordered)
                told = (inputs, self._destination.uri, settings, asking, self._share)
                command = self._again.command if self._again else None
                record = await asyncio.to_thread(new_session_record, *told, command)
                async with (
                    log_session(store, record, self._session, executor),
                    await self._within(stop),
                ):
                    async for part in self._parts(plan, ordered):
                        for name in ordered:
                            await self._run_stage(name, part, context, executor)
                        await asyncio.to_thread(self._commit_index.write)
        return await asyncio.to_thread(self._account, plan, ordered)

    async def _within(self, stop: CancellationToken) -> AbstractAsyncContextManager[None]:
        """Enforce what --max-cost leaves for this session."""
        budget: Budget | None = None
        if self._settings.max_cost is not None:
            sessions = await asyncio.to_thread(read_sessions, self._store)
            budget = remaining_budget(self._settings, self._share, sessions)
        begun, drains = self._session.started, self._executor is LocalExecutor
        return enforce_budget(budget, begun, stop, self._notify, drains=drains)

    async def _parts(self, plan: Plan, stages: Sequence[str]) -> AsyncIterator[Plan]:
        """What this worker does: its own shards, then one by one what others have not done."""
        yield self._share.select(plan)
        while self._settings.steal_work:
            await asyncio.to_thread(self._commit_index.refresh)
            left = self._undone(plan, stages)
            if not left:
                return
            # By chance, so that workers who have finished seldom choose the same.
            yield Plan((random.choice(left),), plan.settings)

    def _undone(self, plan: Plan, stages: Sequence[str]) -> list[Shard]:
        if self._prepare is None:
            return unfinished_shards(self._commit_index, plan, stages, self._wanted)
        again = self._again.work(plan) if self._again else []
        return [one.shard for one in again] or unfinished_shards(
            self._commit_index, plan, stages[1:]
        )

    def _stages_again(self) -> list[str]:
        """Extract, and the later stages that the run has been through so far."""
        later = [name for name in DEFAULT_STAGES[1:] if self._commit_index.committed(name)]
        wanted = [name for name in later if self._settings.describe or name != "describe"]
        return ["extract", *wanted]

    def _asking(self, stages: Sequence[str]) -> list[str]:
        """Those of the stages that ask someone, if it is needed."""
        return [name for name in stages if name != "extract" or not self._again or self._again.asks]

    def _account(self, plan: Plan, stages: Sequence[str]) -> Summary:
        if self._share.count > 1:
            self._commit_index.refresh()
        done = summarize(self._store, self._commit_index, plan, self._session)
        summary = replace(done, out=self._destination.uri)
        left = unfinished_counts(self._commit_index, plan, stages, self._wanted)
        if left:
            self._notify(Note(_unfinished(left, len(plan.shards))))
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
        self._commit_index.consolidate()
        delete_orphaned_staging(self._store, self._commit_index)
        self._destination.publish(self._notify)
        return summary

    def _writes_markdown(self, documents: int) -> bool:
        if self._settings.markdown is not None:
            return self._settings.markdown
        if documents > MOST_FILES:
            skipped = f"{documents:,} documents: Markdown files skipped; the text is in the table"
            self._notify(Note(f"{skipped} `documents` (--markdown writes the files anyway)"))
        return documents <= MOST_FILES

    async def _plan(self, inputs: list[str] | None, pool: RenderPool) -> Plan:
        if inputs is None:
            return await asyncio.to_thread(load_plan, self._store)
        await asyncio.to_thread(self._destination.prepare, private=not self._settings.public)
        return await self._make_plan(self._store, self._settings, inputs, pool, self._notify)

    async def _run_stage(
        self, name: str, plan: Plan, context: RunContext, executor: Executor
    ) -> None:
        again = self._again if name == "extract" else None
        stage = await asyncio.to_thread(create_stage, name, context, again)
        if name == "extract" and self._prepare is not None:
            work, done, expected = await asyncio.to_thread(self._work_again, stage, plan)
        else:
            work, done = await asyncio.to_thread(
                pending_shards,
                self._store,
                self._commit_index,
                stage,
                plan,
                requested_statuses(self._settings),
            )
            ahead = sum(expected_items(self._commit_index, name, one) for one in work)
            expected = done.items + ahead
        if work and context.stop.drain_reason is not None:
            raise context.stop.drain_reason
        self._notify(StageStarted(name, expected))
        for status, count in done.statuses.items():
            self._notify(ItemsDone(name, status, count, fresh=False))
        if work:
            # Written last and from everything: until then there is none.
            self._store.delete([SUMMARY_PATH])
        replaced = frozenset(one.shard.name for one in work if one.generation > 0)
        await asyncio.to_thread(presplit_shards, self._store, stage.tables, replaced)
        committed = await executor.run(stage, work, again)
        if work and self._executor is not LocalExecutor:
            # Others committed it.
            if again is not None:
                again.mark_done([one.shard.name for one in work])
            await asyncio.to_thread(self._commit_index.refresh)
        self._notify(StageEnded(name, done.items + committed.items))

    def _work_again(self, stage: Stage[AnyItem], plan: Plan) -> tuple[list[ShardTask], Counts, int]:
        publish_unpublished_commits(self._store, self._commit_index, stage.name, stage.tables, plan)
        again = self._again
        work = again.work(plan) if again else []
        return work, Counts(), sum(again.expected(one) for one in work) if again else 0


def _unfinished(left: Mapping[str, int], shards: int) -> str:
    said = ", ".join(
        f"{name} has {count:,} of {pluralize(shards, 'shard')} left" for name, count in left.items()
    )
    return f"{said}: Markdown, viewer and summary are written after the last one"

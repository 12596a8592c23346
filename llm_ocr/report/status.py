"""Read the status of a run from its store, also while it runs or after it died.

A bounded number of reads, however large the run is: listings, the index of commits, and at most
MOST_READS of the commits and parts that are not in it yet.
"""

import json
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from rich.console import Group
from rich.table import Table

from llm_ocr.messages import CodedError, ProblemCode, pluralize
from llm_ocr.report.descriptions import format_statuses
from llm_ocr.report.doubts import format_doubts
from llm_ocr.report.summary import SUMMARY_PATH, Explain, without_advice
from llm_ocr.storage.hub_address import is_repository, run_uri
from llm_ocr.storage.store import StorageError, Store, StoredObject, open_snapshot, open_store
from llm_ocr.tables.commit_index import MAX_PARALLEL_READS, CommitIndex
from llm_ocr.tables.commits import StagedPart, read_staged_part
from llm_ocr.tables.counts import Counts, total
from llm_ocr.tables.data_files import published_ranges
from llm_ocr.tables.plan import Plan, read_plan
from llm_ocr.tables.schema import STAGES

# Shown only if it was started.
ON_DEMAND = ("parse",)
MOST_READS = 1_000
# A shard without a new part for so long is stalled: parts are staged every minute, or after a page
# that took longer.
STALLED_SECONDS = 300.0
# The time over which speed is measured.
WINDOW_SECONDS = 1_800.0


class NoRunError(CodedError):
    """There is no run to inspect or resume."""


@dataclass(frozen=True)
class StageStatus:
    """A stage's shards and items.

    Shards that are not committed are `running` if they have parts that are a few minutes old,
    `stalled` if all their parts are older. `shards_outdated` are to be done again, because an
    earlier stage moved on. `items_staged` are finished in shards that are not committed;
    `shards_uncounted` were too many to be read, so that their items are missing here. `tasks` has
    the items by task and status, where the stage has several tasks; `doubts` those that are ok and
    doubted, by what they are doubted for; `errors` those that failed, by error code.
    """

    shards_committed: int
    shards_running: int
    shards_stalled: int
    shards_outdated: int
    shards_uncounted: int
    items_committed: int
    items_staged: int
    statuses: Mapping[str, int]
    tasks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    doubts: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RunStatus:
    """A run's documents and shards as planned, and its stages.

    `pages_per_second` is of the last half hour, None where nothing moves; `seconds_left` is for
    the pages that are still to be read at that speed.
    """

    out: str
    documents: int
    duplicates: int
    shards: int
    expected_pages: int
    pages_per_second: float | None
    seconds_left: float | None
    stages: Mapping[str, StageStatus]


@dataclass(frozen=True)
class _Staged:
    """A staged part of a shard that is not committed, and when it was staged."""

    shard: str
    at: float
    counts: Counts


def read_status(out: str, staging: str | None = None) -> RunStatus:
    """Read the status of the run at `out`. Raises NoRunError if there is none.

    A run that publishes to a dataset repository is in `staging`, or in the default staging bucket;
    once that is deleted, the status is that of what was published.
    """
    store, plan = _run_of(out, staging)
    if plan is None and is_repository(out):
        return _published_status(out)
    if plan is None:
        raise NoRunError(f"{out} holds no run", ProblemCode.NO_RUN, out=out)
    commit_index = CommitIndex(store, STAGES)
    commit_index.refresh(MOST_READS)
    now = time.time()
    staged = {name: _read_staged_parts(store, commit_index, name) for name in STAGES}
    speed = _speed(commit_index, staged["extract"], now)
    return RunStatus(
        out=out if is_repository(out) else store.uri,
        documents=plan.document_count,
        duplicates=plan.duplicates,
        shards=len(plan.shards),
        expected_pages=plan.expected_pages,
        pages_per_second=speed,
        seconds_left=_pages_left(commit_index, staged["extract"], plan) / speed if speed else None,
        stages={
            name: _stage(commit_index, name, staged[name], now)
            for name in STAGES
            if name not in ON_DEMAND or commit_index.committed_generations(name) or staged[name]
        },
    )


def _run_of(out: str, staging: str | None) -> tuple[Store, Plan | None]:
    store = open_snapshot(run_uri(out, staging))
    try:
        return store, read_plan(store)
    except StorageError:
        if not is_repository(out):
            raise
        # A bucket that was deleted after the run, or that the reader may not access.
        return store, None


def _published_status(out: str) -> RunStatus:
    store = open_store(out)
    try:
        summary = json.loads(store.get(SUMMARY_PATH))
    except FileNotFoundError as error:
        raise NoRunError(
            f"{out} holds no finished run, and none is in progress in its staging location",
            ProblemCode.NO_FINISHED_RUN,
            out=out,
        ) from error
    statuses = {key: count for key, count in summary["pages_by_status"].items() if count}
    items = {
        "extract": ("pages", summary["pages"], statuses),
        "describe": ("descriptions", summary["figures"], {"ok": summary["descriptions"]}),
        "assemble": ("documents", summary["documents"], {}),
    }
    records = summary.get("records", {}).get("by_status")
    if records:
        items["parse"] = ("records", sum(records.values()), records)
    return RunStatus(
        out=out,
        documents=summary["documents"],
        duplicates=summary["duplicates"],
        shards=len(published_ranges(store, "pages")),
        expected_pages=summary["pages"],
        pages_per_second=None,
        seconds_left=None,
        stages={
            name: StageStatus(
                *(len(published_ranges(store, table)), 0, 0, 0, 0, count, 0, found),
                doubts=summary.get("doubts", {}) if name == "extract" else {},
                errors=summary.get("errors", {}) if name == "extract" else {},
            )
            for name, (table, count, found) in items.items()
        },
    )


def _read_staged_parts(store: Store, commit_index: CommitIndex, stage: str) -> list[_Staged]:
    """The staged parts of shards that are not committed, or are being reprocessed."""
    committed = commit_index.committed_generations(stage)
    staged: list[tuple[str, StoredObject]] = []
    for stored in store.list(f"_staging/{stage}"):
        shard, attempt = stored.path.split("/")[2:4]
        generation = int(attempt.partition("-")[0])
        if stored.path.endswith(".json") and generation > committed.get(shard, -1):
            staged.append((shard, stored))
    selected = list(islice(staged, MOST_READS))
    with ThreadPoolExecutor(MAX_PARALLEL_READS) as threads:
        parts = threads.map(lambda entry: _part(store, entry[1].path), selected)
        return [
            _Staged(shard, stored.modified, part.counts)
            for (shard, stored), part in zip(selected, parts, strict=True)
            if part is not None
        ]


def _part(store: Store, path: str) -> StagedPart | None:
    try:
        return read_staged_part(store, path)
    except FileNotFoundError:
        # Its shard has just been committed.
        return None


def _stage(commit_index: CommitIndex, stage: str, staged: list[_Staged], now: float) -> StageStatus:
    committed, entries = commit_index.committed_generations(stage), commit_index.entries(stage)
    extracted = commit_index.committed_generations("extract")
    newest: dict[str, float] = {}
    for part in staged:
        newest[part.shard] = max(newest.get(part.shard, 0.0), part.at)
    running = sum(at > now - STALLED_SECONDS for at in newest.values())
    fresh = total(part.counts for part in staged if part.shard not in committed)
    counts = total(entry.counts for entry in entries.values())
    items = counts.items
    counts.add(fresh)
    return StageStatus(
        shards_committed=len(committed),
        shards_running=running,
        shards_stalled=len(newest) - running,
        shards_outdated=sum(
            entry.inputs.get("extract") not in (None, extracted.get(shard))
            for shard, entry in entries.items()
        ),
        shards_uncounted=len(committed) - len(entries),
        items_committed=items,
        items_staged=fresh.items,
        statuses=counts.statuses,
        tasks=counts.by_task,
        doubts=counts.doubts,
        errors=counts.errors,
    )


def _speed(commit_index: CommitIndex, staged: Iterable[_Staged], now: float) -> float | None:
    """Pages per second, from the times of commits and parts; None if there is no progress."""
    moments = [(part.at, part.counts.items) for part in staged]
    for shard, entry in commit_index.entries("extract").items():
        if entry.generation == 0:
            moments.append((commit_index.committed_at("extract", shard), entry.counts.items))
    recent = sorted(moment for moment in moments if moment[0] > now - WINDOW_SECONDS)
    if len(recent) < 2 or recent[-1][0] < now - STALLED_SECONDS:
        return None
    # The pages of the first part were read before the interval begins.
    seconds = recent[-1][0] - recent[0][0]
    pages = sum(items for _, items in recent[1:])
    return pages / seconds if seconds > 0 and pages else None


def _pages_left(commit_index: CommitIndex, staged: Iterable[_Staged], plan: Plan) -> int:
    committed = commit_index.committed_generations("extract")
    left = sum(shard.expected_pages for shard in plan.shards if shard.name not in committed)
    return max(0, left - sum(part.counts.items for part in staged if part.shard not in committed))


def render_status(status: RunStatus, explain: Explain = without_advice) -> Group:
    """Render the status for the terminal; `explain` adds to an error code what helps."""
    table = Table(box=None, pad_edge=False)
    for column in ("stage", "shards", "committed", "staged", "by status"):
        table.add_column(column, justify="left" if column in ("stage", "by status") else "right")
    for name, stage in status.stages.items():
        statuses = _by_status(stage)
        shards = f"{stage.shards_committed:,} of {status.shards:,}"
        table.add_row(
            name, shards, f"{stage.items_committed:,}", f"{stage.items_staged:,}", statuses
        )
    head = (
        f"{pluralize(status.documents, 'document')}, about "
        f"{pluralize(status.expected_pages, 'page')} in {status.out}"
    )
    duplicates = (
        [f"duplicates: {pluralize(status.duplicates, 'document')}"] if status.duplicates else []
    )
    return Group(head, table, *duplicates, *_remarks(status, explain))


def _by_status(stage: StageStatus) -> str:
    """By task too, if there are tasks other than describe."""
    if set(stage.tasks) <= {"describe"}:
        return format_statuses(stage.statuses)
    return "; ".join(f"{task}: {format_statuses(counts)}" for task, counts in stage.tasks.items())


def _remarks(status: RunStatus, explain: Explain) -> list[str]:
    remarks: list[str] = []
    for name, stage in status.stages.items():
        for count, what in (
            (stage.shards_running, "running"),
            (
                stage.shards_stalled,
                f"stalled: no progress for {STALLED_SECONDS / 60:.0f} min",
            ),
            (stage.shards_outdated, "outdated: an earlier stage has changed"),
            (stage.shards_uncounted, "committed, but not counted"),
        ):
            if count:
                remarks.append(f"{name}: {pluralize(count, 'shard')} {what}")
        remarks += [f"{name}: {doubt}" for doubt in format_doubts(stage.doubts)]
        for code, count in sorted(stage.errors.items()):
            remarks.append(explain(f"{name}: {count:,} failed with {code}", code))
    if status.pages_per_second is not None:
        remarks.append(
            f"{status.pages_per_second:.2f} pages/s, {_duration(status.seconds_left or 0)}"
        )
    return remarks


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "no pages left"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"about {hours} h {minutes} min left" if hours else f"about {max(1, minutes)} min left"

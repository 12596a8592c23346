"""Where a run stands, from its store alone: also while it runs, and after it died."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table

from llm_ocr.report.summary import SUMMARY_PATH
from llm_ocr.storage.hub_address import is_repository, run_place
from llm_ocr.storage.store import StorageError, Store, open_store
from llm_ocr.tables.plan import Plan, read_plan
from llm_ocr.tables.read import published
from llm_ocr.tables.shards import Counts, committed, read_commit, staged_parts, total


class NoRunError(Exception):
    """There is no run where one was to be looked at or gone on with."""


@dataclass(frozen=True)
class StageStatus:
    """A stage's shards and items; `staged` items are finished in shards that are not committed."""

    shards_committed: int
    items_committed: int
    items_staged: int
    statuses: Mapping[str, int]


@dataclass(frozen=True)
class RunStatus:
    """A run's documents and shards as planned, and its stages."""

    out: str
    documents: int
    shards: int
    expected_pages: int
    stages: Mapping[str, StageStatus]


def read_status(out: str, staging: str | None = None) -> RunStatus:
    """Where the run at `out` stands; raises NoRunError where there is none.

    One whose outputs go to a dataset repository is looked for in `staging`, or beside it; where it
    isn't any more, the repository tells what was published.
    """
    store, plan = _run_of(out, staging)
    if plan is None and is_repository(out):
        return _published_status(out)
    if plan is None:
        raise NoRunError(f"{out} holds no run; start one with `llm-ocr run INPUT --out {out}`")
    return RunStatus(
        out=out if is_repository(out) else store.uri,
        documents=plan.document_count,
        shards=len(plan.shards),
        expected_pages=plan.expected_pages,
        stages={name: _stage(store, name) for name in ("extract", "describe", "assemble")},
    )


def _run_of(out: str, staging: str | None) -> tuple[Store, Plan | None]:
    store = open_store(run_place(out, staging))
    try:
        return store, read_plan(store)
    except StorageError:
        if not is_repository(out):
            raise
        # A bucket that was deleted when the run was done, or isn't shown to whoever reads.
        return store, None


def _published_status(out: str) -> RunStatus:
    store = open_store(out)
    try:
        summary = json.loads(store.get(SUMMARY_PATH))
    except FileNotFoundError as error:
        raise NoRunError(
            f"{out} holds no finished run, and none is under way beside it; give its --staging, or "
            f"start one with `llm-ocr run INPUT --out {out}`"
        ) from error
    statuses = {key: count for key, count in summary["pages_by_status"].items() if count}
    items = {
        "extract": ("pages", summary["pages"], statuses),
        "describe": ("descriptions", summary["figures"], {"ok": summary["descriptions"]}),
        "assemble": ("documents", summary["documents"], {}),
    }
    return RunStatus(
        out=out,
        documents=summary["documents"],
        shards=len(published(store, "pages")),
        expected_pages=summary["pages"],
        stages={
            name: StageStatus(len(published(store, table)), count, 0, found)
            for name, (table, count, found) in items.items()
        },
    )


def _stage(store: Store, stage: str) -> StageStatus:
    found = committed(store, stage)
    done = total(read_commit(store, stage, shard, found[shard]).counts for shard in found)
    open_shards = {thing.path.split("/")[2] for thing in store.list(f"_staging/{stage}")}
    parts = (
        part
        for shard in sorted(open_shards - found.keys())
        for part in staged_parts(store, stage, shard, "")
    )
    staged: Counts = total(part.counts for part in parts)
    done.add(staged)
    return StageStatus(len(found), done.items - staged.items, staged.items, done.statuses)


def render_status(status: RunStatus) -> Group:
    """The printed form."""
    table = Table(box=None, pad_edge=False)
    for column in ("stage", "shards", "committed", "staged", "by status"):
        table.add_column(column, justify="left" if column in ("stage", "by status") else "right")
    for name, stage in status.stages.items():
        statuses = ", ".join(f"{count:,} {key}" for key, count in stage.statuses.items())
        shards = f"{stage.shards_committed:,} of {status.shards:,}"
        table.add_row(
            name, shards, f"{stage.items_committed:,}", f"{stage.items_staged:,}", statuses
        )
    head = f"{status.documents:,} documents, about {status.expected_pages:,} pages in {status.out}"
    return Group(head, table)

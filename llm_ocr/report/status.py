"""Where a run stands, from its store alone: also while it runs, and after it died."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table

from llm_ocr.storage.store import Store, open_store
from llm_ocr.tables.commits import committed, read_commit, staged_parts
from llm_ocr.tables.counts import Counts, total
from llm_ocr.tables.plan import read_plan


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


def read_status(out: str) -> RunStatus:
    """Where the run at `out` stands; raises NoRunError where there is none."""
    store = open_store(out)
    plan = read_plan(store)
    if plan is None:
        raise NoRunError(f"{out} holds no run; start one with `llm-ocr run INPUT --out {out}`")
    return RunStatus(
        out=store.uri,
        documents=sum(1 for _ in plan.documents),
        shards=len(plan.shards),
        expected_pages=plan.expected_pages,
        stages={name: _stage(store, name) for name in ("extract", "describe", "assemble")},
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

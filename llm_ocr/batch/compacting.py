"""Merge the small Parquet files of a finished run into larger ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_ocr.batch.destination import Destination, open_destination
from llm_ocr.batch.events import ItemsDone, Notify, StageEnded, StageStarted, discard
from llm_ocr.batch.pending import (
    delete_orphaned_staging,
    publish_unpublished_commits,
    unfinished_counts,
)
from llm_ocr.batch.planning import load_plan
from llm_ocr.settings import Settings
from llm_ocr.storage.store import RunInUseError, Store
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.compact import compact
from llm_ocr.tables.data_files import list_data_files
from llm_ocr.tables.plan import Plan
from llm_ocr.tables.schema import STAGE_TABLES, STAGES


@dataclass(frozen=True)
class Compacted:
    """How many files each table had, and has now."""

    out: str
    before: Mapping[str, int]
    after: Mapping[str, int]


def compact_run(
    out: str | Path,
    settings: Settings | None = None,
    *,
    file_mb: int = 512,
    notify: Notify | None = None,
) -> Compacted:
    """Merge the files of each table of the finished run at `out`, up to `file_mb` MB each.

    Raises RunInUseError while shards are under way, and NoRunError.
    """
    destination = open_destination(str(out), settings or Settings())
    with destination.store.exclusive_lock():
        return _compact(destination, file_mb * 1_000_000, notify or discard)


def _compact(destination: Destination, file_bytes: int, notify: Notify) -> Compacted:
    store = destination.store
    plan = load_plan(store)
    commit_index = CommitIndex(store, STAGES)
    commit_index.refresh()
    done = [name for name in STAGES if commit_index.committed_generations(name)]
    for stage in done:
        publish_unpublished_commits(store, commit_index, stage, plan)
    commit_index.consolidate()
    delete_orphaned_staging(store, commit_index)
    _check_finished(store, commit_index, plan, done)
    before: dict[str, int] = {}
    for table in (table for stage in done for table in STAGE_TABLES[stage]):
        files = [file.path for file in list_data_files(store, table)]
        before[table], dealt = len(files), 0
        notify(StageStarted(table, len(files)))
        for now in compact(store, table, file_bytes):
            notify(ItemsDone(table, "ok", now - dealt, fresh=True))
            dealt = now
        notify(StageEnded(table, len(files)))
    destination.publish(notify)
    after = {table: len(list_data_files(store, table)) for table in before}
    return Compacted(destination.uri, before, after)


def _check_finished(store: Store, commit_index: CommitIndex, plan: Plan, stages: list[str]) -> None:
    left = unfinished_counts(commit_index, plan, stages or STAGES)
    if left or any(True for _ in store.list("_staging")):
        raise RunInUseError(
            f"{store.uri}: the run is not finished ({sum(left.values())} shards left); finish it "
            "with its own command first, then compact it"
        )

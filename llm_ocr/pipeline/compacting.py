"""The small files of a finished run's tables merged into large ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llm_ocr.pipeline.destination import Destination, destination_of
from llm_ocr.pipeline.due import MAKER, STAGES, missing, settle, sweep_orphans
from llm_ocr.pipeline.events import ItemsDone, Notify, StageEnded, StageStarted, ignore
from llm_ocr.pipeline.planning import standing_plan
from llm_ocr.settings import Settings
from llm_ocr.storage.store import RunInUseError, Store
from llm_ocr.tables.compact import compact
from llm_ocr.tables.data import data_files
from llm_ocr.tables.ledger import Ledger
from llm_ocr.tables.plan import Plan


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
    destination = destination_of(str(out), settings or Settings())
    with destination.store.exclusive_lock():
        return _compact(destination, file_mb * 1_000_000, notify or ignore)


def _compact(destination: Destination, file_bytes: int, notify: Notify) -> Compacted:
    store = destination.store
    plan = standing_plan(store)
    ledger = Ledger(store, STAGES)
    ledger.refresh()
    done = [name for name in STAGES if ledger.committed(name)]
    for stage in done:
        settle(store, ledger, stage, [table for table in MAKER if MAKER[table] == stage], plan)
    ledger.gather()
    sweep_orphans(store, ledger)
    _check_finished(store, ledger, plan, done)
    before: dict[str, int] = {}
    for table in (name for name, stage in MAKER.items() if stage in done):
        files = [file.path for file in data_files(store, table)]
        before[table], dealt = len(files), 0
        notify(StageStarted(table, len(files)))
        for now in compact(store, table, file_bytes):
            notify(ItemsDone(table, "ok", now - dealt, fresh=True))
            dealt = now
        notify(StageEnded(table, len(files)))
    destination.publish(notify)
    after = {table: len(data_files(store, table)) for table in before}
    return Compacted(destination.uri, before, after)


def _check_finished(store: Store, ledger: Ledger, plan: Plan, stages: list[str]) -> None:
    left = missing(ledger, plan, stages or STAGES)
    if left or any(True for _ in store.list("_staging")):
        raise RunInUseError(
            f"{store.uri}: shards are under way ({sum(left.values())} to do); finish the run with "
            "its own command first, then compact it"
        )

"""Status of runs that go on, stall, or wait for a later stage."""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from llm_ocr.documents import Document
from llm_ocr.report.status import STALLED_SECONDS, read_status
from llm_ocr.storage.store import Store, open_store
from llm_ocr.tables.commits import Commit
from llm_ocr.tables.counts import Counts, ItemResult
from llm_ocr.tables.plan import Plan, PlannedDocument, Shard, write_plan
from llm_ocr.tables.shards import ShardWriter
from tests.processes import run_module


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A run of six shards of ten pages, nothing of which is done."""
    store = open_store(str(tmp_path / "run"))
    shards = tuple(
        Shard(k, (PlannedDocument(Document(f"d{k}", f"/{k}.pdf", "1", f"{k}", "pdf", 1), 10),))
        for k in range(6)
    )
    write_plan(store, Plan(shards, {}))
    return store


def written(store: Store, path: str, seconds_ago: float) -> None:
    assert store.folder is not None
    at = time.time() - seconds_ago
    os.utime(store.folder / path, (at, at))


def commit(store: Store, stage: str, shard: int, seconds_ago: float, **arguments: object) -> None:
    counts = Counts(items=10, statuses={"ok": 9, "failed": 1})
    made: dict[str, object] = {"generation": 0, "inputs": {}, "parts": (), "counts": counts}
    one = Commit(stage, f"{shard:06d}", **{**made, **arguments})  # type: ignore[arg-type]
    store.create(one.path, one.to_json())
    written(store, one.path, seconds_ago)


def stage(store: Store, shard: int, pages: int, seconds_ago: float) -> None:
    writer = ShardWriter(store, "extract", f"{shard:06d}", ("pages",), {f"d{shard}": 0})
    ids = [f"d{shard}/{number}" for number in range(1, pages + 1)]
    writer.write_part([ItemResult(one, "ok", {"pages": [{"page_id": one}]}) for one in ids])
    for thing in store.list("_staging"):
        if f"/{shard:06d}/" in thing.path:
            written(store, thing.path, seconds_ago)


def test_speed_and_time_left_come_from_when_commits_and_parts_were_written(store: Store) -> None:
    commit(store, "extract", 0, 110)
    commit(store, "extract", 1, 60)
    stage(store, 2, 5, 10)
    status = read_status(store.uri)
    assert status.pages_per_second == pytest.approx(15 / 100, rel=0.02)
    assert status.seconds_left == pytest.approx((60 - 25) / 0.15, rel=0.02)
    extract = status.stages["extract"]
    assert (extract.shards_committed, extract.shards_running, extract.shards_stalled) == (2, 1, 0)
    assert (extract.items_committed, extract.items_staged) == (20, 5)
    assert extract.statuses == {"ok": 23, "failed": 2}
    json.dumps(asdict(status))


def test_dead_run_is_stalled_without_throughput(store: Store) -> None:
    commit(store, "extract", 0, STALLED_SECONDS + 100)
    stage(store, 2, 5, STALLED_SECONDS + 10)
    status = read_status(store.uri)
    assert status.stages["extract"].shards_stalled == 1
    assert status.stages["extract"].shards_running == 0
    assert (status.pages_per_second, status.seconds_left) == (None, None)


def test_shards_with_changed_inputs_are_outdated(store: Store) -> None:
    commit(store, "extract", 0, 10)
    commit(store, "assemble", 0, 5, inputs={"extract": 0})
    assert read_status(store.uri).stages["assemble"].shards_outdated == 0
    commit(store, "extract", 0, 1, generation=1)
    status = read_status(store.uri)
    assert status.stages["assemble"].shards_outdated == 1
    assert status.stages["extract"].items_committed == 10


def test_status_is_printed(store: Store) -> None:
    commit(store, "extract", 0, 110)
    stage(store, 2, 5, 10)
    stage(store, 3, 1, STALLED_SECONDS + 10)
    said = run_module("llm_ocr", "status", store.uri).stdout
    assert "1 shard running" in said
    assert "1 shard stalled" in said
    assert "pages/s, about 15 min left" in said

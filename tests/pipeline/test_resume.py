"""What going on with a run costs at the store, counted in its operations."""

import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from llm_ocr.documents import Document
from llm_ocr.pipeline import worker
from llm_ocr.pipeline.pending import DEFAULT_STAGES as STAGES
from llm_ocr.pipeline.pending import INPUTS
from llm_ocr.report.status import read_status
from llm_ocr.settings import Settings
from llm_ocr.storage.objects import ObjectStore
from llm_ocr.storage.store import Store, open_store
from llm_ocr.tables.commit_index import INDEX_FOLDER, CommitIndex
from llm_ocr.tables.commits import Commit
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.plan import Plan, PlannedDocument, Shard, write_plan

SHARDS = 2_000
ONE = {"items": 1, "statuses": {"ok": 1}, "attempts": {"1": 1}}


def shard(k: int) -> Shard:
    document = Document(f"{k:016x}", f"/in/{k}.pdf", "1-1", str(k), "pdf", 1)
    return Shard(k, (PlannedDocument(document, 1),))


def commit_of(stage: str, name: str) -> Commit:
    counts = Counts() if stage == "describe" else Counts(**ONE)  # type: ignore[arg-type]
    return Commit(stage, name, 0, dict.fromkeys(INPUTS[stage], 0), (), counts)


@pytest.fixture
def finished() -> Store:
    """A finished run of many shards, each a page without figures."""
    store = open_store(f"memory://{uuid.uuid4().hex}/run")
    shards = tuple(shard(k) for k in range(SHARDS))
    write_plan(store, Plan(shards, {"model": "m", "profile": "deepseek-ocr"}))
    commit_index = CommitIndex(store, STAGES)
    for stage in STAGES:
        for one in shards:
            commit = commit_of(stage, one.name)
            store.create(commit.path, commit.to_json())
            commit_index.add(commit)
    commit_index.write()
    store.put("summary.json", b"{}")
    return store


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each operation of a store was called."""
    counted: Counter[str] = Counter()

    def counting(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def called(self: ObjectStore, *arguments: Any) -> Any:  # noqa: ANN401
            counted[name] += 1
            return operation(self, *arguments)

        return called

    for name in ("list", "stat", "get", "get_range", "put", "copy", "create"):
        monkeypatch.setattr(ObjectStore, name, counting(name, getattr(ObjectStore, name)))
    return counted


def test_a_finished_run_is_found_finished_without_a_read_a_shard(
    finished: Store, operations: Counter[str]
) -> None:
    summary = worker.resume(finished.uri, Settings(base_url="http://nobody/v1"), stages=STAGES)
    assert summary.pages == SHARDS
    assert operations.total() < 20, operations
    assert operations["create"] == 0
    assert operations["put"] == 1, "the record of a session, which goes again if nothing was done"


def test_commits_missing_from_the_index_are_read_once(
    finished: Store, operations: Counter[str]
) -> None:
    for k in range(5):
        finished.delete([f"commits/extract/{k:06d}-0.json", f"commits/assemble/{k:06d}-0.json"])
    index_path = next(finished.list(INDEX_FOLDER)).path
    for k in range(5):
        for stage in STAGES:
            commit = commit_of(stage, f"{k:06d}")
            later = Commit(**{**vars(commit), "generation": 1})
            finished.create(later.path, later.to_json())
    status = read_status(finished.uri)
    assert status.stages["extract"].items_committed == SHARDS
    assert 15 <= operations["get"] <= 20
    assert finished.exists(index_path)


def test_the_status_of_a_large_run_takes_a_bounded_number_of_reads(
    finished: Store, operations: Counter[str]
) -> None:
    finished.delete([one.path for one in finished.list(INDEX_FOLDER)])
    operations.clear()
    status = read_status(finished.uri)
    assert status.stages["extract"].shards_committed == SHARDS
    assert 0 < status.stages["extract"].items_committed < SHARDS
    assert operations.total() < 1_100

"""What is left to do: the question, which writes nothing, and its cost in operations of a store."""

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_ocr.batch import worker
from llm_ocr.batch.executor import create_stage
from llm_ocr.batch.interruption import CancellationToken
from llm_ocr.batch.pending import DEFAULT_STAGES as STAGES
from llm_ocr.batch.pending import (
    INPUTS,
    pending_shards,
    publish_unpublished_commits,
    unfinished_counts,
)
from llm_ocr.batch.planning import load_plan
from llm_ocr.batch.stage_runner import RunContext
from llm_ocr.document.configure import render_pool
from llm_ocr.documents import Document
from llm_ocr.report import status
from llm_ocr.report.status import read_status
from llm_ocr.report.summary import SessionStats
from llm_ocr.settings import Settings
from llm_ocr.storage.objects import ObjectStore
from llm_ocr.storage.store import Store, open_snapshot, open_store
from llm_ocr.tables.commit_index import INDEX_FOLDER, CommitIndex
from llm_ocr.tables.commits import Commit
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.plan import Plan, PlannedDocument, Shard, write_plan
from llm_ocr.tables.schema import STAGES as ALL_STAGES
from tests import documents
from tests.processes import run_module
from tests.servers.chat import serving_beside

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


def test_finished_run_is_recognized_with_few_reads(
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


WRITES = ("put", "put_many", "copy", "create", "delete", "exclusive_lock")
FILES, PAGES = 4, 2


class ReadOnlyStore:
    """A store that raises where something would be written."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name in WRITES:
            raise AssertionError(f"{name} of a question")
        return getattr(self._store, name)


@pytest.fixture
def unfinished(tmp_path: Path) -> Iterator[Settings]:
    """A run whose worker died after it had committed the first shard, before it published that."""
    for number in range(FILES):
        documents.pdf(tmp_path / "in" / f"{number}.pdf", pages=PAGES)
    chosen: dict[str, Any] = {
        "shard_pages": PAGES,
        "concurrency": 1,
        "describe_task": "classify",
        "classes": "a,b",
        "record_schema": "invoice",
    }
    with serving_beside() as server:
        arguments = (tmp_path / "in", tmp_path / "out", server.base_url)
        point = "after:^commits/extract/:1"
        done = run_module("tests.batch.dying_run", *arguments, point, json.dumps(chosen))
        assert done.returncode == -9, done.stderr
        yield Settings(base_url=server.base_url, **chosen)


def ask(store: Store, settings: Settings, stage: str) -> tuple[list[str], int, int]:
    """The names of the stage's pending shards, their expected items, and the items of the rest."""
    index = CommitIndex(store, ALL_STAGES)
    index.refresh()
    context = RunContext(
        *(store, index, settings, render_pool(settings), SessionStats(0.0)),
        *(CancellationToken(), lambda event: None),
    )
    plan = load_plan(store)
    tasks, done = pending_shards(index, create_stage(stage, context), plan)
    assert unfinished_counts(index, plan, ALL_STAGES)
    return (
        [task.shard.name for task in tasks],
        sum(task.expected_items for task in tasks),
        done.items,
    )


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_question_what_is_pending_writes_nothing(unfinished: Settings, tmp_path: Path) -> None:
    store: Any = ReadOnlyStore(open_store(str(tmp_path / "out")))
    before = snapshot(tmp_path / "out")
    names, expected, done = ask(store, unfinished, "extract")
    finished = FILES - len(names)
    assert 0 < finished < FILES
    assert (expected, done) == (PAGES * len(names), PAGES * finished)
    for stage in ALL_STAGES[1:]:
        names, _, done = ask(store, unfinished, stage)
        assert (len(names), done) == (finished, 0), stage
    assert snapshot(tmp_path / "out") == before


def test_a_status_writes_nothing(
    unfinished: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_read: Callable[[str], Store] = open_snapshot
    opened: list[str] = []

    def open_read_only(uri: str) -> Any:  # noqa: ANN401
        opened.append(uri)
        return ReadOnlyStore(open_to_read(uri))

    monkeypatch.setattr(status, "open_snapshot", open_read_only)
    before = snapshot(tmp_path / "out")
    assert status.read_status(str(tmp_path / "out")).stages["extract"].shards_committed > 0
    assert snapshot(tmp_path / "out") == before
    with pytest.raises(status.NoRunError, match="holds no run"):
        status.read_status(str(tmp_path / "missing"))
    assert not (tmp_path / "missing").exists()
    assert opened == [str(tmp_path / "out"), str(tmp_path / "missing")]


def test_the_repair_is_an_act_of_the_worker(unfinished: Settings, tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "out"))
    index = CommitIndex(store, ALL_STAGES)
    index.refresh()
    publish_unpublished_commits(store, index, "extract", load_plan(store))
    summary = worker.resume(tmp_path / "out", unfinished, stages=("extract",))
    assert summary.pages == FILES * PAGES

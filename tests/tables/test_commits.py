"""The commit protocol, on a local disk and on S3: no row is lost, none is there twice."""

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from llm_ocr.storage.store import Store, open_store
from llm_ocr.tables.commits import Commit, latest_generations, read_commit
from llm_ocr.tables.counts import CountMismatchError, ItemResult
from llm_ocr.tables.read import read_table
from llm_ocr.tables.shards import ShardWriter, delete_staging, publish

STAGE, SHARD = "extract", "000000"
TABLES = ("pages", "figures")
ORDER = {"a": 0, "b": 1}
ITEMS = [f"{doc}/{number}" for doc in ORDER for number in (1, 2)]


class KilledError(Exception):
    """The simulated worker died."""


class DyingStore:
    """A store whose user dies before the write with this number, or never."""

    def __init__(self, store: Store, dies_before: int | None) -> None:
        self._store, self._dies_before = store, dies_before
        self.writes = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._store, name)

    def _write(self, write: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        if self.writes == self._dies_before:
            raise KilledError
        self.writes += 1
        return write(*arguments)

    def put(self, path: str, data: bytes | Path) -> None:
        self._write(self._store.put, path, data)

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        for path, data in files.items():
            self.put(path, data)

    def create(self, path: str, data: bytes) -> bool:
        return bool(self._write(self._store.create, path, data))

    def copy(self, source: str, path: str) -> None:
        self._write(self._store.copy, source, path)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._write(self._store.delete, [path])


@pytest.fixture(params=["local", "s3"])
def new_store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Store]:
    """Opens an empty store with each call."""
    if request.param == "local":
        return lambda: open_store(str(tmp_path / uuid.uuid4().hex))
    for key, value in request.getfixturevalue("s3").items():
        monkeypatch.setenv(key, value)
    return lambda: open_store(f"s3://bucket/commits/{uuid.uuid4().hex}")


@pytest.fixture
def store(new_store: Callable[[], Store]) -> Store:
    return new_store()


def result(item: str, text: str) -> ItemResult:
    page = {"page_id": item, "doc_id": item[0], "status": "ok", "markdown": text}
    figure = {"figure_id": f"{item}/1", "page_id": item, "caption": text}
    return ItemResult(item, "ok", {"pages": [page], "figures": [figure]})


def open_writer(store: Store, generation: int = 0) -> ShardWriter:
    return ShardWriter(store, STAGE, SHARD, TABLES, ORDER, generation=generation)


def stage_missing(writer: ShardWriter, text: str) -> None:
    """Stage what earlier attempts did not, two items per part."""
    missing = [item for item in ITEMS if item not in writer.staged_items]
    for k in range(0, len(missing), 2):
        writer.write_part([result(item, text) for item in missing[k : k + 2]])


def work(store: Store, generation: int, text: str) -> Commit:
    """Do a generation of the shard as a worker does, from wherever an earlier one died."""
    if latest_generations(store, STAGE).get(SHARD, -1) >= generation:
        commit = read_commit(store, STAGE, SHARD, generation)
    else:
        writer = open_writer(store, generation)
        stage_missing(writer, text)
        commit = writer.commit(ITEMS)
    publish(store, commit, TABLES, ORDER)
    return commit


def texts(store: Store) -> tuple[list[str], list[str]]:
    """What a reader of each table sees."""
    pages = [str(row["markdown"]) for row in read_table(store, "pages")]
    return pages, [str(row["caption"]) for row in read_table(store, "figures")]


def paths(store: Store, folder: str) -> set[str]:
    return {entry.path for entry in store.list(folder)}


@pytest.mark.long
@pytest.mark.parametrize("generation", [0, 1])
def test_a_worker_killed_before_any_write_leaves_old_or_new_rows(
    new_store: Callable[[], Store], generation: int
) -> None:
    def prepared() -> Store:
        store = new_store()
        if generation:
            work(store, 0, "old")
        return store

    counted = DyingStore(prepared(), None)
    work(counted, generation, "new")
    # Two parts of two tables, the commit, two published files, and what they replace is deleted.
    assert counted.writes == 2 * 3 + 1 + 2 + 2 * generation + 2 * 3
    old, new = ["old"] * len(ITEMS) * generation, ["new"] * len(ITEMS)
    for point in range(counted.writes):
        store = prepared()
        with pytest.raises(KilledError):
            work(DyingStore(store, point), generation, "new")
        for rows in texts(store):
            assert rows in (old, new), f"killed before write {point}"
        work(store, generation, "new")
        assert texts(store) == (new, new), f"recovered from write {point}"
        assert paths(store, "_staging") == set()
        assert paths(store, "data") == {
            f"data/{table}/{SHARD}-{generation}.parquet" for table in TABLES
        }


def test_of_workers_that_commit_at_once_one_wins(store: Store) -> None:
    writers = [open_writer(store) for _ in range(4)]
    for k, writer in enumerate(writers):
        writer.write_part([result(item, f"worker {k}") for item in ITEMS])
    barrier, commits = threading.Barrier(len(writers)), list[Commit]()

    def commit(writer: ShardWriter) -> None:
        barrier.wait()
        commits.append(writer.commit(ITEMS))

    threads = [threading.Thread(target=commit, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(commits) == len(writers)
    assert all(found == commits[0] for found in commits), "all know the commit that won"
    assert len(paths(store, f"commits/{STAGE}")) == 1
    publish(store, commits[0], TABLES, ORDER)
    pages, figures = texts(store)
    assert len(pages) == len(ITEMS)
    assert len({*pages, *figures}) == 1, "rows of one worker only"


def test_publishing_again_changes_nothing(store: Store) -> None:
    commit = work(store, 0, "new")
    before = {entry.path: entry.version for entry in store.list("")}
    publish(store, commit, TABLES, ORDER)
    assert {entry.path: entry.version for entry in store.list("")} == before


def test_readers_take_the_highest_generation(store: Store) -> None:
    work(store, 0, "old")
    path = f"data/pages/{SHARD}-0.parquet"
    old = store.get(path)
    work(store, 1, "new")
    assert not store.exists(path)
    store.put(path, old)  # as after a kill before its deletion
    assert texts(store)[0] == ["new"] * len(ITEMS)


def test_staged_parts_that_come_too_late_are_deleted(store: Store) -> None:
    commit = work(store, 0, "new")
    open_writer(store).write_part([result(ITEMS[0], "too late")])
    open_writer(store, generation=1).write_part([result(ITEMS[0], "next")])
    assert len(paths(store, "_staging")) == 6
    delete_staging(store, commit)
    staged = paths(store, "_staging")
    assert len(staged) == 3
    assert all(path.startswith(f"_staging/{STAGE}/{SHARD}/1-") for path in staged)
    assert texts(store)[0] == ["new"] * len(ITEMS)


@pytest.mark.parametrize(
    ("staged", "message"),
    [
        (ITEMS[:-1], r"4 items went in, 3 came out .*lost \['b/2'\]"),
        ([*ITEMS, "b/3"], r"4 items went in, 5 came out .*extra \['b/3'\]"),
        ([*ITEMS, ITEMS[0]], "4 items went in, 5 came out"),
    ],
)
def test_counts_that_do_not_match_are_not_committed(
    store: Store, staged: list[str], message: str
) -> None:
    writer = open_writer(store)
    for item in staged:
        writer.write_part([result(item, "new")])
    with pytest.raises(CountMismatchError, match=message):
        writer.commit(ITEMS)
    assert latest_generations(store, STAGE) == {}
    assert texts(store) == ([], [])

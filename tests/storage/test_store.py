"""What every store does, whatever lies behind it."""

import os
import threading
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llm_ocr.storage.store import StorageError, Store, create_repository, open_store


@pytest.fixture(params=["local", "memory", "s3", "gs", "hub repository", "hub bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    name = uuid.uuid4().hex
    if request.param == "local":
        return open_store(str(tmp_path / name))
    if request.param == "memory":
        return open_store(f"memory://{name}")
    fixture = {"s3": "s3", "gs": "gcs"}.get(request.param, "hub")
    for key, value in request.getfixturevalue(fixture).items():
        monkeypatch.setenv(key, value)
    if fixture == "hub":
        kind = {"hub repository": "datasets", "hub bucket": "buckets"}[request.param]
        place = f"hf://{kind}/user/{name}"
        create_repository(place, private=True)
        return open_store(f"{place}/tests")
    return open_store(f"{request.param}://bucket/tests/{name}")


def test_objects_can_be_put_listed_read_and_deleted(store: Store) -> None:
    store.put("a/b/one", b"1")
    store.put("a/two", b"22")
    store.put("other", b"333")
    store.put("ab/near", b"4444")
    assert {(thing.path, thing.size) for thing in store.list("a")} == {("a/b/one", 1), ("a/two", 2)}
    assert len(list(store.list(""))) == 4
    assert store.get("a/two") == b"22"
    assert store.exists("a/two")
    store.put("a/two", b"again")
    assert store.get("a/two") == b"again"
    store.delete(["a/two", "never/was"])
    assert not store.exists("a/two")
    with pytest.raises(FileNotFoundError):
        store.get("a/two")
    assert list(store.list("nothing/here")) == []


@pytest.mark.parametrize("read", ["get", "open"])
def test_missing_objects_raise_file_not_found(store: Store, read: str) -> None:
    with pytest.raises(FileNotFoundError):
        getattr(store, read)("not/there")
    with pytest.raises(FileNotFoundError):
        store.copy("not/there", "here")


def test_paths_may_have_spaces_and_any_script(store: Store) -> None:
    for name in ("a b/c+d.pdf", "größe/100%.md", "文書/一.md", "a(1)=b&c.txt"):
        store.put(name, name.encode())
        assert store.get(name) == name.encode()
        assert name in {thing.path for thing in store.list("")}


def test_many_objects_are_all_listed(store: Store) -> None:
    """More than one page of a listing."""
    names = {f"many/{k:05d}" for k in range(1100)}
    store.put_many(dict.fromkeys(names, b""), "Write many")
    assert {thing.path for thing in store.list("many")} == names


def test_a_copy_is_independent_of_its_source(store: Store) -> None:
    store.put("from here", b"bytes")
    store.copy("from here", "to/there")
    store.delete(["from here"])
    assert store.get("to/there") == b"bytes"


def test_create_has_one_winner(store: Store) -> None:
    winners: list[int] = []
    barrier = threading.Barrier(8)

    def race(k: int) -> None:
        barrier.wait()
        if store.create("commits/one", str(k).encode()):
            winners.append(k)

    threads = [threading.Thread(target=race, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    assert store.get("commits/one") == str(winners[0]).encode()
    assert store.create("commits/one", b"late") is False


def test_a_large_file_is_put_and_read_in_ranges(store: Store, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(12_000_000))
    store.put("large", large)
    with store.open("large") as reader:
        reader.seek(-5, os.SEEK_END)
        assert reader.read() == large.read_bytes()[-5:]
        reader.seek(7_000_000)
        assert reader.read(3) == large.read_bytes()[7_000_000:7_000_003]


def test_a_parquet_file_is_read_a_row_group_at_a_time(store: Store, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(1000)}), tmp_path / "n.parquet", row_group_size=100)
    store.put("n.parquet", tmp_path / "n.parquet")
    with store.open("n.parquet") as reader:
        assert pq.ParquetFile(reader).read_row_group(7)["n"].to_pylist() == list(range(700, 800))


def test_only_a_local_store_has_a_folder(store: Store) -> None:
    assert (store.folder is None) == (not store.uri.startswith("/"))


def test_memory_stores_of_the_same_name_share_objects() -> None:
    name = uuid.uuid4().hex
    open_store(f"memory://{name}").put("a", b"1")
    assert open_store(f"memory://{name}").get("a") == b"1"
    assert not open_store(f"memory://{name}-other").exists("a")


def test_a_uri_without_a_bucket_is_refused() -> None:
    with pytest.raises(StorageError, match="s3://: the bucket name is missing"):
        open_store("s3://")


def test_a_created_object_is_listed_deleted_and_created_again(store: Store) -> None:
    assert store.create("plans/000", b"12345")
    assert [(thing.path, thing.size) for thing in store.list("plans")] == [("plans/000", 5)]
    with store.open("plans/000") as reader:
        assert reader.read() == b"12345"
    store.delete(["plans/000"])
    assert list(store.list("")) == []
    assert store.create("plans/000", b"again")
    store.put("plans/000", b"by put")
    assert store.get("plans/000") == b"by put"
    assert len(list(store.list("plans"))) == 1


def test_the_version_changes_with_the_content(store: Store) -> None:
    store.put_many({"a": b"first", "b": b"other"}, "Write two")
    version = store.stat("a").version
    assert version == next(thing.version for thing in store.list("") if thing.path == "a")
    store.put("a", b"second")
    assert store.stat("a").version != version

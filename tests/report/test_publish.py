"""Publishing a finished run: few commits, whole shards, no older tables, whoever interrupts."""

import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from aiohttp import web

from llm_ocr.report import publish
from llm_ocr.report.publish import publish_run
from llm_ocr.storage import hub_client
from llm_ocr.storage.hub import HubDatasetStore
from llm_ocr.storage.hub_address import parse_hub_uri
from llm_ocr.storage.store import StorageError, Store, create_repository, open_store
from tests.servers.hub import serving_hub
from tests.servers.hub_state import Commit, Hub

NAME = "user/run"
TABLES = ("pages", "figures")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    hub = Hub()
    with serving_hub(tmp_path / "home", hub) as environment:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        create_repository(f"hf://datasets/{NAME}", private=True)
        yield hub


@pytest.fixture
def run() -> Store:
    """A finished run of six shards."""
    store = open_store(f"memory://{uuid.uuid4().hex}")
    for shard in range(6):
        finish(store, shard, 0)
        store.put(f"markdown/{shard}.md", f"document {shard}".encode())
    store.put("records/records.jsonl", b"{}")
    store.put("plans/000.parquet", b"a plan")
    store.put("summary.json", b"first")
    return store


def finish(store: Store, shard: int, generation: int) -> None:
    for table in TABLES:
        store.put(f"data/{table}/{shard:06d}-{generation}.parquet", os.urandom(200))


def outputs(store: Store) -> dict[str, bytes]:
    return {
        one.path: store.get(one.path)
        for one in store.list("")
        if one.path.startswith(("data/", "markdown/", "records/", "summary.json"))
    }


def repository() -> HubDatasetStore:
    return HubDatasetStore(parse_hub_uri(f"hf://datasets/{NAME}"))


def commits(hub: Hub) -> list[Commit]:
    """Those after the first, empty one, the oldest first."""
    return hub.repositories["dataset", NAME].history()[-2::-1]


def silent(text: str) -> None:
    pass


def test_small_run_is_one_commit_and_is_published_once(hub: Hub, run: Store) -> None:
    publish_run(repository(), run, silent)
    publish_run(repository(), run, silent)
    assert outputs(repository()) == outputs(run)
    assert len(commits(hub)) == 1


def test_a_large_run_is_several_commits_of_whole_shards(
    hub: Hub, run: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "COMMIT_FILES", 5)
    publish_run(repository(), run, silent)
    assert outputs(repository()) == outputs(run)
    for commit in commits(hub):
        shards = [
            {path.split("/")[2] for path in commit.files if path.startswith(f"data/{table}/")}
            for table in TABLES
        ]
        assert shards[0] == shards[1]
        assert ("summary.json" in commit.files) == (commit == commits(hub)[-1])
    assert len(commits(hub)) == 5
    run.put("summary.json", b"second")
    finish(run, 9, 0)
    publish_run(repository(), run, silent)
    assert outputs(repository()) == outputs(run)


def test_tables_are_replaced_in_one_commit(hub: Hub, run: Store) -> None:
    publish_run(repository(), run, silent)
    repository().put("notes.md", b"a user's own")
    finish(run, 2, 1)
    run.delete([f"data/{table}/000002-0.parquet" for table in TABLES])
    run.put("summary.json", b"second")
    publish_run(repository(), run, silent)
    assert outputs(repository()) == outputs(run)
    last = commits(hub)[-1].files
    assert "data/pages/000002-1.parquet" in last
    assert "data/pages/000002-0.parquet" not in last
    assert "notes.md" in last
    assert len(commits(hub)) == 3


def test_interrupted_publication_resumes(
    hub: Hub, run: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "COMMIT_FILES", 5)
    monkeypatch.setattr(hub_client, "RETRY_SECONDS", 0.0)
    uploads: list[str] = []

    def note(request: web.Request) -> None:
        if request.path.startswith("/lfs/"):
            uploads.append(request.path)

    def watch(request: web.Request) -> None:
        note(request)
        if "/commit/" in request.path and len(commits(hub)) == 2:
            hub.failures.append(500)

    hub.watch = watch
    with pytest.raises(StorageError, match="status 500; run the same command again"):
        publish_run(repository(), run, silent)
    assert "summary.json" not in commits(hub)[-1].files
    hub.watch = note
    opened: list[str] = []
    read = run.open

    def told(path: str) -> BinaryIO:
        opened.append(path)
        return read(path)

    monkeypatch.setattr(run, "open", told)
    publish_run(repository(), run, silent)
    assert len([path for path in opened if path.startswith("data/")]) == 2 * len(TABLES)
    assert outputs(repository()) == outputs(run)
    assert len(commits(hub)) == 5
    assert len(uploads) == len(set(uploads)) == 6 * len(TABLES)


def test_concurrent_publications_publish_once(hub: Hub, run: Store) -> None:
    together = threading.Barrier(2)
    seen: list[str] = []

    def watch(request: web.Request) -> None:
        if "/commit/" in request.path:
            seen.append(request.path)

    def body() -> None:
        mine = repository()
        together.wait()
        publish_run(mine, run, silent)

    hub.watch = watch
    threads = [threading.Thread(target=body) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs(repository()) == outputs(run)
    assert len(commits(hub)) == 1

"""Orphaned objects: which are deleted, and when."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from sqlalchemy import insert, update

from llm_ocr.service import orphans as module
from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import (
    delete_document,
    document_folder,
    new_document_id,
    retry_document,
)
from llm_ocr.service.orphans import ORPHAN_SECONDS, sweep_orphans
from llm_ocr.service.retention import Retention
from llm_ocr.service.schema import DocumentState, ingestion, storage_sweep
from llm_ocr.service.work_queue import ClaimedDocument, DocumentCompletion, WorkQueue
from llm_ocr.service.work_queue import recover_expired_leases as recover
from llm_ocr.storage.store import Store, open_store
from tests.service.document_rows import create, expire, queue
from tests.service.gateway_server import SQLITE_ONLY

# All objects are older than that.
ANY_AGE = -60.0


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    uri = str(tmp_path / "storage") if request.param == "folder" else f"memory://{tmp_path.name}"
    return open_store(uri)


def put(store: Store, document_id: str, *paths: str) -> None:
    for path in paths:
        store.put(f"{document_folder('default', document_id)}/{path}", b"content")


def left(store: Store, document_id: str) -> set[str]:
    folder = document_folder("default", document_id)
    return {found.path.removeprefix(f"{folder}/") for found in store.list(folder)}


def claim(database: Database, worker: str = "worker") -> ClaimedDocument:
    (claimed,) = WorkQueue(database, worker).claim(1)
    return claimed


def sweep(database: Database, store: Store, age: float = ANY_AGE) -> int:
    """Run a whole sweep, as if it was due; returns the number of passes."""
    with database.begin() as connection:
        connection.execute(update(storage_sweep).values(next_at=now()))
    passes = 1
    while sweep_orphans(database, store, orphan_seconds=age):
        passes += 1
    return passes


def test_orphaned_objects_are_deleted(database: Database, store: Store) -> None:
    # Left by a gateway that was killed before its commit, or written after a deletion.
    unknown = new_document_id()
    put(store, unknown, "files/0", "checkpoints/extract-1/1.json", "result-1/pages/1.jpg")
    uploading = create(database)
    put(store, uploading, "files/0")
    sweep(database, store)
    assert left(store, unknown) == set()
    assert left(store, uploading) == {"files/0"}
    if store.folder is not None:
        assert not (store.folder / document_folder("default", unknown)).exists()


def test_results_that_may_still_be_committed_are_kept(database: Database, store: Store) -> None:
    document_id = queue(database)
    own = ("files/0", "checkpoints/extract-1/1.json")
    put(store, document_id, *own)
    lost = claim(database, "slow")
    put(store, document_id, "result-1/document.json")
    sweep(database, store)
    assert left(store, document_id) == {*own, "result-1/document.json"}

    expire(database, document_id)
    recover(database)
    sweep(database, store)
    assert left(store, document_id) == {*own}
    # The worker that lost its lease keeps writing while its successor has the document.
    successor = claim(database, "other")
    put(store, document_id, "result-1/document.md", "result-2/document.md")
    assert not WorkQueue(database, "slow").finish(lost, DocumentCompletion(DocumentState.SUCCEEDED))
    sweep(database, store)
    assert left(store, document_id) == {*own, "result-2/document.md"}
    completion = DocumentCompletion(DocumentState.SUCCEEDED, "result-2")
    assert WorkQueue(database, "other").finish(successor, completion)
    sweep(database, store)
    assert left(store, document_id) == {*own, "result-2/document.md"}

    # A retry makes a new result; of the time after a backup there may be one with a later number.
    retry_document(database, "default", document_id)
    put(store, document_id, "result-7/document.md", "something/else")
    sweep(database, store)
    assert left(store, document_id) == {*own, "result-7/document.md", "something/else"}


def test_a_file_that_is_being_ingested_is_kept(database: Database, store: Store) -> None:
    document_id = new_document_id()
    with database.begin() as connection:
        connection.execute(insert(ingestion).values(uri="a.pdf", document_id=document_id))
    put(store, document_id, "files/1-0")
    sweep(database, store)
    assert left(store, document_id) == {"files/1-0"}
    with database.begin() as connection:
        connection.execute(update(ingestion).values(finished_at=now()))
    sweep(database, store)
    assert left(store, document_id) == set()


def test_recent_objects_are_kept(database: Database, tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "storage"))
    assert store.folder is not None
    document_id, known = new_document_id(), create(database)
    put(store, document_id, "files/0", "files/1")
    temporary = f"files/.{'0123456789abcdef'}.tmp"
    put(store, known, "files/0", temporary, "checkpoints/extract-1/1.json")
    # As a process leaves it that is killed while it writes; no listing of the store shows it.
    unfinished = store.folder / document_folder("default", known) / "checkpoints/2.json#1"
    unfinished.touch()
    sweep(database, store, ORPHAN_SECONDS)
    assert left(store, document_id) == {"files/0", "files/1"}
    old = time.time() - ORPHAN_SECONDS - 60
    for path in ("files/0", temporary, "checkpoints/extract-1/1.json"):
        for folder in (document_folder("default", document_id), document_folder("default", known)):
            if (file := store.folder / folder / path).exists():
                os.utime(file, (old, old))
    os.utime(unfinished, (old, old))
    sweep(database, store, ORPHAN_SECONDS)
    assert left(store, document_id) == {"files/1"}
    assert left(store, known) == {"files/0", "checkpoints/extract-1/1.json"}
    assert not unfinished.exists()


@pytest.fixture
def few_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PASS_OBJECTS", 4)
    monkeypatch.setattr(module, "_BATCH", 2)


def check_passes(database: Database, store: Store) -> None:
    known = [create(database) for _ in range(5)]
    unknown = [new_document_id() for _ in range(5)]
    for document_id in (*known, *unknown):
        put(store, document_id, "files/0", "files/1", "files/2")
    assert sweep_orphans(database, store, orphan_seconds=ANY_AGE)
    gone = sum(3 - len(left(store, document_id)) for document_id in (*known, *unknown))
    assert gone <= 4
    # Only one gateway runs a pass at a time; a dead one is replaced.
    assert module._claim_pass(database) is not None
    assert not sweep_orphans(database, store, orphan_seconds=ANY_AGE)
    assert sweep(database, store) >= 4
    assert [left(store, document_id) for document_id in unknown] == [set()] * 5
    assert [left(store, document_id) for document_id in known] == [{"files/0"}] * 5
    # The next sweep starts again at the first object, after some hours.
    assert not sweep_orphans(database, store, orphan_seconds=ANY_AGE)
    late = new_document_id()
    store.put(f"tenants/aaa/{late}/files/0", b"content")
    sweep(database, store)
    assert not store.exists(f"tenants/aaa/{late}/files/0")


@pytest.mark.usefixtures("few_objects")
def test_a_pass_is_bounded_and_any_gateway_continues(database: Database, store: Store) -> None:
    check_passes(database, store)


@SQLITE_ONLY
@pytest.mark.usefixtures("few_objects")
def test_a_bucket_is_swept_in_passes(
    database: Database, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    check_passes(database, open_store(f"s3://bucket/{tmp_path.name}"))


def test_a_storage_of_another_database_is_left_alone(
    database: Database, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a start with a new, empty database: every document would be unknown."""
    store.put("keys/database", b"another one")
    document_id = new_document_id()
    put(store, document_id, "files/0")
    sweep(database, store)
    assert left(store, document_id) == {"files/0"}
    assert "belongs to another database" in caplog.text


async def test_gateways_sweep(database: Database, store: Store) -> None:
    unknown, deleted = new_document_id(), queue(database)
    put(store, unknown, "files/0")
    put(store, deleted, "files/0", "checkpoints/extract-1/1.json")
    delete_document(database, "default", deleted)
    stop = asyncio.Event()
    gateways = [
        Retention(database, store, poll_seconds=0.05, orphan_seconds=ANY_AGE) for _ in range(2)
    ]
    tasks = [asyncio.create_task(gateway.run(stop)) for gateway in gateways]
    try:
        async with asyncio.timeout(30):
            while any(store.list("tenants")):
                await asyncio.sleep(0.05)
    finally:
        stop.set()
        await asyncio.gather(*tasks)

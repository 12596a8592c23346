"""Cleanup of expired and deleted documents, late uploads and old rows."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, select, update

from llm_ocr.service import retention as module
from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import (
    DeletedDocumentError,
    NewFile,
    UnknownDocumentError,
    WrongStateError,
    cancel_document,
    delete_document,
    document_folder,
    load_document,
    retry_document,
)
from llm_ocr.service.events import list_events
from llm_ocr.service.retention import Retention, expire_documents, purge_documents
from llm_ocr.service.review.reviews import Reviewer, claim_review, expire_reviews
from llm_ocr.service.schema import (
    DocumentState,
    deliveries,
    documents,
    events,
    files,
    ingestion,
    metadata,
    pages_per_day,
    reviews,
)
from llm_ocr.service.status_board import load_status
from llm_ocr.service.work_queue import DocumentCompletion, WorkQueue
from llm_ocr.storage.store import StorageError, Store, open_store
from tests.service.document_rows import create, limit, queue, row_of

DAY = 86_400.0
URL = "https://example.com/hook"


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    uri = str(tmp_path / "storage") if request.param == "folder" else f"memory://{tmp_path.name}"
    return open_store(uri)


def finish(database: Database, store: Store, retention_seconds: float | None = None) -> str:
    """A document that has succeeded, with objects and rows of every kind; returns its id."""
    document_id = queue(database, webhook_url=URL)
    folder = document_folder("default", document_id)
    worker = WorkQueue(database, "test")
    (claimed,) = worker.claim(1)
    for name in ("files/0", "checkpoints/extract/1.json", "result-1/document.json"):
        store.put(f"{folder}/{name}", b"content")
    ending = DocumentCompletion(DocumentState.SUCCEEDED, "result-1")
    assert worker.finish(claimed, ending, page_count=1, retention_seconds=retention_seconds)
    return document_id


def age(database: Database, days: float, *columns: Any) -> None:  # noqa: ANN401
    """Set columns of times to `days` ago, in all rows."""
    with database.begin() as connection:
        for column in columns:
            connection.execute(update(column.table).values({column.name: now(-days * DAY)}))


def count(database: Database, table: Table) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


async def run_retention_until(database: Database, store: Store, true: Callable[[], bool]) -> None:
    """Run the cleanup of two gateways until a condition is true."""
    stop = asyncio.Event()
    jobs = [Retention(database, store, poll_seconds=0.02, prune_seconds=0.02) for _ in range(2)]
    tasks = [asyncio.create_task(job.run(stop)) for job in jobs]
    try:
        async with asyncio.timeout(30):
            while not true():
                await asyncio.sleep(0.02)
    finally:
        stop.set()
        await asyncio.gather(*tasks)


def is_erased(database: Database, document_id: str) -> Callable[[], bool]:
    def check() -> bool:
        with database.read() as connection:
            found = select(documents.c.id).where(documents.c.id == document_id)
            return connection.execute(found).first() is None

    return check


def types(database: Database, document_id: str) -> list[str]:
    return [event.type for event in list_events(database, "default", document_id)]


async def test_expired_documents_are_deleted(database: Database, store: Store) -> None:
    over = finish(database, store, retention_seconds=-1)
    later = finish(database, store, retention_seconds=3600)
    kept = finish(database, store)
    await run_retention_until(database, store, is_erased(database, over))
    left = {found.path.split("/")[2] for found in store.list("tenants")}
    assert left == {later, kept}
    (event,) = list_events(database, "default", over)
    assert (event.type, event.data["state"]) == ("document.expired", "succeeded")
    assert "metadata" not in event.data
    with pytest.raises(DeletedDocumentError):
        load_document(database, "default", over)
    with pytest.raises(UnknownDocumentError) as caught:
        load_document(database, "other", over)
    assert not isinstance(caught.value, DeletedDocumentError)
    assert count(database, deliveries) == 2
    assert count(database, files) == 2


async def test_a_deleted_document_disappears_immediately_and_its_objects_soon(
    database: Database, store: Store
) -> None:
    document_id = finish(database, store)
    delete_document(database, "default", document_id)
    with pytest.raises(DeletedDocumentError):
        load_document(database, "default", document_id)
    with pytest.raises(DeletedDocumentError):
        retry_document(database, "default", document_id)
    await run_retention_until(database, store, is_erased(database, document_id))
    assert list(store.list("tenants")) == []
    assert types(database, document_id) == ["document.deleted"]


def test_a_deleted_document_is_not_claimed(database: Database) -> None:
    document_id = queue(database)
    delete_document(database, "default", document_id)
    assert WorkQueue(database, "test").claim(1) == []


def test_documents_in_progress_are_neither_deleted_nor_expired(
    database: Database, store: Store
) -> None:
    document_id = queue(database)
    WorkQueue(database, "test").claim(1)
    with pytest.raises(WrongStateError):
        delete_document(database, "default", document_id)
    age(database, 1, documents.c.expires_at)
    assert expire_documents(database) == 0


def test_objects_are_deleted_before_the_rows(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a gateway dies in between, the next one deletes the rest."""
    document_id = finish(database, store)
    delete_document(database, "default", document_id)

    def die(*_: object) -> None:
        raise StorageError("the storage is away")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_delete_folder", die)
        with pytest.raises(StorageError):
            purge_documents(database, store)
    assert row_of(database, document_id)["deleted_at"] is not None
    assert purge_documents(database, store) == 1
    assert list(store.list("tenants")) == []
    assert purge_documents(database, store) == 0


async def test_documents_that_finished_without_a_worker_expire_too(
    database: Database, store: Store
) -> None:
    limit(database, retention_days=2)
    old, others = create(database), create(database, "other")
    cancel_document(database, "default", old)
    cancel_document(database, "other", others)
    age(database, 3, documents.c.finished_at)
    new = create(database)
    cancel_document(database, "default", new)
    await run_retention_until(database, store, is_erased(database, old))
    assert types(database, old) == ["document.expired"]
    assert row_of(database, new)["deleted_at"] is None
    assert row_of(database, others)["deleted_at"] is None


async def test_an_upload_that_is_not_completed_in_time_fails(
    database: Database, store: Store
) -> None:
    limit(database, max_unfinished=2)
    late = create(database, webhook_url=URL)
    age(database, 1, files.c.upload_expires_at)
    new = create(database)
    await run_retention_until(
        database, store, lambda: row_of(database, late)["state"] == DocumentState.FAILED
    )
    error = row_of(database, late)["error"]
    assert (error["code"], error["retryable"]) == ("upload_expired", False)
    assert row_of(database, new)["state"] == DocumentState.AWAITING_UPLOAD
    assert count(database, deliveries) == 1, "its webhook is notified"
    create(database)


async def test_files_that_a_gateway_fetches_are_not_late(database: Database) -> None:
    create(database, files=[NewFile("a.pdf", url="https://example.com/a.pdf")])
    age(database, 1, files.c.upload_expires_at)
    assert module.fail_late_uploads(database) == 0


async def test_documents_that_nobody_reviews_fail_after_a_warning(
    database: Database, store: Store
) -> None:
    def review(tenant: str = "default", days: float = 0.0) -> str:
        document_id = queue(database, tenant, webhook_url=URL)
        worker = WorkQueue(database, "test")
        (claimed,) = worker.claim(1)
        reasons = [{"message": "a reason"}]
        ending = DocumentCompletion(DocumentState.NEEDS_REVIEW, "result-1", reasons=reasons)
        assert worker.finish(claimed, ending, page_count=1, retention_seconds=DAY)
        with database.begin() as connection:
            is_own = reviews.c.document_id == document_id
            connection.execute(update(reviews).where(is_own).values(created_at=now(-days * DAY)))
        return document_id

    def state(document_id: str) -> str:
        return str(row_of(database, document_id)["state"])

    limit(database, review_days=10, retention_days=3)
    limit(database, "other", retention_days=1)
    new, near, late, claimed = (review(days=days) for days in (7.9, 8.1, 11, 11))
    forever = review("other", days=1000)
    claim_review(database, Reviewer("default", "ada", "ada"), claimed)
    await run_retention_until(database, store, lambda: state(late) == "failed")
    await run_retention_until(database, store, lambda: "expiring" in types(database, near)[-1])
    error = row_of(database, late)["error"]
    assert (error["code"], error["retryable"]) == ("review_expired", True)
    assert row_of(database, late)["expires_at"] is not None, "the retention period has begun"
    assert [state(one) for one in (new, near, claimed, forever)] == ["needs_review"] * 4
    assert types(database, new)[-1] == "document.needs_review"
    assert list_events(database, "other", forever)[-1].type == "document.needs_review"
    assert types(database, late)[-2:] == ["document.needs_review", "document.failed"]
    last = list_events(database, "default", near)[-1]
    assert (last.type, last.data["state"]) == ("document.review_expiring", "needs_review")
    expires_at = datetime.fromisoformat(last.data["review"]["expires_at"])
    assert 1 < (expires_at - last.created_at) / timedelta(days=1) < 2
    # Each webhook got the first event of its document; two of them a second one.
    assert count(database, deliveries) == 7
    assert load_status(database).total.reviews_expiring == 1
    # Once is enough; and after a retry there is another review.
    assert expire_reviews(database, 100) == 0
    retry_document(database, "default", late)
    assert state(late) == "queued"


async def test_old_events_and_page_counts_are_deleted(database: Database, store: Store) -> None:
    with database.begin() as connection:
        for version, days in ((None, 31), (None, 29), ("7", 31)):
            row = {"uri": f"/inbox/{days}", "version": version}
            connection.execute(ingestion.insert().values(**row, finished_at=now(-days * DAY)))
        for day in ("2020-01-01", "2999-01-01"):
            connection.execute(pages_per_day.insert().values(tenant="default", day=day, pages=1))
    old = finish(database, store)
    deleted = finish(database, store)
    delete_document(database, "default", deleted)
    purge_documents(database, store)
    age(database, module.EVENT_DAYS + 1, events.c.created_at)
    new = finish(database, store)
    await run_retention_until(database, store, lambda: types(database, old) == [])
    await run_retention_until(database, store, lambda: count(database, ingestion) == 2)
    assert types(database, deleted) == ["document.deleted"]
    assert types(database, new)[-1] == "document.succeeded"
    assert count(database, deliveries) == 1
    with database.read() as connection:
        left = connection.execute(select(pages_per_day.c.day)).scalars().all()
    assert "2020-01-01" not in left
    assert "2999-01-01" in left
    age(database, module.DELETION_DAYS + 1, events.c.created_at)
    await run_retention_until(database, store, lambda: count(database, events) == 0)


def test_every_table_is_bounded() -> None:
    """Each table is either pruned, or listed here with the reason why it needn't be."""
    pruned = {"documents", "files", "steps", "events", "deliveries", "ingestion", "pages_per_day"}
    # Deleted with their documents, and by workers that are heard of again.
    pruned.add("lost_leases")
    # Deleted with their documents, and when somebody logs in.
    pruned |= {"reviews", "corrections", "sessions"}
    # Deleted by the gateway or by workers, or as many as people create, or one row.
    others = {"idempotency_keys", "workers", "tenants", "api_keys", "webhooks", "pipelines"}
    others |= {"alias_changes", "storage_sweep"}
    assert set(metadata.tables) == pruned | others

"""Cleanup: deletes documents that were deleted or have expired, fails late uploads and documents
that nobody reviews, prunes events.

A document's objects are deleted before its rows: if a gateway dies in between, the next one finds
the row. One event is kept, which records that the document existed and when it was deleted. Several
gateways may do this concurrently.
"""

import asyncio
import logging
import shutil
import time
from datetime import timedelta

from sqlalchemy import select, update

from llm_ocr.service.background import repeat
from llm_ocr.service.children import finish_parent, lock_children
from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import UPLOAD_SECONDS, document_folder, fail_document
from llm_ocr.service.events import Deletion, record_deletion
from llm_ocr.service.orphans import ORPHAN_SECONDS, sweep_orphans
from llm_ocr.service.review.reviews import expire_reviews
from llm_ocr.service.schema import (
    FINISHED_STATES,
    DocumentState,
    deliveries,
    documents,
    events,
    files,
    ingestion,
    pages_per_day,
    tenants,
)
from llm_ocr.storage.store import StorageError, Store

POLL_SECONDS = 5.0
# Seconds between prunings of old events and other rows.
PRUNE_SECONDS = 600.0
# Documents per poll, and events per transaction.
BATCH = 100
PRUNE_BATCH = 1000
# Days for which events, webhook deliveries and finished rows of the ingestion queue are kept, and
# those for which deletions are.
EVENT_DAYS = 30.0
DELETION_DAYS = 365.0
# Seconds after its deadline within which an upload that has begun may still complete.
GRACE_SECONDS = 300.0
_DAY = 86_400.0
_DELETION_TYPES = tuple(Deletion)

_log = logging.getLogger(__name__)


class Retention:
    """Runs the cleanup periodically: `await retention.run(stop)`."""

    def __init__(
        self,
        database: Database,
        store: Store,
        *,
        poll_seconds: float = POLL_SECONDS,
        prune_seconds: float = PRUNE_SECONDS,
        orphan_seconds: float = ORPHAN_SECONDS,
    ) -> None:
        self._database, self._store, self._poll_seconds = database, store, poll_seconds
        self._prune_seconds, self._prune_at = prune_seconds, 0.0
        self._orphan_seconds = orphan_seconds

    async def run(self, stop: asyncio.Event) -> None:
        """Clean up until `stop` is set."""
        await repeat("retention", lambda: asyncio.to_thread(self._poll), self._poll_seconds, stop)

    def _poll(self) -> bool:
        """Whether there is more to do at once."""
        counts = [
            fail_late_uploads(self._database),
            expire_documents(self._database),
            purge_documents(self._database, self._store),
        ]
        if time.monotonic() >= self._prune_at:
            expire_unprocessed(self._database)
            counts.append(expire_reviews(self._database, BATCH))
            if not prune(self._database):
                self._prune_at = time.monotonic() + self._prune_seconds
        has_orphans = sweep_orphans(
            self._database, self._store, orphan_seconds=self._orphan_seconds
        )
        return BATCH in counts or has_orphans


def fail_late_uploads(database: Database) -> int:
    """Fail documents whose files weren't all uploaded in time. Returns their number."""
    late = (
        select(documents.c.tenant, documents.c.id)
        .join(files)
        .where(
            documents.c.state == DocumentState.AWAITING_UPLOAD,
            documents.c.deleted_at.is_(None),
            # Files with a URL are fetched by a gateway.
            files.c.url.is_(None),
            files.c.upload_expires_at < now(-GRACE_SECONDS),
        )
        .distinct()
        .limit(BATCH)
    )
    with database.read() as connection:
        found = connection.execute(late).all()
    error = {
        "code": "upload_expired",
        "message": f"its upload was not completed within {UPLOAD_SECONDS:g} s; submit it again",
        "retryable": False,
    }
    for row in found:
        fail_document(database, row.tenant, row.id, error)
    return len(found)


def expire_unprocessed(database: Database) -> None:
    """Expire documents that finished without a worker (failed before they were queued, or
    cancelled) and are older than their tenant's retention period."""
    with database.read() as connection:
        limited = connection.execute(
            select(tenants.c.id, tenants.c.retention_days).where(
                tenants.c.retention_days.is_not(None)
            )
        ).all()
    for tenant in limited:
        with database.begin() as connection:
            connection.execute(
                update(documents)
                .where(
                    documents.c.tenant == tenant.id,
                    documents.c.state.in_(FINISHED_STATES),
                    documents.c.expires_at.is_(None),
                    # Children expire with their parent.
                    documents.c.parent.is_(None),
                    documents.c.finished_at < now(-tenant.retention_days * _DAY),
                )
                .values(expires_at=now())
            )


def expire_documents(database: Database) -> int:
    """Mark expired documents, and their children, as deleted. Returns the number of the former."""
    due = (
        select(documents.c.id, documents.c.parent)
        .where(
            documents.c.expires_at < now(),
            documents.c.deleted_at.is_(None),
            documents.c.state != DocumentState.PROCESSING,
        )
        .limit(BATCH)
    )
    with database.read() as connection:
        found = connection.execute(due).all()
    if not found:
        return 0
    with database.begin() as connection:
        due = due.where(documents.c.id.in_([row.id for row in found]))
        lock_children(connection, *(row.id for row in found))
        found = connection.execute(due.with_for_update(skip_locked=True)).all()
        expired = [row.id for row in found]
        is_child = documents.c.parent.in_(expired) & documents.c.deleted_at.is_(None)
        children = connection.execute(select(documents.c.id).where(is_child)).scalars().all()
        for document_id in (*expired, *children):
            where = documents.c.id == document_id
            connection.execute(update(documents).where(where).values(deleted_at=now()))
            record_deletion(connection, document_id, Deletion.EXPIRED)
        for parent in sorted({row.parent for row in found if row.parent is not None}):
            finish_parent(connection, parent)
        return len(expired)


def purge_documents(database: Database, store: Store) -> int:
    """Delete the objects and rows of documents that are marked as deleted. Returns their number.

    Raises StorageError.
    """
    query = (
        select(documents.c.tenant, documents.c.id)
        .where(documents.c.deleted_at.is_not(None))
        .order_by(documents.c.deleted_at)
        .limit(BATCH)
    )
    with database.read() as connection:
        found = connection.execute(query).all()
    for row in found:
        _delete_folder(store, document_folder(row.tenant, row.id))
        _delete_rows(database, row.id)
    return len(found)


def prune(database: Database) -> bool:
    """Delete old events and deliveries, finished rows of the ingestion queue, and daily page
    counts. Returns whether there is more to delete."""
    days = {"events": now(-EVENT_DAYS * _DAY), "deletions": now(-DELETION_DAYS * _DAY)}
    is_old = (events.c.type.not_in(_DELETION_TYPES) & (events.c.created_at < days["events"])) | (
        events.c.created_at < days["deletions"]
    )
    # Rows of watched folders stay: without them their objects would be ingested again.
    is_done = ingestion.c.version.is_(None) & (ingestion.c.finished_at < days["events"])
    with database.read() as connection:
        old = select(events.c.id).where(is_old).order_by(events.c.id).limit(PRUNE_BATCH)
        ids = connection.execute(old).scalars().all()
        today = connection.execute(select(now())).scalar_one()
    with database.begin() as connection:
        connection.execute(deliveries.delete().where(deliveries.c.event_id.in_(ids)))
        connection.execute(events.delete().where(events.c.id.in_(ids)))
        connection.execute(ingestion.delete().where(is_done))
        last = (today - timedelta(days=EVENT_DAYS)).date().isoformat()
        connection.execute(pages_per_day.delete().where(pages_per_day.c.day < last))
    return len(ids) == PRUNE_BATCH


def _delete_folder(store: Store, folder: str) -> None:
    if store.folder is None:
        store.delete([found.path for found in store.list(folder)])
        return
    try:
        shutil.rmtree(store.folder / folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        problem = f"{error.filename} can't be deleted: {error.strerror}"
        raise StorageError(f"{store.uri}: {problem}") from error


def _delete_rows(database: Database, document_id: str) -> None:
    with database.begin() as connection:
        own = events.c.document_id == document_id
        ids = select(events.c.id).where(own)
        connection.execute(deliveries.delete().where(deliveries.c.event_id.in_(ids)))
        connection.execute(events.delete().where(own, events.c.type.not_in(_DELETION_TYPES)))
        connection.execute(
            update(ingestion).where(ingestion.c.document_id == document_id).values(metadata=None)
        )
        connection.execute(documents.delete().where(documents.c.id == document_id))
    _log.info("%s has been deleted", document_id)

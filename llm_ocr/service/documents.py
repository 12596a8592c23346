"""The documents of tenants in the database: create, load, list, queue, cancel, retry, delete.

Every function takes the tenant. The documents of other tenants don't exist for it.
"""

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, distinct, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from llm_ocr import logs, tracing
from llm_ocr.messages import CodedError
from llm_ocr.service.checkpoints import FAILED_PREFIX
from llm_ocr.service.children import (
    MAX_NAMED,
    finish_parent,
    load_children,
    lock_children,
    record_change,
    reopen_parent,
    was_split,
)
from llm_ocr.service.database import Database, now
from llm_ocr.service.events import Deletion, record_deletion, record_event, was_deleted
from llm_ocr.service.schema import (
    FINISHED_STATES,
    DocumentState,
    documents,
    files,
    lost_leases,
    pages_per_day,
    reviews,
    steps,
    tenants,
)

log = logging.getLogger(__name__)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# Seconds until an upload must be complete.
UPLOAD_SECONDS = 3600.0
# The code of a document that a reviewer has rejected.
REJECTED = "rejected"
# Counts in `documents.generations` how often a document was split again.
_SPLIT = "split"
# The folder of all documents in the storage, by tenant.
TENANTS = "tenants"


class UnknownDocumentError(CodedError):
    """There is no such document, or it belongs to another tenant."""


class DeletedDocumentError(UnknownDocumentError):
    """The document has been deleted, or has expired."""


class WrongStateError(CodedError):
    """The operation isn't possible in the document's present state."""


class QuotaError(CodedError):
    """A limit of the tenant is reached. `retry_seconds` says when to try again."""

    def __init__(self, message: str, retry_seconds: int) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


@dataclass(frozen=True)
class NewFile:
    """A file of a new document: uploaded later, or fetched from `url`. `size` in bytes."""

    name: str
    size: int | None = None
    sha256: str | None = None
    content_type: str | None = None
    url: str | None = None


@dataclass(frozen=True)
class NewDocument:
    """A document to create. `pipeline` and `revision` say how it will be processed."""

    name: str
    files: Sequence[NewFile]
    pipeline: str
    revision: str
    type: str | None = None
    priority: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    webhook_url: str | None = None


@dataclass(frozen=True)
class StoredFile:
    """A file of a document: `path` is its place in the storage, `size` in bytes."""

    position: int
    name: str
    path: str
    size: int | None
    sha256: str | None
    content_type: str | None
    url: str | None
    uploaded_at: datetime | None


@dataclass(frozen=True)
class StoredDocument:
    """A document of the database: `row` has the columns of `schema.documents`, `steps` those of
    `schema.steps`. `children` are the rows of the documents that were split from it; the files of
    a child are its parent's."""

    row: Mapping[str, Any]
    files: Sequence[StoredFile] = ()
    steps: Sequence[Mapping[str, Any]] = ()
    children: Sequence[Mapping[str, Any]] = ()

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def tenant(self) -> str:
        return str(self.row["tenant"])

    @property
    def state(self) -> DocumentState:
        return DocumentState(self.row["state"])


def new_document_id() -> str:
    """A new id: `doc_` and 26 characters (a ULID), so that ids sort by time of creation."""
    number = (int(time.time() * 1000) << 80) | secrets.randbits(80)
    characters = [_ALPHABET[(number >> (5 * k)) & 31] for k in reversed(range(26))]
    return f"doc_{''.join(characters)}"


def document_folder(tenant: str, document_id: str) -> str:
    """The folder of a document in the storage, with all of its files, checkpoints and results."""
    return f"{TENANTS}/{tenant}/{document_id}"


def create_document(database: Database, tenant: str, new: NewDocument) -> StoredDocument:
    """Create a document that waits for its upload. Raises QuotaError."""
    document_id = new_document_id()
    with database.begin() as connection:
        return insert_document(connection, tenant, document_id, new)


def insert_document(
    connection: Connection, tenant: str, document_id: str, new: NewDocument
) -> StoredDocument:
    """Like `create_document`, with a given id and in the caller's transaction."""
    with tracing.span("create document", {"llm_ocr.document.id": document_id}):
        stored = _insert(connection, tenant, document_id, new)
        values = logs.about(document_id=document_id, tenant=tenant)
        log.info("%s: created", document_id, extra=values)
        return stored


def _insert(
    connection: Connection, tenant: str, document_id: str, new: NewDocument
) -> StoredDocument:
    _check_quotas(connection, tenant, new)
    connection.execute(
        documents.insert().values(
            id=document_id,
            tenant=tenant,
            name=new.name,
            type=new.type,
            pipeline=new.pipeline,
            pipeline_revision=new.revision,
            metadata=dict(new.metadata),
            webhook_url=new.webhook_url,
            traceparent=tracing.traceparent(),
            priority=new.priority,
            state=DocumentState.AWAITING_UPLOAD,
            created_at=now(),
            generations={},
        )
    )
    rows = [
        {
            "position": position,
            "name": file.name,
            "size": file.size,
            "sha256": file.sha256,
            "content_type": file.content_type,
            "path": f"{document_folder(tenant, document_id)}/files/{position}",
            "url": file.url,
        }
        for position, file in enumerate(new.files)
    ]
    # Null for files with URLs: no gateway has claimed them yet, see `service.fetching`.
    is_fetched = any(file.url is not None for file in new.files)
    expires_at = None if is_fetched else now(UPLOAD_SECONDS)
    shared = {"document_id": document_id, "upload_expires_at": expires_at}
    if rows:
        connection.execute(files.insert().values(**shared), rows)
    record_event(connection, document_id)
    return _load(connection, tenant, document_id)


def load_document(database: Database, tenant: str, document_id: str) -> StoredDocument:
    """Load a document with its files and steps. Raises UnknownDocumentError."""
    with database.read() as connection:
        return _load(connection, tenant, document_id)


def list_documents(
    database: Database,
    tenant: str,
    *,
    state: DocumentState | None = None,
    type_: str | None = None,
    parent: str | None = None,
    before: str | None = None,
    limit: int = 50,
) -> list[StoredDocument]:
    """Up to `limit` documents without their files, steps and children, newest first. For the next
    page, `before` is the last id of the previous one."""
    query = select(documents).where(documents.c.tenant == tenant, documents.c.deleted_at.is_(None))
    if state is not None:
        query = query.where(documents.c.state == state)
    if type_ is not None:
        query = query.where(documents.c.type == type_)
    if parent is not None:
        query = query.where(documents.c.parent == parent)
    if before is not None:
        query = query.where(documents.c.id < before)
    with database.read() as connection:
        rows = connection.execute(query.order_by(documents.c.id.desc()).limit(limit))
        return [StoredDocument(row._asdict()) for row in rows]


def queue_document(
    database: Database,
    tenant: str,
    document_id: str,
    file_columns: Mapping[int, Mapping[str, Any]],
    page_count: int | None = None,
) -> StoredDocument:
    """Queue a document whose files have all been uploaded. `file_columns` are values for columns of
    `schema.files`, by position. A document that is queued already, or further, stays unchanged.

    Raises UnknownDocumentError, and QuotaError if the tenant has no pages left today.
    """
    with database.begin() as connection:
        return mark_queued(connection, tenant, document_id, file_columns, page_count)


def mark_queued(
    connection: Connection,
    tenant: str,
    document_id: str,
    file_columns: Mapping[int, Mapping[str, Any]],
    page_count: int | None = None,
) -> StoredDocument:
    """Like `queue_document`, in the caller's transaction."""
    document = _load(connection, tenant, document_id, for_update=True)
    if document.state is not DocumentState.AWAITING_UPLOAD:
        return document
    for position, values in file_columns.items():
        where = (files.c.document_id == document_id, files.c.position == position)
        connection.execute(update(files).where(*where).values(**values, uploaded_at=now()))
    _update_document(
        connection,
        document_id,
        {
            "state": DocumentState.QUEUED,
            "queued_at": now(),
            "available_at": now(),
            "page_count": page_count,
        },
    )
    _count_pages(connection, tenant, page_count or 1)
    return _load(connection, tenant, document_id)


def fail_document(
    database: Database, tenant: str, document_id: str, error: Mapping[str, Any]
) -> StoredDocument:
    """Fail a document whose upload can't be completed; one that is queued stays unchanged."""
    with database.begin() as connection:
        document = _load(connection, tenant, document_id, for_update=True)
        if document.state is DocumentState.AWAITING_UPLOAD:
            values = {"state": DocumentState.FAILED, "error": dict(error), "finished_at": now()}
            _update_document(connection, document_id, values)
        return _load(connection, tenant, document_id)


def cancel_document(database: Database, tenant: str, document_id: str) -> StoredDocument:
    """Cancel a document: at once, or if a worker is processing it, at the worker's next heartbeat.
    One that is split is cancelled with its children that aren't finished. A cancelled document
    stays unchanged. Raises WrongStateError for one that is finished."""
    with database.begin() as connection:
        lock_children(connection, document_id)
        document = _load(connection, tenant, document_id, for_update=True)
        if document.state is DocumentState.CANCELLED:
            return document
        if document.state in FINISHED_STATES:
            raise WrongStateError(f"{document_id} is already finished: it is {document.state}")
        if document.state is DocumentState.SPLIT:
            _request_cancellation(connection, document_id)
            for child in document.children:
                if child["state"] not in FINISHED_STATES:
                    _cancel(connection, child["id"], child["state"])
            finish_parent(connection, document_id)
        else:
            _cancel(connection, document_id, document.state)
        return _load(connection, tenant, document_id)


def _cancel(connection: Connection, document_id: str, state: str) -> None:
    if state == DocumentState.PROCESSING:
        _request_cancellation(connection, document_id)
        return
    _withdraw_review(connection, document_id)
    values = {"state": DocumentState.CANCELLED, "finished_at": now()}
    _update_document(connection, document_id, values)


def _request_cancellation(connection: Connection, document_id: str) -> None:
    requested = func.coalesce(documents.c.cancel_requested_at, now())
    connection.execute(
        update(documents).where(documents.c.id == document_id).values(cancel_requested_at=requested)
    )


def retry_document(
    database: Database, tenant: str, document_id: str, from_step: str | None = None
) -> StoredDocument:
    """Queue a finished document again: its failed items are processed again or, with `from_step`,
    that step and the steps that depend on it.

    Of a document that was split, the children that failed are queued again; if its own steps are
    repeated, new children replace the present ones. Raises WrongStateError, also where that would
    delete what people have reviewed.
    """
    with database.begin() as connection:
        return mark_queued_again(connection, tenant, document_id, from_step)


def mark_queued_again(
    connection: Connection, tenant: str, document_id: str, from_step: str | None = None
) -> StoredDocument:
    """Like `retry_document`, in the caller's transaction."""
    lock_children(connection, document_id)
    document = _load(connection, tenant, document_id, for_update=True)
    if document.state is DocumentState.SPLIT:
        raise WrongStateError(
            f"{document_id} is not finished: it is {document.state}; retry those of its documents "
            "that failed, or cancel it first"
        )
    if document.state not in FINISHED_STATES and document.state is not DocumentState.NEEDS_REVIEW:
        raise WrongStateError(f"{document_id} is not finished: it is {document.state}")
    if not document.files or any(file.uploaded_at is None for file in document.files):
        raise WrongStateError(f"{document_id} has no files: its upload was never completed")
    generations = dict(document.row["generations"])
    names = [step["name"] for step in document.steps]
    if from_step is not None and names and from_step not in names:
        known = ", ".join(names)
        raise WrongStateError(f"{document_id} has no step {from_step!r}; it has {known}")
    # Without `from_step`, only the first step's failures and what depends on them are invalidated:
    # see `service.checkpoints`.
    failed = (f"{FAILED_PREFIX}{step['name']}" for step in document.steps if step["items_failed"])
    name = from_step or next(failed, None)
    if name is None and document.children:
        return _queue_children_again(connection, document)
    if name is not None:
        generations[name] = generations.get(name, 0) + 1
    if was_split(connection, document_id):
        _delete_children(connection, document)
        # The ids of deleted documents aren't used again.
        generations[_SPLIT] = generations.get(_SPLIT, 0) + 1
    parent = document.row["parent"]
    if parent is not None and not reopen_parent(connection, parent):
        raise WrongStateError(f"{document_id} can't be retried: {parent} has been deleted")
    values = {
        "state": DocumentState.QUEUED,
        "queued_at": now(),
        "available_at": now(),
        "generations": generations,
        "attempts": 0,
        "worker_deaths": 0,
        "worker_stalls": 0,
        "error": None,
        "result": None,
        "approved_file": None,
        "cost": None,
        "started_at": None,
        "finished_at": None,
        "expires_at": None,
        "cancel_requested_at": None,
        "waiting_for": None,
        "step": None,
        "pages_done": 0,
    }
    connection.execute(steps.delete().where(steps.c.document_id == document_id))
    connection.execute(lost_leases.delete().where(lost_leases.c.document_id == document_id))
    _withdraw_review(connection, document_id)
    _update_document(connection, document_id, values)
    return _load(connection, tenant, document_id)


def _queue_children_again(connection: Connection, document: StoredDocument) -> StoredDocument:
    """Queue the children of a document again that failed or are incomplete, but not those that a
    reviewer has rejected."""
    failed = [
        child["id"]
        for child in document.children
        if child["state"] != DocumentState.SUCCEEDED
        and (child["error"] is None or child["error"]["code"] != REJECTED)
    ]
    if not failed:
        raise WrongStateError(
            f"nothing of {document.id} has failed; to process it again, name a step to begin with "
            "(`from_step`)"
        )
    for child_id in failed:
        mark_queued_again(connection, document.tenant, child_id)
    return _load(connection, document.tenant, document.id)


def _delete_children(connection: Connection, document: StoredDocument) -> None:
    """Mark the finished children of a document as deleted. Raises WrongStateError if people have
    reviewed some of them."""
    ids = [child["id"] for child in document.children]
    query = select(reviews.c.document_id).where(
        reviews.c.document_id.in_(ids), reviews.c.state.in_(("approved", "rejected"))
    )
    reviewed = sorted(set(connection.execute(query).scalars()))
    if reviewed:
        named = ", ".join(reviewed[:MAX_NAMED])
        raise WrongStateError(
            f"{document.id} can't be split again: people have reviewed {named}; delete what is no "
            "longer needed first, or retry single documents"
        )
    for child_id in ids:
        _mark_deleted(connection, child_id, {})


def delete_document(database: Database, tenant: str, document_id: str) -> StoredDocument:
    """Mark a document and its children as deleted: the API doesn't show them any more, and
    `service.retention` deletes their objects and rows. Returns its last state. Raises
    WrongStateError while one of them is processed."""
    with database.begin() as connection:
        lock_children(connection, document_id)
        document = _load(connection, tenant, document_id, for_update=True)
        for row in (document.row, *document.children):
            if row["state"] == DocumentState.PROCESSING:
                raise WrongStateError(f"{row['id']} is being processed; cancel it first")
        for row in (document.row, *document.children):
            # Otherwise a worker would claim it.
            is_finished = row["state"] in FINISHED_STATES
            cancelled = {"state": DocumentState.CANCELLED, "finished_at": now()}
            _withdraw_review(connection, row["id"])
            _mark_deleted(connection, row["id"], {} if is_finished else cancelled)
        if document.row["parent"] is not None:
            finish_parent(connection, document.row["parent"])
        return document


def _mark_deleted(connection: Connection, document_id: str, values: Mapping[str, Any]) -> None:
    where = documents.c.id == document_id
    connection.execute(update(documents).where(where).values(**values, deleted_at=now()))
    record_deletion(connection, document_id, Deletion.DELETED)


def _withdraw_review(connection: Connection, document_id: str) -> None:
    """Remove a document from the review queue, if it is there."""
    connection.execute(
        update(reviews)
        .where(reviews.c.document_id == document_id, reviews.c.state == "open")
        .values(state="withdrawn", version=reviews.c.version + 1)
    )


def _update_document(connection: Connection, document_id: str, values: Mapping[str, Any]) -> None:
    """Change a document's state and record the event."""
    connection.execute(update(documents).where(documents.c.id == document_id).values(**values))
    record_change(connection, document_id)


def _load(
    connection: Connection, tenant: str, document_id: str, *, for_update: bool = False
) -> StoredDocument:
    query = select(documents).where(documents.c.tenant == tenant, documents.c.id == document_id)
    row = connection.execute(query.with_for_update() if for_update else query).one_or_none()
    if row is None and not was_deleted(connection, tenant, document_id):
        raise UnknownDocumentError(f"there is no document {document_id}")
    if row is None or row.deleted_at is not None:
        raise DeletedDocumentError(f"{document_id} has been deleted or has expired")
    where = files.c.document_id == (row.parent or document_id)
    found = connection.execute(select(files).where(where).order_by(files.c.position))
    done = connection.execute(
        select(steps).where(steps.c.document_id == document_id).order_by(steps.c.position)
    )
    children = () if row.parent is not None else load_children(connection, document_id)
    return StoredDocument(
        row._asdict(),
        [_stored_file(file) for file in found],
        [step._asdict() for step in done],
        [child._asdict() for child in children],
    )


def _stored_file(row: Row[Any]) -> StoredFile:
    return StoredFile(
        row.position,
        row.name,
        row.path,
        row.size,
        row.sha256,
        row.content_type,
        row.url,
        row.uploaded_at,
    )


def _check_quotas(connection: Connection, tenant: str, new: NewDocument) -> None:
    query = select(tenants).where(tenants.c.id == tenant)
    limits = connection.execute(query).one()
    if limits.max_unfinished is None and limits.max_bytes is None:
        return
    # The lock keeps the counts below valid until the transaction ends.
    limits = connection.execute(query.with_for_update(key_share=True)).one()
    own = documents.c.tenant == tenant
    if limits.max_unfinished is not None:
        # Reviewers take hours or days: what waits for them must not refuse new documents. A scan
        # that was split counts once, as long as one of its documents is in progress.
        states = (*FINISHED_STATES, DocumentState.NEEDS_REVIEW, DocumentState.SPLIT)
        scans = func.count(distinct(func.coalesce(documents.c.parent, documents.c.id)))
        count = select(scans).where(own, documents.c.state.not_in(states))
        unfinished = connection.execute(count).scalar_one()
        if unfinished >= limits.max_unfinished:
            raise QuotaError(
                f"unfinished documents: {unfinished:,}, which is the limit; try again when some "
                "have finished",
                retry_seconds=30,
            )
    if limits.max_bytes is not None:
        stored = select(func.coalesce(func.sum(files.c.size), 0)).join(documents)
        size = connection.execute(stored.where(own, documents.c.deleted_at.is_(None))).scalar_one()
        added = sum(file.size or 0 for file in new.files)
        if size + added > limits.max_bytes:
            raise QuotaError(
                f"{added:,} bytes don't fit: the limit for the files of all documents is "
                f"{limits.max_bytes:,} bytes, and {size:,} are used; delete documents first",
                retry_seconds=3600,
            )


def _count_pages(connection: Connection, tenant: str, pages: int) -> None:
    """Add to the tenant's pages of today (UTC). Raises QuotaError if its limit is exceeded."""
    time_now, limit = connection.execute(
        select(now(), tenants.c.max_pages_per_day).where(tenants.c.id == tenant)
    ).one()
    day = time_now.date()
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    added = (
        dialect.insert(pages_per_day)
        .values(tenant=tenant, day=day.isoformat(), pages=pages)
        .on_conflict_do_update(
            index_elements=["tenant", "day"], set_={"pages": pages_per_day.c.pages + pages}
        )
        .returning(pages_per_day.c.pages)
    )
    counted = connection.execute(added).scalar_one()
    if limit is not None and counted > limit:
        tomorrow = datetime.combine(day + timedelta(days=1), datetime.min.time(), UTC)
        raise QuotaError(
            f"{pages:,} pages are too many for today (UTC): the limit is {limit:,} pages a day, "
            f"and {counted - pages:,} were submitted",
            retry_seconds=int((tomorrow - time_now).total_seconds()) + 1,
        )

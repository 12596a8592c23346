"""The log of document events, for streams, webhooks and systems that poll the table.

An event is written in the same transaction as the change of state that it describes, so neither
exists without the other. Webhooks are sent later, from the outbox `deliveries`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, select

from llm_ocr.service.database import Database, now
from llm_ocr.service.schema import (
    FINISHED_STATES,
    DocumentState,
    corrections,
    deliveries,
    documents,
    events,
    reviews,
    tenants,
    webhooks,
)


@dataclass(frozen=True)
class DocumentEvent:
    """A change of a document's state. `type` is `document.STATE`, REVIEW_EXPIRING or a Deletion;
    ids grow."""

    id: int
    type: str
    document_id: str
    data: dict[str, Any]
    created_at: datetime


# A document that nobody has reviewed will soon fail for that reason.
REVIEW_EXPIRING = "document.review_expiring"


def record_event(connection: Connection, document_id: str, type_: str | None = None) -> None:
    """Record a document's current state as an event, of the state's type or `type_`. If it is
    finished or needs review, also add the event to the outbox, for each webhook that is enabled."""
    row = connection.execute(select(documents).where(documents.c.id == document_id)).one()
    data = {"id": row.id, "state": row.state, "type": row.type, "metadata": row.metadata}
    data |= {"attempts": row.attempts, "waiting_for": row.waiting_for, "error": row.error}
    if row.parent is not None:
        pages = {"first": row.first_page, "last": row.last_page}
        data |= {"parent": row.parent, "page_range": pages}
    review = _review_of(connection, row)
    if review is not None:
        data["review"] = review
    event_id = connection.execute(
        events.insert()
        .values(
            document_id=row.id,
            tenant=row.tenant,
            type=type_ or f"document.{row.state}",
            data=data,
            created_at=now(),
        )
        .returning(events.c.id)
    ).scalar_one()
    if row.state not in FINISHED_STATES and row.state != DocumentState.NEEDS_REVIEW:
        return
    registered = select(webhooks.c.url, webhooks.c.disabled_at).where(
        webhooks.c.tenant == row.tenant
    )
    is_enabled = {url: at is None for url, at in connection.execute(registered)}
    if row.webhook_url:
        is_enabled.setdefault(row.webhook_url, True)
    for url in sorted(url for url, enabled in is_enabled.items() if enabled):
        connection.execute(
            deliveries.insert().values(
                event_id=event_id,
                document_id=row.id,
                tenant=row.tenant,
                url=url,
                state="pending",
                attempts=0,
                next_at=now(),
            )
        )


def _review_of(connection: Connection, document: Row[Any]) -> dict[str, Any] | None:
    """The review of a document's present result, for its events; None if it has none."""
    if document.result is None:
        return None
    row = connection.execute(
        select(reviews)
        .where(reviews.c.document_id == document.id, reviews.c.result == document.result)
        .order_by(reviews.c.id.desc())
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    days = connection.execute(
        select(tenants.c.review_days).where(tenants.c.id == document.tenant)
    ).scalar_one()
    is_limited = row.state == "open" and days is not None
    edits = select(corrections.c.id, corrections.c.action, corrections.c.undoes).where(
        corrections.c.review_id == row.id
    )
    found = connection.execute(edits).all()
    undone = {edit.undoes for edit in found}
    changes = [edit for edit in found if edit.action in ("correct", "absent")]
    return {
        "state": row.state,
        "reasons": row.reasons,
        "reviewer": None if row.decided_at is None else row.reviewer_name,
        "corrections": sum(edit.id not in undone for edit in changes),
        "reason": row.decision_reason,
        "expires_at": ((row.created_at + timedelta(days=days)).isoformat() if is_limited else None),
    }


class Deletion(StrEnum):
    """The type of a document's last event, which is kept after the document: a client deleted it,
    or its retention period was over."""

    DELETED = "document.deleted"
    EXPIRED = "document.expired"


def record_deletion(connection: Connection, document_id: str, deletion: Deletion) -> None:
    """Record the deletion of a document, without its metadata and error."""
    row = connection.execute(select(documents).where(documents.c.id == document_id)).one()
    data = {"id": row.id, "state": row.state, "type": row.type, "page_count": row.page_count}
    times = {"created_at": row.created_at, "finished_at": row.finished_at}
    data |= {name: None if time is None else time.isoformat() for name, time in times.items()}
    values = {"document_id": row.id, "tenant": row.tenant, "type": deletion, "data": data}
    connection.execute(events.insert().values(**values, created_at=now()))


def was_deleted(connection: Connection, tenant: str, document_id: str) -> bool:
    """Whether the tenant had such a document, as far as its last event is still kept."""
    found = select(events.c.id).where(
        events.c.document_id == document_id,
        events.c.tenant == tenant,
        events.c.type.in_(list(Deletion)),
    )
    return connection.execute(found).first() is not None


def list_events(
    database: Database, tenant: str, document_id: str, *, after: int = 0
) -> Sequence[DocumentEvent]:
    """The events of a tenant's document with ids greater than `after`, in order."""
    with database.read() as connection:
        rows = connection.execute(
            select(events)
            .where(
                events.c.document_id == document_id, events.c.tenant == tenant, events.c.id > after
            )
            .order_by(events.c.id)
        ).all()
    return [
        DocumentEvent(row.id, row.type, row.document_id, row.data, row.created_at) for row in rows
    ]

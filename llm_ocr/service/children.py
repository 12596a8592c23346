"""Documents that were split from a scan, its children, and the state that they give the scan.

Children are created in the transaction that makes their parent `split`, and the change that
finishes the last of them also finishes the parent: neither is ever without the other. The id of a
child depends only on its parent, its first page and the parent's retries.

Transactions lock children before their parent, and several children in the order of their ids, so
that they can't deadlock.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select, update

from llm_ocr.messages import pluralize
from llm_ocr.service.database import now
from llm_ocr.service.events import record_event
from llm_ocr.service.schema import FINISHED_STATES, DocumentState, documents, tenants

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# Characters of an id: `doc_` and the time of a ULID, the first page, and a hash.
_TIME_LENGTH, _PAGE_LENGTH, _HASH_LENGTH = 14, 4, 12
DAY_SECONDS = 86_400.0
# Ids in an error message.
MAX_NAMED = 5


@dataclass(frozen=True)
class NewChild:
    """A document to split from its parent. `inherited` is as in `documents.inherited`."""

    id: str
    name: str
    type: str | None
    pipeline: str
    pipeline_revision: str
    first_page: int
    last_page: int
    inherited: Mapping[str, Any]


def child_id(parent: str, generations: Mapping[str, int], first_page: int) -> str:
    """The id of the child with this first page. It sorts with its parent, in the order of pages."""
    key = json.dumps([parent, sorted(generations.items()), first_page])
    number = int.from_bytes(hashlib.sha256(key.encode()).digest())
    ending = _encode(first_page, _PAGE_LENGTH) + _encode(number, _HASH_LENGTH)
    return f"{parent[:_TIME_LENGTH]}{ending}"


def insert_children(connection: Connection, parent: str, children: Sequence[NewChild]) -> None:
    """Create and queue the children of a document. They count in no quota: their pages and files
    are the parent's."""
    row = connection.execute(select(documents).where(documents.c.id == parent)).one()
    for child in children:
        connection.execute(
            documents.insert().values(
                **vars(child),
                parent=parent,
                tenant=row.tenant,
                metadata=row.metadata,
                webhook_url=row.webhook_url,
                traceparent=row.traceparent,
                priority=row.priority,
                state=DocumentState.QUEUED,
                created_at=now(),
                # The parent's: the scan shouldn't wait behind those that came after it.
                queued_at=row.queued_at,
                available_at=now(),
                page_count=len(child.inherited["pages"]),
                generations={},
            )
        )
        record_event(connection, child.id)


def lock_children(connection: Connection, *parents: str) -> None:
    """Lock the children of documents, before the documents themselves are locked."""
    query = select(documents.c.id).where(documents.c.parent.in_(parents)).order_by(documents.c.id)
    connection.execute(query.with_for_update()).all()


def load_children(connection: Connection, parent: str) -> Sequence[Row[Any]]:
    """The rows of a document's children that aren't deleted, in the order of pages."""
    own = (documents.c.parent == parent, documents.c.deleted_at.is_(None))
    query = select(documents).where(*own).order_by(documents.c.first_page)
    return connection.execute(query).all()


def was_split(connection: Connection, document_id: str) -> bool:
    """Whether a document has children, or deleted ones whose rows still exist."""
    query = select(documents.c.id).where(documents.c.parent == document_id).limit(1)
    return connection.execute(query).first() is not None


def record_change(connection: Connection, document_id: str) -> None:
    """Record a document's new state as an event, and finish its parent if it was the last one."""
    record_event(connection, document_id)
    query = select(documents.c.parent, documents.c.state).where(documents.c.id == document_id)
    row = connection.execute(query).one()
    if row.parent is not None and row.state in FINISHED_STATES:
        # It expires with its parent.
        where = documents.c.id == document_id
        connection.execute(update(documents).where(where).values(expires_at=None))
        finish_parent(connection, row.parent)


def finish_parent(connection: Connection, parent: str) -> None:
    """Finish a split document if all of its children are finished. Then its retention period
    begins, and with it that of its children."""
    query = select(documents).where(documents.c.id == parent).with_for_update()
    row = connection.execute(query).one_or_none()
    if row is None or row.deleted_at is not None or row.state != DocumentState.SPLIT:
        return
    children = load_children(connection, parent)
    if any(child.state not in FINISHED_STATES for child in children):
        return
    days = connection.execute(
        select(tenants.c.retention_days).where(tenants.c.id == row.tenant)
    ).scalar_one()
    state, error = _final_state(row, children)
    values: dict[str, Any] = {"state": state, "error": error, "finished_at": now()}
    values["expires_at"] = None if days is None else now(days * DAY_SECONDS)
    connection.execute(update(documents).where(documents.c.id == parent).values(**values))
    record_event(connection, parent)


def reopen_parent(connection: Connection, parent: str) -> bool:
    """Make a finished parent `split` again, because one of its children is processed again. False
    if it was deleted."""
    query = select(documents).where(documents.c.id == parent).with_for_update()
    row = connection.execute(query).one_or_none()
    if row is None or row.deleted_at is not None:
        return False
    if row.state in FINISHED_STATES:
        # An error of the children is found again, one of the parent's own steps stays.
        error = row.error if row.error is not None and row.error["code"] != _CODE else None
        values: dict[str, Any] = {"state": DocumentState.SPLIT, "error": error}
        values |= dict.fromkeys(("finished_at", "expires_at", "cancel_requested_at"))
        connection.execute(update(documents).where(documents.c.id == parent).values(**values))
        record_event(connection, parent)
    return True


_CODE = "incomplete_documents"


def _final_state(
    parent: Row[Any], children: Sequence[Row[Any]]
) -> tuple[DocumentState, Mapping[str, Any] | None]:
    """The final state of a parent with these finished children, and its error if it has one."""
    if parent.cancel_requested_at is not None or not children:
        return DocumentState.CANCELLED, None
    bad = [child for child in children if child.state != DocumentState.SUCCEEDED]
    if not bad:
        is_partial = parent.error is not None
        state = DocumentState.PARTIALLY_SUCCEEDED if is_partial else DocumentState.SUCCEEDED
        return state, parent.error
    named = ", ".join(f"{child.id} ({child.state})" for child in bad[:MAX_NAMED])
    more = f" and {len(bad) - MAX_NAMED:,} more" if len(bad) > MAX_NAMED else ""
    total = pluralize(len(children), "document")
    error = {
        "code": _CODE,
        "message": f"of its {total}, these are incomplete: {named}{more}",
        "retryable": any(child.error is not None and child.error["retryable"] for child in bad),
    }
    without_result = (DocumentState.FAILED, DocumentState.CANCELLED)
    if all(child.state in without_result for child in children):
        return DocumentState.FAILED, error
    return DocumentState.PARTIALLY_SUCCEEDED, parent.error or error


def _encode(number: int, length: int) -> str:
    """The last characters of a number in base 32."""
    return "".join(_ALPHABET[(number >> (5 * k)) & 31] for k in reversed(range(length)))

"""Rows of documents in the service's database, without files in a storage."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select, update

from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import NewDocument, NewFile, create_document, queue_document
from llm_ocr.service.schema import documents, tenants

FILE = NewFile("scan.pdf", size=1_000, sha256="0" * 64, content_type="application/pdf")


def new_document(files: Sequence[NewFile] = (FILE,), **values: Any) -> NewDocument:  # noqa: ANN401
    return NewDocument("scan.pdf", files, "markdown", "revision-1", **values)


def create(database: Database, tenant: str = "default", **values: Any) -> str:  # noqa: ANN401
    """Create a document that waits for its upload; returns its id."""
    return create_document(database, tenant, new_document(**values)).id


def queue(database: Database, tenant: str = "default", **values: Any) -> str:  # noqa: ANN401
    """Create and queue a document of two pages; returns its id."""
    document_id = create(database, tenant, **values)
    queue_document(database, tenant, document_id, {0: {}}, page_count=2)
    return document_id


def row_of(database: Database, document_id: str) -> Mapping[str, Any]:
    """The row of a document of any tenant."""
    with database.read() as connection:
        return (
            connection.execute(select(documents).where(documents.c.id == document_id))
            .one()
            ._asdict()
        )


def expire(database: Database, document_id: str, seconds_ago: float = 1.0) -> None:
    """Make the lease of a document expire `seconds_ago`."""
    with database.begin() as connection:
        where = documents.c.id == document_id
        values = {"lease_expires_at": now(-seconds_ago)}
        connection.execute(update(documents).where(where).values(values))


def make_available(database: Database) -> None:
    """Make all queued documents available now, including those that wait for a retry."""
    with database.begin() as connection:
        connection.execute(update(documents).values(available_at=now(-1)))


def limit(database: Database, tenant: str = "default", **limits: float) -> None:
    with database.begin() as connection:
        connection.execute(update(tenants).where(tenants.c.id == tenant).values(**limits))

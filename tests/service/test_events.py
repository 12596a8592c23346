"""Document events: one for each change of state, in order, with deliveries to webhooks."""

import pytest
from sqlalchemy import delete, func, select

from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import cancel_document, create_document, queue_document
from llm_ocr.service.events import list_events
from llm_ocr.service.schema import (
    FINISHED_STATES,
    DocumentState,
    deliveries,
    documents,
    events,
    webhooks,
)
from llm_ocr.service.work_queue import DocumentCompletion, WorkQueue
from tests.service.document_rows import new_document, queue, row_of

HOOK = "https://example.org/hook"


def register(database: Database, url: str = HOOK, *, disabled: bool = False) -> None:
    with database.begin() as connection:
        at = now() if disabled else None
        row = {"tenant": "default", "url": url, "secret": "whsec_x"}
        connection.execute(webhooks.insert().values(**row, created_at=now(), disabled_at=at))


def due(database: Database) -> list[tuple[str, str]]:
    """The event type and URL of each delivery."""
    query = select(events.c.type, deliveries.c.url).join(
        events, events.c.id == deliveries.c.event_id
    )
    with database.read() as connection:
        rows = connection.execute(query.order_by(deliveries.c.id))
        return [(row.type, row.url) for row in rows]


def end(database: Database, document_id: str, state: DocumentState) -> None:
    a = WorkQueue(database, "a")
    (claimed,) = a.claim(1)
    assert claimed.id == document_id
    assert a.finish(claimed, DocumentCompletion(state, "result-1"))


def test_events_after_an_id_are_listed(database: Database) -> None:
    document_id = queue(database, metadata={"order": 4711})
    seen = list_events(database, "default", document_id)
    assert [event.data["state"] for event in seen] == ["awaiting_upload", "queued"]
    assert seen[0].data["metadata"] == {"order": 4711}
    cancel_document(database, "default", document_id)
    (new,) = list_events(database, "default", document_id, after=seen[-1].id)
    assert (new.type, new.id > seen[-1].id) == ("document.cancelled", True)
    assert list_events(database, "other", document_id) == []


def test_an_event_is_rolled_back_with_its_change(database: Database) -> None:
    """A change of state and its event are one transaction."""
    document_id = queue(database)
    before = list_events(database, "default", document_id)
    with pytest.raises(ZeroDivisionError):
        with database.begin() as connection:
            from llm_ocr.service.events import record_event

            connection.execute(documents.update().values(state=DocumentState.CANCELLED))
            record_event(connection, document_id)
            raise ZeroDivisionError
    assert list_events(database, "default", document_id) == before
    assert row_of(database, document_id)["state"] == DocumentState.QUEUED


@pytest.mark.parametrize(
    "state",
    sorted({*FINISHED_STATES, DocumentState.NEEDS_REVIEW}),
    ids=lambda state: str(getattr(state, "value", state)),
)
def test_final_states_are_delivered_once_to_each_webhook(
    database: Database, state: DocumentState
) -> None:
    register(database)
    register(database, "https://example.org/disabled", disabled=True)
    own = "https://example.org/own"
    for address in (own, HOOK, "https://example.org/disabled", None):
        new = new_document(webhook_url=address)
        document_id = create_document(database, "default", new).id
        queue_document(database, "default", document_id, {0: {}})
        end(database, document_id, state)
    type_ = f"document.{state}"
    assert due(database) == [
        (type_, HOOK),
        (type_, own),
        (type_, HOOK),
        (type_, HOOK),
        (type_, HOOK),
    ]


def test_event_ids_are_never_reused(database: Database) -> None:
    document_id = queue(database)
    with database.begin() as connection:
        last = connection.scalar(select(func.max(events.c.id)))
        connection.execute(delete(events))
    cancel_document(database, "default", document_id)
    (event,) = list_events(database, "default", document_id)
    assert event.id > last

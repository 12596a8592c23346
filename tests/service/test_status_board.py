"""The numbers of the status board, on both databases."""

from typing import Any

from sqlalchemy import update

from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import cancel_document, delete_document
from llm_ocr.service.schema import DocumentState, deliveries, documents, reviews, steps, workers
from llm_ocr.service.status_board import FailureCount, load_status
from llm_ocr.service.work_queue import DocumentCompletion, StepProgress, WorkQueue
from tests.service.document_rows import create, queue

URL = "https://example.com/hook"


def finish(
    database: Database,
    tenant: str = "default",
    state: DocumentState = DocumentState.SUCCEEDED,
    code: str | None = None,
    step: str | None = "extract",
    seconds: float = 2.0,
    **values: Any,  # noqa: ANN401
) -> str:
    """Process a document of 2 pages, whose step extract takes `seconds`; returns its id."""
    document_id = queue(database, tenant, **values)
    worker = WorkQueue(database, "test")
    (claimed,) = worker.claim(1)
    error = None if code is None else {"code": code, "step": step, "message": "as in the test"}
    done = StepProgress("extract", "succeeded", started_ago=seconds + 1, finished_ago=1)
    ending = DocumentCompletion(state, "result-1", error, reasons=[{"message": "a reason"}])
    assert worker.finish(claimed, ending, [done], page_count=2)
    return document_id


def change(database: Database, document_id: str, **values: Any) -> None:  # noqa: ANN401
    with database.begin() as connection:
        is_one = documents.c.id == document_id
        connection.execute(update(documents).where(is_one).values(**values))


def test_documents_throughput_failures_and_reviews_by_tenant(database: Database) -> None:
    create(database)
    deleted = finish(database)
    change(database, deleted, finished_at=now(-25 * 3600))
    delete_document(database, "default", deleted)
    cancel_document(database, "default", create(database))
    finish(database)
    change(database, finish(database), finished_at=now(-2 * 3600))
    change(database, finish(database), finished_at=now(-25 * 3600))
    finish(database, state=DocumentState.PARTIALLY_SUCCEEDED, code="timeout")
    finish(database, state=DocumentState.FAILED, code="timeout")
    finish(database, state=DocumentState.FAILED, code="too_many_pages", step=None)
    finish(database, "other", state=DocumentState.NEEDS_REVIEW, webhook_url=URL)
    finish(database, "other")
    change(database, queue(database, "other"), queued_at=now(-600), created_at=now(-700))

    own = load_status(database, "other")
    assert (own.total.tenant, own.tenants, own.workers) == ("other", (), ())
    assert {state: count for state, count in own.total.documents.items() if count} == {
        "queued": 1,
        "needs_review": 1,
        "succeeded": 1,
    }
    assert (own.total.last_hour.succeeded, own.total.last_hour.pages) == (1, 2)
    assert own.total.oldest_queued_at is not None
    assert own.total.oldest_unfinished_at is not None
    assert round((own.at - own.total.oldest_queued_at).total_seconds(), -1) == 600
    assert round((own.at - own.total.oldest_unfinished_at).total_seconds(), -1) == 700
    assert (own.total.reviews_open, own.total.reviews_claimed) == (1, 0)
    assert (own.total.webhooks_pending, own.total.webhooks_retried) == (1, 0)
    assert own.total.oldest_webhook_at is not None
    assert own.failures == []

    status = load_status(database)
    assert [one.tenant for one in status.tenants] == ["default", "other"]
    assert status.tenants[1].last_day == own.total.last_day
    total = status.total
    assert total.documents[DocumentState.SUCCEEDED] == 4
    assert (total.last_hour.succeeded, total.last_hour.failed) == (3, 2)
    assert (total.last_day.succeeded, total.last_day.failed, total.last_day.pages) == (4, 2, 8)
    assert status.failures == [FailureCount(None, "too_many_pages", 1)]
    (extract,) = status.steps
    assert extract.failures == [FailureCount("extract", "timeout", 2)]

    with database.begin() as connection:
        connection.execute(update(reviews).values(claim_expires_at=now(60)))
        connection.execute(update(deliveries).values(attempts=1))
    total = load_status(database).total
    assert (total.reviews_claimed, total.webhooks_retried) == (1, 1)


def test_steps_with_their_documents_and_durations(database: Database) -> None:
    worker = WorkQueue(database, "test")
    for seconds in range(1, 21):
        finish(database, seconds=float(seconds))
    # One whose step never ended, and one of another day.
    finish(database, state=DocumentState.FAILED, code="timeout")
    old = finish(database, seconds=9999.0)
    change(database, old, finished_at=now(-25 * 3600))
    with database.begin() as connection:
        failed = documents.c.state == DocumentState.FAILED
        ids = documents.select().where(failed).with_only_columns(documents.c.id)
        is_failed = steps.c.document_id.in_(ids)
        connection.execute(update(steps).where(is_failed).values(state="failed"))
    queue(database)
    (claimed,) = worker.claim(1)
    parsing = [StepProgress("extract", "succeeded"), StepProgress("parse", "processing")]
    assert worker.save_progress(claimed, "parse", parsing)
    stuck = queue(database)
    change(database, stuck, step="parse", waiting_for="the model of the step parse")
    queue(database)

    status = load_status(database)
    extract, parse = status.steps
    assert (extract.name, extract.in_progress, extract.waiting) == ("extract", 0, 1)
    assert (parse.name, parse.in_progress, parse.waiting) == ("parse", 1, 1)
    assert (extract.measured, extract.median_seconds, extract.p95_seconds) == (20, 10.5, 19.0)
    assert (parse.measured, parse.median_seconds) == (0, None)
    (reason,) = status.waiting_for
    assert (reason.reason, reason.documents) == ("the model of the step parse", 1)
    assert status.problems[0].startswith("No worker was seen in the last minute")


def test_workers_that_are_seen_or_silent(database: Database) -> None:
    for name in ("one", "two"):
        WorkQueue(database, name).register(f"host-{name}", "0.1", 5)
    queue(database)
    assert WorkQueue(database, "one").claim(1)
    with database.begin() as connection:
        is_two = workers.c.id == "two"
        connection.execute(update(workers).where(is_two).values(last_seen_at=now(-90)))
    status = load_status(database)
    one, two = status.workers
    assert (one.host, one.is_alive, one.documents) == ("host-one", True, 1)
    assert (two.host, two.is_alive, two.documents) == ("host-two", False, 0)
    assert status.workers_alive == load_status(database, "default").workers_alive == 1
    assert status.problems == []

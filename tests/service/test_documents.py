"""The documents of tenants: operations in each state, quotas and races."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from llm_ocr.service.database import Database
from llm_ocr.service.documents import (
    NewFile,
    QuotaError,
    UnknownDocumentError,
    WrongStateError,
    cancel_document,
    delete_document,
    document_folder,
    fail_document,
    list_documents,
    load_document,
    queue_document,
    retry_document,
)
from llm_ocr.service.events import list_events
from llm_ocr.service.schema import FINISHED_STATES, DocumentState
from llm_ocr.service.work_queue import DocumentCompletion, StepProgress, WorkQueue
from tests.service.document_rows import create, limit, queue, row_of

State = DocumentState


def bring_to(database: Database, state: DocumentState) -> str:
    """The id of a document in this state, whose work, if there was any, found something."""
    if state is State.AWAITING_UPLOAD:
        return create(database)
    document_id = queue(database)
    if state is State.QUEUED:
        return document_id
    a = WorkQueue(database, "a")
    (claimed,) = a.claim(1)
    if state is not State.PROCESSING:
        steps = [
            StepProgress("extract", "succeeded", 2, items_failed=1),
            StepProgress("describe", "succeeded", 1),
        ]
        a.finish(
            claimed, DocumentCompletion(state, "result-1", {"code": "x"}, {"requests": 2}), steps
        )
    return document_id


def test_a_new_document_waits_for_its_files(database: Database) -> None:
    files = [NewFile("a.png", 10, "f" * 64, "image/png"), NewFile("b.png")]
    document_id = create(database, files=files, type="invoice", metadata={"order": 4711})
    stored = load_document(database, "default", document_id)
    assert (stored.state, stored.row["type"]) == (State.AWAITING_UPLOAD, "invoice")
    assert stored.row["metadata"] == {"order": 4711}
    assert [(file.name, file.size, file.uploaded_at) for file in stored.files] == [
        ("a.png", 10, None),
        ("b.png", None, None),
    ]
    folder = document_folder("default", document_id)
    assert [file.path for file in stored.files] == [f"{folder}/files/0", f"{folder}/files/1"]

    found: dict[int, dict[str, Any]] = {
        0: {"size": 11},
        1: {"size": 12, "content_type": "image/png"},
    }
    queued = queue_document(database, "default", document_id, found, page_count=2)
    assert queued.state is State.QUEUED
    assert [file.size for file in queued.files] == [11, 12]
    assert all(file.uploaded_at is not None for file in queued.files)
    again = queue_document(database, "default", document_id, {0: {"size": 99}})
    assert [file.size for file in again.files] == [11, 12]
    events = list_events(database, "default", document_id)
    assert [event.type for event in events] == ["document.awaiting_upload", "document.queued"]


CALLS: dict[str, Callable[[Database, str, str], object]] = {
    "load": load_document,
    "queue": partial(queue_document, file_columns={}),
    "fail": partial(fail_document, error={"code": "x"}),
    "cancel": cancel_document,
    "retry": retry_document,
    "delete": delete_document,
}


@pytest.mark.parametrize("name", CALLS)
def test_another_tenants_document_does_not_exist(database: Database, name: str) -> None:
    document_id = create(database, "other")
    before = row_of(database, document_id)
    with pytest.raises(UnknownDocumentError) as of_other:
        CALLS[name](database, "default", document_id)
    with pytest.raises(UnknownDocumentError) as of_nobody:
        CALLS[name](database, "default", "doc_unknown")
    assert str(of_other.value).replace(document_id, "") == str(of_nobody.value).replace(
        "doc_unknown", ""
    )
    assert row_of(database, document_id) == before
    assert list_events(database, "default", document_id) == []
    assert list_documents(database, "default") == []


def test_documents_are_listed_by_page(database: Database) -> None:
    ids = [create(database) for _ in range(5)]
    create(database, "other")
    cancel_document(database, "default", ids[3])
    first = list_documents(database, "default", limit=2)
    assert [document.id for document in first] == [ids[4], ids[3]]
    rest = list_documents(database, "default", before=first[-1].id)
    assert [document.id for document in rest] == [ids[2], ids[1], ids[0]]
    cancelled = list_documents(database, "default", state=State.CANCELLED)
    assert [document.id for document in cancelled] == [ids[3]]
    assert list_documents(database, "default", type_="invoice") == []


@pytest.mark.parametrize("state", State)
def test_cancelling_in_each_state(database: Database, state: DocumentState) -> None:
    document_id = bring_to(database, state)
    if state in FINISHED_STATES - {State.CANCELLED}:
        with pytest.raises(WrongStateError, match=f"is already finished: it is {state}"):
            cancel_document(database, "default", document_id)
        assert row_of(database, document_id)["state"] == state
        return
    event_count = len(list_events(database, "default", document_id))
    cancelled = cancel_document(database, "default", document_id)
    assert cancel_document(database, "default", document_id) == cancelled
    if state is State.PROCESSING:
        # The worker stops between pages.
        assert (cancelled.state, cancelled.row["cancel_requested_at"] is None) == (state, False)
        return
    assert (cancelled.state, cancelled.row["finished_at"] is None) == (State.CANCELLED, False)
    is_news = state is not State.CANCELLED
    assert len(list_events(database, "default", document_id)) == event_count + is_news
    assert WorkQueue(database, "b").claim(1) == []


@pytest.mark.parametrize("state", State)
def test_retrying_in_each_state(database: Database, state: DocumentState) -> None:
    document_id = bring_to(database, state)
    if state not in FINISHED_STATES and state is not State.NEEDS_REVIEW:
        with pytest.raises(WrongStateError, match=f"is not finished: it is {state}"):
            retry_document(database, "default", document_id)
        return
    retried = retry_document(database, "default", document_id)
    nothing = ("error", "result", "cost", "finished_at", "started_at", "waiting_for", "step")
    assert [retried.row[name] for name in nothing] == [None] * len(nothing)
    assert (retried.state, retried.row["attempts"], retried.row["pages_done"]) == (
        *(State.QUEUED, 0),
        0,
    )
    assert retried.steps == []
    (claimed,) = WorkQueue(database, "b").claim(1)
    assert (claimed.id, claimed.attempts, claimed.generations) == (
        *(document_id, 1),
        {"failed:extract": 1},
    )


def test_retrying_from_a_step_increments_its_generation(database: Database) -> None:
    document_id = bring_to(database, State.SUCCEEDED)
    with pytest.raises(WrongStateError, match="has no step 'parse'; it has extract, describe"):
        retry_document(database, "default", document_id, "parse")
    retried = retry_document(database, "default", document_id, "describe")
    assert retried.row["generations"] == {"describe": 1}
    cancel_document(database, "default", document_id)
    retried = retry_document(database, "default", document_id, "describe")
    assert retried.row["generations"] == {"describe": 2}


def test_a_document_without_files_cannot_be_retried(database: Database) -> None:
    document_id = create(database)
    cancel_document(database, "default", document_id)
    with pytest.raises(WrongStateError, match="its upload was never completed"):
        retry_document(database, "default", document_id)


@pytest.mark.parametrize("state", State)
def test_deleting_in_each_state(database: Database, state: DocumentState) -> None:
    document_id = bring_to(database, state)
    if state is State.PROCESSING:
        with pytest.raises(WrongStateError, match="cancel it first"):
            delete_document(database, "default", document_id)
        return
    assert delete_document(database, "default", document_id).state is state
    with pytest.raises(UnknownDocumentError):
        load_document(database, "default", document_id)
    assert list_documents(database, "default") == []
    assert WorkQueue(database, "b").claim(1) == []


def test_only_documents_that_wait_for_their_upload_can_be_failed(database: Database) -> None:
    error = {"code": "wrong_checksum", "message": "not what was announced", "retryable": False}
    failed = fail_document(database, "default", create(database), error)
    assert (failed.state, failed.row["error"]) == (State.FAILED, error)
    queued = queue(database)
    assert fail_document(database, "default", queued, error).state is State.QUEUED


def both(*calls: Callable[[], object]) -> list[Any]:
    """The results or exceptions of concurrent calls."""

    def outcome(call: Callable[[], object]) -> object:
        try:
            return call()
        except WrongStateError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(outcome, calls))


def test_cancelling_races_with_finishing(database: Database) -> None:
    """Either the end was first, and the cancel says so, or it was noted. One end is reported."""
    for _ in range(15):
        document_id = queue(database)
        a = WorkQueue(database, "a")
        (claimed,) = a.claim(1)
        ending = DocumentCompletion(State.SUCCEEDED, "result-1")
        cancelled, finished = both(
            partial(cancel_document, database, "default", document_id),
            partial(a.finish, claimed, ending),
        )
        assert finished is True
        assert isinstance(cancelled, WrongStateError) or cancelled.state is State.PROCESSING
        ends = [
            event.type
            for event in list_events(database, "default", document_id)
            if event.data["state"] in FINISHED_STATES
        ]
        assert ends == ["document.succeeded"]


def test_cancelling_races_with_a_claim(database: Database) -> None:
    for _ in range(15):
        document_id = queue(database)
        a = WorkQueue(database, "a")
        cancelled, claimed = both(
            partial(cancel_document, database, "default", document_id),
            partial(a.claim, 1),
        )
        if claimed:
            (document,) = claimed
            is_cancelled = a.renew_leases({document.id: document.fencing_token})[document.id]
            assert (cancelled.state, is_cancelled) == (State.PROCESSING, True)
            a.finish(document, DocumentCompletion(State.CANCELLED))
        assert row_of(database, document_id)["state"] == State.CANCELLED


def test_quota_of_unfinished_documents(database: Database) -> None:
    limit(database, max_unfinished=3)
    with ThreadPoolExecutor(6) as threads:
        made = list(threads.map(lambda _: _created(database), range(6)))
    assert sum(isinstance(result, str) for result in made) == 3
    with pytest.raises(QuotaError, match="unfinished documents: 3") as raised:
        create(database)
    assert raised.value.retry_seconds > 0
    create(database, "other")
    cancel_document(database, "default", next(result for result in made if isinstance(result, str)))
    create(database)


def test_documents_that_wait_for_review_are_not_in_the_quota(database: Database) -> None:
    queue(database)
    workers = WorkQueue(database, "a")
    (document,) = workers.claim(1)
    reasons = [{"message": "random sample of 2%"}]
    assert workers.finish(
        document, DocumentCompletion(State.NEEDS_REVIEW, result="results/1", reasons=reasons)
    )
    limit(database, max_unfinished=1)
    create(database)
    with pytest.raises(QuotaError, match="unfinished documents: 1"):
        create(database)


def _created(database: Database) -> str | QuotaError:
    try:
        return create(database)
    except QuotaError as error:
        return error


def test_quota_of_bytes(database: Database) -> None:
    limit(database, max_bytes=2_500)
    kept = [create(database) for _ in range(2)]
    with pytest.raises(QuotaError, match="is 2,500 bytes, and 2,000 are used"):
        create(database)
    create(database, "other")
    delete_document(database, "default", kept[0])
    create(database)


def test_quota_of_pages_per_day(database: Database) -> None:
    limit(database, max_pages_per_day=5)
    queue(database)
    queue(database)
    waiting = create(database)
    with pytest.raises(QuotaError, match="4 were submitted") as raised:
        queue_document(database, "default", waiting, {0: {}}, page_count=2)
    assert 0 < raised.value.retry_seconds <= 86_401
    # Refused documents don't count.
    assert load_document(database, "default", waiting).state is State.AWAITING_UPLOAD
    assert queue_document(database, "default", waiting, {0: {}}, page_count=1).state is State.QUEUED
    queue(database, "other")

"""Scans that are split into documents: by a worker that is killed, reviewed, cancelled, retried."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import select, update

from llm_ocr.service.children import NewChild, child_id
from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import (
    DeletedDocumentError,
    QuotaError,
    UnknownDocumentError,
    WrongStateError,
    cancel_document,
    delete_document,
    list_documents,
    load_document,
    retry_document,
)
from llm_ocr.service.events import list_events
from llm_ocr.service.pipelines import Pipeline, PipelineCatalog, parse_pipeline, save_pipeline
from llm_ocr.service.retention import expire_documents, expire_unprocessed, purge_documents
from llm_ocr.service.review.desk import ReviewDesk
from llm_ocr.service.review.reviews import Reviewer, claim_review, decide
from llm_ocr.service.review.reviews import ReviewState as Review
from llm_ocr.service.schema import FINISHED_STATES, DocumentState, documents, pages_per_day
from llm_ocr.service.work_queue import (
    ClaimedDocument,
    DocumentCompletion,
    WorkQueue,
    recover_expired_leases,
)
from llm_ocr.storage.store import open_store
from tests.classification.drawn_pages import save_fitted
from tests.servers.chat import ChatServer, answer, at_once, serving_beside
from tests.service.classified_scans import scan
from tests.service.document_rows import create, expire, limit, queue, row_of
from tests.service.worker_processes import Service, stop_forking
from tests.waiting import wait_until

State = DocumentState
ADA = Reviewer("default", "ada", "Ada")
# Two forms, two invoices of one page each, a page of an unknown kind, and a letter.
SCAN = ("form", "form", "invoice", "invoice", "poster", "letter")
MAIL = """
name: mail
steps:
- step: extract
  retries: {{limit: 0}}
- step: classify
  classifier: {classifier}
  split: true
  first_page_classes: [invoice]
- step: assemble
- step: parse
  schemas: {{form: {{type: object, properties: {{town: {{type: string}}}}}}}}
"""
BILL = """
name: bill
types: [invoice]
steps:
- step: extract
- step: classify
  page_classes: [paid, open]
  classifier: /not/needed
- step: assemble
"""


@pytest.fixture(scope="module", autouse=True)
def forking() -> Iterator[None]:
    yield
    stop_forking()


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier") / "index"
    return save_fitted(folder, ("form", "invoice", "letter"), 20)


def mail(service: Service, classifier: Path) -> Pipeline:
    """The pipeline that splits scans, saved with those of its children."""
    texts = (MAIL.format(classifier=classifier), BILL)
    catalog = PipelineCatalog([parse_pipeline(text, "test.yaml") for text in texts])
    pipeline = catalog.by_name("mail")
    save_pipeline(service.database, pipeline)
    return pipeline


def reply(body: dict[str, Any]) -> web.StreamResponse:
    return answer('{"town": "Graz"}') if "response_format" in body else at_once(body)


def pages_read(server: ChatServer) -> int:
    return sum("response_format" not in body for body in server.requests)


@pytest.mark.long
def test_a_scan_becomes_documents_exactly_once_although_its_worker_is_killed(
    database: Database, database_url: str, tmp_path: Path, classifier: Path
) -> None:
    """Killed when the result of the scan is written, and again when its documents are queued."""
    service = Service(database, database_url, tmp_path)
    path = scan(tmp_path / "scan.pdf", *SCAN)
    short = {"lease_seconds": 3.0, "tasks": 1, "concurrency": 1, "input_mode": "text"}
    with serving_beside(reply) as server:
        parent = service.submit(path, pipeline=mail(service, classifier))
        results = service.storage / "tenants/default" / parent
        with service.worker(server.base_url, **short) as worker:
            wait_until(lambda: len(service.saved(parent)) >= 5)
            with database.begin() as connection:
                # The worker can write files, and not the database.
                query = select(documents).where(documents.c.id == parent)
                connection.execute(query.with_for_update())
                wait_until(lambda: list(results.glob("result-*/document.json")))
                worker.kill()
        assert list_documents(database, "default", parent=parent) == []
        with service.worker(server.base_url, **short) as worker:
            wait_until(lambda: service.state(parent) == State.SPLIT)
            worker.kill()
        with service.worker(server.base_url, **short):
            wait_until(lambda: not unfinished(service, parent))
        children = service.document(parent).children
        # Each page was read once, and is in one document.
        assert pages_read(server) == len(SCAN)
        found = [service.result(child["id"]) for child in children]
        check_children(service, parent, children, found)
        assert service.state(parent) == State.SPLIT
        reviewed = approve(service, *(child["id"] for child in children))
        finished = service.document(parent)
        assert (finished.state, finished.row["error"]) == (State.SUCCEEDED, None)
        check_events(service, parent, children)

        # Other documents replace them, unless people's work would be lost.
        with pytest.raises(WrongStateError, match="split again: people have reviewed doc_"):
            retry_document(database, "default", parent, "classify")
        for child in reviewed:
            delete_document(database, "default", child)
        kept = [child["id"] for child in service.document(parent).children]
        assert len(kept) == 2
        retry_document(database, "default", parent, "classify")
        with pytest.raises(DeletedDocumentError):
            service.document(kept[0])
        with service.worker(server.base_url, **short):
            wait_until(lambda: service.state(parent) == State.SPLIT)
        again = service.document(parent).children
        assert [child["first_page"] for child in again] == [1, 3, 4, 5, 6]
        assert not {child["id"] for child in again} & {child["id"] for child in children}
        assert pages_read(server) == len(SCAN)


def unfinished(service: Service, parent: str) -> list[str]:
    """The children of a document that are neither finished nor in review."""
    children = service.document(parent).children
    done = (*FINISHED_STATES, State.NEEDS_REVIEW)
    return [child["id"] for child in children if child["state"] not in done] or (
        [] if children else [parent]
    )


def check_children(
    service: Service, parent: str, children: Sequence[Mapping[str, Any]], found: Sequence[Any]
) -> None:
    assert [(child["type"], child["first_page"], child["last_page"]) for child in children] == [
        ("form", 1, 2),
        ("invoice", 3, 3),
        ("invoice", 4, 4),
        (None, 5, 5),
        ("letter", 6, 6),
    ]
    numbers = [[page["number"] for page in result["pages"]] for result in found]
    assert numbers == [[1, 2], [3], [4], [5], [6]]
    assert [child["name"] for child in children][:2] == ["scan-p1-2.pdf", "scan-p3.pdf"]
    assert [child["pipeline"] for child in children] == ["mail", "bill", "bill", "mail", "mail"]
    assert [child["state"] for child in children] == [
        *(State.SUCCEEDED, State.SUCCEEDED),
        *(State.NEEDS_REVIEW, State.NEEDS_REVIEW, State.NEEDS_REVIEW),
    ]
    reasons = [
        [reason["message"] for reason in result.get("review", {}).get("reasons", [])]
        for result in found
    ]
    beside = "page 5, beside this document, has no certain class: it may belong to it"
    assert reasons[:3] == [[], [], [beside]]
    assert reasons[3][0].startswith("page 5: unknown kind of page")
    assert reasons[4] == [beside]
    for child, result in zip(children, found, strict=True):
        assert result["parent"] == parent
        assert result["class"] == child["type"]
        assert [row["page"] for row in result["page_classes"]] == [
            page["number"] for page in result["pages"]
        ]
        assert all(page["markdown"] for page in result["pages"])
        number = result["pages"][0]["number"]
        image = service.read(child["id"], f"pages/{number}.jpg")
        assert image.startswith(b"\xff\xd8")
    # The pages were paid for with the scan.
    assert [result["cost"]["requests"] for result in found] == [1, 0, 0, 0, 0]
    assert [len(result["records"]) for result in found] == [1, 0, 0, 0, 0]
    assert [record["pages"] for record in found[0]["records"]] == [[1, 2]]
    assert found[0]["record"] == {"town": "Graz"}
    assert [page["page"] for page in found[3]["unparsed_pages"]] == [5]
    whole = service.document(parent)
    assert [step["name"] for step in whole.steps] == ["extract", "classify"]
    assert (whole.row["cost"]["requests"], whole.row["page_count"]) == (len(SCAN), len(SCAN))
    steps = [step["name"] for step in service.document(children[0]["id"]).steps]
    assert steps == ["assemble", "parse"]
    with service.database.read() as connection:
        assert connection.execute(select(pages_per_day.c.pages)).scalars().all() == [1]


def approve(service: Service, *ids: str) -> list[str]:
    """Approve those that are in review; returns their ids."""
    desk = ReviewDesk(service.database, service.store)
    reviewed = [child for child in ids if service.state(child) == State.NEEDS_REVIEW]
    for document_id in reviewed:
        review = claim_review(service.database, ADA, document_id)
        desk.approve(ADA, document_id, review.version)
    return reviewed


def check_events(service: Service, parent: str, children: Sequence[Mapping[str, Any]]) -> None:
    """The scan is announced after all of its documents."""
    events = list_events(service.database, "default", parent)
    assert [event.type for event in events][-2:] == ["document.split", "document.succeeded"]
    for child in children:
        own = list_events(service.database, "default", child["id"])
        assert own[-1].id < events[-1].id
        assert own[-1].type == "document.succeeded"
        assert own[-1].data["parent"] == parent


# Without a worker: rows as it writes them --------------------------------------------------------


def split(database: Database, parts: int = 3, parent: str | None = None) -> tuple[str, list[str]]:
    """Queue a document, unless it is `parent`, and split it; the ids of it and its children."""
    parent = parent or queue(database)
    claimed = claim(database, parent)
    names = range(1, parts + 1)
    children = [
        NewChild(
            child_id(parent, claimed.generations, number),
            f"scan-p{number}.pdf",
            "form",
            *("markdown", "revision-1"),
            *(number, number),
            {"pages": {number: "a"}, "classes": {}, "reasons": []},
        )
        for number in names
    ]
    completion = DocumentCompletion(State.SPLIT, "result-1", cost={}, children=children)
    assert WorkQueue(database, "a").finish(claimed, completion)
    return parent, [child.id for child in children]


def claim(database: Database, document_id: str) -> ClaimedDocument:
    (claimed,) = WorkQueue(database, "a").claim(1)
    assert claimed.id == document_id
    return claimed


def finish(database: Database, *ids: str, state: State = State.SUCCEEDED) -> None:
    for document_id in ids:
        claimed = claim(database, document_id)
        error = {"code": "x", "message": "x", "retryable": True} if state is State.FAILED else None
        completion = DocumentCompletion(state, f"result-{claimed.fencing_token}", error)
        finished = WorkQueue(database, "a").finish(claimed, completion, retention_seconds=60.0)
        assert finished


def states(database: Database, *ids: str) -> list[str]:
    return [row_of(database, document_id)["state"] for document_id in ids]


def test_a_scan_ends_as_its_documents_do(database: Database) -> None:
    parent, later = queue(database), queue(database)
    good, children = split(database, parent=parent)
    assert [load_document(database, "default", child).row["name"] for child in children] == [
        *("scan-p1.pdf", "scan-p2.pdf", "scan-p3.pdf")
    ]
    # They sort by page and with the scan, and are claimed before what came later.
    assert sorted(children) == children
    assert {child[:14] for child in children} == {parent[:14]}
    finish(database, *children[:2])
    assert states(database, good) == [State.SPLIT]
    finish(database, children[2])
    assert states(database, good) == [State.SUCCEEDED]
    finish(database, later)

    partial, children = split(database)
    finish(database, children[0])
    finish(database, *children[1:], state=State.FAILED)
    row = row_of(database, partial)
    assert row["state"] == State.PARTIALLY_SUCCEEDED
    assert row["error"]["message"] == (
        f"of its 3 documents, these are incomplete: {children[1]} (failed), {children[2]} (failed)"
    )
    # A retry of the scan repeats what failed, and nothing else.
    retry_document(database, "default", partial)
    assert states(database, partial, *children) == ["split", "succeeded", "queued", "queued"]
    finish(database, *children[1:])
    assert states(database, partial) == [State.SUCCEEDED]
    assert row_of(database, partial)["error"] is None
    with pytest.raises(WrongStateError, match="name a step to begin with"):
        retry_document(database, "default", partial)

    bad, children = split(database)
    finish(database, *children, state=State.FAILED)
    assert states(database, bad) == [State.FAILED]


def test_a_worker_that_lost_its_lease_splits_nothing(database: Database) -> None:
    parent = queue(database)
    zombie = claim(database, parent)
    expire(database, parent)
    recover_expired_leases(database)
    first = NewChild(child_id(parent, {}, 1), "a", None, "markdown", "1", 1, 1, {"pages": {}})
    completion = DocumentCompletion(State.SPLIT, "result-1", children=[first])
    assert not WorkQueue(database, "a").finish(zombie, completion)
    assert list_documents(database, "default", parent=parent) == []
    # One that was cancelled in the meantime isn't split either.
    claimed = claim(database, parent)
    cancel_document(database, "default", parent)
    assert WorkQueue(database, "a").finish(claimed, completion)
    assert states(database, parent) == [State.CANCELLED]
    assert list_documents(database, "default", parent=parent) == []


def test_cancelling_and_deleting_a_scan_reach_its_documents(database: Database) -> None:
    parent, children = split(database, 4)
    finish(database, children[0])
    in_progress = claim(database, children[1])
    with pytest.raises(WrongStateError, match=f"{children[1]} is being processed; cancel it"):
        delete_document(database, "default", parent)
    with pytest.raises(WrongStateError, match="is not finished: it is split"):
        retry_document(database, "default", parent)
    assert cancel_document(database, "default", parent).state is State.SPLIT
    ended = ["succeeded", "processing", "cancelled", "cancelled"]
    assert states(database, *children) == ended
    # The worker that has the other one gives it up.
    assert WorkQueue(database, "a").requeue(in_progress)
    assert states(database, parent, children[1]) == ["cancelled", "cancelled"]
    delete_document(database, "default", parent)
    for document_id in (parent, *children):
        with pytest.raises(DeletedDocumentError):
            load_document(database, "default", document_id)

    # Deleting the last one that is unfinished finishes the scan.
    parent, children = split(database, 2)
    finish(database, children[0])
    delete_document(database, "default", children[1])
    assert states(database, parent) == [State.SUCCEEDED]


def test_the_last_documents_finish_at_once_while_the_scan_is_cancelled(database: Database) -> None:
    """Whatever comes first, the scan ends once, and after them."""
    queue = WorkQueue(database, "a")
    completion = DocumentCompletion(State.SUCCEEDED, "result-1")
    for k in range(10):
        parent, children = split(database, 2)
        claimed = [claim(database, child) for child in children]
        calls: list[Callable[[], object]] = [
            partial(queue.finish, document, completion) for document in claimed
        ]
        if k % 2:
            calls.append(partial(cancel_document, database, "default", parent))
        with ThreadPoolExecutor(3) as threads:
            for call in [threads.submit(call) for call in calls]:
                assert isinstance(call.exception(), WrongStateError | None)
        events = list_events(database, "default", parent)
        ends = [event for event in events if event.data["state"] in FINISHED_STATES]
        assert len(ends) == 1
        assert all(
            ends[0].id > list_events(database, "default", child)[-1].id for child in children
        )
        assert states(database, *children) == [State.SUCCEEDED] * 2
        assert k % 2 or states(database, parent) == [State.SUCCEEDED]


def test_a_rejected_document_is_not_retried_with_its_scan(database: Database) -> None:
    parent, children = split(database, 2)
    finish(database, children[0], state=State.FAILED)
    finish(database, children[1], state=State.NEEDS_REVIEW)
    assert states(database, parent) == [State.SPLIT]
    review = claim_review(database, ADA, children[1])
    decide(database, ADA, review, review.version, Review.REJECTED, reason="a poster")
    assert states(database, parent) == [State.FAILED]
    retry_document(database, "default", parent)
    assert states(database, parent, *children) == ["split", "queued", "failed"]


def test_a_scan_counts_once_in_quotas_and_its_documents_expire_together(
    database: Database, tmp_path: Path
) -> None:
    limit(database, max_unfinished=2, max_pages_per_day=4, retention_days=0.001)
    parent, children = split(database, 3)
    other = queue(database)
    with pytest.raises(QuotaError, match="unfinished documents: 2"):
        create(database)
    assert row_of(database, parent)["page_count"] == 2
    with database.read() as connection:
        assert connection.execute(select(pages_per_day.c.pages)).scalars().all() == [4]
    finish(database, children[0])
    with database.begin() as connection:
        long_ago = {"finished_at": now(-9_000)}
        connection.execute(update(documents).where(documents.c.id == children[0]).values(long_ago))
    expire_unprocessed(database)
    assert expire_documents(database) == 0
    finish(database, *children[1:], other)
    assert row_of(database, parent)["expires_at"] is not None
    with database.begin() as connection:
        has_expiry = documents.c.expires_at.is_not(None)
        connection.execute(update(documents).where(has_expiry).values(expires_at=now(-1)))
    assert expire_documents(database) == 2
    assert purge_documents(database, open_store(str(tmp_path))) == 5
    assert list_documents(database, "default") == []


def test_a_document_that_expires_does_not_hold_its_scan_back(database: Database) -> None:
    parent, children = split(database, 2)
    finish(database, children[0])
    finish(database, children[1], state=State.NEEDS_REVIEW)
    with database.begin() as connection:
        long_ago = {"expires_at": now(-1)}
        connection.execute(update(documents).where(documents.c.id == children[1]).values(long_ago))
    assert expire_documents(database) == 1
    assert states(database, parent) == [State.SUCCEEDED]


def test_another_tenant_sees_and_changes_nothing(database: Database) -> None:
    parent, children = split(database)
    assert list_documents(database, "other", parent=parent) == []
    for change in (cancel_document, delete_document, retry_document, load_document):
        with pytest.raises(UnknownDocumentError, match="there is no document"):
            change(database, "other", children[0])
    assert states(database, parent, *children) == ["split", *["queued"] * 3]

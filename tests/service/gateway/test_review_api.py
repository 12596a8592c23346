"""Routes for reviews: claims, corrections that are checked at once, and decisions."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from llm_ocr.service.access import create_key
from llm_ocr.service.retention import purge_documents
from llm_ocr.service.schema import DocumentState, corrections, deliveries, events, reviews
from tests.service.gateway_server import JPEG, SQLITE_ONLY, Gateway, problem_of, submit
from tests.service.review_documents import (
    MISREAD,
    PRINTED,
    REASONS,
    UNKNOWN_PAGE,
    draw,
    expire_claims,
    result_files,
    submit_for_review,
)

RULES = {
    "the due date 2026-03-31 is before the invoice date 2026-04-01",
    "subtotal + VAT = total: 119.00, not 179.00",
}


class ReviewClient:
    """A reviewer's requests about one document, each with the ETag of the last response."""

    def __init__(self, gateway: Gateway, name: str, document_id: str = "") -> None:
        key = create_key(gateway.database, "default", ["review"], name=name)
        headers = {"Authorization": f"Bearer {key}"}
        self.http = httpx.Client(base_url=gateway.url, headers=headers, verify=False, timeout=60)
        self.path, self.etag = f"/v1/review/{document_id}", '"0"'

    def post(self, route: str, **body: Any) -> httpx.Response:  # noqa: ANN401
        answer = self.http.post(
            f"{self.path}{route}", json=body or None, headers={"If-Match": self.etag}
        )
        self.etag = answer.headers.get("ETag", self.etag)
        return answer

    def done(self, route: str, **body: Any) -> Any:  # noqa: ANN401
        answer = self.post(route, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def correct(self, path: str, value: Any, **more: Any) -> Any:  # noqa: ANN401
        return self.done("/corrections", path=path, value=value, **more)


@pytest.fixture
def document_id(gateway: Gateway, client: httpx.Client) -> str:
    return submit_for_review(gateway, client)


@pytest.fixture
def ada(gateway: Gateway, document_id: str) -> Iterator[ReviewClient]:
    reviewer = ReviewClient(gateway, "ada", document_id)
    with reviewer.http:
        yield reviewer


@pytest.fixture
def ben(gateway: Gateway, document_id: str) -> Iterator[ReviewClient]:
    reviewer = ReviewClient(gateway, "ben", document_id)
    with reviewer.http:
        yield reviewer


def fields_of(details: Any) -> dict[str, Any]:  # noqa: ANN401
    return {field["path"]: field for field in details["records"][0]["fields"]}


def rules_of(details: Any) -> set[str]:  # noqa: ANN401
    return {error["reason"] for error in details["records"][0]["errors"]}


def test_corrections_are_checked_at_once_and_approved(
    gateway: Gateway, client: httpx.Client, document_id: str, ada: ReviewClient
) -> None:
    machine = client.get(f"/v1/documents/{document_id}/result").json()
    assert machine["review"] == {"state": "open", "reasons": REASONS}
    (entry,) = ada.http.get("/v1/review").json()["reviews"]
    assert (entry["document_id"], entry["reasons"]) == (document_id, REASONS)
    assert entry["claimed_by"] is None

    opened = ada.done(":claim")
    assert opened["claimed_by"] == "ada"
    assert len(rules_of(opened)) == 2, rules_of(opened)
    number = fields_of(opened)["invoice_number"]
    assert (number["value"], number["confidence"], number["page"]) == ("2O26-0042", 0.41, 1)
    assert number["status"] == "unconfirmed"
    assert number["box"]

    after = ada.correct("invoice_number", "2026-0042", seconds=3.5, reason="the letter O")
    number = fields_of(after)["invoice_number"]
    assert (number["value"], number["machine_value"]) == ("2026-0042", "2O26-0042")
    assert number["status"] == "corrected"
    after = ada.correct("invoice_date", "2026-03-01")
    assert len(rules_of(after)) == 1
    box = [10.0, 20.0, 30.0, 40.0]
    after = ada.correct("total", "119.00", page=1, box=box)
    assert rules_of(after) == set()
    assert fields_of(after)["total"]["box"] == box
    after = ada.done("/corrections", action="confirm", path="currency")
    assert fields_of(after)["currency"]["status"] == "confirmed"
    after = ada.done("/corrections", action="absent", path="due_date")
    assert fields_of(after)["due_date"]["value"] is None

    approved = ada.done(":approve", seconds=40)
    assert (approved["state"], approved["reviewer"]) == ("approved", "ada")
    document = client.get(f"/v1/documents/{document_id}").json()
    assert document["state"] == "succeeded"
    assert document["timings"]["finished_at"]
    result = client.get(f"/v1/documents/{document_id}/result").json()
    assert result["record"] == {
        **machine["record"],
        "invoice_number": "2026-0042",
        "invoice_date": "2026-03-01",
        "due_date": None,
        "total": "119.00",
    }
    assert result["records"][0]["errors"] == []
    assert result["review"]["corrections"] == 4
    assert (result["state"], result["review"]["state"]) == ("succeeded", "approved")
    evidence = {found["path"]: found for found in result["records"][0]["evidence"]}
    assert (evidence["total"]["matched"], evidence["total"]["box"]) == ("corrected", box)
    assert evidence["currency"]["matched"] == "exact"
    assert "due_date" not in evidence
    again = client.get(f"/v1/documents/{document_id}/result?reviewed=false")
    assert again.json() == machine
    assert ada.http.get("/v1/review").json()["reviews"] == []
    with gateway.database.read() as connection:
        types = connection.execute(select(events.c.type, events.c.data).order_by(events.c.id))
        (waiting, data), (finished, last) = list(types)[-2:]
    assert (waiting, finished) == ("document.needs_review", "document.succeeded")
    assert data["review"]["reasons"] == REASONS
    assert last["review"]["state"] == "approved"
    assert (last["review"]["reviewer"], last["review"]["corrections"]) == ("ada", 4)

    edits = ada.http.get(f"/v1/review/{document_id}/corrections").json()["corrections"]
    assert [edit["action"] for edit in edits] == [*["correct"] * 3, "confirm", "absent"]
    first = edits[0]
    assert (first["old"], first["new"]) == ("2O26-0042", "2026-0042")
    assert (first["seconds"], first["reason"]) == (3.5, "the letter O")
    assert (first["reviewer_name"], first["confidence"]) == ("ada", 0.41)
    assert first["pipeline_revision"] == document["pipeline_revision"]
    assert problem_of(ada.post("/corrections", path="total", value="1"), 409) == "wrong_state"


def test_one_person_at_a_time_and_no_edit_of_an_outdated_version(
    gateway: Gateway, document_id: str, ada: ReviewClient, ben: ReviewClient
) -> None:
    assert problem_of(ada.post("/corrections", path="total", value="1"), 409) == "not_claimed"
    ada.done(":claim")
    assert problem_of(ben.post(":claim"), 409) == "not_claimed"
    ben.etag = ada.etag
    refused = ben.post("/corrections", path="total", value="1")
    assert problem_of(refused, 409) == "not_claimed"
    assert "ada is reviewing" in refused.json()["detail"]
    assert ben.http.post("/v1/review:next").status_code == 204

    # Two windows of one person.
    outdated = ada.etag
    ada.correct("total", "119.00")
    ada.etag = outdated
    assert problem_of(ada.post("/corrections", path="total", value="1"), 412) == "review_changed"
    assert problem_of(ada.post(":approve"), 412) == "review_changed"
    bare = ada.http.post(f"{ada.path}:approve")
    assert problem_of(bare, 428) == "if_match_missing"

    # A claim that has expired goes to who wants it, with the corrections.
    expire_claims(gateway.database)
    taken = ben.http.post("/v1/review:next")
    assert taken.json()["claimed_by"] == "ben"
    assert fields_of(taken.json())["total"]["value"] == "119.00"
    ben.etag = taken.headers["ETag"]
    ada.etag = ben.etag
    assert problem_of(ada.post("/corrections", path="vat", value="1"), 409) == "not_claimed"
    # One that nobody wanted is renewed by the next edit.
    expire_claims(gateway.database)
    assert ben.correct("vat", "19.00")["claimed_by"] == "ben"
    ben.done(":release")
    assert ada.done(":claim")["claimed_by"] == "ada"


@SQLITE_ONLY
def test_values_that_the_schema_rejects_and_lists(ada: ReviewClient) -> None:
    ada.done(":claim")
    wrong = ada.post("/corrections", path="total", value="a lot")
    assert problem_of(wrong, 422) == "invalid_edit"
    assert "valid decimal" in wrong.json()["detail"]
    unknown = ada.post("/corrections", path="totals", value="1")
    assert problem_of(unknown, 422) == "invalid_edit"
    far = ada.post("/corrections", path="lines.9.amount", value="1")
    assert problem_of(far, 422) == "invalid_edit"
    assert problem_of(ada.post(":undo"), 422) == "invalid_edit"

    added = ada.correct("lines.2.amount", 5)
    assert fields_of(added)["lines.2.amount"]["value"] == "5"
    assert "lines.2.description" in fields_of(added)
    assert any("the lines add up to 105" in rule for rule in rules_of(added))
    gone = ada.done("/corrections", action="absent", path="lines.0")
    assert fields_of(gone)["lines.0.amount"]["status"] == "absent"
    assert any("the lines add up to 45" in rule for rule in rules_of(gone))
    # The others keep their paths until the record is approved.
    changed = ada.correct("lines.1.amount", "95.00")
    assert not any("add up to" in rule for rule in rules_of(changed))
    amounts = [line["amount"] for line in changed["records"][0]["content"]["lines"]]
    assert amounts == ["95.00", "5"]
    for _ in range(3):
        back = ada.done(":undo")
    lines = back["records"][0]["content"]["lines"]
    assert [line["amount"] for line in lines] == ["60.00", "40.00"]
    edits = ada.http.get(f"{ada.path}/corrections").json()["corrections"]
    assert [edit["is_undone"] for edit in edits] == [True] * 3


@SQLITE_ONLY
def test_a_value_that_the_machine_could_not_use_is_shown(
    gateway: Gateway, client: httpx.Client
) -> None:
    unreadable = {**MISREAD, "total": "one hundred"}
    document_id = submit_for_review(gateway, client, read=unreadable)
    eve = ReviewClient(gateway, "eve", document_id)
    opened = eve.done(":claim")
    total = fields_of(opened)["total"]
    assert total["value"] is None
    assert total["messages"] == ["'one hundred' was read: Input should be a valid decimal"]
    assert total["status"] == "unconfirmed"
    fixed = fields_of(eve.correct("total", "119.00"))["total"]
    assert fixed["messages"] == []
    eve.http.close()


def test_rejection_fails_the_document_and_a_retry_withdraws_the_review(
    gateway: Gateway, client: httpx.Client, document_id: str, ada: ReviewClient
) -> None:
    ada.done(":claim")
    assert problem_of(ada.post(":reject"), 422) == "invalid_request"
    # What PostgreSQL can't store.
    assert problem_of(ada.post(":reject", reason="a\0b"), 422) == "invalid_request"
    for value in ("a\0b", float("inf")):
        body = json.dumps({"path": "currency", "value": value})
        headers = {"If-Match": ada.etag, "Content-Type": "application/json"}
        answer = ada.http.post(f"{ada.path}/corrections", content=body, headers=headers)
        ada.etag = answer.headers.get("ETag", ada.etag)
        assert answer.status_code in (200, 422), answer.text
    surrogate = '{"path": "currency", "value": "\\ud800"}'
    answer = ada.http.post(f"{ada.path}/corrections", content=surrogate, headers=headers)
    assert problem_of(answer, 422) == "invalid_request"
    ada.done(":reject", reason="it is a reminder")
    document = client.get(f"/v1/documents/{document_id}").json()
    assert (document["state"], document["error"]["code"]) == ("failed", "rejected")
    refused = client.get(f"/v1/documents/{document_id}/result")
    assert problem_of(refused, 409) == "rejected"
    assert "it is a reminder" in refused.json()["detail"]

    # Corrections are content: they go with their document.
    edited = submit_for_review(gateway, client)
    ada.path = f"/v1/review/{edited}"
    ada.done(":claim")
    ada.correct("total", "119.00")
    with gateway.database.read() as connection:
        assert "total" in connection.execute(select(corrections.c.path)).scalars().all()
    client.delete(f"/v1/documents/{edited}")
    purge_documents(gateway.database, gateway.store)
    with gateway.database.read() as connection:
        assert "total" not in connection.execute(select(corrections.c.path)).scalars().all()
        kept = connection.execute(select(reviews.c.document_id)).scalars().all()
    assert kept == [document_id]

    other = submit_for_review(gateway, client)
    assert client.post(f"/v1/documents/{other}:retry", json={}).status_code == 202
    assert ada.http.get("/v1/review").json()["reviews"] == []
    withdrawn = ada.http.get("/v1/review?state=withdrawn").json()["reviews"]
    assert [entry["document_id"] for entry in withdrawn] == [other]
    assert ada.http.post(f"/v1/review/{other}:claim").status_code == 409


@SQLITE_ONLY
def test_webhooks_tell_of_reviews_and_other_tenants_see_nothing(
    gateway: Gateway, client: httpx.Client, ada: ReviewClient, document_id: str
) -> None:
    url = "https://example.com/hook"
    hooked = submit_for_review(gateway, client, webhook=url)
    with gateway.database.read() as connection:
        query = select(events.c.type).join(deliveries, deliveries.c.event_id == events.c.id)
        sent = connection.execute(query.where(deliveries.c.document_id == hooked)).scalars().all()
    assert sent == ["document.needs_review"]

    assert problem_of(client.get("/v1/review"), 403) == "scope_missing"
    with gateway.client("other", "review") as stranger:
        assert stranger.get("/v1/review").json()["reviews"] == []
        path = f"/v1/review/{document_id}"
        assert problem_of(stranger.get(path), 404) == "unknown_document"
        assert problem_of(stranger.post(f"{path}:claim"), 404) == "unknown_document"
    found = ada.http.get("/v1/review?search=SCAN").json()["reviews"]
    assert len(found) == 2
    page = ada.http.get("/v1/review?limit=1").json()
    assert page["reviews"][0]["document_id"] == document_id
    rest = ada.http.get(f"/v1/review?cursor={page['next_cursor']}").json()["reviews"]
    assert [entry["document_id"] for entry in rest] == [hooked]
    assert json.dumps(rest[0]["reasons"]) == json.dumps(REASONS)


def test_classes_are_changed_confirmed_and_undone(gateway: Gateway, client: httpx.Client) -> None:
    certain = {**UNKNOWN_PAGE, "class": "invoice", "path": "knn", "reason": None}
    pages = [{**certain, "page": 1}, {**certain, "page": 2}, {**UNKNOWN_PAGE, "page": 3}]
    document_id = submit_for_review(gateway, client, page_classes=pages, pages=3)
    reviewer = ReviewClient(gateway, "ada", document_id)
    with reviewer.http:
        reviewer.done(":claim")

        def reclassify(value: str, page: int | None = None) -> Any:  # noqa: ANN401
            return reviewer.done("/corrections", action="reclassify", value=value, page=page)

        def classes(details: Any) -> list[str | None]:  # noqa: ANN401
            shown = [details["document_class"], *details["page_classes"]]
            return [one["value"] for one in shown]

        # The guess for page 3 counts for the document only once a person has confirmed it.
        confirmed = reclassify("receipt", 3)
        assert classes(confirmed) == ["invoice", "invoice", "invoice", "receipt"]
        assert [one["is_reviewed"] for one in confirmed["page_classes"]] == [False, False, True]
        assert classes(reclassify("receipt", 1))[0] == "receipt"
        # What is said of the document itself counts more than what follows from its pages.
        assert classes(reclassify("claim"))[0] == "claim"
        assert classes(reclassify("invoice", 3))[0] == "claim"
        undone = reviewer.done(":undo")
        assert classes(undone) == ["claim", "receipt", "invoice", "receipt"]

        for wrong in ("", "../up", "a/b", ".hidden", " ", "b ", 7):
            refused = reviewer.post("/corrections", action="reclassify", value=wrong, page=1)
            assert problem_of(refused, 422) == "invalid_edit", wrong
        absent = reviewer.post("/corrections", action="reclassify", value="claim", page=4)
        assert "no page 4" in absent.json()["detail"]
        both = reviewer.post("/corrections", action="reclassify", value="claim", path="total")
        assert problem_of(both, 422) == "invalid_request"
        assert problem_of(reviewer.post("/corrections", value="1"), 422) == "invalid_request"

        # No field has changed.
        opened = reviewer.http.get(reviewer.path).json()
        assert {one["status"] for one in opened["records"][0]["fields"]} == {"unconfirmed", "empty"}
        reviewer.done(":approve")
        log = reviewer.http.get(f"{reviewer.path}/corrections").json()["corrections"]
    assert [(one["page"], one["old"], one["new"], one["is_undone"]) for one in log] == [
        (3, "receipt", "receipt", False),
        (1, "invoice", "receipt", False),
        (None, "receipt", "claim", False),
        (3, "receipt", "invoice", True),
    ]
    result = client.get(f"/v1/documents/{document_id}/result").json()
    assert result["class"] == "claim"
    found = [(one["page"], one["class"], one["path"]) for one in result["page_classes"]]
    assert found == [(1, "receipt", "reviewer"), (2, "invoice", "knn"), (3, "receipt", "reviewer")]


def test_a_correction_that_is_confirmed_stays_a_correction_with_its_box(
    client: httpx.Client, document_id: str, ada: ReviewClient
) -> None:
    ada.done(":claim")
    box = [300.0, 60.0, 380.0, 80.0]
    ada.correct("invoice_number", "2026-0042.", page=1, box=box)
    ada.correct("invoice_number", "2026-0042")
    ada.done("/corrections", path="invoice_number", action="confirm")
    ada.done(":approve")
    result = client.get(f"/v1/documents/{document_id}/result").json()
    evidence = {one["path"]: one for one in result["records"][0]["evidence"]}
    assert evidence["invoice_number"]["matched"] == "corrected"
    assert evidence["invoice_number"]["box"] == box


def test_values_get_the_boxes_of_their_lines_unless_it_could_be_another_line(
    gateway: Gateway, client: httpx.Client
) -> None:
    printed = {**PRINTED, "vat": "119.00"}
    boxes = draw(printed).boxes
    files = result_files(read=printed, printed=printed)
    content = json.loads(files["document.json"])
    evidence = {one["path"]: one for one in content["records"][0]["evidence"]}
    # Estimates: a wide one, and one that reaches over two rows with the same value.
    assert evidence["invoice_number"]["box"] != boxes["invoice_number"]
    (left, top, *_), (*_, right, bottom) = boxes["vat"], boxes["total"]
    evidence["total"]["box"] = [left, top, right, bottom]
    document_id = submit(client, JPEG, type="invoice")
    changed = {**files, "document.json": json.dumps(content).encode()}
    gateway.finish(document_id, DocumentState.NEEDS_REVIEW, changed, reasons=REASONS)
    with gateway.client("default", "review") as reviewer:
        details = reviewer.get(f"/v1/review/{document_id}").json()
    fields = {field["path"]: field for field in details["records"][0]["fields"]}
    number, total = fields["invoice_number"], fields["total"]
    assert (number["box"], number["is_estimated"]) == (boxes["invoice_number"], False)
    assert (total["box"], total["is_estimated"]) == ([left, top, right, bottom], True)

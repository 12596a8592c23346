"""The conditions under which a worker sends a result to review."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.service.access import set_limits
from llm_ocr.service.database import Database
from llm_ocr.service.documents import new_document_id
from llm_ocr.service.events import list_events
from llm_ocr.service.review.reviews import list_reviews
from llm_ocr.service.review_policy import is_sampled
from tests import documents
from tests.servers.chat import answer, at_once, serving_beside
from tests.service.worker_processes import Service, stop_forking
from tests.waiting import wait_until

SCHEMA = {
    "type": "object",
    "title": "note",
    "properties": {"heading": {"type": "string"}, "count": {"type": "integer", "maximum": 10}},
}
CONDITIONS = {
    "never": set(),
    "always": {"always: every document of the pipeline notes is reviewed"},
    "{unverified: true}": {"unverified: heading: no evidence on the page"},
    "{below_confidence: 0.5}": {"low_confidence: heading: confidence 0.20 < 0.5"},
    "{failed_rule: true}": {"failed_rule: count: 11 is greater than the maximum of 10"},
    "{disagreement: true}": {
        'disagreement: heading: "Something else entirely", but Qwen/Qwen3-VL-8B-Instruct has "Note"'
    },
    "{unmet_expectations: true}": {
        "unmet_expectation: expected one QR Code barcode on page 1, found none"
    },
    "{sample: 100}": {"sample: random sample of 100%"},
    "{sample: 100, unverified: true, failed_rule: true}": {
        "unverified: heading: no evidence on the page",
        "failed_rule: count: 11 is greater than the maximum of 10",
    },
}


@pytest.fixture(autouse=True)
def forking() -> Iterator[None]:
    yield
    stop_forking()


def read_note(body: dict[str, Any]) -> web.Response:
    """Reads pages, and in each a heading that isn't there and a count that is too large."""
    if "response_format" in body:
        heading = "Note" if "Qwen" in body["model"] else "Something else entirely"
        return answer(json.dumps({"heading": heading, "count": 11}))
    page: web.Response = at_once(body)
    return page


def notes_pipeline(review: str) -> str:
    parse: dict[str, Any] = {"step": "parse", "record_schema": SCHEMA, "retries": {"limit": 0}}
    if "disagreement" in review:
        parse["check_model"] = "qwen3-vl-8b"
    steps = [{"step": "extract", "retries": {"limit": 0}}, {"step": "assemble"}, parse]
    if "unmet_expectations" in review:
        met, unmet = {"count": 0}, {"symbology": "QR Code", "count": 1, "page": 1}
        steps.insert(1, {"step": "auxiliary", "barcode": {"expect": [met, unmet]}})
    return f"name: notes\nsteps: {json.dumps(steps)}\nreview: {review}\n"


def test_results_are_reviewed_when_a_condition_holds(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    service = Service(database, database_url, tmp_path)
    set_limits(database, "default", {"retention_days": 1})
    page = documents.picture(tmp_path / "note.png", "A note about nothing.\n" * 5)
    submitted = {
        review: service.submit(page, pipeline=notes_pipeline(review)) for review in CONDITIONS
    }
    with serving_beside(read_note) as engine, service.worker(engine.base_url):
        wait_until(
            lambda: all(
                service.state(document_id) in ("succeeded", "needs_review", "failed")
                for document_id in submitted.values()
            )
        )
    found = {review.document_id: review.reasons for review in list_reviews(database, "default")}
    for review, document_id in submitted.items():
        reasons = found.get(document_id, [])
        assert {f"{r['code']}: {r['message']}" for r in reasons} == CONDITIONS[review], review
        row = service.document(document_id).row
        is_reviewed = bool(CONDITIONS[review])
        assert row["state"] == ("needs_review" if is_reviewed else "succeeded")
        # The machine's result can be read, and says that nobody has reviewed it.
        result = service.result(document_id)
        assert result["record"] == {"heading": "Something else entirely", "count": None}
        assert result.get("review", {}).get("state") == ("open" if is_reviewed else None)
        # It doesn't expire before somebody has.
        assert (row["expires_at"] is None) is is_reviewed
        event = list_events(database, "default", document_id)[-1]
        assert event.type == f"document.{row['state']}"
        assert event.data.get("review", {}).get("reasons", []) == reasons


def test_the_sample_is_a_share_of_the_documents_and_always_the_same() -> None:
    ids = [new_document_id() for _ in range(5000)]
    chosen = [one for one in ids if is_sampled(one, 10)]
    # Six standard deviations.
    assert 370 < len(chosen) < 630
    assert chosen == [one for one in ids if is_sampled(one, 10)]
    assert all(is_sampled(one, 20) for one in chosen)
    assert not any(is_sampled(one, 0) for one in ids)
    assert all(is_sampled(one, 100) for one in ids)

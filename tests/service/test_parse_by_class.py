"""The step parse with a schema for each class of pages: in a worker, in reviews, after a kill."""

import asyncio
import json
import re
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from llm_ocr.service.access import create_key
from llm_ocr.service.database import Database
from llm_ocr.service.events import list_events
from tests.servers.chat import answer, at_once, serving_beside
from tests.service.classified_scans import publish, scan
from tests.service.gateway_server import serving_gateway
from tests.service.worker_processes import Service, stop_forking
from tests.waiting import wait_until

KINDS = ("form", "invoice", "letter")
FORM = {"type": "object", "properties": {"town": {"type": "string"}}}
BILL = {"type": "object", "properties": {"number": {"type": "integer", "maximum": 50}}}


def pipeline(schemas: dict[str, Any], **options: Any) -> str:  # noqa: ANN401
    steps = [
        {"step": "extract", "retries": {"limit": 0}},
        {"step": "classify", "classifier": "pages@production"},
        {"step": "assemble"},
        {"step": "parse", "schemas": schemas, "retries": {"limit": 0}, **options},
    ]
    return f"name: mail\nsteps: {json.dumps(steps)}\nreview: {{failed_rule: true}}\n"


class Reader:
    """Reads pages and forms at once, and invoices when `opened`."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.parsed: list[str] = []

    def __call__(self, body: dict[str, Any]) -> Any:  # noqa: ANN401
        if "response_format" not in body:
            return at_once(body)
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        self.parsed.append(",".join(fields))
        return self._read_bill(body) if "number" in fields else answer('{"town": "Graz"}')

    async def _read_bill(self, body: dict[str, Any]) -> web.Response:
        while not self.opened.is_set():
            await asyncio.sleep(0.02)
        return answer('{"number": 77}')


@pytest.fixture
def service(database: Database, database_url: str, tmp_path: Path) -> Service:
    return Service(database, database_url, tmp_path)


@pytest.mark.long
def test_pages_of_one_class_become_one_record_also_if_the_worker_is_killed(
    service: Service, tmp_path: Path
) -> None:
    publish(service, tmp_path / "index", KINDS)
    kinds = ("form", "form", "invoice", "poster", "invoice", "invoice", "letter")
    reader = Reader()
    with serving_beside(reader) as server:
        document = service.submit(
            scan(tmp_path / "mail.pdf", *kinds), pipeline=pipeline({"form": FORM, "invoice": BILL})
        )
        options: dict[str, Any] = {"lease_seconds": 2.0, "input_mode": "text"}
        with service.worker(server.base_url, **options) as killed:
            wait_until(lambda: len(service.saved(document, "parse")) == 1)
            killed.kill()
        reader.opened.set()
        with service.worker(server.base_url, **options):
            wait_until(lambda: service.state(document) == "needs_review")
        stop_forking()
        assert reader.parsed.count("town") == 1
    result = service.result(document)
    records = [
        (one["class"], one["pages"], one["page"], one["fields"]) for one in result["records"]
    ]
    assert records == [
        ("form", [1, 2], None, {"town": "Graz"}),
        ("invoice", [3], 3, {"number": None}),
        ("invoice", [5, 6], None, {"number": None}),
    ]
    (unknown, letter) = result["unparsed_pages"]
    assert (unknown["page"], unknown["class"]) == (4, None)
    assert unknown["reason"].startswith("its class is not certain: ")
    assert letter == {
        "page": 7,
        "class": "letter",
        "reason": "the pipeline has no schema for the class letter",
    }
    reasons = [reason["message"] for reason in result["review"]["reasons"]]
    too_large = "number: 77 is greater than the maximum of 50"
    assert reasons == [f"invoice, page 3: {too_large}", f"invoice, pages 5 to 6: {too_large}"]
    types = [event.type for event in list_events(service.database, "default", document)]
    assert types.count("document.needs_review") == 1

    # In its review, each record has the rules of its own schema.
    with serving_gateway(service.database, service.storage) as gateway:
        with gateway.client("default", "review") as client:
            path = f"/v1/review/{document}"

            def post(address: str, **body: object) -> httpx.Response:
                version = {"If-Match": client.get(path).headers["ETag"]}
                return client.post(f"{path}{address}", json=body, headers=version)

            def correct(record: int, field: str, value: object) -> httpx.Response:
                edit = {"action": "correct", "record": record, "path": field, "value": value}
                return post("/corrections", **edit)

            claimed = post(":claim").json()["records"]
            assert [record["class"] for record in claimed] == ["form", "invoice", "invoice"]
            assert correct(1, "number", 60).status_code == 422
            assert correct(1, "number", 42).json()["records"][1]["content"] == {"number": 42}
            assert correct(0, "number", 42).status_code == 422
            assert correct(0, "town", "Linz").json()["records"][0]["content"] == {"town": "Linz"}

        key = create_key(service.database, "default", ["review"], name="ada")
        with httpx.Client(base_url=gateway.url, follow_redirects=True) as browser:
            assert browser.post("/login", data={"key": key}).status_code == 200
            page = browser.get(f"/review/documents/{document}").text
    headings = re.findall('<h2 class="record">(.*?)</h2>', page)
    assert headings == ["form, pages 1 to 2", "invoice, page 3", "invoice, pages 5 to 6"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_each_page_is_a_record_or_the_document_says_which_class_is_unknown(
    service: Service, tmp_path: Path
) -> None:
    version = publish(service, tmp_path / "index", KINDS)
    path = scan(tmp_path / "mail.pdf", "form", "form")
    reader = Reader()
    with serving_beside(reader) as server, service.worker(server.base_url, input_mode="text"):
        by_page = service.submit(path, pipeline=pipeline({"form": FORM}, record_per="page"))
        (finished,) = service.wait_until_finished(by_page)
        assert finished.state == "succeeded", finished.row["error"]
        asked = len(server.requests)
        wrong = service.submit(path, pipeline=pipeline({"forms": FORM, "invoice": BILL}))
        (failed,) = service.wait_until_finished(wrong)
        assert len(server.requests) == asked
    stop_forking()
    assert [one["pages"] for one in service.result(by_page)["records"]] == [[1], [2]]
    assert service.result(by_page)["unparsed_pages"] == []
    error = failed.row["error"]
    assert (failed.state, error["code"]) == ("failed", "unknown_class")
    assert error["message"].startswith(
        f"the pipeline mail has schemas for forms, but the classifier {version} has only the "
        "classes form, invoice, letter"
    )

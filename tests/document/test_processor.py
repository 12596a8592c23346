"""One document through its steps, and processes that die on the way."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.models.deepseek_ocr import DEEPSEEK_OCR
from tests import documents
from tests.processes import run_module
from tests.servers.chat import ChatServer, answer, at_once, image_of, serving_beside

PAGES = 30
SCHEMA = {
    "title": "Page",
    "type": "object",
    "properties": {"heading": {"type": "string"}},
}
# Before and after the first, a middle and the last item of each step, and its end.
POINTS = (
    "before:/extract-[^/]*/:1",
    "after:/extract-[^/]*/:1",
    "after:/extract-[^/]*/:17",
    r"before:/extract-[^/]*\.json$:1",
    r"after:/extract-[^/]*\.json$:1",
    "before:/describe-[^/]*/:1",
    "after:/describe-[^/]*/:4",
    r"before:/assemble-[^/]*\.json$:1",
    "after:/assemble-[^/]*/:1",
    "before:/parse-[^/]*/:2",
    "after:/parse-[^/]*/:13",
    r"before:/parse-[^/]*\.json$:1",
)


def other_model(body: dict[str, Any]) -> web.Response:
    """Describes figures, and fills in the schema, by the image alone."""
    digest = hashlib.sha256(image_of(body)).hexdigest()[:12]
    if "response_format" in body:
        return answer(json.dumps({"heading": f"Page {digest}"}))
    return answer(f"A picture whose digest is {digest}.")


def images(requests: list[dict[str, Any]], task: str) -> list[bytes]:
    """The images that a model was asked about, for pages, figures or records."""
    is_record = task == "parse"
    return [image_of(body) for body in requests if ("response_format" in body) == is_record]


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[ChatServer, ChatServer]]:
    with serving_beside(at_once) as pages, serving_beside(other_model) as others:
        yield pages, others


class Processor:
    """Processes a PDF in processes of their own, and tells what is in its checkpoints."""

    def __init__(self, pdf: Path, store: Path, servers: tuple[ChatServer, ChatServer]) -> None:
        self.pdf, self.store, self.servers = pdf, store, servers
        self.schema = pdf.with_name("schema.json")
        self.schema.write_text(json.dumps(SCHEMA))

    def run(self, point: str) -> tuple[int, str]:
        urls = [server.base_url for server in self.servers]
        done = run_module(
            "tests.document.dying_processor", self.pdf, self.store, *urls, self.schema, point
        )
        assert done.returncode in (0, -9), done.stderr
        return done.returncode, done.stdout.splitlines()[-1] if done.returncode == 0 else ""

    def asked(self) -> dict[str, list[bytes]]:
        """The images of the requests since the last call, by step."""
        pages, others = ([*server.requests] for server in self.servers)
        for server in self.servers:
            server.requests.clear()
        found = {"extract": images(pages, "extract"), "describe": images(others, "describe")}
        return {**found, "parse": images(others, "parse")}

    def saved(self, step: str) -> list[dict[str, Any]]:
        return [
            json.loads(path.read_bytes())[0]
            for path in sorted(self.store.glob(f"*/{step}-*/**/*.json"))
        ]


@pytest.fixture(scope="module")
def pdf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return documents.pdf(tmp_path_factory.mktemp("documents") / "book.pdf", PAGES)


@pytest.fixture
def processor(tmp_path: Path, pdf: Path, servers: tuple[ChatServer, ChatServer]) -> Processor:
    found = Processor(pdf, tmp_path / "store", servers)
    found.asked()
    return found


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, pdf: Path, servers: tuple[ChatServer, ChatServer]
) -> str:
    """What comes of the document where nothing is killed, as JSON."""
    never_killed = Processor(pdf, tmp_path_factory.mktemp("whole") / "store", servers)
    status, printed = never_killed.run("never")
    assert status == 0
    asked = never_killed.asked()
    assert {step: len(found) for step, found in asked.items()} == {
        "extract": PAGES,
        "describe": len(never_killed.saved("describe")),
        "parse": PAGES,
    }
    return printed


def test_all_steps_make_one_result(whole: str) -> None:
    result = json.loads(whole)
    assert result["status"] == "ok"
    assert [page["page_number"] for page in result["pages"]] == [*range(1, PAGES + 1)]
    assert {page["outcome"]["model"] for page in result["pages"]} == {DEEPSEEK_OCR.model}
    figures = [figure for page in result["pages"] for figure in page["figures"]]
    assert len(figures) > 5
    assert all(figure["description"] in result["markdown"] for figure in figures)
    assert [record["record_id"] for record in result["records"]] == [
        page["page_id"] for page in result["pages"]
    ]
    assert all(record["fields"]["heading"].startswith("Page ") for record in result["records"])


@pytest.mark.parametrize(
    "point",
    [
        point if number % 4 == 2 else pytest.param(point, marks=pytest.mark.long)
        for number, point in enumerate(POINTS)
    ],
)
def test_a_killed_process_is_resumed_from_its_checkpoints(
    processor: Processor, whole: str, point: str
) -> None:
    assert processor.run(point)[0] == -9
    processor.asked()
    done = {
        "extract": {bytes_of(page["image"]) for page in processor.saved("extract")},
        "describe": {description["figure_id"] for description in processor.saved("describe")},
        "parse": {record["record_id"] for record in processor.saved("parse")},
    }
    status, printed = processor.run("never")
    assert status == 0
    again = processor.asked()
    assert not done["extract"].intersection(again["extract"])
    assert len(again["extract"]) == PAGES - len(done["extract"])
    assert len(again["describe"]) == len(processor.saved("describe")) - len(done["describe"])
    assert len(again["parse"]) == PAGES - len(done["parse"])
    assert printed == whole


def bytes_of(image: str) -> bytes:
    """The bytes of an image in a checkpoint."""
    return base64.urlsafe_b64decode(image)

"""The step classify in a worker: by examples, by a model, for people; versions that stay."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.classification.options import DocumentRule
from llm_ocr.document.classify import classify_document
from llm_ocr.records import ClassificationPath, Outcome, PageClass, PageStatus
from llm_ocr.service.database import Database
from tests.servers.chat import answer, at_once, image_of, prompt_of, serving_beside
from tests.service.classified_scans import publish, scan
from tests.service.worker_processes import Service, stop_forking

PIPELINE = """
name: mail
targets:
  vlm: {{model: qwen2.5-vl-7b, base_url: "{url}"}}
steps:
- step: extract
  retries: {{limit: 0}}
- step: classify
  classifier: pages@production
  target: vlm
  document_class: first
- step: assemble
"""
KINDS = ("form", "invoice", "letter")


@pytest.fixture
def service(database: Database, database_url: str, tmp_path: Path) -> Service:
    return Service(database, database_url, tmp_path)


def say(name: str, logprob: float) -> web.Response:
    body = json.loads(answer(name).body)  # type: ignore[arg-type]
    content = [{"token": name, "logprob": logprob, "bytes": None, "top_logprobs": []}]
    body["choices"][0]["logprobs"] = {"content": content}
    return web.json_response(body)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_pages_are_classified_by_examples_then_by_a_model_and_else_left_to_people(
    service: Service, tmp_path: Path
) -> None:
    reference = publish(service, tmp_path / "index", KINDS)
    # What the model says of the pages that the classifier doesn't know, in turn.
    said = iter([("letter", -0.01), ("letter", -1.2), ("other", -0.01)])

    def reply(body: dict[str, Any]) -> web.Response:
        if "What kind of page" not in prompt_of(body):
            return at_once(body)
        assert body["structured_outputs"]["choice"] == [*KINDS, "other"]
        assert image_of(body).startswith(b"\xff\xd8")
        return say(*next(said))

    kinds = ("form", "form", "invoice", "poster", "poster", "grid")
    with serving_beside(reply) as server:
        pipeline = PIPELINE.format(url=server.base_url)
        with service.worker(server.base_url, tasks=1, concurrency=1):
            document = service.submit(scan(tmp_path / "mail.pdf", *kinds), pipeline=pipeline)
            (finished,) = service.wait_until_finished(document)
    stop_forking()
    assert finished.state == "succeeded", finished.row["error"]
    result = service.result(document)
    rows = result["page_classes"]
    assert [row["page"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["path"] for row in rows[:3]] == ["knn"] * 3
    assert [row["class"] for row in rows[:3]] == ["form", "form", "invoice"]
    assert sorted(row["path"] for row in rows[3:]) == ["review", "review", "vlm"]
    (model,) = [row for row in rows if row["path"] == "vlm"]
    assert (model["class"], model["probability"]) == ("letter", pytest.approx(0.99, abs=0.01))
    assert model["cost"]["requests"] == 1
    reasons = " ".join(row["reason"] or "" for row in rows[3:])
    assert "the model's probability for letter is 0.30 < 0.80" in reasons.replace("The", "the")
    assert "the model finds that it is of no known kind" in reasons.replace("The", "the")
    assert all(row["classifier"] == reference and row["milliseconds"] > 0 for row in rows)
    assert all(row["cost"]["requests"] == 0 for row in rows[:3])
    assert result["class"] == "form"
    (step,) = [step for step in finished.steps if step["name"] == "classify"]
    assert (step["state"], step["items_done"], step["requests"]) == ("succeeded", 6, 3)


def test_a_document_has_the_class_of_most_pages_unless_these_are_for_people() -> None:
    def pages(*found: tuple[str, str]) -> list[PageClass]:
        return [
            PageClass(Outcome(PageStatus.OK), f"a/{k}", "a", ClassificationPath(path), name)
            for k, (path, name) in enumerate(found, 1)
        ]

    form, letter, doubt = ("knn", "form"), ("vlm", "letter"), ("review", "letter")
    majority, first = DocumentRule.MAJORITY, DocumentRule.FIRST
    for found, rule, name in (
        ([letter, form, form], majority, "form"),
        ([letter, form, form], first, "letter"),
        ([letter, form], majority, None),
        ([form, doubt, doubt], majority, None),
        ([form, form, doubt], majority, "form"),
        ([doubt, form, form], first, None),
        ([], majority, None),
    ):
        assert classify_document(pages(*found), rule) == name

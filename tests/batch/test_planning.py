"""A run's plan: `--update` adds the documents that came since, and nothing else; its identity."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import Summary, load_documents, load_pages, run
from llm_ocr.batch.events import Event, Note
from llm_ocr.batch.planning import run_fingerprint
from llm_ocr.messages import ProblemCode
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from llm_ocr.tables.plan import SettingsMismatchError, read_plan
from tests import documents
from tests.servers.chat import ChatServer, prompt_of, serving_beside


@pytest.fixture
def server() -> Any:  # noqa: ANN401
    with serving_beside() as running:
        yield running


def update(tmp_path: Path, server: ChatServer, **chosen: Any) -> Summary:  # noqa: ANN401
    fixed: dict[str, Any] = {"base_url": server.base_url, "shard_pages": 2, "viewer_pages": 0}
    return run(tmp_path / "in", tmp_path / "out", **{"update": True, **fixed, **chosen})


def page_requests(server: ChatServer) -> int:
    return sum("<|grounding|>" in prompt_of(body) for body in server.requests)


def test_update_reads_only_new_and_changed_documents(tmp_path: Path, server: ChatServer) -> None:
    for k in range(3):
        documents.pdf(tmp_path / "in" / f"{k}.pdf")
    update(tmp_path, server, update=False)
    before = list(load_pages(tmp_path / "out"))
    documents.pdf(tmp_path / "in" / "1.pdf", pages=2)
    documents.pdf(tmp_path / "in" / "3.pdf")
    server.requests.clear()
    summary = update(tmp_path, server)
    after = list(load_pages(tmp_path / "out"))
    assert after[:3] == before
    assert [row["name"] for row in after[3:]] == ["1-pdf", "1-pdf", "3"]
    assert page_requests(server) == 3
    assert (summary.documents, summary.pages) == (5, 6)
    assert len(list(load_documents(tmp_path / "out"))) == 5
    assert (tmp_path / "out" / "markdown" / "3.md").exists()
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["documents"] == 5


def test_update_with_nothing_new_sends_no_request(tmp_path: Path, server: ChatServer) -> None:
    source = documents.pdf(tmp_path / "in" / "a.pdf")
    update(tmp_path, server)
    server.requests.clear()
    source.unlink()
    told: list[Event] = []
    update(tmp_path, server, notify=told.append)
    assert any(isinstance(one, Note) and "no new documents found" in one.text for one in told)
    assert server.requests == []
    plan = read_plan(open_store(str(tmp_path / "out")))
    assert plan is not None
    assert (plan.files, len(plan.shards)) == (1, 1)


def test_updates_of_updates_and_later_runs_resume(tmp_path: Path, server: ChatServer) -> None:
    for k in range(3):
        documents.pdf(tmp_path / "in" / f"{k}.pdf")
        update(tmp_path, server)
    documents.pdf(tmp_path / "in" / "not yet.pdf")
    assert update(tmp_path, server, update=False).documents == 3
    with pytest.raises(SettingsMismatchError, match="pages was None"):
        update(tmp_path, server, pages="1")
    assert page_requests(server) == 3


def test_workers_that_update_at_once_agree(tmp_path: Path, server: ChatServer) -> None:
    documents.pdf(tmp_path / "in" / "0.pdf")
    update(tmp_path, server)
    for k in range(1, 5):
        documents.pdf(tmp_path / "in" / f"{k}.pdf", pages=2)
    with ThreadPoolExecutor(2) as threads:
        workers = [
            threads.submit(update, tmp_path, server, shard_index=k, shard_count=2) for k in (0, 1)
        ]
        for worker in workers:
            worker.result()
    update(tmp_path, server)
    assert [row["name"] for row in load_documents(tmp_path / "out")] == list("01234")
    assert page_requests(server) == 9


@pytest.mark.parametrize("choice", [{"limit": 1}, {"sample": 1}])
def test_update_of_a_selection_is_refused(
    tmp_path: Path, server: ChatServer, choice: dict[str, int]
) -> None:
    for k in range(2):
        documents.pdf(tmp_path / "in" / f"{k}.pdf")
    update(tmp_path, server, update=False, **choice)
    with pytest.raises(SettingsMismatchError, match="with `limit` or `sample`") as refused:
        update(tmp_path, server, **choice)
    assert refused.value.code is ProblemCode.UPDATE_OF_SAMPLE
    assert len(list(load_pages(tmp_path / "out"))) == 1


def test_describe_tasks_are_not_part_of_the_run_identity() -> None:
    chosen: dict[str, Any] = {"base_url": "http://there:8000/v1"}
    asked = run_fingerprint(Settings(**chosen), ["/in"])
    assert (
        run_fingerprint(Settings(**chosen, describe_task="data", min_figure_area=0.5), ["/in"])
        == asked
    )
    assert set(asked["prompts"]) == {"document", "free_ocr", "figure", "describe"}  # type: ignore[call-overload]


def test_run_resumes_only_with_the_same_models(tmp_path: Path) -> None:
    documents.pdf(tmp_path / "one.pdf")
    with serving_beside() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url}
        run(tmp_path / "one.pdf", tmp_path / "out", **chosen)
        for name, value in (("describe_model", "qwen3-vl-8b"), ("revision", "abc")):
            with pytest.raises(SettingsMismatchError):
                run(tmp_path / "one.pdf", tmp_path / "out", **{**chosen, name: value})

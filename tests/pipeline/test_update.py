"""`run --update`: documents that came since the run was planned are added, and nothing else."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import Summary, load_documents, load_pages, run
from llm_ocr.pipeline.events import Event, Note
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


def asked(server: ChatServer) -> int:
    return sum("<|grounding|>" in prompt_of(body) for body in server.requests)


def test_only_new_and_changed_documents_are_read(tmp_path: Path, server: ChatServer) -> None:
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
    assert asked(server) == 3
    assert (summary.documents, summary.pages) == (5, 6)
    assert len(list(load_documents(tmp_path / "out"))) == 5
    assert (tmp_path / "out" / "markdown" / "3.md").exists()
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["documents"] == 5


def test_nothing_new_is_said_and_asks_nobody(tmp_path: Path, server: ChatServer) -> None:
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


def test_updates_of_updates_and_later_runs_go_on(tmp_path: Path, server: ChatServer) -> None:
    for k in range(3):
        documents.pdf(tmp_path / "in" / f"{k}.pdf")
        update(tmp_path, server)
    documents.pdf(tmp_path / "in" / "not yet.pdf")
    assert update(tmp_path, server, update=False).documents == 3
    with pytest.raises(SettingsMismatchError, match="pages was None"):
        update(tmp_path, server, pages="1")
    assert asked(server) == 3


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
    assert asked(server) == 9


@pytest.mark.parametrize("choice", [{"limit": 1}, {"sample": 1}])
def test_a_choice_of_documents_is_not_added_to(
    tmp_path: Path, server: ChatServer, choice: dict[str, int]
) -> None:
    for k in range(2):
        documents.pdf(tmp_path / "in" / f"{k}.pdf")
    update(tmp_path, server, update=False, **choice)
    with pytest.raises(SettingsMismatchError, match="can't be combined with --limit or --sample"):
        update(tmp_path, server, **choice)
    assert len(list(load_pages(tmp_path / "out"))) == 1

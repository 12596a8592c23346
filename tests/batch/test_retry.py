"""Pages that ended badly are asked about again, and nothing else is."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_descriptions, load_documents, load_figures, load_pages, run
from llm_ocr.batch.maintenance import retry
from llm_ocr.batch.retry import UnknownStatusError
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from llm_ocr.tables.commits import latest_generations
from tests import documents
from tests.processes import run_module
from tests.servers.chat import (
    ChatServer,
    answer,
    at_once,
    prompt_of,
    serving_beside,
)
from tests.servers.moody import Moody

CHOSEN: dict[str, Any] = {
    "concurrency": 2,
    "render_workers": 1,
    "viewer_pages": 0,
    "fallback": "none",
}
VARYING = {"seconds"}


@pytest.fixture
def moody() -> Moody:
    return Moody({1, 4})


@pytest.fixture
def server(moody: Moody) -> Iterator[ChatServer]:
    with serving_beside(moody.reply) as running:
        yield running


@pytest.fixture
def out(tmp_path: Path, server: ChatServer) -> Path:
    """A run of four documents of two pages, two of which have a page that failed."""
    for k in range(4):
        documents.pdf(tmp_path / "in" / f"{k}.pdf", pages=2)
    chosen = CHOSEN | {"concurrency": 1}
    run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, shard_pages=4, **chosen)
    return tmp_path / "out"


def again(out: Path, server: ChatServer, **arguments: Any) -> Any:  # noqa: ANN401
    settings = Settings(base_url=server.base_url, **{**CHOSEN, **arguments.pop("settings", {})})
    return retry(out, settings, **arguments)


def rows(load: Callable[[Path], Iterator[Any]], out: Path) -> dict[str, Any]:
    found = [{k: v for k, v in row.items() if k not in VARYING} for row in load(out)]
    by_id = {next(iter(row.values())): row for row in found}
    assert len(by_id) == len(found)
    return by_id


def test_retry_requests_only_failed_pages(out: Path, server: ChatServer, moody: Moody) -> None:
    before = rows(load_pages, out)
    failed = {page_id for page_id, row in before.items() if row["status"] == "failed"}
    assert len(failed) == 2
    described = rows(load_descriptions, out)
    moody.refused = set()
    moody.asked.clear()
    server.requests.clear()
    summary = again(out, server)
    assert sorted(moody.asked) == [1, 4]
    assert summary.pages_by_status["ok"] == 8
    after = rows(load_pages, out)
    assert list(after) == list(before)
    assert {k: v for k, v in after.items() if k not in failed} == {
        k: v for k, v in before.items() if k not in failed
    }
    assert {after[k]["status"] for k in failed} == {"ok"}
    assert {after[k]["attempts"] for k in failed} == {2}, "what it cost before is added"
    # Figures of the pages that were read now are described, those of others were already.
    assert len(server.requests) == 2 + 2
    now = rows(load_descriptions, out)
    assert len(now) == len(rows(load_figures, out)) == 8
    assert {k: now[k] for k in described} == described
    assert all("failed" not in row["markdown"] for row in load_documents(out))
    assert {len(list((out / "data" / table).iterdir())) for table in ("pages", "documents")} == {2}
    assert "failed" not in (out / "markdown" / "0.md").read_text()


def test_page_that_fails_again_keeps_its_row(out: Path, server: ChatServer, moody: Moody) -> None:
    before = rows(load_pages, out)
    moody.refused = {4}
    summary = again(out, server, statuses=["failed"], errors=["request_rejected"])
    after = rows(load_pages, out)
    assert summary.pages_by_status["failed"] == 1
    assert sum(row["status"] == "failed" for row in after.values()) == 1
    same = [page_id for page_id in after if after[page_id] == before[page_id]]
    assert len(same) == 7
    moody.asked.clear()
    again(out, server)
    assert moody.asked == [4], "another retry is another try"


def test_nothing_to_retry_sends_no_request_and_changes_nothing(
    out: Path, server: ChatServer, moody: Moody
) -> None:
    server.requests.clear()
    before = latest_generations(open_store(str(out)), "extract")
    again(out, server, statuses=["repetitive", "truncated"])
    again(out, server, errors=["engine_crashed"])
    assert server.requests == []
    assert latest_generations(open_store(str(out)), "extract") == before
    with pytest.raises(UnknownStatusError, match="'bad' is not a known status"):
        again(out, server, statuses=["bad"])


def test_a_longer_answer_replaces_a_cut_one_and_a_shorter_one_does_not(
    tmp_path: Path, server: ChatServer
) -> None:
    documents.pdf(tmp_path / "in" / "a.pdf")
    text = "<|ref|>text<|/ref|><|det|>[[1, 1, 900, 900]]<|/det|>\nThis page has"

    def cut_after(words: str) -> None:
        server.reply = lambda body: answer(f"{text} {words}", "length")

    cut_after("ten words")
    run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, **CHOSEN)
    before = next(load_pages(tmp_path / "out"))
    assert before["markdown"].endswith("ten words")
    cut_after("no")
    again(tmp_path / "out", server, statuses=["truncated"])
    assert next(load_pages(tmp_path / "out")) == before
    cut_after("some more words than that")
    again(tmp_path / "out", server, statuses=["truncated"])
    found = next(load_pages(tmp_path / "out"))
    assert found["markdown"].endswith("more words than that")


def test_documents_that_failed_to_open_are_retried(tmp_path: Path, server: ChatServer) -> None:
    documents.pdf(tmp_path / "in" / "a.pdf", pages=2)
    documents.encrypted_pdf(tmp_path / "in" / "b.pdf", "open")
    server.reply = at_once
    run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, **CHOSEN)
    assert [row["page_number"] for row in load_pages(tmp_path / "out")] == [1, 2, 0]
    again(tmp_path / "out", server, settings={"password": "wrong"})
    assert [row["error_code"] for row in load_pages(tmp_path / "out")][2] == "encrypted"
    server.requests.clear()
    again(tmp_path / "out", server, settings={"password": "open"})
    asked = sum("<|grounding|>" in prompt_of(body) for body in server.requests)
    found = list(load_pages(tmp_path / "out"))
    assert [(row["page_number"], row["status"]) for row in found] == [
        (1, "ok"),
        (2, "ok"),
        (1, "ok"),
    ]
    assert asked == 1
    assert [row["status"] for row in load_documents(tmp_path / "out")] == ["ok", "ok"]


def test_two_workers_share_a_retry(out: Path, server: ChatServer, moody: Moody) -> None:
    moody.refused = {4}
    moody.asked.clear()
    first = {"shard_index": 0, "shard_count": 2, "steal_work": True}
    again(out, server, settings=first)
    assert sorted(moody.asked) == [1, 4]
    second = {"shard_index": 1, "shard_count": 2}
    again(out, server, settings=second)
    assert sorted(moody.asked) == [1, 4], "who comes late finds it done"
    again(out, server, settings=second)
    assert sorted(moody.asked) == [1, 4, 4], "who took part wants another"


POINTS = [
    "after:^retries/:1",
    r"after:^_staging/extract/.*\.json$:1",
    "after:^commits/extract/:1",
    "after:^data/pages/:1",
    "before:^_staging/describe/:1",
    "after:^commits/assemble/:1",
]


def test_killed_retry_resumes_and_repeats_nothing(
    out: Path, server: ChatServer, moody: Moody
) -> None:
    moody.refused = {4}
    moody.asked.clear()
    for point in POINTS:
        done = run_module("tests.batch.dying_retry", out, server.base_url, point)
        assert done.returncode == -9, point
    again(out, server)
    assert moody.asked.count(1) + moody.asked.count(4) <= 4, "one is in flight at two of the kills"
    assert {1, 4} == set(moody.asked)
    assert [row["status"] for row in load_pages(out)].count("ok") == 7
    assert [row["status"] for row in load_documents(out)].count("ok") == 3
    staged = list(open_store(str(out)).list("_staging"))
    assert staged == []

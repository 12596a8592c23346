"""Documents with the same bytes are read once and are there as often as they were given."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_documents, load_figures, load_pages, run
from llm_ocr.report.status import read_status
from tests import documents
from tests.servers.chat import (
    FIGURE,
    ChatServer,
    answer,
    at_once,
    image_of,
    prompt_of,
    refusal,
    serving_beside,
)


def reply(body: dict[str, Any]) -> Any:  # noqa: ANN401
    return answer(FIGURE) if "<|grounding|>" in prompt_of(body) else at_once(body)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving_beside(reply) as running:
        yield running


def read(tmp_path: Path, server: ChatServer, **chosen: Any) -> Any:  # noqa: ANN401
    fixed: dict[str, Any] = {"base_url": server.base_url, "viewer_pages": 0, "fallback": "none"}
    return run(tmp_path / "in", tmp_path / "out", **fixed, **chosen)


def pages_asked(server: ChatServer) -> int:
    return sum("<|grounding|>" in prompt_of(body) for body in server.requests)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """`a` of three pages, `other` of as many bytes, and two copies of `a`, one far behind it."""
    documents.pdf(tmp_path / "in" / "a.pdf", pages=3)
    documents.picture(tmp_path / "in" / "m.png")
    for name in ("b", "z"):
        shutil.copy(tmp_path / "in" / "a.pdf", tmp_path / "in" / f"{name}.pdf")
    data = (tmp_path / "in" / "a.pdf").read_bytes()
    (tmp_path / "in" / "other.pdf").write_bytes(data[:-1] + b" ")
    return tmp_path / "in"


@pytest.mark.parametrize("shard_pages", [2, 100])
def test_duplicates_are_read_once_and_all_listed(
    inputs: Path, tmp_path: Path, server: ChatServer, shard_pages: int
) -> None:
    summary = read(tmp_path, server, shard_pages=shard_pages)
    assert pages_asked(server) == 3 + 3 + 1
    assert (summary.documents, summary.duplicates, summary.pages) == (5, 2, 13)
    assert read_status(str(tmp_path / "out")).duplicates == 2
    by_name: dict[str, list[Any]] = {}
    for row in load_pages(tmp_path / "out"):
        by_name.setdefault(row["name"], []).append(row)
    for copy in ("b", "z"):
        for first, other in zip(by_name["a"], by_name[copy], strict=True):
            same = ("image", "raw_answer", "blocks", "content_hash", "status", "page_number")
            assert all(first[key] == other[key] for key in same if key != "image")
            assert first["image"]["bytes"] == other["image"]["bytes"]
            assert other["markdown"] == first["markdown"].replace("a-p", f"{copy}-p")
            assert (first["attempts"], other["attempts"]) == (1, 0)
            assert other["page_id"].startswith(other["doc_id"])
            assert "same bytes as" in other["notes"][-1]
    figures = {row["name"] for row in load_figures(tmp_path / "out")}
    assert {f"{name}-p{k}-1.jpg" for name in "abz" for k in (1, 2, 3)} < figures
    assert len(list(load_documents(tmp_path / "out"))) == 5
    assert (tmp_path / "out" / "markdown" / "figures" / "z-p2-1.jpg").exists()


def test_duplicate_of_a_failed_page_is_read_itself(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    seen: dict[bytes, int] = {}

    def moody(body: dict[str, Any]) -> Any:  # noqa: ANN401
        image = image_of(body)
        seen[image] = seen.get(image, 0) + 1
        return refusal(400, "not the first time") if seen[image] == 1 else reply(body)

    server.reply = moody
    (inputs / "other.pdf").unlink()
    read(tmp_path, server, max_failed_ratio=1.0, concurrency=1, describe=False)
    found = {(row["name"], row["page_number"]): row for row in load_pages(tmp_path / "out")}
    assert {found["a", k]["status"] for k in (1, 2, 3)} == {"failed"}
    assert {found["b", k]["status"] for k in (1, 2, 3)} == {"ok"}
    assert len(found) == 10


def test_duplicate_of_a_deleted_or_changed_source_is_read_itself(
    inputs: Path, tmp_path: Path, server: ChatServer
) -> None:
    def vanish(event: object) -> None:
        if getattr(event, "stage", "") == "extract":
            (inputs / "a.pdf").unlink(missing_ok=True)

    read(tmp_path, server, notify=vanish)
    found = {(row["name"], row["page_number"]): row for row in load_pages(tmp_path / "out")}
    assert found["a", 0]["error_code"] == "not_found"
    assert {found[name, k]["status"] for name in "bz" for k in (1, 2, 3)} == {"ok"}

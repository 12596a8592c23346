"""Runs whose outputs go to the Hub: the same rows, each once, in few commits."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_descriptions, load_documents, load_figures, load_pages, run
from llm_ocr.report.status import read_status
from llm_ocr.storage.store import open_store
from llm_ocr.tables.schema import Row
from tests import documents
from tests.servers.chat import serving_beside

LOADS = (load_pages, load_figures, load_descriptions, load_documents)


@pytest.fixture
def out(hub: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A dataset repository that isn't there yet."""
    for key, value in hub.items():
        monkeypatch.setenv(key, value)
    return f"hf://datasets/user/{uuid.uuid4().hex}"


def tables(out: str) -> list[list[Row]]:
    return [[{**row, "seconds": 0} for row in load(out)] for load in LOADS]


def files(out: str, folder: str) -> dict[str, bytes]:
    store = open_store(out)
    return {thing.path: store.get(thing.path) for thing in store.list(folder)}


def test_a_run_to_a_repository_gives_the_same_as_on_a_disk(tmp_path: Path, out: str) -> None:
    for name in ("a", "b", "c"):
        documents.pdf(tmp_path / "in" / f"{name}.pdf", pages=4)
    disk = str(tmp_path / "out")
    with serving_beside() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url, "shard_pages": 4}
        there = run(tmp_path / "in", out, **chosen)
        here = run(tmp_path / "in", disk, **chosen)
        asked = len(server.requests)
        again = run(tmp_path / "in", out, **chosen)
        assert len(server.requests) == asked, "all was done"
    assert there.pages == here.pages == again.pages == 12
    assert there.out == out
    assert tables(out) == tables(disk)
    assert files(out, "markdown") == files(disk, "markdown") != {}
    names = {thing.path.split("/")[0] for thing in open_store(out).list("")}
    assert names == {"data", "markdown", "index.html", "summary.json"}
    assert json.loads(open_store(out).get("summary.json"))["out"] == out
    status = read_status(out)
    assert (status.out, status.shards) == (out, 3)
    assert status.stages["extract"].items_committed == 12

"""Runs on buckets: the same tables as on a disk, and what people open beside them."""

import json
import os
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import (
    load_documents,
    load_pages,
    run,
)
from llm_ocr.batch.compacting import compact_run
from llm_ocr.batch.worker import resume
from llm_ocr.report.status import read_status
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from tests import documents
from tests.runs import files, tables
from tests.servers.chat import serving_beside, vllm_shim


@pytest.fixture(params=["s3", "gs", "memory"])
def out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place for a run."""
    fixture = {"s3": "s3", "gs": "gcs"}.get(request.param)
    for key, value in request.getfixturevalue(fixture).items() if fixture else ():
        monkeypatch.setenv(key, value)
    return f"{request.param}://bucket/runs/{uuid.uuid4().hex}"


def test_a_run_gives_the_same_tables_and_files_as_on_a_disk(tmp_path: Path, out: str) -> None:
    for name in ("a", "b", "c"):
        documents.pdf(tmp_path / "in" / f"{name}.pdf", pages=4)
    disk = str(tmp_path / "out")
    with serving_beside() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url, "shard_pages": 5, "flush_pages": 2}
        there = run(tmp_path / "in", out, **chosen)
        here = run(tmp_path / "in", disk, **chosen)
        asked = len(server.requests)
        again = run(tmp_path / "in", out, **chosen)
        assert len(server.requests) == asked, "all was done"
    assert there.pages == here.pages == again.pages == 12
    assert there.pages_by_status == here.pages_by_status
    assert tables(out) == tables(disk)
    assert files(out, "markdown") == files(disk, "markdown") != {}
    assert json.loads(open_store(out).get("summary.json"))["pages"] == 12
    assert b"</html>" in open_store(out).get("index.html")
    assert list(open_store(out).list("_staging")) == []
    status = read_status(out)
    assert (status.shards, status.stages["extract"].items_committed) == (3, 12)
    compact_run(out)
    assert [thing.path for thing in open_store(out).list("data/pages")] == [
        "data/pages/000000-to-000002.parquet"
    ]
    assert tables(out) == tables(disk)


def test_engine_log_goes_to_an_unpredictable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user of the machine put a link where a process of this number might write."""
    everybodys, theirs = tmp_path / "tmp", tmp_path / "theirs"
    for folder in (everybodys, theirs):
        folder.mkdir()
    (everybodys / f"llm-ocr-{os.getpid()}").symlink_to(theirs)
    monkeypatch.setattr(tempfile, "tempdir", str(everybodys))
    documents.pdf(tmp_path / "in" / "a.pdf", pages=1)
    engine: dict[str, Any] = {"engine": "vllm", "vllm": vllm_shim(tmp_path), "describe": False}
    run(tmp_path / "in", f"memory://bucket/{uuid.uuid4().hex}", **engine)
    assert list(theirs.iterdir()) == []
    (log,) = everybodys.glob("*/vllm.log")
    assert log.parent.stat().st_mode & 0o077 == 0


def test_a_run_that_starts_no_engine_leaves_no_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    documents.pdf(tmp_path / "in" / "a.pdf", pages=1)
    with serving_beside() as server:
        out = f"memory://bucket/{uuid.uuid4().hex}"
        run(tmp_path / "in", out, base_url=server.base_url, describe=False)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.long
def test_inputs_in_a_bucket_give_the_same_pages_as_on_a_disk(tmp_path: Path, out: str) -> None:
    folder = tmp_path / "in"
    for name, count in (("a", 3), ("deep/b", 2)):
        path = documents.pdf(folder / f"{name}.pdf", pages=count)
        open_store(out).put(f"in/{name}.pdf", path)
    documents.picture(folder / "c.png")
    open_store(out).put("in/c.png", folder / "c.png")
    with serving_beside() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url, "shard_pages": 2}
        there = run(f"{out}/in", f"{out}/run", **chosen)
        run(folder, tmp_path / "out", **chosen)
    assert there.pages == 6
    kept = ("name", "page_number", "content_hash", "markdown", "status", "image", "blocks")

    def pages(place: str) -> list[dict[str, Any]]:
        rows = [{key: row[key] for key in kept} for row in load_pages(place)]
        for row in rows:
            # Its path is the page's id, which comes from the document's place.
            row["image"] = row["image"]["bytes"]
        return rows

    assert pages(f"{out}/run") == pages(str(tmp_path / "out"))
    assert {row["source_uri"].rpartition("/in/")[0] for row in load_pages(f"{out}/run")} == {out}


def test_each_stage_reads_the_output_of_the_one_before(tmp_path: Path, out: str) -> None:
    documents.pdf(tmp_path / "a.pdf", pages=6)
    with serving_beside() as server:
        run(tmp_path / "a.pdf", out, base_url=server.base_url, stages=("extract",))
        resume(out, Settings(), stages=("assemble",))
    assert [row["page_count"] for row in load_documents(out)] == [6]

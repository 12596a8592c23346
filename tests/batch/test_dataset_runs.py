"""Runs over datasets: the same pages from anywhere, each once, and no more read than is due."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_documents, load_pages, run
from llm_ocr.report.status import read_status
from llm_ocr.sources.inputs import NoInputError
from llm_ocr.storage.store import open_store
from llm_ocr.tables.plan import SettingsMismatchError
from llm_ocr.tables.schema import Row
from tests import documents, shards
from tests.processes import run_module
from tests.servers.chat import ChatServer, prompt_of, serving_beside
from tests.servers.front import in_front_of

QUIET: dict[str, Any] = {"viewer_pages": 0, "concurrency": 4}


@pytest.fixture
def bucket(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for key, value in s3.items():
        monkeypatch.setenv(key, value)
    return f"s3://bucket/{uuid.uuid4().hex}"


def comparable_rows(out: str | Path) -> list[Row]:
    """What must not depend on where the rows came from."""
    columns = ("name", "page_number", "content_hash", "metadata", "markdown", "status", "width")
    return [{key: row[key] for key in columns} for row in load_pages(out)]


def page_requests(server: ChatServer) -> int:
    return sum("<|grounding|>" in prompt_of(body) for body in server.requests)


def test_dataset_on_disk_and_in_a_bucket_give_the_same_pages(tmp_path: Path, bucket: str) -> None:
    here = tmp_path / "in"
    shards.images(here / "train-00000-of-00001.parquet", 6)
    shards.samples(here / "more.tar", 4)
    for path in here.iterdir():
        open_store(f"{bucket}/in").put(path.name, path)
    with serving_beside() as server:
        chosen = {**QUIET, "base_url": server.base_url, "shard_pages": 3}
        there = run(f"{bucket}/in", f"{bucket}/out", **chosen)
        run(here, tmp_path / "out", **chosen)
    assert (there.documents, there.pages, there.failed_ratio) == (10, 10, 0)
    assert comparable_rows(f"{bucket}/out") == comparable_rows(tmp_path / "out")
    assert [row["name"] for row in load_documents(f"{bucket}/out")] == [
        *(f"more-{k:06d}" for k in range(4)),
        *(f"train-00000-{k:06d}" for k in range(6)),
    ]
    for row in load_documents(f"{bucket}/out"):
        uri, _, number = row["source_uri"].partition("#row=")
        assert uri.startswith(f"{bucket}/in/")
        assert json.loads(row["metadata"])["id"] == int(number)
    assert read_status(f"{bucket}/out").documents == 7, "nobody counted the tar: it is one"


def test_rows_with_several_pages_are_documents(tmp_path: Path) -> None:
    path = shards.albums(tmp_path / "fine.parquet", [1, 4, 2])
    with serving_beside() as server:
        summary = run(f"{path}?column=images", tmp_path / "out", base_url=server.base_url, **QUIET)
    assert (summary.documents, summary.pages) == (3, 7)
    rows = list(load_documents(tmp_path / "out"))
    assert [row["page_count"] for row in rows] == [1, 4, 2]
    assert [json.loads(row["metadata"]) for row in rows] == [
        {"source": f"mix {k}"} for k in range(3)
    ]
    assert (tmp_path / "out" / "markdown" / "fine-000001.md").exists()


def test_worker_reads_only_its_own_row_groups(
    tmp_path: Path, bucket: str, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, group, large = 24, 4, b"x" * 1_000_000
    pictures = [shards.picture(k) for k in range(rows)]
    columns: dict[str, list[Any]] = {
        "image": pictures,
        "unread": [[large[:-k] + b"y" * k] for k in range(1, rows + 1)],
    }
    path = shards.table(tmp_path / "a.parquet", columns, group=group)
    open_store(bucket).put("a.parquet", path)
    mine = sum(map(len, pictures[:group])) * 3
    with in_front_of(s3["AWS_ENDPOINT_URL"]) as front, serving_beside() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", front.base_url)
        chosen = {**QUIET, "base_url": server.base_url, "shard_pages": group, "shard_count": 2}
        chosen |= {"stages": ("extract",), "render_workers": 1}
        source = f"{bucket}/a.parquet?column=image"
        run(source, f"{bucket}/plan", **{**chosen, "shard_index": 0, "stages": ()})
        footer = front.of("a.parquet")
        assert 0 < footer < 70_000, "planning reads no row"
        for index in range(2):
            front.read.clear()
            run(source, f"{bucket}/out", shard_index=index, **chosen)
            # For the first one its planning, and for each of three shards the footer.
            planning = footer if index == 0 else 0
            assert mine < front.of("a.parquet") - planning < mine + 3 * footer + 20_000
            assert page_requests(server) == (index + 1) * rows // 2
        names = [row["name"] for row in load_pages(f"{bucket}/out")]
    assert names == [f"a-{k:06d}" for k in range(rows)]


@pytest.mark.parametrize("name", ["a.parquet", "a.tar"])
def test_dataset_file_is_divided_among_workers_and_in_updates(tmp_path: Path, name: str) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    if name == "a.tar":
        shards.samples(source / name, 160)
    else:
        shards.images(source / name, 160, group=160)
    with serving_beside() as server:
        chosen = {**QUIET, "base_url": server.base_url, "shard_count": 2, "stages": ("extract",)}
        run(source, out, shard_index=0, **chosen)
        assert 80 - 32 < page_requests(server) < 80 + 32
        shards.images(source / "b.parquet", 70, group=70)
        run(source, out, shard_index=1, update=True, **chosen)
        assert 160 < page_requests(server) < 160 + 70
        run(source, out, shard_index=0, **chosen)
        assert page_requests(server) == 230
    names = [row["name"] for row in load_pages(out)]
    assert names == [*(f"a-{k:06d}" for k in range(160)), *(f"b-{k:06d}" for k in range(70))]


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    [
        r"after:^_staging/extract/.*\.json$:3",
        "before:^commits/extract/:2",
        "after:^data/pages/:3",
    ],
)
def test_killed_run_resumes(tmp_path: Path, point: str) -> None:
    source = tmp_path / "in"
    shards.images(source / "a.parquet", 9, group=5)
    shards.samples(source / "b.tar", 7)

    def once(out: str, server: ChatServer, point: str) -> int:
        to = (tmp_path / out, server.base_url, point)
        return run_module("tests.batch.dying_run", source, *to).returncode

    with serving_beside() as server:
        assert once("killed", server, point) == -9
        before = read_status(str(tmp_path / "killed")).stages["extract"]
        finished = before.items_committed + before.items_staged
        server.requests.clear()
        assert once("killed", server, "never") == 0
        assert page_requests(server) == 16 - finished
        assert once("whole", server, "never") == 0
    assert comparable_rows(tmp_path / "killed") == comparable_rows(tmp_path / "whole")
    assert len(comparable_rows(tmp_path / "killed")) == 16


def test_broken_rows_and_files_do_not_stop_the_run(tmp_path: Path) -> None:
    shards.images(tmp_path / "in" / "a.parquet", 3)
    shards.table(tmp_path / "in" / "b.parquet", {"image": [shards.picture(9), None, b"<html>"]})
    (tmp_path / "in" / "c.parquet").write_bytes(b"this is no Parquet")
    with serving_beside() as server:
        summary = run(tmp_path / "in", tmp_path / "out", base_url=server.base_url, **QUIET)
    assert summary.documents == summary.pages == 7
    assert summary.errors == {"corrupt_document": 1, "empty_file": 1, "unsupported_format": 1}
    failed = {row["name"]: row["error"] for row in load_documents(tmp_path / "out") if row["error"]}
    assert set(failed) == {"b-000001", "b-000002", "c"}
    assert failed["c"].startswith(f"{tmp_path}/in/c.parquet: it is no Parquet file")


def test_selection_is_part_of_the_run_identity(tmp_path: Path) -> None:
    path = shards.images(tmp_path / "a.parquet", 8)
    out = tmp_path / "out"
    with serving_beside() as server:
        chosen = {**QUIET, "base_url": server.base_url}
        assert run(path, out, sample=3, **chosen).documents == 3
        again = len(server.requests)
        assert run(path, out, sample=3, seed=0, **chosen).documents == 3
        assert len(server.requests) == again
        others: list[dict[str, Any]] = [{"sample": 3, "seed": 1}, {"sample": 4}, {"limit": 3}, {}]
        for other in others:
            with pytest.raises(SettingsMismatchError, match="holds a run with different settings"):
                run(path, out, **other, **chosen)
        # Where all is read, no seed was used.
        run(path, tmp_path / "all", seed=1, **chosen)
        assert run(path, tmp_path / "all", seed=2, **chosen).documents == 8


def test_limit_and_sample_are_for_files_too(tmp_path: Path) -> None:
    for k in range(6):
        documents.pdf(tmp_path / "in" / f"{k}.pdf")
    with serving_beside() as server:
        chosen = {**QUIET, "base_url": server.base_url}
        run(tmp_path / "in", tmp_path / "first", limit=2, **chosen)
        run(tmp_path / "in", tmp_path / "some", sample=3, seed=5, **chosen)
    assert [row["name"] for row in load_documents(tmp_path / "first")] == ["0", "1"]
    assert len({row["name"] for row in load_documents(tmp_path / "some")}) == 3


def test_unreadable_dataset_is_reported_before_the_run(tmp_path: Path) -> None:
    path = shards.table(tmp_path / "a.parquet", {"id": [1, 2]})
    with pytest.raises(NoInputError, match="no column holds bytes of images or PDFs"):
        run(path, tmp_path / "out", base_url="http://127.0.0.1:9/v1")
    assert not list((tmp_path / "out").glob("plans/*"))

"""Runs whose outputs go to the Hub: the same rows, each once, in few commits."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr import load_pages, run
from llm_ocr.batch.compacting import compact_run
from llm_ocr.report.status import NoRunError, read_status
from llm_ocr.storage.store import StorageError, create_repository, open_store
from tests import documents
from tests.runs import files, tables
from tests.servers.chat import serving_beside
from tests.servers.hub import serving_hub
from tests.servers.hub_state import Hub


@pytest.fixture
def out(hub: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A dataset repository that isn't there yet."""
    for key, value in hub.items():
        monkeypatch.setenv(key, value)
    return f"hf://datasets/user/{uuid.uuid4().hex}"


@pytest.mark.long
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
    assert names == {"data", "markdown", "index.html", "README.md", "summary.json"}
    assert json.loads(open_store(out).get("summary.json"))["out"] == out
    status = read_status(out)
    assert (status.out, status.shards) == (out, 3)
    assert status.stages["extract"].items_committed == 12
    compact_run(out)
    assert [thing.path for thing in open_store(out).list("data/pages")] == [
        "data/pages/000000-to-000002.parquet"
    ]
    assert tables(out) == tables(disk)


SHARDS, LIMIT, KILLS = 40, 10, 6
# Two have the same shards, and the last one's are nobody's.
INDEXES, COUNT = (0, 1, 1, 2), 4
SMALL = ("--shard-pages", "1", "--flush-seconds", "0.3", "--no-describe", "--viewer-pages", "0")
ONE_RENDERER = ("--render-workers", "1")

# What a user's own tools see of the pages.
READER = """
import datasets
files = "data/pages/*.parquet"
rows = datasets.load_dataset("user/once", data_files=files, split="train", streaming=True)
print(*(row["page_id"] for row in rows.select_columns("page_id")), sep="\\n")
"""


class Workers:
    """Workers of one run; those that are killed are started again."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, {**os.environ, **environment}
        self._chance = random.Random(7)
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._writes, self._next, self._lock = 0, 20, threading.Lock()
        self.killed, self.killed_at_commits = 0, 0

    def start(self, place: int) -> None:
        share = ("--shard-index", str(INDEXES[place]), "--shard-count", str(COUNT))
        command = [sys.executable, "-m", "llm_ocr", *self._command, *share, "--steal-work"]
        self._running[place] = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL
        )

    def watch(self, request: web.Request) -> None:
        """At some of the writes to the Hub one worker dies; at the first commits all, of which two
        start again. The first commit fails, the second one's answer reaches nobody."""
        if request.method != "POST":
            return
        with self._lock:
            if "/commit/" in request.path and self.killed_at_commits < 2:
                self.killed_at_commits += 1
                for place in self._running:
                    self._kill(place)
                for place in (0, 1):
                    self.start(place)
                if self.killed_at_commits == 1:
                    raise web.HTTPServiceUnavailable
            if request.path.endswith("/batch") and self.killed < KILLS:
                self._writes += 1
                if self._writes == self._next:
                    self._next += self._chance.randint(15, 40)
                    self.killed += 1
                    place = self._chance.choice(list(self._running))
                    self._kill(place)
                    self.start(place)

    def _kill(self, place: int) -> None:
        worker = self._running[place]
        worker.kill()
        worker.wait()

    def wait(self) -> list[int]:
        """The exit codes of the last ones."""
        while True:
            with self._lock:
                found = dict(self._running)
            codes = [worker.wait(timeout=300) for worker in found.values()]
            with self._lock:
                if found == self._running:
                    return codes


@pytest.mark.long
def test_every_page_is_published_once_despite_overlap_and_kills(tmp_path: Path) -> None:
    for k in range(SHARDS):
        documents.pdf(tmp_path / "in" / f"{k:02d}.pdf", pages=1)
    out, alone = "hf://datasets/user/once", str(tmp_path / "alone")
    hub = Hub(commit_limit=LIMIT)
    with serving_hub(tmp_path / "home", hub) as environment, serving_beside() as server:
        command = ["run", str(tmp_path / "in"), "--out", out, "--base-url", server.base_url, *SMALL]
        command += ONE_RENDERER
        # They start often: what Python compiles is kept, whatever this machine does otherwise.
        compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path / "py"), "PYTHONDONTWRITEBYTECODE": ""}
        workers = Workers(command, {**environment, **compiled})
        hub.watch = workers.watch
        for place in range(len(INDEXES)):
            workers.start(place)
        assert workers.wait() == [0, 0, -signal.SIGKILL, -signal.SIGKILL]
        hub.watch = lambda request: None
        read = subprocess.run(
            [sys.executable, "-c", READER], env={**os.environ, **environment}, capture_output=True
        )
        run(tmp_path / "in", alone, base_url=server.base_url, shard_pages=1, describe=False)
        with pytest.MonkeyPatch.context() as patch:
            for key, value in environment.items():
                patch.setenv(key, value)
            assert tables(out) == tables(alone)
            summary = json.loads(open_store(out).get("summary.json"))
            data = {thing.path for thing in open_store(out).list("data")}
    assert (workers.killed, workers.killed_at_commits) == (KILLS, 2)
    assert summary["pages"] == sum(summary["pages_by_status"].values()) == SHARDS
    assert len(data) == SHARDS * len({path.split("/")[1] for path in data})
    repository = hub.repositories["dataset", "user/once"]
    assert len(repository.commits) - 1 <= LIMIT < SHARDS
    assert read.returncode == 0, read.stderr
    page_ids = read.stdout.decode().split()
    assert sorted(page_ids) == sorted(row["page_id"] for row in load_pages(alone))


def test_a_run_in_a_bucket_or_staged_elsewhere(tmp_path: Path, out: str) -> None:
    documents.pdf(tmp_path / "a.pdf", pages=2)
    bucket, staging = out.replace("datasets", "buckets") + "/runs/1", str(tmp_path / "staging")
    disk = str(tmp_path / "out")
    with serving_beside() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url, "public": True}
        run(tmp_path / "a.pdf", disk, base_url=server.base_url)
        run(tmp_path / "a.pdf", bucket, **chosen)
        run(tmp_path / "a.pdf", out, staging=staging, **chosen)
    assert tables(bucket) == tables(out) == tables(disk)
    assert read_status(out, staging).stages["extract"].items_committed == 2
    # From the repository alone, as the place it was made in isn't told.
    assert read_status(out).stages["extract"].items_committed == 2
    assert (tmp_path / "staging" / "plans").exists()
    with pytest.raises(NoRunError, match="holds the tables of another run"):
        run(tmp_path / "a.pdf", out)


def test_nothing_is_published_before_all_shards_are_committed(tmp_path: Path, out: str) -> None:
    for k in range(2):
        documents.pdf(tmp_path / "in" / f"{k}.pdf", pages=1)
    with serving_beside() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url, "shard_pages": 1, "shard_count": 2}
        run(tmp_path / "in", out, shard_index=0, **chosen)
        assert [thing.path for thing in open_store(out).list("")] == []
        assert read_status(out).stages["extract"].items_committed == 1
        run(tmp_path / "in", out, shard_index=1, **chosen)
    assert [row["name"] for row in load_pages(out)] == ["0", "1"]


@pytest.mark.parametrize("kind", ["datasets", "buckets"])
def test_inputs_on_the_hub_give_the_same_pages_as_on_a_disk(
    tmp_path: Path, out: str, kind: str
) -> None:
    place = out.replace("datasets", kind)
    folder = tmp_path / "in"
    create_repository(place, private=True)
    for name, count in (("a", 1), ("deep/b", 2)):
        documents.pdf(folder / f"{name}.pdf", pages=count)
    open_store(place).put_many(
        {f"scans/{name}.pdf": folder / f"{name}.pdf" for name in ("a", "deep/b")}, "Scans"
    )
    given = f"{place}@main/scans" if kind == "datasets" else f"{place}/scans"
    with serving_beside() as server:
        there = run(given, tmp_path / "there", base_url=server.base_url)
        run(folder, tmp_path / "here", base_url=server.base_url)
        run(f"{place}/scans/a.pdf", tmp_path / "one", base_url=server.base_url)
    assert there.pages == 3
    kept = ("name", "page_number", "content_hash", "markdown", "status")
    found, expected = (
        [[row[key] for key in kept] for row in load_pages(tmp_path / one)]
        for one in ("there", "here")
    )
    assert found == expected
    assert {row["source_uri"] for row in load_pages(tmp_path / "one")} == {f"{place}/scans/a.pdf"}


def test_a_run_does_not_go_to_a_revision(out: str) -> None:
    with pytest.raises(StorageError, match="a run can't be written to a revision"):
        run("nothing", f"{out}@main")

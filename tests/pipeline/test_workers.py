"""Several workers on one run: each page once, whoever dies."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from aiohttp import web

from llm_ocr import load_pages, run
from llm_ocr.pipeline.share import NoSuchShareError, Share, share_of
from llm_ocr.report.status import read_status
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from llm_ocr.tables.plan import Plan, Shard
from tests import documents
from tests.runs import tables
from tests.servers.chat import at_once, serving_beside

SHARDS, PAGES = 12, 24
# Two have the same shards, and the last one's are nobody's.
INDEXES, COUNT = (0, 1, 1), 4
RUN = ("--shard-pages", "2", "--part-seconds", "0.3", "--concurrency", "2", "--viewer-pages", "0")


class Killer:
    """Answers pages; at some of the answers it kills a worker with SIGKILL."""

    def __init__(self, at: Sequence[int]) -> None:
        self.workers: list[subprocess.Popen[bytes]] = []
        self._at, self._asked, self._lock = set(at), 0, Lock()

    def reply(self, body: dict[str, Any]) -> web.Response:
        with self._lock:
            self._asked += 1
            if self._asked in self._at and self.workers:
                self.workers.pop(0).send_signal(signal.SIGKILL)
        return at_once(body)


def start(
    source: Path, out: str, base_url: str, index: int, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    share = ("--shard-index", str(index), "--shard-count", str(COUNT), "--until-complete")
    command = ["run", str(source), "--out", out, "--base-url", base_url, *RUN, *share]
    return subprocess.Popen(
        [sys.executable, "-m", "llm_ocr", *command],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
    )


@pytest.fixture(params=["disk", "s3"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, dict[str, str]]:
    """Where the run goes, and the environment that a worker needs to get there."""
    if request.param == "disk":
        return str(tmp_path / "out"), {}
    environment: dict[str, str] = request.getfixturevalue("s3")
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    return f"s3://bucket/runs/{uuid.uuid4().hex}", environment


def test_every_page_is_there_once_though_workers_overlap_and_are_killed(
    tmp_path: Path, place: tuple[str, dict[str, str]]
) -> None:
    out, environment = place
    alone = str(tmp_path / "alone")
    for k in range(SHARDS):
        documents.pdf(tmp_path / "in" / f"{k:02d}.pdf", pages=PAGES // SHARDS)
    killer = Killer(at=(5, 14))
    with serving_beside(killer.reply) as server:
        workers = [start(tmp_path / "in", out, server.base_url, k, environment) for k in INDEXES]
        killer.workers = workers[:2]
        codes = [worker.wait(timeout=120) for worker in workers]
        run(tmp_path / "in", alone, base_url=server.base_url, shard_pages=2)
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert tables(out) == tables(alone)
    status = read_status(out)
    assert {stage.shards_committed for stage in status.stages.values()} == {SHARDS}
    store = open_store(out)
    assert len(list(store.list("data/pages"))) == SHARDS
    assert len(list(store.list("markdown"))) >= SHARDS
    assert store.exists("summary.json")


def test_a_worker_without_until_complete_does_its_share_alone(tmp_path: Path) -> None:
    for k in range(4):
        documents.pdf(tmp_path / "in" / f"{k}.pdf", pages=1)
    out = tmp_path / "out"
    with serving_beside() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url, "shard_pages": 1, "shard_count": 2}
        first = run(tmp_path / "in", out, shard_index=0, **chosen)
        assert {row["name"] for row in load_pages(out)} == {"0", "2"}
        assert first.pages == 2
        assert not (out / "summary.json").exists()
        run(tmp_path / "in", out, shard_index=1, **chosen)
    assert [row["name"] for row in load_pages(out)] == ["0", "1", "2", "3"]
    assert (out / "summary.json").exists()


def test_shares_are_apart_and_together_the_whole() -> None:
    plan = Plan(tuple(Shard(k, ()) for k in range(10)), {})
    parts = [Share(index, 3).of(plan).shards for index in range(3)]
    assert sorted(shard.number for part in parts for shard in part) == list(range(10))


@pytest.mark.parametrize(
    ("environment", "share"),
    [
        ({}, Share(0, 1)),
        ({"CLOUD_RUN_TASK_INDEX": "3", "CLOUD_RUN_TASK_COUNT": "8"}, Share(3, 8)),
        ({"AWS_BATCH_JOB_ARRAY_INDEX": "1", "AWS_BATCH_JOB_ARRAY_SIZE": "2"}, Share(1, 2)),
        ({"RANK": "0", "WORLD_SIZE": "4"}, Share(0, 4)),
        ({"RANK": "0"}, Share(0, 1)),
    ],
)
def test_platforms_say_which_worker_it_is(environment: dict[str, str], share: Share) -> None:
    assert share_of(Settings(), environment) == share
    assert share_of(Settings(shard_index=1, shard_count=5), environment) == Share(1, 5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shard_index": 4, "shard_count": 4}, "the last of 4 is 3"),
        ({"shard_index": 1}, "belong together"),
        ({"shard_count": 3}, "belong together"),
    ],
)
def test_a_share_that_there_is_none_of_is_told(settings: dict[str, int], said: str) -> None:
    with pytest.raises(NoSuchShareError, match=said):
        share_of(Settings(**settings), {})  # type: ignore[arg-type]

"""Workers that die and come back, on a store that goes away and comes back: each page once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from aiohttp import web

from llm_ocr import run
from llm_ocr.report.status import read_status
from llm_ocr.storage.store import open_store
from tests import documents
from tests.runs import tables
from tests.servers.chat import at_once, serving_beside
from tests.servers.s3 import BUCKET, S3Server, serving_s3

SHARDS = 40
# Two of the four have the same shards, and a fifth's are nobody's.
INDEXES, COUNT = (0, 1, 1, 2), 4
# Answers at which a worker is killed, and at which the store's server is started again.
KILLS, RESTART = (5, 12, 20, 27, 33), 16
SECONDS = 240


class Fate:
    """Answers pages; at some answers it kills a worker, chosen by chance."""

    def __init__(self) -> None:
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.kills = 0
        self.answers = 0
        self._chance, self._lock = random.Random(4), Lock()

    def reply(self, body: dict[str, Any]) -> web.Response:
        with self._lock:
            self.answers += 1
            if self.answers in KILLS and self.running:
                self._chance.choice(list(self.running.values())).send_signal(signal.SIGKILL)
                self.kills += 1
        return at_once(body)


def test_workers_killed_at_random_and_the_server_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for k in range(SHARDS):
        documents.pdf(tmp_path / "in" / f"{k:02d}.pdf", pages=1)
    fate, out = Fate(), f"s3://{BUCKET}/runs/once"
    with serving_s3(tmp_path / "s3") as s3, serving_beside(fate.reply) as server:
        for key, value in s3.environment.items():
            monkeypatch.setenv(key, value)
        _work_until_done(fate, s3, tmp_path / "in", out, server.base_url)
        alone = str(tmp_path / "alone")
        run(tmp_path / "in", alone, base_url=server.base_url, shard_pages=1)
        assert tables(out) == tables(alone)
        status, store = read_status(out), open_store(out)
        assert {stage.shards_committed for stage in status.stages.values()} == {SHARDS}
        assert status.stages["extract"].statuses == {"ok": SHARDS}
        assert len(list(store.list("data/pages"))) == SHARDS
        assert store.exists("summary.json")
    assert fate.kills == len(KILLS)


def _work_until_done(fate: Fate, s3: S3Server, source: Path, out: str, base_url: str) -> None:
    """Four workers; one that was killed is started again."""
    started = [(index, _start(source, out, base_url, index)) for index in INDEXES]
    fate.running = {place: process for place, (_, process) in enumerate(started)}
    is_restarted = False
    give_up = time.monotonic() + SECONDS
    while fate.running:
        assert time.monotonic() < give_up, f"{fate.answers} answers, {fate.kills} kills"
        if fate.answers >= RESTART and not is_restarted:
            is_restarted = True
            s3.restart()
        for place, process in list(fate.running.items()):
            code = process.poll()
            if code == -signal.SIGKILL:
                fate.running[place] = _start(source, out, base_url, INDEXES[place])
            elif code is not None:
                assert code == 0
                del fate.running[place]
        time.sleep(0.05)
    assert is_restarted


def _start(source: Path, out: str, base_url: str, index: int) -> "subprocess.Popen[bytes]":
    share = ["--shard-index", str(index), "--shard-count", str(COUNT), "--until-complete"]
    pace = ["--shard-pages", "1", "--part-seconds", "0.3", "--concurrency", "2"]
    command = ["run", str(source), "--out", out, "--base-url", base_url, *pace, *share]
    return subprocess.Popen(
        [sys.executable, "-m", "llm_ocr", *command, "--viewer-pages", "0"],
        env=dict(os.environ),
        stdout=subprocess.DEVNULL,
    )

"""Workers that die and come back, on a disk, and on a store that does so too: each page once."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from tests.servers.s3 import BUCKET, serving_s3

SHARDS = 40
# Two of the four have the same shards, and a fifth's are nobody's.
INDEXES, COUNT = (0, 1, 1, 2), 4
# Answers at which a worker is killed, and at which the store's server is started again.
KILLS, RESTART = (5, 12, 20, 27, 33), 16
SECONDS = 600


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


@contextmanager
def _place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Where the run goes, and what makes it go away for a moment."""
    if name == "disk":
        yield str(tmp_path / "once"), lambda: None
        return
    with serving_s3(tmp_path / "s3") as s3:
        for key, value in s3.environment.items():
            monkeypatch.setenv(key, value)
        yield f"s3://{BUCKET}/runs/once", s3.restart


@pytest.mark.long
@pytest.mark.parametrize("name", ["disk", "s3"])
def test_workers_killed_at_random_and_the_server_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for k in range(SHARDS):
        documents.pdf(tmp_path / "in" / f"{k:02d}.pdf", pages=1)
    fate, place = Fate(), _place(name, tmp_path, monkeypatch)
    with place as (out, restart), serving_beside(fate.reply) as server:
        _work_until_done(fate, restart, tmp_path / "in", out, server.base_url)
        alone = str(tmp_path / "alone")
        run(tmp_path / "in", alone, base_url=server.base_url, shard_pages=1)
        assert tables(out) == tables(alone)
        status, store = read_status(out), open_store(out)
        assert {stage.shards_committed for stage in status.stages.values()} == {SHARDS}
        assert status.stages["extract"].statuses == {"ok": SHARDS}
        assert len(list(store.list("data/pages"))) == SHARDS
        assert store.exists("summary.json")
    assert fate.kills == len(KILLS)


def _work_until_done(
    fate: Fate, restart: Callable[[], object], source: Path, out: str, base_url: str
) -> None:
    """Four workers; one that was killed is started again."""
    started = [(index, _start(source, out, base_url, index)) for index in INDEXES]
    fate.running = {place: process for place, (_, process) in enumerate(started)}
    is_restarted = False
    give_up = time.monotonic() + SECONDS
    while fate.running:
        assert time.monotonic() < give_up, f"{fate.answers} answers, {fate.kills} kills"
        if fate.answers >= RESTART and not is_restarted:
            is_restarted = True
            restart()
        for place, process in list(fate.running.items()):
            code = process.poll()
            # Exit code 4: on a busy machine the server may be away for longer than a worker waits.
            if code in (-signal.SIGKILL, 4):
                fate.running[place] = _start(source, out, base_url, INDEXES[place])
            elif code is not None:
                assert code == 0
                del fate.running[place]
        time.sleep(0.05)
    assert is_restarted


def _start(source: Path, out: str, base_url: str, index: int) -> "subprocess.Popen[bytes]":
    share = ["--shard-index", str(index), "--shard-count", str(COUNT), "--steal-work"]
    pace = ["--shard-pages", "1", "--flush-seconds", "0.3", "--concurrency", "2"]
    command = ["run", str(source), "--out", out, "--base-url", base_url, *pace, *share]
    return subprocess.Popen(
        [sys.executable, "-m", "llm_ocr", *command, "--viewer-pages", "0"],
        env=dict(os.environ),
        stdout=subprocess.DEVNULL,
    )

"""What tests of the platforms on AWS share: documents in a bucket, a run's outcome, `llm-ocr`."""

import asyncio
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from aiohttp import web

from llm_ocr import load_documents, load_pages
from llm_ocr.platforms.base import Job, JobSpec, Platform, wait
from llm_ocr.report.status import read_status
from llm_ocr.storage.store import open_store
from tests import documents
from tests.processes import run_module
from tests.servers.aws import Account
from tests.servers.chat import at_once

# What llm_ocr's containers are told here besides what a launch says: an engine that answers at
# once, and reads nothing.
QUICK = {"LLM_OCR_SKIP_MODEL_CHECK": "true", "LLM_OCR_MIN_AGREEMENT": "0"}
# Nothing of the machine that the tests run on.
NEUTRAL = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",
}
SHARED = ("--shard-pages", "1", "--flush-seconds", "0.3", "--viewer-pages", "0")
# What must be in no request and no log.
PLANTED = "hf_planted0token0in0the0tests"


class Trouble:
    """Answers pages; at one of the answers something happens, once."""

    def __init__(self, at: int, happens: Callable[[], None]) -> None:
        self._at, self._happens = at, happens
        self._asked, self._lock = 0, Lock()

    def reply(self, body: dict[str, Any]) -> web.Response:
        with self._lock:
            self._asked += 1
            if self._asked == self._at:
                self._happens()
        return at_once(body)


def settle(monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
    """Let boto3 and the stores of this process, and of those it starts, find the servers."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for key, value in {**NEUTRAL, **environment}.items():
        monkeypatch.setenv(key, value)


def upload(folder: Path, count: int, pages: int = 1, place: str = "") -> str:
    """Documents in the bucket; their place."""
    place = place or f"s3://bucket/in/{uuid.uuid4().hex}"
    store = open_store(place)
    for number in range(count):
        path = documents.pdf(folder / f"{number:02d}.pdf", pages=pages)
        store.put(path.name, path.read_bytes())
    return place


def new_run() -> str:
    return f"s3://bucket/runs/{uuid.uuid4().hex}"


def assert_whole(out: str, count: int, pages: int = 1) -> None:
    """Every page and document is there once, and the counts balance."""
    rows = [(row["name"], row["page_number"]) for row in load_pages(out)]
    names = [f"{number:02d}" for number in range(count)]
    assert rows == [(name, page) for name in names for page in range(1, pages + 1)]
    assert [row["name"] for row in load_documents(out)] == names
    status = read_status(out)
    assert {stage.shards_committed for stage in status.stages.values()} == {status.shards}
    assert open_store(out).exists("summary.json")


def llm_ocr(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    settings = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **environment}
    return run_module("llm_ocr", *arguments, env=settings, timeout=240)


def spec(*command: str, **fields: Any) -> JobSpec:  # noqa: ANN401
    """A job that does `llm-ocr COMMAND`."""
    given = {"tasks": 1, "gpu": None, "timeout": 3600, **fields}
    return JobSpec(f"llm-ocr-test-{uuid.uuid4().hex[:8]}", command or ("version",), **given)


def ended(platform: Platform, job_id: str) -> Job:
    return wait(platform, job_id, lambda job: None, poll_seconds=0.1)


def with_engine(account: Account, base_url: str) -> None:
    """Let the containers ask there."""
    account.environment = {**account.environment, "LLM_OCR_BASE_URL": base_url}


async def hangs(body: dict[str, Any]) -> web.StreamResponse:
    """An engine that never answers."""
    await asyncio.Event().wait()
    raise AssertionError


def soon(holds: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something holds; it fails if it doesn't in a time that no machine needs."""
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up, "it did not come about"
        time.sleep(0.05)


def kill_worker(group: int) -> None:
    """SIGKILL to the `llm-ocr run` below a container's first process."""
    import psutil

    for child in psutil.Process(group).children():
        child.send_signal(signal.SIGKILL)


def printed(done: "subprocess.CompletedProcess[str]", parts: Sequence[str]) -> None:
    said = " ".join((done.stdout + done.stderr).split())
    for part in parts:
        assert part in said, said
    assert "Traceback" not in said

"""A platform that takes its machine back: SIGTERM, and some seconds later SIGKILL."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from llm_ocr import load_pages
from llm_ocr.report.status import read_status
from tests import documents
from tests.servers.chat import vllm_shim
from tests.servers.s3 import BUCKET, serving_s3

# What a platform gives that takes a machine back.
GRACE_SECONDS = 25
PAGES, ANSWERED, IN_FLIGHT = 9, 4, 2
FIRST_PROCESS = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]
MAY_UNSHARE = subprocess.run([*FIRST_PROCESS, "true"], check=False, capture_output=True)
needs_unshare = pytest.mark.skipif(
    MAY_UNSHARE.returncode != 0, reason="making a PID namespace takes root and unshare"
)


class Platform:
    """Runs `llm-ocr-job` over nine pages, with an engine that it starts and that answers some."""

    def __init__(self, folder: Path, out: str, environment: Mapping[str, str]) -> None:
        self.folder, self.out = folder, out
        self._environment = {**os.environ, **environment, "LLM_OCR_LOG_DIR": str(folder / "logs")}
        documents.pdf(folder / "in" / "report.pdf", pages=PAGES)

    @property
    def asked(self) -> list[str]:
        """The pages that the engine was asked about."""
        noted = self.folder / "asked"
        return noted.read_text().splitlines() if noted.exists() else []

    def start(self, answers: int, *before: str, **environment: str) -> "subprocess.Popen[bytes]":
        (self.folder / "asked").unlink(missing_ok=True)
        options = f"--asked {self.folder / 'asked'} --answers {answers}"
        shim = vllm_shim(self.folder, options, "tests.servers.slow")
        job = [sys.executable, "-m", "llm_ocr.platforms.entrypoint", "run", str(self.folder / "in")]
        engine = ["--engine", "vllm", "--vllm", shim, "--concurrency", str(IN_FLIGHT)]
        return subprocess.Popen(
            [*before, *job, "--out", self.out, *engine, "--no-describe"],
            env={**self._environment, **environment},
            stdout=subprocess.DEVNULL,
        )

    def start_and_wait(self, *before: str, **environment: str) -> "subprocess.Popen[bytes]":
        """Until as many pages as are answered are, and the next ones wait."""
        job = self.start(ANSWERED, *before, **environment)
        until(lambda: len(self.asked) == ANSWERED + IN_FLIGHT or job.poll() is not None)
        return job

    @property
    def processes(self) -> list[psutil.Process]:
        """Whatever is left of a run: its engine, and what belongs to it."""
        return [one for one in psutil.process_iter() if str(self.folder) in _command_line(one)]


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


@pytest.fixture(params=["disk", "s3"])
def platform(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Platform:
    if request.param == "disk":
        return Platform(tmp_path, str(tmp_path / "out"), {})
    environment: dict[str, str] = request.getfixturevalue("s3")
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    return Platform(tmp_path, f"s3://{BUCKET}/runs/{uuid.uuid4().hex}", environment)


@pytest.mark.long
def test_preempted_worker_stages_finished_pages_and_the_successor_resumes(
    platform: Platform,
) -> None:
    job = platform.start_and_wait()
    job.send_signal(signal.SIGTERM)
    assert job.wait(GRACE_SECONDS) == 143
    assert platform.processes == []
    assert read_status(platform.out).stages["extract"].items_staged == ANSWERED
    before = set(platform.asked[:ANSWERED])
    assert platform.start(PAGES).wait(120) == 0
    assert len(platform.asked) == PAGES - ANSWERED
    assert not before & set(platform.asked)
    assert sum(1 for _ in load_pages(platform.out)) == PAGES


@pytest.mark.long
@needs_unshare
@pytest.mark.parametrize("platform", ["disk"], indirect=True)
def test_preemption_as_the_first_process_of_a_container(platform: Platform) -> None:
    job = platform.start_and_wait(*FIRST_PROCESS)
    (first,) = psutil.Process(job.pid).children()
    first.send_signal(signal.SIGTERM)
    assert job.wait(GRACE_SECONDS) == 143
    assert platform.processes == []
    assert read_status(platform.out).stages["extract"].items_staged == ANSWERED


@pytest.mark.long
def test_unresponsive_store_does_not_delay_preemption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_s3(tmp_path / "s3") as server:
        for key, value in server.environment.items():
            monkeypatch.setenv(key, value)
        platform = Platform(tmp_path / "job", f"s3://{BUCKET}/run", server.environment)
        job = platform.start_and_wait(LLM_OCR_STOP_SECONDS="2")
        server.kill()
        job.send_signal(signal.SIGTERM)
        assert job.wait(GRACE_SECONDS) == 143
        until(lambda: not platform.processes)
        server.restart()
        assert platform.start(PAGES).wait(120) == 0
        assert len(platform.asked) == PAGES
        assert sum(1 for _ in load_pages(platform.out)) == PAGES

"""Signals that a command receives; one of each is in test_commands.py."""

import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from llm_ocr.cli.signals import stop_on_signals
from tests import documents
from tests.batch.test_library_calls import held_back
from tests.cli.test_commands import LLM_OCR
from tests.servers.chat import serving_beside
from tests.servers.s3 import BUCKET, serving_s3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_a_run_at_once_whatever_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    source, held = documents.pdf(tmp_path / "a.pdf", pages=3), threading.Event()
    with serving_s3(tmp_path / "s3") as store, serving_beside(held_back(1, held)) as server:
        for key, value in store.environment.items():
            monkeypatch.setenv(key, value)
        process = subprocess.Popen(
            [
                *(*LLM_OCR, "run", str(source), "--out", f"s3://{BUCKET}/run"),
                *("--base-url", server.base_url, "--concurrency", "1"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert held.wait(60)
        # What is finished can't be staged: a stop alone would wait for the store.
        store.kill()
        process.send_signal(number)
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(number)
        _, said = process.communicate(timeout=5)
    assert process.returncode == code
    assert said.endswith("Stopped: rerun the same command to resume the run\n")


def test_handlers_are_those_from_before_after_a_command() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with stop_on_signals(25):
        assert all(signal.getsignal(number) not in before for number in numbers)
    assert [signal.getsignal(number) for number in numbers] == before


def test_in_another_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def body() -> None:
        with stop_on_signals(25):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [before]

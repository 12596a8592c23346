"""Calls from a program: in any thread, several at once, without changing its process."""

import asyncio
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import CancellationToken, StoppedError, load_documents, run
from llm_ocr.batch.events import Event, Note
from llm_ocr.report.status import read_status
from tests import documents
from tests.servers.chat import at_once, serving_beside

PAGES = 3


def process_state() -> dict[str, Any]:
    """What a library should leave alone."""
    logger = logging.getLogger("llm_ocr")
    return {
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "path": list(sys.path),
        "finders": list(sys.meta_path),
        "handlers": list(logger.handlers),
        "level": logger.level,
        "streams": (sys.stdout, sys.stderr),
    }


def test_two_runs_at_once_hear_of_themselves_and_leave_the_process_alone(tmp_path: Path) -> None:
    before = process_state()
    # Both have to be in flight at once for either to be answered.
    both = threading.Barrier(2, timeout=60)
    events: dict[str, list[Event]] = {"a": [], "b": []}
    during: list[dict[str, Any]] = []
    is_first: set[str] = set()

    def read(name: str) -> None:
        async def meet(body: dict[str, Any]) -> Any:  # noqa: ANN401
            if name not in is_first:
                is_first.add(name)
                await asyncio.to_thread(both.wait)
                during.append(process_state())
            return at_once(body)

        # A file that can't be read, of which a run warns.
        (tmp_path / name).mkdir()
        (tmp_path / name / f"broken-{name}.pdf").write_bytes(b"%PDF-1.4 nothing")
        documents.pdf(tmp_path / name / f"{name}.pdf", pages=PAGES)
        with serving_beside(meet) as server:
            out = tmp_path / f"out-{name}"
            address = server.base_url
            run(tmp_path / name, out, base_url=address, notify=events[name].append)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(read, ("a", "b")))
    assert during == [before, before]
    assert process_state() == before
    for name, other in (("a", "b"), ("b", "a")):
        found = sorted(row["name"] for row in load_documents(tmp_path / f"out-{name}"))
        assert found == [name, f"broken-{name}"]
        texts = [event.text for event in events[name] if isinstance(event, Note)]
        assert texts
        assert not any(f"out-{other}" in text or f"{other}.pdf" in text for text in texts)


def held_back(answered: int, held: threading.Event) -> Callable[[dict[str, Any]], Any]:
    """Answers so many requests; then says that one is held, and never answers it."""
    count = 0

    async def reply(body: dict[str, Any]) -> Any:  # noqa: ANN401
        nonlocal count
        count += 1
        if count > answered:
            held.set()
            await asyncio.Event().wait()
        return at_once(body)

    return reply


@pytest.mark.parametrize("preempted", [False, True])
def test_another_thread_stops_a_run_with_a_token(tmp_path: Path, preempted: bool) -> None:
    source = documents.pdf(tmp_path / "a.pdf", pages=PAGES)
    stop, held = CancellationToken(), threading.Event()

    def request() -> None:
        assert held.wait(60)
        stop.request(preempted=preempted)

    with serving_beside(held_back(1, held)) as server, ThreadPoolExecutor(1) as threads:
        requested = threads.submit(request)
        with pytest.raises(StoppedError) as stopped:
            run(source, tmp_path / "out", base_url=server.base_url, concurrency=1, stop=stop)
        requested.result()
        assert stopped.value.preempted is preempted
        assert read_status(str(tmp_path / "out")).stages["extract"].items_staged == 1
        server.reply = at_once
        with pytest.raises(StoppedError):
            run(source, tmp_path / "out", base_url=server.base_url, stop=stop)
        done = run(source, tmp_path / "out", base_url=server.base_url, stop=CancellationToken())
    assert done.pages_by_status["ok"] == PAGES


PROGRAM = """
import sys, llm_ocr
source, out, base_url = sys.argv[1:]
try:
    llm_ocr.run(source, out, base_url=base_url, concurrency=1)
except llm_ocr.StoppedError as error:
    print(error)
    sys.exit(7)
"""


def test_ctrl_c_in_a_program_stages_what_is_finished(tmp_path: Path) -> None:
    source = documents.pdf(tmp_path / "a.pdf", pages=PAGES)
    held = threading.Event()
    with serving_beside(held_back(2, held)) as server:
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, source, tmp_path / "out", server.base_url],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert held.wait(60)
        program.send_signal(signal.SIGINT)
        said, _ = program.communicate(timeout=60)
    assert program.returncode == 7
    assert "rerun the same command to resume it" in said
    assert read_status(str(tmp_path / "out")).stages["extract"].items_staged == 2

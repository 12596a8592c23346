"""Servers that misbehave: what can be had from them is had, and no page is lost."""

import asyncio
import re
import subprocess
import sys
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest
from aiohttp import web
from rich.console import Console

from llm_ocr import load_pages, run
from llm_ocr.batch.events import ItemsDone, Note
from llm_ocr.engines import memory as engine_memory
from llm_ocr.engines import session as engine_session
from llm_ocr.inference.responses import EngineFailedError, WrongServerError
from llm_ocr.messages import ProblemCode
from llm_ocr.records import PageStatus
from llm_ocr.report.summary import render_summary
from llm_ocr.settings import EngineChoice
from tests import documents
from tests.servers.chat import at_once, image_of, refusal, serving_beside, vllm_shim

LLM_OCR = [sys.executable, "-m", "llm_ocr"]
ALONE: dict[str, Any] = {"render_workers": 1, "fallback": "none", "describe": False}


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "inputs"
    documents.pdf(folder / "good.pdf", pages=3)
    return folder


def statuses(out: Path) -> list[tuple[str, int, str]]:
    rows = [(row["name"], row["page_number"], row["status"]) for row in load_pages(str(out))]
    return sorted(rows)


def all_ok(out: Path) -> bool:
    return statuses(out) == [("good", number, "ok") for number in (1, 2, 3)]


def test_server_that_never_answers_stops_the_run_which_resumes(
    inputs: Path, tmp_path: Path
) -> None:
    ended = Event()

    async def never(body: dict[str, Any]) -> web.StreamResponse:
        while not ended.is_set():
            await asyncio.sleep(0.05)
        return at_once(body)

    out = tmp_path / "out"
    with serving_beside(never) as server:
        with pytest.raises(EngineFailedError, match="takes requests but answers none"):
            run(inputs, out, base_url=server.base_url, request_timeout=0.2, **ALONE)
        ended.set()
        run(inputs, out, base_url=server.base_url, **ALONE)
    assert all_ok(out)


def test_half_of_each_first_answer_is_retried(inputs: Path, tmp_path: Path) -> None:
    seen: set[bytes] = set()

    def reply(body: dict[str, Any]) -> web.Response:
        whole, image = at_once(body), image_of(body)
        if image not in seen and isinstance(whole.body, bytes):
            seen.add(image)
            whole.headers["Content-Length"] = str(len(whole.body) + 50)
            whole.force_close()
        return whole

    with serving_beside(reply) as server:
        summary = run(inputs, tmp_path / "out", base_url=server.base_url, **ALONE)
    assert all_ok(tmp_path / "out")
    assert summary.retries == 3


def test_error_sent_as_200_fails_its_page_alone(inputs: Path, tmp_path: Path) -> None:
    documents.picture(inputs / "odd.png", size=(900, 300))

    def reply(body: dict[str, Any]) -> web.Response:
        image = documents.decoded(image_of(body))
        if image.width > 2 * image.height:
            return web.json_response({"error": {"message": "no room", "code": 400}})
        return at_once(body)

    with serving_beside(reply) as server:
        summary = run(inputs, tmp_path / "out", base_url=server.base_url, **ALONE)
    assert summary.pages_by_status[PageStatus.OK] == 3
    assert summary.errors == {"request_rejected": 1}
    assert "400: no room" in summary.problems[0].error


def test_busy_server_costs_no_page(inputs: Path, tmp_path: Path) -> None:
    """It refuses more often than a page is asked about for any other fault."""
    refused = 0

    def reply(body: dict[str, Any]) -> web.Response:
        nonlocal refused
        refused += 1
        return refusal(503, "busy", **{"Retry-After": "0.01"}) if refused <= 24 else at_once(body)

    with serving_beside(reply) as server:
        summary = run(inputs, tmp_path / "out", base_url=server.base_url, **ALONE)
    assert all_ok(tmp_path / "out")
    assert summary.retries == 24


def test_retry_after_of_a_day_is_reported_and_stops_the_run(inputs: Path, tmp_path: Path) -> None:
    out, day = tmp_path / "out", {"Retry-After": "86400"}
    with serving_beside(lambda body: refusal(429, "quota", **day)) as server:
        command = ["run", str(inputs), "--out", str(out), "--base-url", server.base_url]
        said = subprocess.run(
            [*LLM_OCR, *command, "--busy-timeout", "0.5", "--no-describe"],
            capture_output=True,
            text=True,
        )
    words = " ".join((said.stdout + said.stderr).split())
    assert said.returncode == 3, words
    assert "asks to wait for 86,400 s (Retry-After)" in words
    assert "429: quota" in words
    assert "longer with --busy-timeout" in words
    with serving_beside() as server:
        run(inputs, out, base_url=server.base_url, **ALONE)
    assert all_ok(out)


def test_malformed_answers_fail_their_pages_alone(inputs: Path, tmp_path: Path) -> None:
    """Each of several pages has an answer of another shape, and all tables take what came."""
    shapes: list[Any] = [
        *([], 5, {"choices": None}, {"choices": [{"message": {"content": 5}}]}),
        {"choices": [{"message": {"content": "half \ud835"}, "finish_reason": ["stop"]}]},
    ]
    read = {
        "choices": [{"message": {"content": "half \ud835"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2**40, "completion_tokens": "\ud835"},
    }
    for k in range(len(shapes) + 1):
        documents.picture(inputs / f"odd-{k}.png", f"words {k}", size=(900, 300))
    seen: dict[bytes, int] = {}

    def reply(body: dict[str, Any]) -> web.Response:
        image = documents.decoded(image_of(body))
        if image.width < 2 * image.height:
            return at_once(body)
        number = seen.setdefault(image_of(body), len(seen))
        return web.json_response(shapes[number] if number < len(shapes) else read)

    with serving_beside(reply) as server:
        summary = run(inputs, tmp_path / "out", base_url=server.base_url, **ALONE)
    assert summary.errors == {"engine_error": len(shapes)}
    assert summary.pages_by_status[PageStatus.OK] == 4
    rows = [*load_pages(str(tmp_path / "out"))]
    failed = [row["error"] for row in rows if row["status"] == "failed"]
    assert all("an answer that can't be read: " in error for error in failed)
    assert "half \ufffd" in [row["raw_answer"] for row in rows]


def test_slow_server_start_is_waited_for(inputs: Path, tmp_path: Path) -> None:
    """It refuses connections until the run says that it waits."""
    with serving_beside() as server:
        base_url = server.base_url
    port = int(base_url.split(":")[2].split("/")[0])
    waited: list[str] = []
    with ExitStack() as servers:

        def notify(event: object) -> None:
            if isinstance(event, Note) and "waiting for" in event.text:
                waited.append(event.text)
                servers.enter_context(serving_beside(port=port))

        run(inputs, tmp_path / "out", base_url=base_url, notify=notify, **ALONE)
    assert len(waited) == 1
    assert all_ok(tmp_path / "out")


@pytest.mark.parametrize(
    ("status", "fact", "code"),
    [(401, "LLM_OCR_API_KEY", None), (404, "no such model", ProblemCode.MODEL_NOT_SERVED)],
)
def test_server_that_refuses_every_page_stops_the_run(
    inputs: Path, tmp_path: Path, status: int, fact: str, code: ProblemCode | None
) -> None:
    out = tmp_path / "out"
    with serving_beside(lambda body: refusal(status, "no")) as server:
        with pytest.raises(WrongServerError, match=fact) as refused:
            run(inputs, out, base_url=server.base_url, **ALONE)
    assert refused.value.code is code
    with serving_beside() as server:
        run(inputs, out, base_url=server.base_url, **ALONE)
    assert all_ok(out)


@pytest.mark.long
def test_page_that_crashes_the_engine_is_isolated(tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    documents.pdf(inputs / "good.pdf", pages=30)
    documents.picture(inputs / "poison.png", size=(900, 300))
    engine: dict[str, Any] = {"engine": "vllm", "vllm": vllm_shim(tmp_path, "--dies-of-wide-pages")}
    summary = run(inputs, tmp_path / "out", concurrency=8, **engine, **ALONE)
    bad = [row for row in statuses(tmp_path / "out") if row[2] != "ok"]
    assert bad == [("poison", 1, "failed")]
    assert summary.pages_by_status[PageStatus.OK] == 30
    assert summary.errors == {"engine_crashed": 1}
    # More where others were answered between the page and a death, which proves less, and where
    # the page was sent while the engine was being started.
    assert summary.engine_restarts >= 4
    assert re.search(r"the engine died [4-7] times", summary.problems[0].error)


def test_hanging_engine_is_restarted(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_session, "STALL_SECONDS", 0.5)
    monkeypatch.setattr(engine_session, "WATCH_SECONDS", 0.1)
    engine: dict[str, Any] = {
        "engine": "vllm",
        "vllm": vllm_shim(tmp_path, f"--hangs-once {tmp_path / 'hung'}"),
    }
    summary = run(inputs, tmp_path / "out", **engine, **ALONE)
    assert all_ok(tmp_path / "out")
    assert summary.engine_restarts == 1


def test_engine_that_takes_too_much_memory_is_restarted_between_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_memory, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(engine_memory, "DRAIN_LOOK_SECONDS", 0.01)
    documents.pdf(tmp_path / "in" / "report.pdf", pages=6)
    engine: dict[str, Any] = {
        "engine": "vllm",
        "vllm": vllm_shim(tmp_path, f"--grows-once {tmp_path}"),
        "engine_memory": 0.25,
        "concurrency": 2,
    }
    notes: list[str] = []

    def note(event: object) -> None:
        if isinstance(event, Note):
            notes.append(event.text)
            if "above the ceiling of 0.25 GiB" in event.text:
                # The first page is in flight until here.
                (tmp_path / "noticed").touch()

    summary = run(tmp_path / "in", tmp_path / "out", notify=note, **engine, **ALONE)
    assert summary.pages_by_status[PageStatus.OK] == 6
    assert (summary.engine_restarts, summary.memory_restarts) == (1, 1)
    assert summary.retries == 0
    assert {page["attempts"] for page in load_pages(tmp_path / "out")} == {1}
    assert sum("above the ceiling of 0.25 GiB" in text for text in notes) == 1
    assert sum(text.startswith("restarted vLLM within") for text in notes) == 1
    shown = StringIO()
    Console(file=shown, width=100).print(render_summary(summary))
    assert "1 engine restart" in shown.getvalue()
    assert "1 of them for its memory" in shown.getvalue()


@pytest.mark.long
def test_frozen_embedded_engine_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen it is, not slow: it would be asked for its metrics first, and answer."""
    monkeypatch.setattr(engine_session, "STALL_SECONDS", 1.0)
    monkeypatch.setattr(engine_session, "WATCH_SECONDS", 0.2)
    documents.pdf(tmp_path / "in" / "report.pdf", pages=6)
    frozen: list[int] = []

    def freeze(event: object) -> None:
        if not isinstance(event, ItemsDone) or event.stage != "extract" or frozen:
            return
        for process in psutil.Process().children(recursive=True):
            words = process.cmdline()
            # Not who watches it, whose command names it too.
            if "llm_ocr.engines.embedded" in words and "llm_ocr.engines.supervisor" not in words:
                process.suspend()
                frozen.append(process.pid)

    out, embedded = tmp_path / "out", EngineChoice.EMBEDDED
    summary = run(tmp_path / "in", out, notify=freeze, engine=embedded, describe=False)
    assert frozen
    assert summary.engine_restarts >= 1
    assert {row["status"] for row in load_pages(str(out))} == {"ok"}
    assert not any(psutil.pid_exists(pid) for pid in frozen)


def test_partial_answer_of_a_crashed_engine_is_not_requested_again(
    inputs: Path, tmp_path: Path
) -> None:
    noted = tmp_path / "died"
    engine: dict[str, Any] = {
        "engine": "vllm",
        "vllm": vllm_shim(tmp_path, f"--dies-midway {noted}"),
    }
    summary = run(inputs, tmp_path / "out", concurrency=1, **engine, **ALONE)
    assert all_ok(tmp_path / "out")
    assert summary.engine_restarts == 1
    whole = sum(len(page["raw_answer"]) for page in load_pages(tmp_path / "out"))
    assert summary.completion_tokens == whole, "a token a character, none of them twice"

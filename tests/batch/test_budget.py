"""--max-cost: a run stops when it is spent, loses nothing, and goes on afterwards."""

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from llm_ocr import load_pages, run
from llm_ocr.batch import budget as budget_module
from llm_ocr.batch.budget import remaining_budget
from llm_ocr.batch.events import Event, Note
from llm_ocr.batch.interruption import BudgetExceededError
from llm_ocr.batch.partition import WorkerPartition
from llm_ocr.report.sessions import SessionLog, read_sessions
from llm_ocr.report.status import read_status
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store
from tests import documents
from tests.cli.test_commands import llm_ocr
from tests.servers.chat import at_once, prompt_of, serving_beside

PAGES = 24
# A dollar a second.
DEAR = 3600.0
CHOSEN: dict[str, Any] = {"concurrency": 2, "shard_pages": 4, "render_workers": 1}


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    for k in range(PAGES // 4):
        documents.pdf(tmp_path / "in" / f"{k}.pdf", pages=4)
    return tmp_path / "in"


class Held:
    """Answers five pages, and holds those after them until it is let go; while it holds two, the
    time of the budget is over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.asked = 0
        monkeypatch.setattr(budget_module, "monotonic", self.clock)
        monkeypatch.setattr(budget_module, "LOOK_SECONDS", 0.05)

    def clock(self) -> float:
        return time.monotonic() + (1e9 if self.asked >= 7 else 0.0)

    async def reply(self, body: dict[str, Any]) -> web.StreamResponse:
        if "<|grounding|>" in prompt_of(body):
            self.asked += 1
            if self.asked > 5:
                await asyncio.to_thread(self.go.wait, 60)
        return at_once(body)

    def hear(self, event: Event) -> None:
        if isinstance(event, Note) and "`max_cost` reached" in event.text:
            self.go.set()


def test_requests_in_flight_finish_and_none_is_repeated(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, held = tmp_path / "out", Held(monkeypatch)
    with serving_beside(held.reply) as server:
        chosen = {**CHOSEN, "base_url": server.base_url}
        with pytest.raises(BudgetExceededError, match=r"budget exhausted \(`max_cost` 9\)"):
            run(inputs, out, max_cost=9.0, price_per_hour=1.0, notify=held.hear, **chosen)
        first = held.asked
        assert 7 <= first < PAGES
        extract = read_status(str(out)).stages["extract"]
        assert extract.items_committed + extract.items_staged == first
        [session] = read_sessions(open_store(str(out)))
        assert session.cost is not None
        summary = run(inputs, out, price_per_hour=1.0, **chosen)
    assert held.asked == PAGES
    assert summary.pages == PAGES
    assert summary.pages_by_status["ok"] == PAGES
    assert len({row["page_id"] for row in load_pages(out)}) == PAGES
    assert summary.cost is not None
    assert summary.cost > session.cost


def test_pages_that_do_not_end_are_dropped_after_the_drain_time(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_module, "DRAIN_SECONDS", 0.2)
    held = Held(monkeypatch)
    with serving_beside(held.reply) as server:
        chosen = {**CHOSEN, "base_url": server.base_url}
        with pytest.raises(BudgetExceededError):
            run(inputs, tmp_path / "out", max_cost=9.0, price_per_hour=1.0, **chosen)
        held.go.set()
    extract = read_status(str(tmp_path / "out")).stages["extract"]
    assert extract.items_committed + extract.items_staged == 5


def test_command_exits_with_5_and_resumes_with_a_larger_budget(
    inputs: Path, tmp_path: Path
) -> None:
    command = ("run", inputs, "--out", tmp_path / "out", "--price-per-hour", DEAR)
    with serving_beside() as server:
        base = ("--base-url", server.base_url, "--no-describe", "--viewer-pages", "0")
        spent = llm_ocr(*command, *base, "--max-cost", "0.001")
        assert spent.returncode == 5
        assert "Stopped: budget exhausted (--max-cost 0.001)" in spent.stderr
        assert "to resume, rerun the command with a larger --max-cost" in spent.stderr
        assert server.requests == []
        assert llm_ocr(*command, *base, "--max-cost", "1e6").returncode == 0
        asked = len(server.requests)
        done = llm_ocr(*command, *base, "--max-cost", "0.001")
        assert done.returncode == 0, "there is nothing left that would cost anything"
        assert len(server.requests) == asked
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["pages_by_status"]["ok"] == PAGES
    refused = llm_ocr("run", inputs, "--out", tmp_path / "other", "--max-cost", "5")
    assert refused.returncode == 2
    assert "--max-cost: it requires --price-per-hour" in refused.stderr


def test_budget_without_a_price_is_refused() -> None:
    with pytest.raises(ValidationError, match="it requires `price_per_hour`"):
        Settings(max_cost=3.0)
    with pytest.raises(ValidationError, match="greater than 0"):
        Settings(max_cost=0.0, price_per_hour=1.0)


def session_costing(dollars: float | None, worker: int = 0, workers: int = 1) -> SessionLog:
    """A session that cost so much (None: it was killed)."""
    seconds = None if dollars is None else dollars * 3600
    return SessionLog(
        "2026-11-21",
        "",
        "",
        (),
        price_per_hour=1.0,
        seconds=seconds,
        worker=worker,
        workers=workers,
    )


@pytest.mark.parametrize(
    ("share", "sessions", "left"),
    [
        (WorkerPartition(0, 1), [], 20.0),
        (WorkerPartition(1, 4), [], 5.0),
        # What a platform starts again has no new budget, and others' parts are theirs.
        (WorkerPartition(1, 4), [session_costing(2, 1, 4), session_costing(1, 1, 4)], 2.0),
        (WorkerPartition(1, 4), [session_costing(5, 0, 4), session_costing(5, 2, 4)], 5.0),
        (WorkerPartition(1, 4), [session_costing(7, 1, 4)], 0.0),
        # The run was begun by another number of workers.
        (WorkerPartition(0, 2), [session_costing(4, 0, 1), session_costing(1, 3, 4)], 7.5),
        (WorkerPartition(0, 2), [session_costing(30, 0, 1)], 0.0),
        (WorkerPartition(0, 1), [session_costing(None)], 20.0),
    ],
)
def test_budget_is_divided_among_workers(
    share: WorkerPartition, sessions: list[SessionLog], left: float
) -> None:
    settings = Settings(max_cost=20.0, price_per_hour=4.0)
    budget = remaining_budget(settings, share, sessions)
    assert budget is not None
    assert budget.part == pytest.approx(left)
    assert budget.seconds == pytest.approx(left / 4 * 3600)


def test_no_limit_means_no_budget_and_zero_cost_never_exhausts_one() -> None:
    assert remaining_budget(Settings(price_per_hour=4.0), WorkerPartition(0, 1), []) is None
    free = remaining_budget(Settings(price_per_hour=0.0, max_cost=1.0), WorkerPartition(0, 1), [])
    assert free is not None
    assert free.seconds is None


def test_workers_stop_at_their_share_and_another_finishes(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    for index in range(2):
        held = Held(monkeypatch)
        with serving_beside(held.reply) as server:
            chosen = {**CHOSEN, "shard_index": index, "shard_count": 2}
            chosen |= {"max_cost": 9.0, "price_per_hour": 1.0, "base_url": server.base_url}
            with pytest.raises(BudgetExceededError, match=f"share of worker {index} of 2"):
                run(inputs, out, notify=held.hear, **chosen)
    sessions = read_sessions(open_store(str(out)))
    assert {(one.worker, one.workers) for one in sessions} == {(0, 2), (1, 2)}
    with serving_beside() as server:
        summary = run(inputs, out, base_url=server.base_url, **CHOSEN)
    assert summary.pages == PAGES

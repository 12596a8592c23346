import asyncio
from pathlib import Path
from typing import Any, NoReturn

import pytest

from llm_ocr import load_documents, run
from llm_ocr.batch.events import Event, Note, StageEnded
from llm_ocr.batch.interruption import CancellationToken, StoppedError
from tests import documents
from tests.servers.chat import at_once, serving_beside


async def test_interrupted_work_is_cancelled_and_finished_work_is_not() -> None:
    stop, ended = CancellationToken(), asyncio.Event()

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def seven() -> int:
        return 7

    assert await stop.guard(seven()) == 7
    asyncio.get_running_loop().call_soon(lambda: stop.request(preempted=True))
    with pytest.raises(StoppedError) as stopped:
        await stop.guard(for_ever())
    assert stopped.value.preempted
    assert ended.is_set()


def test_run_at_its_time_limit_stops_cleanly_and_resumes(tmp_path: Path) -> None:
    source = documents.pdf(tmp_path / "a.pdf", pages=2)

    async def never(body: dict[str, Any]) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    with serving_beside(never) as server:
        with pytest.raises(StoppedError) as stopped:
            chosen: dict[str, Any] = {"base_url": server.base_url, "request_timeout": 2}
            run(source, tmp_path / "out", time_limit=0.5, **chosen)
        assert stopped.value.preempted, "exit code 143: platforms try again"
        server.reply = at_once
        again = run(source, tmp_path / "out", base_url=server.base_url, time_limit=600)
    assert again.pages_by_status["ok"] == 2


async def test_errors_of_the_work_are_raised() -> None:
    async def broken() -> None:
        raise ValueError("no plan")

    with pytest.raises(ValueError, match="no plan"):
        await CancellationToken().guard(broken())


async def test_run_inside_a_running_event_loop(tmp_path: Path) -> None:
    source = documents.pdf(tmp_path / "a.pdf", pages=2)
    events: list[Event] = []
    with serving_beside() as server:
        summary = run(source, tmp_path / "out", base_url=server.base_url, notify=events.append)
    assert summary.pages == 2
    assert [row["name"] for row in load_documents(tmp_path / "out")] == ["a"]
    ended = [event.stage for event in events if isinstance(event, StageEnded)]
    assert ended == ["plan", "extract", "describe", "assemble"]
    assert any(isinstance(event, Note) for event in events)


async def test_errors_inside_a_running_event_loop_reach_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        run(tmp_path / "missing.pdf", tmp_path / "out")

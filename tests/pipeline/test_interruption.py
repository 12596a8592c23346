import asyncio
from pathlib import Path
from typing import Any, NoReturn

import pytest

from llm_ocr import load_documents, run
from llm_ocr.pipeline.events import Event, Note, StageEnded
from llm_ocr.pipeline.interruption import CancellationToken, StoppedError
from tests import documents
from tests.servers.chat import at_once, serving_beside


async def test_work_that_is_stopped_is_cancelled_and_work_that_ends_is_not() -> None:
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


def test_a_run_whose_time_is_up_stops_in_order_and_goes_on(tmp_path: Path) -> None:
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


async def test_errors_of_the_work_come_through() -> None:
    async def broken() -> None:
        raise ValueError("no plan")

    with pytest.raises(ValueError, match="no plan"):
        await CancellationToken().guard(broken())


async def test_a_run_where_a_loop_runs_already_as_in_a_notebook(tmp_path: Path) -> None:
    source = documents.pdf(tmp_path / "a.pdf", pages=2)
    events: list[Event] = []
    with serving_beside() as server:
        summary = run(source, tmp_path / "out", base_url=server.base_url, notify=events.append)
    assert summary.pages == 2
    assert [row["name"] for row in load_documents(tmp_path / "out")] == ["a"]
    ended = [event.stage for event in events if isinstance(event, StageEnded)]
    assert ended == ["plan", "extract", "describe", "assemble"]
    assert any(isinstance(event, Note) for event in events)


async def test_its_errors_reach_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        run(tmp_path / "missing.pdf", tmp_path / "out")

"""A process that is handed shards one after another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from llm_ocr import load_documents, load_pages
from llm_ocr.batch.events import ItemsDone, Note, ShardDone
from llm_ocr.batch.pending import publish_committed, uncommitted_shards
from llm_ocr.batch.shard_worker import RemoteShardWorker, ShardAssignment, WorkerReport
from llm_ocr.batch.stage_runner import ShardTask
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import list_documents
from llm_ocr.storage.store import open_store
from llm_ocr.tables.plan import PlannedDocument, cut_shards
from tests import documents
from tests.servers.chat import ChatServer, at_once, serving

SHARDS = 4
# So that what waits for ever fails.
SECONDS = 120


@asynccontextmanager
async def run_shards(
    folder: Path,
    server: ChatServer,
    **settings: Any,  # noqa: ANN401
) -> AsyncIterator[tuple[RemoteShardWorker, list[ShardTask]]]:
    """A started worker, and shards of two pages each to assign to it."""
    for k in range(SHARDS):
        documents.pdf(folder / "in" / f"{k}.pdf", pages=2)
    planned = [PlannedDocument(one, 2) for one in list_documents([str(folder / "in")])]
    work = [ShardTask(shard, 0, {}) for shard in cut_shards(planned, 2)]
    worker = RemoteShardWorker(str(folder / "out"), Settings(base_url=server.base_url, **settings))
    worker.start()
    try:
        async with asyncio.timeout(SECONDS):
            yield worker, work
    finally:
        await worker.stop()


async def until(worker: RemoteShardWorker, shards: int) -> list[WorkerReport]:
    """The reports up to the one that tells of so many shards done."""
    reports: list[WorkerReport] = []
    while shards > 0:
        reports.append(await worker.report())
        assert reports[-1].error is None
        shards -= sum(isinstance(one, ShardDone) for one in reports[-1].events)
    return reports


async def test_window_stays_full_across_shards(tmp_path: Path) -> None:
    together = asyncio.Event()

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        # Nothing is answered before the pages of all shards are asked about.
        if server.in_flight == 2 * SHARDS:
            together.set()
        await together.wait()
        return at_once(body)

    async with (
        serving(reply) as server,
        run_shards(tmp_path, server, concurrency=8) as (worker, work),
    ):
        for started, one in enumerate(work):
            worker.assign(ShardAssignment("extract", one))
            while (await worker.report()).started <= started:
                pass
        reports = await until(worker, SHARDS)
    assert reports[-1].session.counts["extract"].items == 2 * SHARDS
    assert len(list(load_pages(tmp_path / "out"))) == 2 * SHARDS


async def test_stages_run_in_order_and_the_worker_ends_cleanly(tmp_path: Path) -> None:
    async with serving() as server, run_shards(tmp_path, server) as (worker, work):
        for one in work:
            worker.assign(ShardAssignment("extract", one))
        first = await until(worker, SHARDS)
        for one in work:
            worker.assign(ShardAssignment("assemble", ShardTask(one.shard, 0, {"extract": 0})))
        last = await worker.finish()
    ended = [one for report in first for one in report.events if isinstance(one, ItemsDone)]
    assert sum(one.count for one in ended) == 2 * SHARDS
    assert sum(isinstance(one, ShardDone) for one in last.events) == SHARDS
    assert (last.started, last.session.counts["assemble"].items) == (2 * SHARDS, SHARDS)
    assert len(list(load_documents(tmp_path / "out"))) == SHARDS


async def test_stopped_worker_has_staged_its_answers(tmp_path: Path) -> None:
    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        if len(server.requests) > 3:
            await asyncio.Event().wait()
        return at_once(body)

    async with (
        serving(reply) as server,
        run_shards(tmp_path, server, concurrency=1) as (worker, work),
    ):
        for one in work:
            worker.assign(ShardAssignment("extract", one))
        await until(worker, 1)
        while len(server.requests) < 4:
            await worker.report()
        assert (await worker.stop()).error is None
        store = open_store(str(tmp_path / "out"))
        staged = [thing.path for thing in store.list("_staging/extract")]
    assert sum(path.endswith(".json") for path in staged) == 1
    counts = [publish_committed(store, "extract", one) for one in work]
    assert [one.items for one in counts if one is not None] == [2]
    gone = [one.shard.name for one, found in zip(work, counts, strict=True) if found is None]
    assert uncommitted_shards(store, "extract", work) == gone


async def test_engine_failure_is_reported(tmp_path: Path) -> None:
    async with serving() as server:
        nobody = server
    settings = {"ready_timeout": 0.1}
    async with run_shards(tmp_path, nobody, **settings) as (worker, work):
        worker.assign(ShardAssignment("extract", work[0]))
        reports = [await worker.report()]
        while reports[-1].error is None:
            reports.append(await worker.report())
    assert isinstance(reports[-1].error, EngineFailedError)
    assert "no response from" in str(reports[-1].error)
    notes = [one.text for report in reports for one in report.events if isinstance(one, Note)]
    assert any("waiting for" in text for text in notes)

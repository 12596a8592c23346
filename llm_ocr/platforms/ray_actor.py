"""What runs on the nodes of a Ray cluster: an engine, and the shards that are done with it."""

import asyncio
import os

from llm_ocr.inference.replies import EngineFailedError
from llm_ocr.pipeline.engine_targets import EngineKind, resolve_engine
from llm_ocr.pipeline.shard_worker import RemoteShardWorker, ShardAssignment, WorkerReport
from llm_ocr.platforms.orders import Orders, problem_here
from llm_ocr.settings import Settings


class EngineActor:
    """Ray's actor; a thin coat around `RemoteShardWorker`. `start` first."""

    async def start(self, orders: Orders) -> str | None:
        """Begin; returns what is wrong with this node, if something is."""
        os.environ.update(orders.environment)
        found = await asyncio.to_thread(problem_here, orders)
        if found is None:
            self._worker = RemoteShardWorker(orders.out, orders.settings)
            self._worker.start()
        return found

    async def assign(self, task: ShardAssignment) -> None:
        self._worker.assign(task)

    async def report(self) -> WorkerReport:
        return await self._worker.report()

    async def finish(self) -> WorkerReport:
        return await self._worker.finish()

    async def stop(self) -> WorkerReport:
        return await self._worker.stop()


def engine_kind(settings: Settings) -> EngineKind | EngineFailedError:
    """Which engine would be started where this runs, or why none would be."""
    try:
        return resolve_engine(settings, settings.model).kind
    except EngineFailedError as error:
        return error

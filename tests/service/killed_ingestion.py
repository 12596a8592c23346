"""Ingestion in a process that kills itself at a point: python -m tests.service.killed_ingestion
DATABASE STORAGE WATCHED POINT.

A point is `before:` or `after:` and the name of a method of IngestionQueue, `_poll` of FolderWatch,
or `mark_queued`: in the transaction that makes the document, before it is committed.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from llm_ocr.service import ingestion
from llm_ocr.service.database import Database
from llm_ocr.service.ingestion import FolderWatch, IngestionQueue
from llm_ocr.service.pipelines import PipelineCatalog
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.service.uploads import Uploads
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import open_store


def die(*_: Any, **__: Any) -> None:  # noqa: ANN401
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(point: str) -> None:
    when, _, name = point.partition(":")
    owner: Any = ingestion if name == "mark_queued" else IngestionQueue
    if name == "_poll":
        owner = FolderWatch
    original: Callable[..., Any] = getattr(owner, name)

    def act(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401
        if when == "before":
            die()
        result = original(*arguments, **more)
        # Don't die at a claim that finds no rows.
        if result or name != "_claim":
            die()
        return result

    setattr(owner, name, act)


async def run(database: str, storage: str, watched: str) -> None:
    opened, store = Database(database), open_store(storage)
    settings, pipelines = ServiceSettings(), PipelineCatalog.load()
    async with RenderPool(1) as renderer:
        uploads = Uploads(opened, store, settings, renderer)
        queue = IngestionQueue(opened, store, settings, uploads, pipelines, poll_seconds=0.02)
        watch = FolderWatch(opened, watched, store, pipelines, poll_seconds=0.02)
        stop = asyncio.Event()
        await asyncio.gather(queue.run(stop), watch.run(stop))


if __name__ == "__main__":
    kill_at(sys.argv[4])
    asyncio.run(run(*sys.argv[1:4]))

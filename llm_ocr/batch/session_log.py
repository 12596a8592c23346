"""Log a session: one file per process and run, written when it starts and when it ends."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime

from llm_ocr import __version__
from llm_ocr.batch.command import reproduce_command
from llm_ocr.batch.executor import Executor
from llm_ocr.batch.interruption import BudgetExceededError
from llm_ocr.batch.partition import WorkerPartition
from llm_ocr.document.configure import step_target
from llm_ocr.document.figure_tasks import select_tasks, task_of
from llm_ocr.inference.model_item import ModelRef
from llm_ocr.models.profile import Prompt, Task
from llm_ocr.report.sessions import SessionLog, delete_session, write_session
from llm_ocr.report.summary import SessionStats
from llm_ocr.settings import Settings
from llm_ocr.storage.store import StorageError, Store
from llm_ocr.tables.schema import Row


def new_session_record(
    inputs: Sequence[str] | None,
    out: str,
    settings: Settings,
    stages: Sequence[str],
    share: WorkerPartition,
    command: str | None = None,
) -> SessionLog:
    """The session as known before its work starts. Raises EngineFailedError as `resolve_engine`."""
    return SessionLog(
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        command=reproduce_command(inputs, out, settings, stages, command),
        version=__version__,
        stages=list(stages),
        readers=dict(_readers(settings, stages)),
        source_license=settings.source_license,
        price_per_hour=settings.price_per_hour,
        worker=share.index,
        workers=share.count,
    )


def _readers(settings: Settings, stages: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """The model and the prompt of each stage, and of each task about figures."""
    if "extract" in stages:
        model = step_target(settings, "extract").model
        yield "extract", _facts(model, model.profile.prompt(Task.DOCUMENT))
    if "describe" in stages:
        model = step_target(settings, "describe").model
        for name, choice in select_tasks(settings).items():
            stage = "describe" if name == Task.DESCRIBE else f"describe ({name})"
            yield stage, _facts(model, task_of(choice).prompt(model.profile))
    if "parse" in stages:
        model = step_target(settings, "parse").model
        yield "parse", _facts(model, model.profile.prompt(Task.PARSE))


def _facts(model: ModelRef, prompt: Prompt) -> Row:
    profile = model.profile
    return {
        "model": model.name,
        "revision": model.revision,
        "profile": profile.id,
        "license": profile.card.license,
        "prompt": prompt.text,
        "max_tokens": prompt.max_tokens,
        "sampling": dict(profile.sampling),
    }


@asynccontextmanager
async def log_session(
    store: Store, record: SessionLog, session: SessionStats, executor: Executor
) -> AsyncIterator[None]:
    """Write the record now, and again when the block ends, however it ends. It is deleted if
    nothing was done, unless the budget is exhausted: then the session's time counts too.

    At the end `session` includes what the executor did.
    """
    is_spent = False
    name = f"{record.started.replace(':', '').split('.')[0]}-{uuid.uuid4().hex[:8]}"
    await asyncio.to_thread(write_session, store, name, record)
    try:
        yield
    except BudgetExceededError:
        is_spent = True
        raise
    finally:
        executor.update_session()
        ended = replace(
            record,
            engines=list(session.engines),
            seconds=time.monotonic() - session.started,
            pages=session.counts["extract"].items if "extract" in session.counts else 0,
            bottlenecks=dict(session.bottlenecks),
        )
        # A record that can't be written must not hide why the run ended.
        with suppress(StorageError):
            if session.did_anything or is_spent:
                await asyncio.to_thread(write_session, store, name, ended)
            else:
                await asyncio.to_thread(delete_session, store, name)

"""A worker process: claims several documents at once, processes them and renews their leases.

    worker = ServiceWorker(database, store, settings, engine_settings, print)
    await worker.run(stop)

A document whose lease is not renewed in time goes to another worker. Once a lease may have expired,
by the monotonic clock, this worker writes nothing more about the document.
"""

import asyncio
import logging
import os
import secrets
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from llm_ocr import __version__, logs, tracing
from llm_ocr.document.classify import LoadedClassifier
from llm_ocr.document.configure import render_pool, render_workers
from llm_ocr.document.figure_tasks import UnknownTaskError
from llm_ocr.document.processor import ItemSlots
from llm_ocr.engines.metrics import AnswerMetrics, EngineCollector
from llm_ocr.engines.pool import EnginePool

# Imported here: at the first request it would block the event loop for seconds, and no lease would
# be renewed.
from llm_ocr.inference import transport as _transport  # noqa: F401
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.parsing.schema import SchemaError
from llm_ocr.retry import Backoff
from llm_ocr.service.checkpoints import LeaseLostError
from llm_ocr.service.database import Database, DatabaseError
from llm_ocr.service.document_task import (
    MAX_ATTEMPTS,
    DocumentError,
    DocumentTask,
    TaskOutcome,
    UnavailableError,
    WorkerContext,
)
from llm_ocr.service.documents import UnknownDocumentError, load_document
from llm_ocr.service.metrics import ProcessMetrics, WorkerMetrics
from llm_ocr.service.pinned_models import PinnedModels, open_classifier, open_detector
from llm_ocr.service.pipeline_steps import PipelineSteps, make_steps
from llm_ocr.service.pipelines import UnknownPipelineError, load_pipeline
from llm_ocr.service.schema import DocumentState
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.service.store_registry import open_registry
from llm_ocr.service.work_queue import (
    MAX_WORKER_DEATHS,
    ClaimedDocument,
    DocumentCompletion,
    WorkQueue,
    recover_expired_leases,
)
from llm_ocr.settings import Settings
from llm_ocr.storage.store import Store

if TYPE_CHECKING:
    from llm_ocr.auxiliary.detectors import ObjectDetector

log = logging.getLogger(__name__)

# Renewal interval at most, in seconds. It also bounds how long a cancelled document keeps running.
RENEW_SECONDS = 2.0
PROGRESS_SECONDS = 1.0
# Seconds before an engine that failed to start, or an unreachable server, is tried again.
RETRY_SECONDS, SERVER_SECONDS = 10.0, 10.0
# Delays while an engine or the storage, and while the database is unavailable.
UNAVAILABLE_BACKOFF = Backoff(first_delay=1.0, max_delay=60.0)
DATABASE_BACKOFF = Backoff(first_delay=0.5, max_delay=5.0)
# Seconds after `drain_seconds` for returning documents to the queue.
REQUEUE_SECONDS = 1.5
# A worker whose event loop hasn't run for so long hangs.
LIVE_SECONDS = 60.0
T = TypeVar("T")


@dataclass(eq=False)
class _Lease:
    """A document that this worker holds until `expires_at` (monotonic clock), and its progress."""

    document: ClaimedDocument
    expires_at: float
    processing: "asyncio.Task[TaskOutcome] | None" = None
    task: DocumentTask | None = None
    has_outcome: bool = False
    # "lost", "cancelled" or "drained".
    stop_reason: str | None = None
    began: float = field(default_factory=time.monotonic)

    def stop(self, reason: str) -> None:
        if not self.has_outcome and self.stop_reason is None:
            self.stop_reason = reason
            if self.processing is not None:
                self.processing.cancel()


class ServiceWorker:
    """Processes the documents queued in `database`, `settings.tasks` at a time.

    `store` holds their files, checkpoints and results. `engine_settings` select the engine of steps
    without a target, and how pages are rendered. `notify` receives one-line messages about engines
    and about anything that is unavailable. What happens is counted in `metrics`.
    """

    def __init__(
        self,
        database: Database,
        store: Store,
        settings: ServiceSettings,
        engine_settings: Settings,
        notify: Callable[[str], None],
        metrics: ProcessMetrics | None = None,
    ) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._database, self._store, self._settings = database, store, settings
        self._engine_settings, self._notify = engine_settings, notify
        self._queue = WorkQueue(database, self.name, lease_seconds=settings.lease_seconds)
        self._leases: set[_Lease] = set()
        self._supervisors: set[asyncio.Task[None]] = set()
        self._steps: dict[tuple[str, str], PipelineSteps] = {}
        self._slots = ItemSlots(2 * render_workers(engine_settings))
        self._admission = _Admission()
        # Claiming is paused until then (monotonic clock), because an engine or the storage is
        # unavailable; and the number of pauses since something succeeded.
        self._paused_until, self._pauses = 0.0, 0
        self._is_draining, self._shutdown_deadline = False, float("inf")
        self._is_registered = False
        self._notified_at: dict[str, float] = {}
        # When the event loop last ran, by the monotonic clock.
        self._ran_at = time.monotonic()
        self._process_metrics = metrics or ProcessMetrics()
        registry = self._process_metrics.registry
        self._metrics, self._answers = WorkerMetrics(registry), AnswerMetrics(registry)
        self._metrics.tasks.set(settings.tasks)
        self._metrics.in_progress.set_function(lambda: len(self._leases))
        self._process_metrics.live_checks["worker"] = self._is_live
        self._process_metrics.ready_checks["worker"] = self._is_ready

    async def run(self, stop: asyncio.Event) -> None:
        """Process documents until `stop` is set. Then claim no more, and return to the queue what
        isn't finished within `drain_seconds`."""
        settings = self._engine_settings
        logs.bind(worker=self.name)
        async with AsyncExitStack() as stack:
            log_dir = settings.log_dir
            if log_dir is None:
                folder = tempfile.TemporaryDirectory(prefix="llm-ocr-worker-")
                log_dir = Path(stack.enter_context(folder))
            # Lease renewal has its own thread, so that it never waits for other statements.
            self._database_threads = ThreadPoolExecutor(self._settings.tasks + 2, "database")
            self._heartbeat_thread = ThreadPoolExecutor(1, "heartbeat")
            for threads in (self._database_threads, self._heartbeat_thread):
                stack.callback(threads.shutdown, wait=False, cancel_futures=True)
            renderer = await stack.enter_async_context(render_pool(settings))
            engines = EnginePool(
                settings,
                log_dir,
                self._notify,
                self._answers.observe,
                retry_seconds=RETRY_SECONDS,
                server_seconds=SERVER_SECONDS,
            )
            await stack.enter_async_context(engines)
            self._process_metrics.registry.register(EngineCollector(engines))
            models = stack.enter_context(tempfile.TemporaryDirectory(prefix="llm-ocr-models-"))
            self._context = WorkerContext(
                self._database,
                self._store,
                renderer,
                engines,
                self._slots,
                *self._pinned_models(Path(models)),
                self._settings.max_pages,
                self._call_database,
                self._reset_pause,
                self._metrics,
            )
            lease_seconds = self._settings.lease_seconds
            background = [
                asyncio.create_task(self._repeat(action, seconds))
                for action, seconds in (
                    (self._renew_leases, min(RENEW_SECONDS, lease_seconds / 3)),
                    (self._save_progress, PROGRESS_SECONDS),
                    (self._send_heartbeat, lease_seconds / 3),
                    (self._note_that_it_runs, 1.0),
                )
            ]
            try:
                await self._claim_documents(stop)
                await self._drain()
            finally:
                for task in (*background, *self._supervisors):
                    task.cancel()
                await asyncio.gather(*background, *self._supervisors, return_exceptions=True)

    def _pinned_models(
        self, folder: Path
    ) -> tuple[PinnedModels[LoadedClassifier], PinnedModels["ObjectDetector"]]:
        registry = open_registry(self._database, self._store, self._settings.registry)
        key = self._engine_settings.api_key
        secret = None if key is None else key.get_secret_value()
        return (
            PinnedModels(registry, folder, partial(open_classifier, api_key=secret)),
            PinnedModels(registry, folder, open_detector),
        )

    # Claiming and processing -------------------------------------------------------------------

    async def _claim_documents(self, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        failures = 0
        try:
            while not stop.is_set():
                wait = self._settings.poll_seconds
                free = self._settings.tasks - len(self._leases)
                paused = self._paused_until - time.monotonic()
                if paused > 0:
                    wait = min(wait, paused)
                elif free and not self._admission.is_reserved:
                    try:
                        began = time.monotonic()
                        for document in await self._call_database(self._queue.claim, free):
                            self._start(document, began + self._settings.lease_seconds)
                        failures = 0
                    except DatabaseError as error:
                        failures += 1
                        wait = self._on_database_failure(error, failures)
                    except Exception:
                        log.exception("%s can't claim documents", self.name)
                waiting = {stopping, *self._supervisors}
                await asyncio.wait(waiting, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    def _start(self, document: ClaimedDocument, expires_at: float) -> None:
        lease = _Lease(document, expires_at)
        self._leases.add(lease)
        task = asyncio.create_task(self._supervise(lease))
        self._supervisors.add(task)
        task.add_done_callback(self._supervisors.discard)
        task.add_done_callback(lambda _: self._leases.discard(lease))

    async def _supervise(self, lease: _Lease) -> None:
        document = lease.document
        logs.bind(document_id=document.id, tenant=document.tenant)
        if document.traceparent is not None:
            logs.bind(trace_id=tracing.trace_id_of(document.traceparent))
        lease.processing = asyncio.create_task(self._process(lease))
        if lease.stop_reason is not None:
            lease.processing.cancel()
        try:
            await asyncio.wait({lease.processing})
        except asyncio.CancelledError:
            lease.processing.cancel()
            raise
        outcome = self._outcome_of(lease, lease.processing)
        name = _outcome_name(lease, outcome)
        self._metrics.count_document(name)
        _log_outcome(lease, name, outcome)
        await self._save_outcome(lease, outcome)

    async def _process(self, lease: _Lease) -> TaskOutcome:
        """Process a document within its trace, which began when it was created."""
        document = lease.document
        about: dict[str, str | int] = {"llm_ocr.document.id": document.id}
        about["llm_ocr.attempt"] = document.attempts
        if document.available_at is not None and document.claimed_at is not None:
            waited = document.available_at, document.claimed_at
            tracing.record_span("wait in queue", *waited, about, document.traceparent)
        about |= {"llm_ocr.pipeline": document.pipeline, "llm_ocr.worker": self.name}
        parent = document.traceparent
        with tracing.span("process document", about, parent=parent, kind="consumer") as span:
            outcome = await self._process_document(lease)
            if outcome.completion is not None:
                span.set({"llm_ocr.document.state": outcome.completion.state})
            return outcome

    async def _process_document(self, lease: _Lease) -> TaskOutcome:
        document = lease.document
        stored = await self._call_database_with_retries(
            lease, load_document, self._database, document.tenant, document.id
        )
        async with self._admission.admit(
            exclusive=stored.row["worker_deaths"] >= MAX_WORKER_DEATHS - 1
        ):
            # This process may have lost the document while it was frozen and claimed it again: wait
            # until the earlier processing has released the files.
            for earlier in list(self._leases):
                is_same = earlier.document.id == document.id and earlier is not lease
                if is_same and earlier.processing is not None:
                    await asyncio.wait({earlier.processing})
            pipeline_steps = await self._load_steps(lease)
            lease.task = DocumentTask(
                self._context, document, stored, pipeline_steps, lambda: lease.expires_at
            )
            return await lease.task.run()

    async def _load_steps(self, lease: _Lease) -> PipelineSteps:
        """The steps of the document's pipeline, in the revision that it was queued with."""
        name, revision = lease.document.pipeline, lease.document.pipeline_revision
        if (name, revision) not in self._steps:
            try:
                pipeline = await self._call_database_with_retries(
                    lease, load_pipeline, self._database, name, revision
                )
            except UnknownPipelineError as error:
                raise DocumentError("unknown_pipeline", str(error)) from error
            try:
                pipeline_steps = await asyncio.to_thread(
                    make_steps, pipeline, self._engine_settings, self._context.render_pool
                )
            except (EngineFailedError, UnknownTaskError, SchemaError, ValueError) as error:
                waiting_for = f"a worker that can run the pipeline {name}"
                raise UnavailableError(waiting_for, error) from error
            # Documents that load the same pipeline at once must share its concurrency limits.
            self._steps.setdefault((name, revision), pipeline_steps)
        return self._steps[name, revision]

    def _outcome_of(self, lease: _Lease, processing: "asyncio.Task[TaskOutcome]") -> TaskOutcome:
        """The outcome of a document whose processing has ended: with a result, an exception or by
        cancellation."""
        if processing.cancelled():
            if lease.stop_reason == "cancelled":
                return TaskOutcome(DocumentCompletion(DocumentState.CANCELLED))
            return TaskOutcome()
        error = processing.exception()
        if error is None:
            return processing.result()
        if isinstance(error, DocumentError):
            return TaskOutcome(DocumentCompletion(DocumentState.FAILED, error=error.error))
        if isinstance(error, UnavailableError):
            delay = self._pause_claiming()
            self._notify_once_a_minute(error.waiting_for, f"{lease.document.id} waits for {error}")
            return TaskOutcome(after_seconds=delay, waiting_for=error.waiting_for)
        if isinstance(error, LeaseLostError | DatabaseError | UnknownDocumentError):
            # If this worker still owns the document, requeuing it saves waiting for its expiry.
            return TaskOutcome()
        log.error("%s: unexpected error", lease.document.id, exc_info=error)
        if lease.document.attempts < MAX_ATTEMPTS:
            return TaskOutcome(
                after_seconds=UNAVAILABLE_BACKOFF.delay(lease.document.attempts), is_attempt=True
            )
        message = f"unexpected {type(error).__name__}: {error}; this is a bug, please report it"
        failure = {"code": "internal_error", "message": message, "retryable": False}
        return TaskOutcome(DocumentCompletion(DocumentState.FAILED, error=failure))

    async def _save_outcome(self, lease: _Lease, outcome: TaskOutcome) -> None:
        """Write an outcome to the database, retrying while it is unavailable. A document that this
        worker doesn't own any more stays unchanged."""
        lease.has_outcome = True
        failures = 0
        while True:
            try:
                await self._call_database(self._write_outcome, lease, outcome)
            except DatabaseError as error:
                failures += 1
                wait = self._on_database_failure(error, failures)
                if time.monotonic() + wait > self._shutdown_deadline:
                    return
                await asyncio.sleep(wait)
            except Exception:
                # Its lease will expire, and another worker will claim it.
                log.exception("%s: its outcome can't be saved", lease.document.id)
                return
            else:
                return

    def _write_outcome(self, lease: _Lease, outcome: TaskOutcome) -> None:
        document, queue = lease.document, self._queue
        progress = lease.task.progress if lease.task is not None else None
        rows = [] if progress is None else progress.rows
        count = outcome.page_count or (None if progress is None else progress.page_count)
        if outcome.completion is not None:
            queue.finish(
                document,
                outcome.completion,
                rows,
                page_count=count,
                retention_seconds=outcome.retention_seconds,
            )
            return
        if progress is not None:
            queue.save_progress(
                document, progress.step, rows, page_count=count, pages_done=progress.pages_done
            )
        queue.requeue(
            document,
            after_seconds=outcome.after_seconds,
            waiting_for=outcome.waiting_for,
            is_attempt=outcome.is_attempt,
        )

    # Background tasks --------------------------------------------------------------------------

    async def _repeat(self, action: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Run `action` every `seconds` until cancelled. Its errors are reported, and don't end the
        loop."""
        failures = 0
        while True:
            try:
                await action()
                failures = 0
            except DatabaseError as error:
                failures += 1
                self._on_database_failure(error, failures)
            except Exception:
                log.exception("%s: a background task failed", self.name)
            await asyncio.sleep(seconds)

    async def _renew_leases(self) -> None:
        """Renew all leases in one statement. Stop processing documents whose lease is lost, and
        those that are to be cancelled."""
        leases = {lease for lease in self._leases if not lease.has_outcome}
        tokens = {lease.document.id: lease.document.fencing_token for lease in leases}
        began = time.monotonic()
        try:
            renewed = await self._call_database(
                self._queue.renew_leases, tokens, threads=self._heartbeat_thread
            )
        except DatabaseError:
            for lease in leases:
                if time.monotonic() > lease.expires_at:
                    lease.stop("lost")
            raise
        for lease in leases:
            is_cancelled = renewed.get(lease.document.id)
            if is_cancelled is None:
                lease.stop("lost")
                continue
            lease.expires_at = began + self._settings.lease_seconds
            if is_cancelled:
                lease.stop("cancelled")

    async def _save_progress(self) -> None:
        """Save the progress of documents whose progress has changed."""
        for lease in list(self._leases):
            task = lease.task
            if task is None or lease.has_outcome or not task.progress.has_unsaved_changes:
                continue
            progress = task.progress
            try:
                await self._call_database(
                    self._queue.save_progress,
                    lease.document,
                    progress.step,
                    progress.rows,
                    page_count=progress.page_count,
                    pages_done=progress.pages_done,
                )
            except BaseException:
                progress.has_unsaved_changes = True
                raise

    async def _send_heartbeat(self) -> None:
        """Record that this worker is alive, and recover the documents of workers that aren't."""
        if not self._is_registered:
            tasks = self._settings.tasks
            await self._call_database(
                self._queue.register, socket.gethostname(), __version__, tasks
            )
            self._is_registered = True
        await self._call_database(self._queue.heartbeat, is_draining=self._is_draining)
        lease = self._settings.lease_seconds
        await self._call_database(
            recover_expired_leases, self._database, caller=self.name, lease_seconds=lease
        )

    async def _drain(self) -> None:
        """Finish the open requests and result writes; return all other documents to the queue."""
        self._is_draining = True
        self._slots.close()
        deadline = time.monotonic() + self._settings.drain_seconds
        self._shutdown_deadline = deadline + REQUEUE_SECONDS
        while time.monotonic() < deadline and self._supervisors and self._is_busy:
            await asyncio.wait(self._supervisors, timeout=0.1)
        for lease in list(self._leases):
            lease.stop("drained")
        if self._supervisors:
            await asyncio.wait(
                self._supervisors, timeout=self._shutdown_deadline - time.monotonic()
            )
        try:
            await asyncio.wait_for(self._call_database(self._queue.unregister), REQUEUE_SECONDS)
        except (DatabaseError, TimeoutError):
            # Other workers delete its row after an hour.
            log.warning("%s could not remove its row from the table workers", self.name)

    async def _note_that_it_runs(self) -> None:
        self._ran_at = time.monotonic()

    def _is_live(self) -> bool:
        """Whether the event loop runs; the database's failure is no reason to restart a worker."""
        return time.monotonic() - self._ran_at < LIVE_SECONDS

    def _is_ready(self) -> bool:
        """Whether it claims documents."""
        return self._is_registered and not self._is_draining

    @property
    def _is_busy(self) -> bool:
        """Whether a request or a result write is in progress: another worker would repeat it."""
        writes = any(lease.task is not None and lease.task.is_writing for lease in self._leases)
        return writes or self._slots.in_flight > 0

    # The database ------------------------------------------------------------------------------

    async def _call_database(
        self,
        function: Callable[..., T],
        *arguments: Any,  # noqa: ANN401
        threads: ThreadPoolExecutor | None = None,
        **named: Any,  # noqa: ANN401
    ) -> T:
        """Call a blocking database function in one of this worker's own threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            threads or self._database_threads, lambda: function(*arguments, **named)
        )

    async def _call_database_with_retries(
        self,
        lease: _Lease,
        function: Callable[..., T],
        *arguments: Any,  # noqa: ANN401
    ) -> T:
        """Like `_call_database`, but retry while the database is unavailable and the lease
        holds."""
        failures = 0
        while True:
            try:
                return await self._call_database(function, *arguments)
            except DatabaseError as error:
                failures += 1
                wait = self._on_database_failure(error, failures)
                if time.monotonic() + wait > lease.expires_at:
                    raise
                await asyncio.sleep(wait)

    def _on_database_failure(self, error: DatabaseError, failures: int) -> float:
        """Notify, and return the seconds to wait before the next attempt."""
        self._notify_once_a_minute("database", f"waiting for the database: {error}")
        return DATABASE_BACKOFF.delay(failures)

    def _pause_claiming(self) -> float:
        """Stop claiming for a while, longer each time until something succeeds. Returns the seconds
        that are left of the pause."""
        if time.monotonic() >= self._paused_until:
            self._pauses += 1
            self._paused_until = time.monotonic() + UNAVAILABLE_BACKOFF.delay(self._pauses)
        return max(0.0, self._paused_until - time.monotonic())

    def _reset_pause(self) -> None:
        """Claim again at once: a request has succeeded."""
        self._pauses = 0
        self._paused_until = 0.0

    def _notify_once_a_minute(self, subject: str, message: str) -> None:
        """Notify, at most once a minute for each subject."""
        now = time.monotonic()
        if now - self._notified_at.get(subject, -60.0) >= 60.0:
            self._notified_at[subject] = now
            self._notify(message)


@dataclass
class _Admission:
    """Admits documents to processing: many at the same time, or one exclusively. A document whose
    workers died gets its last attempt exclusively: a document beside it may have killed them."""

    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _running: int = 0
    _one_has_left: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: int = 0

    @property
    def is_reserved(self) -> bool:
        """Whether a document runs exclusively, or waits to."""
        return self._waiting > 0

    @asynccontextmanager
    async def admit(self, *, exclusive: bool) -> AsyncIterator[None]:
        if exclusive:
            self._waiting += 1
            try:
                async with self._lock:
                    while self._running:
                        self._one_has_left.clear()
                        await self._one_has_left.wait()
                    yield
            finally:
                self._waiting -= 1
            return
        async with self._lock:
            self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._one_has_left.set()


def _outcome_name(lease: _Lease, outcome: TaskOutcome) -> str:
    """The outcome of a document as metrics name it."""
    if outcome.completion is not None:
        return outcome.completion.state
    if lease.stop_reason == "lost":
        return "lost"
    if outcome.waiting_for is not None:
        return "wait"
    return "retry" if outcome.is_attempt else "requeue"


def _log_outcome(lease: _Lease, name: str, outcome: TaskOutcome) -> None:
    """Log how the processing of a document ended: a warning if it failed, even in part."""
    document, error = lease.document, outcome.error
    level, text = logging.INFO, f"{document.id}: {name.replace('_', ' ')}"
    if error is not None:
        level = logging.WARNING
        step = f" at the step {error['step']}" if error.get("step") else ""
        text = f"{text}{step}: {error['code']}: {error['message']}"
    elif outcome.waiting_for is not None:
        text = f"{text} for {outcome.waiting_for}"
    elif name == "lost":
        level, text = logging.WARNING, f"{text}: its lease expired, another worker takes it over"
    log.log(
        level,
        "%s",
        text,
        extra=logs.about(
            outcome=name,
            attempt=document.attempts,
            step=None if error is None else error.get("step"),
            error=error,
            seconds=round(time.monotonic() - lease.began, 3),
        ),
    )

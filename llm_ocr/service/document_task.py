"""Processing of one claimed document, from its files to its result.

Every ending becomes a `TaskOutcome`: either the document is finished, or it returns to the queue.
"""

import asyncio
import hashlib
import logging
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from llm_ocr import tracing
from llm_ocr.document.checkpoints import DamagedCheckpointError
from llm_ocr.document.classify import LoadedClassifier
from llm_ocr.document.processor import DocumentProcessor, ItemSlots
from llm_ocr.document.steps import Step
from llm_ocr.documents import Document
from llm_ocr.engines.pool import EnginePool
from llm_ocr.inference.request import on_send
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.messages import pluralize
from llm_ocr.records import DocumentResult, ErrorCode, PageError, PageResult, PageStatus
from llm_ocr.service.checkpoints import (
    CHECKPOINTS,
    RETRYABLE,
    DocumentCheckpoints,
    InheritedResults,
    LeaseLostError,
    RetryStepError,
)
from llm_ocr.service.children import NewChild
from llm_ocr.service.database import Database
from llm_ocr.service.document_progress import DocumentProgress, step_error
from llm_ocr.service.documents import StoredDocument, StoredFile, document_folder
from llm_ocr.service.metrics import WorkerMetrics
from llm_ocr.service.pinned_models import LoadedModel, PinnedModels, UnavailableModelError
from llm_ocr.service.pipeline_steps import PipelineSteps
from llm_ocr.service.results import result_folder, total_cost, write_result
from llm_ocr.service.review_policy import find_reasons
from llm_ocr.service.schema import DocumentState, tenants
from llm_ocr.service.splitting import (
    add_page_classes,
    describe_children,
    inherited_results,
    make_children,
)
from llm_ocr.service.work_queue import ClaimedDocument, DocumentCompletion
from llm_ocr.sources.dataset_rows import page_path
from llm_ocr.sources.names import KINDS, PAGES_KIND, safe_name
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import StorageError, Store

if TYPE_CHECKING:
    from llm_ocr.auxiliary.detectors import ObjectDetector

log = logging.getLogger(__name__)

CHUNK = 8 << 20
DAY_SECONDS = 86_400.0
# The longest wait before a step is tried again.
MAX_BACKOFF = 3600.0
# Attempts that may end in an unexpected error; after the last one the document has failed.
MAX_ATTEMPTS = 3
# Statuses of pages whose text is incomplete.
INCOMPLETE = (PageStatus.FAILED, PageStatus.TRUNCATED, PageStatus.REPETITIVE)


class DocumentError(Exception):
    """The document can't be processed; `error` is as in `documents.error`."""

    def __init__(self, code: str, message: str, *, retryable: bool = False, **more: Any) -> None:  # noqa: ANN401
        super().__init__(message)
        self.error = {"code": code, "message": message, "retryable": retryable, **more}


class UnavailableError(Exception):
    """Something that the document needs is unavailable; `waiting_for` names it for its owner."""

    def __init__(self, waiting_for: str, reason: Exception) -> None:
        super().__init__(f"{waiting_for}: {reason}")
        self.waiting_for = waiting_for


@dataclass(frozen=True)
class TaskOutcome:
    """How a task ended. With a `completion` the document is finished; without, it returns to the
    queue for `after_seconds`: because it waits for something (`waiting_for`), because an attempt
    failed (`is_attempt`), or because the worker stops."""

    completion: DocumentCompletion | None = None
    after_seconds: float = 0.0
    waiting_for: str | None = None
    is_attempt: bool = False
    page_count: int | None = None
    retention_seconds: float | None = None
    # Why a step is retried.
    retried_error: Mapping[str, Any] | None = None

    @property
    def error(self) -> Mapping[str, Any] | None:
        """What went wrong, if anything did."""
        return self.retried_error if self.completion is None else self.completion.error


@dataclass(frozen=True)
class WorkerContext:
    """What the tasks of one worker share."""

    database: Database
    store: Store
    render_pool: RenderPool
    engines: EnginePool
    slots: ItemSlots
    classifiers: PinnedModels[LoadedClassifier]
    detectors: PinnedModels["ObjectDetector"]
    max_pages: int
    # Calls a blocking database function in a thread.
    call_database: Callable[..., Awaitable[Any]]
    # Called after each saved result of an item.
    on_result: Callable[[], None]
    metrics: WorkerMetrics


@dataclass
class DocumentTask:
    """Runs the pipeline of one document that this worker has claimed.

    `lease_expires_at` returns when the lease may have expired, by the monotonic clock.
    """

    context: WorkerContext
    claimed: ClaimedDocument
    stored: StoredDocument
    pipeline_steps: PipelineSteps
    lease_expires_at: Callable[[], float]
    progress: DocumentProgress = field(init=False)
    inherited: InheritedResults | None = field(init=False)
    # Those that this document runs.
    step_names: Sequence[str] = field(init=False)
    is_writing: bool = False
    timed_out_step: str | None = None
    _cancel: Callable[[], object] | None = None
    _timer: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        models = {step: target.model.name for step, target in self.pipeline_steps.targets.items()}
        self.inherited = inherited_results(self.context.store, self.stored)
        self.step_names = self.pipeline_steps.pipeline.steps_of(is_child=self.is_child)
        steps, count = self.step_names, self.stored.row["page_count"]
        self.progress = DocumentProgress(
            steps, models, self.context.metrics, self.stored.steps, count
        )
        self.progress.on_first_request = self._start_clock

    @property
    def is_child(self) -> bool:
        """Whether the document was split from another one."""
        return self.inherited is not None

    @property
    def is_split(self) -> bool:
        """Whether the document will be split."""
        return self.pipeline_steps.pipeline.splits and not self.is_child

    async def run(self) -> TaskOutcome:
        """Process the document. To stop, cancel this coroutine: saved checkpoints stay.

        Raises LeaseLostError, and UnavailableError if an engine or the storage is unavailable.
        """
        task = asyncio.current_task()
        assert task is not None
        self._cancel = task.cancel
        try:
            return await self._run()
        except asyncio.CancelledError:
            if self.timed_out_step is None:
                raise
            task.uncancel()
            return self._time_out(self.timed_out_step)
        finally:
            self.progress.end_span()
            if self._timer is not None:
                self._timer.cancel()

    async def _run(self) -> TaskOutcome:
        try:
            return await self._process()
        except DocumentError as error:
            return self._fail(error.error)
        except RetryStepError as error:
            return self._retry(error.step, step_error(error.step, error.result))
        except EngineFailedError as error:
            step = self.progress.step or "extract"
            raise UnavailableError(
                f"the model of the step {step}, which doesn't respond", error
            ) from error
        except DamagedCheckpointError as error:
            log.error("%s: %s", self.claimed.id, error)
            message = "a saved result is damaged; retry the document from this step"
            return self._fail(self._error("damaged_checkpoint", message))
        except StorageError as error:
            raise UnavailableError("the storage, which is unavailable", error) from error

    async def _process(self) -> TaskOutcome:
        document = _source_document(self.stored)
        self.context.render_pool.add_source(document, self._fetch)
        try:
            await self._count_pages(document)
            checkpoints = self._checkpoints()
            on_send.set(self.progress.on_send)
            processor = DocumentProcessor(
                await self._load_steps(),
                self.context.engines,
                self.pipeline_steps.targets,
                slots=self.context.slots,
                limits=self.pipeline_steps.limits,
            )
            result = await processor.process(document, checkpoints)
            if self.inherited is not None:
                result = await add_page_classes(result, self.inherited, self.claimed.type)
        finally:
            self.context.render_pool.release(document)
        self._stop_clock()
        self.is_writing = True
        self.progress.end_span()
        with tracing.child_span("write result"):
            return await self._write(result, checkpoints)

    async def _load_steps(self) -> Sequence[Step[Any]]:
        """The pipeline's steps, with their models in the versions that the document began with.
        Those whose results are inherited are among them: they are found to be finished. Raises
        UnavailableError."""
        steps, context = self.pipeline_steps, self.context
        classifier = None
        if steps.classifier is not None and not self.is_child:
            pin = self._pin("classify", "classifier")
            classifier = await self._load(context.classifiers, steps.classifier, pin)
            if problem := steps.find_unknown_classes(classifier):
                raise DocumentError("unknown_class", problem, step="classify")
        detectors = {}
        for name in steps.detectors if "auxiliary" in self.step_names else ():
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            pin = self._pin("auxiliary", f"detector-{digest}")
            detectors[name] = await self._load(context.detectors, name, pin)
        loaded = steps.with_models(classifier, detectors)
        return [step for step in loaded if self.is_child or step.name in self.step_names]

    def _pin(self, step: str, name: str) -> str:
        """The object that names a model's version. A retry of the step, or of extract before it,
        has another one: it takes the current version."""
        generations = [self.claimed.generations.get(one, 0) for one in ("extract", step)]
        folder = f"{document_folder(self.claimed.tenant, self.claimed.id)}/{CHECKPOINTS}"
        return f"{folder}/{name}-{'-'.join(map(str, generations))}.txt"

    async def _load(self, models: PinnedModels[LoadedModel], name: str, pin: str) -> LoadedModel:
        try:
            return await asyncio.to_thread(models.load, name, self.context.store, pin)
        except UnavailableModelError as error:
            raise UnavailableError(f"the model {name}", error) from error

    def _checkpoints(self) -> DocumentCheckpoints:
        return DocumentCheckpoints(
            self.context.store,
            document_folder(self.claimed.tenant, self.claimed.id),
            self.pipeline_steps.pipeline.step_names,
            self.claimed.generations,
            check_lease=self._check_lease,
            may_retry=self._may_retry,
            on_begin=self._begin_step,
            on_result=self._add_result,
            inherited=self.inherited,
        )

    async def _count_pages(self, document: Document) -> None:
        """Raises DocumentError if the document can't be opened, or has no pages or too many."""
        progress, limit = self.progress, self.context.max_pages
        if self.inherited is not None:
            progress.page_count = len(self.inherited.pages)
            return
        if progress.page_count is None or not self.stored.steps:
            try:
                progress.page_count = await self.context.render_pool.count_pages(document)
            except PageError as error:
                if error.code in RETRYABLE and self._may_retry("extract"):
                    raise RetryStepError("extract", _UnopenedDocument(error)) from error
                raise DocumentError(
                    error.code, error.message, retryable=error.code in RETRYABLE, step="extract"
                ) from error
        if progress.page_count > limit:
            raise DocumentError(
                "too_many_pages",
                f"{document.display_name} has {pluralize(progress.page_count, 'page')}; at most "
                f"{limit:,} are accepted (`max_pages`)",
            )
        if progress.page_count == 0:
            raise DocumentError(
                ErrorCode.NO_PAGES, f"{document.display_name} has no pages", step="extract"
            )

    async def _write(self, result: DocumentResult, checkpoints: DocumentCheckpoints) -> TaskOutcome:
        # Only the names of targets: their addresses are the operator's business.
        targets = {step.step: step.target for step in self.pipeline_steps.pipeline.steps}
        cost = total_cost(self.progress.finish(result, targets))
        state, error = _final_state(result)
        page_count = sum(page.page_number > 0 for page in result.pages)
        if state is DocumentState.FAILED:
            return TaskOutcome(DocumentCompletion(state, None, error, cost), page_count=page_count)
        self._check_lease()
        folder = result_folder(self.claimed.fencing_token)
        children: Sequence[NewChild] = ()
        if self.is_split:
            pipeline = self.pipeline_steps.pipeline
            children = await make_children(self.claimed, pipeline, result, checkpoints)
        if children:
            reasons: list[Any] = []
            state = DocumentState.SPLIT
        else:
            reasons = self._find_reasons(result)
            if reasons:
                state = DocumentState.NEEDS_REVIEW
        header: dict[str, Any] = {
            "id": self.claimed.id,
            "state": state,
            "type": self.claimed.type,
            "pipeline": self.claimed.pipeline,
            "pipeline_revision": self.claimed.pipeline_revision,
            "metadata": dict(self.claimed.metadata),
            "cost": cost,
        }
        if self.is_child:
            header["parent"] = self.stored.row["parent"]
        if children:
            header["children"] = describe_children(children)
        if reasons:
            header["review"] = {"state": "open", "reasons": reasons}
        below = f"{document_folder(self.claimed.tenant, self.claimed.id)}/{folder}"
        # The images of a scan that is split are in the results of its children.
        images = _no_pages() if children else checkpoints.pages()
        await write_result(self.context.store, below, result, images, header)
        return TaskOutcome(
            DocumentCompletion(state, folder, error, cost, reasons, children),
            page_count=page_count,
            retention_seconds=await self.context.call_database(
                _retention_seconds, self.context.database, self.claimed.tenant
            ),
        )

    def _find_reasons(self, result: DocumentResult) -> list[dict[str, Any]]:
        """Why the result needs review; of a child also what its parent knew about its pages."""
        pipeline = self.pipeline_steps.pipeline
        policy = pipeline.review
        if self.inherited is None:
            return find_reasons(policy, result, self.claimed.id, pipeline.name)
        reasons = list(self.stored.row["inherited"]["reasons"])
        known: dict[str, Any] = {"unknown_class": False, **({"sample": 0.0} if reasons else {})}
        policy = policy.model_copy(update=known)
        return [*reasons, *find_reasons(policy, result, self.claimed.id, pipeline.name)]

    def _fail(self, error: Mapping[str, Any]) -> TaskOutcome:
        self.progress.fail(error)
        return TaskOutcome(DocumentCompletion(DocumentState.FAILED, error=error))

    def _retry(self, step: str, error: Mapping[str, Any]) -> TaskOutcome:
        backoff = self.pipeline_steps.definition(step).retries.backoff
        after = min(MAX_BACKOFF, backoff * 2.0 ** min(self.progress.retry_count(step), 32))
        self.progress.retry(step, error)
        return TaskOutcome(after_seconds=after, is_attempt=True, retried_error=error)

    def _time_out(self, step: str) -> TaskOutcome:
        limit = self.pipeline_steps.definition(step).time_limit or 0.0
        message = f"the step {step} took longer than its time limit of {limit:g} s"
        error = {**self._error("time_limit", message), "retryable": True}
        return self._retry(step, error) if self._may_retry(step) else self._fail(error)

    def _error(self, code: str, message: str) -> dict[str, Any]:
        return {"code": code, "message": message, "step": self.progress.step, "retryable": False}

    def _may_retry(self, step: str) -> bool:
        return self.progress.retry_count(step) < self.pipeline_steps.definition(step).retries.limit

    def _check_lease(self) -> None:
        if time.monotonic() >= self.lease_expires_at():
            raise LeaseLostError(self.claimed.id)

    def _begin_step(self, step: str, done: int) -> None:
        self._stop_clock()
        self.progress.begin(step, done)

    def _add_result(self, step: str, result: Any) -> None:  # noqa: ANN401
        self.progress.add(step, result)
        self.context.on_result()

    def _start_clock(self, step: str) -> None:
        limit = self.pipeline_steps.definition(step).time_limit
        if limit is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(limit, self._on_time_limit, step)

    def _stop_clock(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time_limit(self, step: str) -> None:
        self.timed_out_step = step
        assert self._cancel is not None
        self._cancel()

    def _fetch(self, path: Path) -> None:
        """Copy the document's files to `path`, where they are rendered from: a file, or a folder of
        page images."""
        found = self.stored.files
        if len(found) == 1:
            self._fetch_file(found[0], path)
            return
        path.mkdir()
        for number, file in enumerate(found, 1):
            self._fetch_file(file, page_path(path, number))

    def _fetch_file(self, file: StoredFile, path: Path) -> None:
        store = self.context.store
        try:
            if store.folder is not None:
                store.stat(file.path)
                path.symlink_to(store.folder / file.path)
                return
            with store.open(file.path) as source, path.open("wb") as target:
                shutil.copyfileobj(source, target, CHUNK)
        except FileNotFoundError as error:
            message = f"{file.name}: the uploaded file is missing from the storage"
            raise PageError(ErrorCode.NOT_FOUND, message) from error
        except OSError as error:
            raise StorageError(f"{file.path} can't be copied: {error}") from error


@dataclass(frozen=True)
class _UnopenedDocument:
    """The result of a document that could not be opened, in place of a page's."""

    reason: PageError
    page_id: str = ""

    @property
    def error_code(self) -> ErrorCode:
        return self.reason.code

    @property
    def error(self) -> str:
        return self.reason.message


async def _no_pages() -> AsyncIterator[PageResult]:
    none: Sequence[PageResult] = ()
    for page in none:
        yield page


def _source_document(stored: StoredDocument) -> Document:
    """The document for the renderer. Its name comes from the client and is never used as a path."""
    if not stored.files:
        raise DocumentError("no_files", f"{stored.id} has no files")
    name = PurePosixPath(str(stored.row["name"])).name or stored.id
    size = sum(file.size or 0 for file in stored.files)
    kind = KINDS.get(PurePosixPath(name).suffix.lower(), "pdf")
    kind = kind if len(stored.files) == 1 else PAGES_KIND
    return Document(stored.id, name, stored.id, safe_name(PurePosixPath(name)), kind, size)


def _final_state(result: DocumentResult) -> tuple[DocumentState, Mapping[str, Any] | None]:
    """The final state of a document with this result, and its error if it has one."""
    bad = [page for page in result.pages if page.status in INCOMPLETE]
    if result.status is PageStatus.FAILED:
        return DocumentState.FAILED, step_error("extract", bad[0] if bad else result)
    if bad:
        error = step_error("extract", bad[0])
        if error["code"] is None:
            # Truncated and repetitive pages have no error code.
            error["code"] = bad[0].status
        if bad[0].error is None or len(bad) > 1:
            error["message"] = result.error
        return DocumentState.PARTIALLY_SUCCEEDED, error
    for step, results in (
        ("classify", result.page_classes),
        ("auxiliary", result.auxiliary),
        ("describe", result.descriptions),
        ("parse", result.records),
    ):
        for item in results:
            if item.status is PageStatus.FAILED:
                return DocumentState.PARTIALLY_SUCCEEDED, step_error(step, item)
    return DocumentState.SUCCEEDED, None


def _retention_seconds(database: Database, tenant: str) -> float | None:
    """How long the tenant's results are kept; None: without limit."""
    with database.read() as connection:
        query = select(tenants.c.retention_days).where(tenants.c.id == tenant)
        days = connection.execute(query).scalar_one_or_none()
    return None if days is None else float(days) * DAY_SECONDS

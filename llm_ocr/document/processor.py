"""Process one document: each step after the other, from the last checkpoint on."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from llm_ocr.document.assemble import document_status
from llm_ocr.document.checkpoints import Checkpoints, StepKey
from llm_ocr.document.classify import classify_document
from llm_ocr.document.items import AskModel, Item, ask_in_slots, ask_nothing, process_item
from llm_ocr.document.steps import (
    Auxiliary,
    Classify,
    Extract,
    Parse,
    ParseByClass,
    Step,
    page_share,
)
from llm_ocr.documents import Document
from llm_ocr.engines.pool import EnginePool
from llm_ocr.engines.session import EngineSession
from llm_ocr.engines.targets import EngineTarget
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.model_item import Usage
from llm_ocr.inference.request import routing_key
from llm_ocr.records import (
    Description,
    DocumentResult,
    ErrorCode,
    Figure,
    PageClass,
    PageError,
    PageResult,
    PageStatus,
)

# Receives the name of a step, and the status of an item that it has processed.
OnItem = Callable[[str, PageStatus], None]


class ItemSlots:
    """The slots of items in progress: as many as an engine has, and `ahead` more. Processors that
    share them share the slots."""

    def __init__(self, ahead: int = 4) -> None:
        self.ahead = ahead
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._of: dict[EngineSession, ConcurrencyLimiter] = {}

    @property
    def in_flight(self) -> int:
        """The items in progress that ask an engine."""
        return sum(slots.in_flight for slots in self._of.values())

    def close(self) -> None:
        """Let no further item begin."""
        self._is_open.clear()

    async def until_open(self) -> None:
        await self._is_open.wait()

    def of(self, session: EngineSession) -> ConcurrencyLimiter:
        if session not in self._of:
            slots = self._of[session] = ConcurrencyLimiter(self.ahead)
            session.limiter.subscribe(lambda limit: slots.set_limit(limit + self.ahead))
        return self._of[session]


@dataclass(frozen=True)
class _FinishedStep:
    key: StepKey
    item_ids: Sequence[str]
    result_type: type[Any]


class DocumentProcessor:
    """Processes documents, several at once if `process` is called so.

        processor = DocumentProcessor(steps, engines, targets)
        result = await processor.process(document, checkpoints)

    `targets` are the engines of the steps that ask a model, by step. At most as many items of a
    step are in progress, over all documents, as its engine has slots, and `ahead` more, whose
    requests are prepared; processors with the same `slots` count together. `limits` are those of
    steps that may have fewer items in progress. A step that was finished before, or an item that
    has a result, is taken from the checkpoints; they are found again as long as the steps, the
    models and the results of earlier steps are the same.
    """

    def __init__(
        self,
        steps: Sequence[Step[Any]],
        engines: EnginePool,
        targets: Mapping[str, EngineTarget],
        *,
        ahead: int = 4,
        on_item: OnItem | None = None,
        slots: ItemSlots | None = None,
        limits: Mapping[str, ConcurrencyLimiter] | None = None,
    ) -> None:
        self._steps, self._engines, self._targets = steps, engines, targets
        self._on_item, self._limits = on_item, limits or {}
        self._slots = ItemSlots(ahead) if slots is None else slots

    async def process(self, document: Document, checkpoints: Checkpoints) -> DocumentResult:
        """The document after all steps. What can't be read is a status, not an exception.

        Raises EngineFailedError where an engine can't be started or is lost, and StorageError
        where checkpoints can't be read or written; what was saved until then is not done again.
        """
        # A hash: the id may say where the document is from.
        routing_key.set(hashlib.sha256(document.doc_id.encode()).hexdigest()[:16])
        finished: dict[str, _FinishedStep] = {}
        for step in self._steps:
            key = self._key(document, step, finished)
            item_ids = await checkpoints.completed_items(key)
            if item_ids is None:
                inputs = CheckpointInputs(document, checkpoints, finished)
                item_ids = await self._run(step, key, inputs)
            finished[step.name] = _FinishedStep(key, item_ids, step.result_type)
        result = await CheckpointInputs(document, checkpoints, finished).result()
        for step in self._steps:
            if isinstance(step, Auxiliary):
                unmet = step.find_unmet(result.pages, result.auxiliary)
                result = replace(result, unmet_expectations=tuple(unmet))
            elif isinstance(step, Classify):
                rule = step.classification.options.document_class
                class_name = classify_document(result.page_classes, rule)
                result = replace(result, class_name=class_name)
            elif isinstance(step, ParseByClass):
                unparsed = step.find_unparsed(result.pages, result.page_classes)
                result = replace(result, unparsed_pages=tuple(unparsed))
        return result

    def _key(
        self, document: Document, step: Step[Any], finished: Mapping[str, _FinishedStep]
    ) -> StepKey:
        target = self._targets.get(step.name)
        made_from = [finished[name].key.version for name in step.needs if name in finished]
        asked = [step.version, made_from, None if target is None else _model_version(target)]
        digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
        return StepKey(document.doc_id, step.name, digest)

    async def _run(self, step: Step[Any], key: StepKey, inputs: "CheckpointInputs") -> list[str]:
        """Process the items that have no result yet; returns the ids of all, in order."""
        checkpoints = inputs.checkpoints
        saved = await checkpoints.saved_items(key)
        item_ids: list[str] = []
        limit = self._limits.get(step.name)
        async with self._asking(step) as (ask_model, slots):
            try:
                async with asyncio.TaskGroup() as group:
                    async for item in step.items(inputs):
                        item_ids.append(item.item_id)
                        if item.item_id not in saved:
                            await self._slots.until_open()
                            with ExitStack() as stack:
                                for one in (limit, slots) if limit is not None else (slots,):
                                    await one.acquire()
                                    stack.callback(one.release)
                                task = group.create_task(
                                    self._process(item, key, ask_model, checkpoints)
                                )
                                # Also of a task that is canceled before it runs.
                                task.add_done_callback(_close_after(stack.pop_all()))
            except BaseExceptionGroup as errors:
                raise _first(errors) from None
        if len(set(item_ids)) != len(item_ids):
            raise AssertionError(f"{key.doc_id}: {step.name} has an item twice; please report this")
        await checkpoints.complete(key, item_ids)
        return item_ids

    async def _process(
        self, item: Item[Any], key: StepKey, ask_model: AskModel, checkpoints: Checkpoints
    ) -> None:
        usage = Usage()
        result = await process_item(item, ask_model, usage)
        try:
            await checkpoints.save(key, item.item_id, result)
        except ValueError as error:
            # As text that is no Unicode, which nothing known makes any more.
            message = f"the result can't be saved ({error}); please report this"
            result = item.failure(PageError(ErrorCode.INTERNAL_ERROR, message), usage)
            await checkpoints.save(key, item.item_id, result)
        if self._on_item is not None:
            self._on_item(key.step, result.status)

    @asynccontextmanager
    async def _asking(self, step: Step[Any]) -> AsyncIterator[tuple[AskModel, ConcurrencyLimiter]]:
        """What asks about the items of a step, and the slots of items in progress."""
        target = self._targets.get(step.name)
        if target is None:
            yield ask_nothing, ConcurrencyLimiter(self._slots.ahead)
            return
        async with self._engines.lease(target) as session:
            slots = self._slots.of(session)
            for_pages = isinstance(step, Extract)
            check = step.check if isinstance(step, Parse | ParseByClass) else None
            ladder = self._engines.ladder(session, for_pages=for_pages, check=check)
            ask_model: AskModel = ladder.run
            if isinstance(step, Parse | ParseByClass):
                yield ask_in_slots(slots, ask_model), ConcurrencyLimiter(self._slots.ahead)
            else:
                yield ask_model, slots


@dataclass(frozen=True)
class CheckpointInputs:
    """One document, and what its finished steps found, from its checkpoints."""

    document: Document
    checkpoints: Checkpoints
    finished: Mapping[str, _FinishedStep]

    def documents(self) -> Sequence[Document]:
        return [self.document]

    async def pages(self, *, images: bool = False) -> AsyncIterator[PageResult]:
        async for page in self._results("extract"):
            yield page if images else replace(page, image=None)

    async def figures(self) -> AsyncIterator[tuple[Figure, float]]:
        async for page in self._results("extract"):
            for figure in page.figures:
                yield figure, page_share(figure, page.width, page.height)

    def descriptions(self) -> AsyncIterator[Description]:
        return self._results("describe")

    def page_classes(self) -> AsyncIterator[PageClass]:
        return self._results("classify")

    async def result(self) -> DocumentResult:
        """All of it; figures with the text of their first good description."""
        descriptions = [description async for description in self.descriptions()]
        texts: dict[str, str] = {}
        for description in descriptions:
            if description.status is PageStatus.OK and description.text:
                texts.setdefault(description.figure_id, description.text)
        pages = [
            replace(
                page,
                figures=tuple(
                    replace(figure, description=texts.get(figure.figure_id))
                    for figure in page.figures
                ),
            )
            async for page in self.pages()
        ]
        result = DocumentResult(
            doc_id=self.document.doc_id,
            source_uri=self.document.source_uri,
            name=self.document.name,
            status=PageStatus.OK,
            markdown="\n\n".join(page.markdown for page in pages),
            pages=tuple(pages),
            descriptions=tuple(descriptions),
            records=tuple([record async for record in self._results("parse")]),
            auxiliary=tuple([found async for found in self._results("auxiliary")]),
            page_classes=tuple([page async for page in self._results("classify")]),
        )
        async for assembled in self._results("assemble"):
            return replace(
                result,
                status=assembled.status,
                markdown=assembled.markdown,
                error_code=assembled.error_code,
                error=assembled.error,
            )
        status, error = document_status(pages)
        return replace(
            result,
            status=status,
            error_code=error.code if error else None,
            error=error.message if error else None,
        )

    async def _results(self, step: str) -> AsyncIterator[Any]:
        """The results of a step; none where it was not run."""
        if (finished := self.finished.get(step)) is None:
            return
        key, item_ids, kind = finished.key, finished.item_ids, finished.result_type
        async for result in self.checkpoints.results(key, item_ids, kind):
            yield result


def _close_after(stack: ExitStack) -> Callable[[object], None]:
    return lambda _: stack.close()


def _model_version(target: EngineTarget) -> list[object]:
    """What the results of a model depend on."""
    model, profile = target.model, target.model.profile
    prompts = {task.value: profile.prompt_hash(task) for task in sorted(profile.prompts)}
    ladder = [rung.name for rung in profile.ladder]
    return [model.name, model.revision, profile.id, profile.parser_version, prompts, ladder]


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

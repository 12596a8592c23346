"""Checkpoints of a document in the service: `StoreCheckpoints` with retries and leases.

Results are stored in the document's folder, as `document.checkpoints.StoreCheckpoints` writes them.
Three things are added:

- A retry invalidates checkpoints: the keys of a step contain its generation and the generations of
  the steps before it (`documents.generations`), and a retry increments one of them.
- Failed results have keys of their own, so that retrying the failures keeps the successes.
- Before each write the lease is checked: a worker that may have lost it writes nothing.

A document that was split from another one reads the results of the steps extract and classify where
that one saved them: its pages are neither read again nor copied.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from llm_ocr.document.checkpoints import StepKey, StoreCheckpoints
from llm_ocr.records import AuxiliaryResult, ErrorCode, PageClass, PageResult, PageStatus
from llm_ocr.storage.store import Store

Result = TypeVar("Result")
CHECKPOINTS = "checkpoints"
# Bytes of page images and figures cached in memory per document, so that later steps need not read
# them again. Beyond that, results are read one at a time.
CACHE_BYTES = 16 << 20
# Prefix of a step's name in `documents.generations`, for retries of its failed items only.
FAILED_PREFIX = "failed:"
# Errors that may be gone at the next attempt.
RETRYABLE = frozenset(
    {
        ErrorCode.READ_ERROR,
        ErrorCode.RENDER_TIMEOUT,
        ErrorCode.ENGINE_ERROR,
        ErrorCode.ENGINE_TIMEOUT,
    }
)


class LeaseLostError(Exception):
    """The lease may have expired and another worker may own the document: nothing is written."""


class RetryStepError(Exception):
    """Items of a step failed with retryable errors, and the step has retries left. `result` is that
    of the first of these items."""

    def __init__(self, step: str, result: Any) -> None:  # noqa: ANN401
        super().__init__(f"{step}: {result_error(result)[1]}")
        self.step, self.result = step, result


@dataclass(frozen=True)
class InheritedResults:
    """The pages and page classes that a document takes from its parent, in whose `folder` they are.
    `pages` and `classes` are the paths of their checkpoints by page number, as `paths_by_page` gave
    them; `doc_id` and `name` are those of the document itself."""

    store: Store
    folder: str
    doc_id: str
    name: str
    pages: Mapping[int, str]
    classes: Mapping[int, str]

    @property
    def by_step(self) -> Mapping[str, Mapping[int, str]]:
        return {"extract": self.pages, "classify": self.classes}

    def item_ids(self, step: str) -> Sequence[str]:
        return [f"{self.doc_id}/{number}" for number in self.by_step[step]]

    async def results(self, step: str, item_ids: Sequence[str]) -> AsyncIterator[Any]:
        """The results of items, as those of this document."""
        checkpoints = StoreCheckpoints(self.store, f"{self.folder}/{CHECKPOINTS}")
        for item_id in item_ids:
            path = self.by_step[step][int(item_id.rpartition("/")[2])]
            if step == "extract":
                yield self._own_page(await checkpoints.read(path, PageResult), item_id)
            else:
                found = await checkpoints.read(path, PageClass)
                yield replace(found, page_id=item_id, doc_id=self.doc_id)

    def _own_page(self, page: PageResult, page_id: str) -> PageResult:
        figures = tuple(
            replace(
                figure,
                figure_id=f"{page_id}/{figure.figure_id.rpartition('/')[2]}",
                page_id=page_id,
                doc_id=self.doc_id,
            )
            for figure in page.figures
        )
        return replace(
            page,
            page_id=page_id,
            doc_id=self.doc_id,
            source_uri=self.doc_id,
            name=self.name,
            figures=figures,
        )


class DocumentCheckpoints:
    """The `Checkpoints` of one document in its `folder`, for one worker.

    `steps` are the names of the pipeline's steps in order, `generations` is
    `documents.generations`. `check_lease` raises LeaseLostError. `may_retry` tells whether a step
    has retries left: then the results of items with retryable errors are not saved. `on_begin`
    receives a step and the number of its items that are done already, `on_result` each result that
    is saved. `inherited` are the results of steps that the document doesn't run itself.
    """

    def __init__(
        self,
        store: Store,
        folder: str,
        steps: Sequence[str],
        generations: Mapping[str, int],
        *,
        check_lease: Callable[[], None] = lambda: None,
        may_retry: Callable[[str], bool] = lambda step: False,
        on_begin: Callable[[str, int], None] = lambda step, done: None,
        on_result: Callable[[str, Any], None] = lambda step, result: None,
        inherited: InheritedResults | None = None,
    ) -> None:
        self._checkpoints = StoreCheckpoints(store, f"{folder}/{CHECKPOINTS}")
        self._steps, self._generations = list(steps), generations
        self._check_lease, self._may_retry = check_lease, may_retry
        self._on_begin, self._on_result = on_begin, on_result
        self._inherited = inherited
        self._finished: dict[str, tuple[StepKey, Sequence[str]]] = {}
        # The first failed result of each step that will be retried.
        self._failed_for_retry: dict[str, Any] = {}
        self._cache: dict[tuple[str, str], Any] = {}
        self._cache_bytes_left = CACHE_BYTES

    async def completed_items(self, key: StepKey) -> Sequence[str] | None:
        if self._inherited is not None and key.step in self._inherited.by_step:
            inherited = self._inherited.item_ids(key.step)
            self._finished[key.step] = (key, inherited)
            return inherited
        item_ids = await self._checkpoints.completed_items(self._completion_key(key))
        if item_ids is not None:
            self._finished[key.step] = (key, item_ids)
            self._on_begin(key.step, len(item_ids))
        return item_ids

    async def saved_items(self, key: StepKey) -> frozenset[str]:
        succeeded = await self._checkpoints.saved_items(self._success_key(key))
        failed = await self._checkpoints.saved_items(self._failure_key(key))
        self._on_begin(key.step, len(succeeded | failed))
        return succeeded | failed

    async def save(self, key: StepKey, item_id: str, result: object) -> None:
        has_failed = getattr(result, "status", None) is PageStatus.FAILED
        if has_failed and result_error(result)[0] in RETRYABLE and self._may_retry(key.step):
            self._failed_for_retry.setdefault(key.step, result)
            return
        self._check_lease()
        result_key = self._failure_key(key) if has_failed else self._success_key(key)
        await self._checkpoints.save(result_key, item_id, result)
        self._cache_bytes_left -= _image_bytes(result)
        if self._cache_bytes_left >= 0:
            self._cache[key.step, item_id] = result
        self._on_result(key.step, result)

    async def complete(self, key: StepKey, item_ids: Sequence[str]) -> None:
        """Raises RetryStepError where items have no result yet."""
        if key.step in self._failed_for_retry:
            raise RetryStepError(key.step, self._failed_for_retry[key.step])
        self._check_lease()
        await self._checkpoints.complete(self._completion_key(key), item_ids)
        self._finished[key.step] = (key, item_ids)

    async def results(
        self, key: StepKey, item_ids: Sequence[str], kind: type[Result]
    ) -> AsyncIterator[Result]:
        if self._inherited is not None and key.step in self._inherited.by_step:
            async for result in self._inherited.results(key.step, item_ids):
                yield result
            return
        succeeded: frozenset[str] | None = None
        for item_id in item_ids:
            if (cached := self._cache.get((key.step, item_id))) is not None:
                yield cached
                continue
            if succeeded is None:
                succeeded = await self._checkpoints.saved_items(self._success_key(key))
            result_key = self._success_key(key) if item_id in succeeded else self._failure_key(key)
            async for result in self._checkpoints.results(result_key, [item_id], kind):
                yield result

    async def pages(self) -> AsyncIterator[PageResult]:
        """The pages of the finished step extract with their images, one at a time."""
        async for page in self.results(*self._finished["extract"], PageResult):
            yield page

    async def paths_by_page(self, step: str) -> Mapping[int, str]:
        """Where the results of a finished step are, by page number, for `InheritedResults`."""
        key, item_ids = self._finished[step]
        success, failure = self._success_key(key), self._failure_key(key)
        succeeded = await self._checkpoints.saved_items(success)
        return {
            int(item_id.rpartition("/")[2]): self._checkpoints.path(
                success if item_id in succeeded else failure, item_id
            )
            for item_id in item_ids
        }

    def _success_key(self, key: StepKey) -> StepKey:
        """The key of successful results: changes when this step, or a step before it, is
        retried."""
        position = self._steps.index(key.step)
        generations = [
            (name, self._generations.get(name, 0)) for name in self._steps[: position + 1]
        ]
        generations += [
            (FAILED_PREFIX + name, self._generations.get(FAILED_PREFIX + name, 0))
            for name in self._steps[:position]
        ]
        return _add_salt(key, [(name, number) for name, number in generations if number])

    def _failure_key(self, key: StepKey) -> StepKey:
        """The key of failed results: also changes when the step's failures are retried."""
        number = self._generations.get(FAILED_PREFIX + key.step, 0)
        success_key = self._success_key(key)
        return replace(success_key, version=f"{success_key.version}-failed-{number}")

    def _completion_key(self, key: StepKey) -> StepKey:
        """The key of the list of all items, which completes the step."""
        number = self._generations.get(FAILED_PREFIX + key.step, 0)
        success_key = self._success_key(key)
        if number == 0:
            return success_key
        return replace(success_key, version=f"{success_key.version}-{number}")


def result_error(result: Any) -> tuple[ErrorCode | None, str]:  # noqa: ANN401
    """The error code and message of a failed result of any step."""
    outcome = getattr(result, "outcome", result)
    return outcome.error_code, outcome.error or str(outcome.error_code)


def _image_bytes(result: object) -> int:
    """The size of a page's images in bytes; the results of other steps are small."""
    if isinstance(result, AuxiliaryResult):
        return sum(len(finding.jpeg) for finding in result.findings)
    if not isinstance(result, PageResult):
        return 0
    return len(result.image or b"") + sum(len(figure.jpeg) for figure in result.figures)


def _add_salt(key: StepKey, generations: Sequence[tuple[str, int]]) -> StepKey:
    if not generations:
        return key
    salt = hashlib.sha256(json.dumps(generations).encode()).hexdigest()[:8]
    return replace(key, version=f"{key.version}-{salt}")

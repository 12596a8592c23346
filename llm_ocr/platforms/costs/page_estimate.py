"""Estimates how many pages an input has, by counting those of a sample of its documents."""

import asyncio
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from statistics import fmean, variance

from llm_ocr.batch.events import ItemsDone, Notify, StageEnded, StageStarted
from llm_ocr.batch.interruption import CancellationToken, run_until_stopped
from llm_ocr.document.configure import render_pool
from llm_ocr.documents import Document
from llm_ocr.platforms.costs.prices import Interval
from llm_ocr.records import ErrorCode, PageError, PageStatus
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import NoInputError, list_documents
from llm_ocr.sources.listing import is_remote
from llm_ocr.sources.names import DATASET_KINDS
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.sources.row_batches import count_rows
from llm_ocr.storage.store import StorageError

# Images that may hold more than one page; the others are not opened.
MULTIPAGE = (".tif", ".tiff")
# One in so many sampled documents is taken for its size: a few large files may hold most of the
# pages, and a random sample would miss them.
LARGEST = 4
# Student's t for 95%, by degrees of freedom.
_STUDENT = {
    1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23,
    12: 2.18, 15: 2.13, 20: 2.09, 30: 2.04, 60: 2.00, 120: 1.98, 1000: 1.96,
}  # fmt: skip


@dataclass(frozen=True)
class Stratum:
    """Documents of one kind: how many, and the pages of a random sample of them."""

    documents: int
    counted: Sequence[int]

    @property
    def is_sampled(self) -> bool:
        return len(self.counted) < self.documents

    @property
    def total(self) -> float:
        """The pages of all documents, extrapolated from the sample."""
        return self.documents * fmean(self.counted) if self.counted else 0.0

    @property
    def variance(self) -> float:
        """The sampling variance of the total; 0 if all documents were counted."""
        if not self.is_sampled:
            return 0.0
        count = len(self.counted)
        # One document says nothing about the spread: assume that it is as large as the document.
        each = variance(self.counted) if count > 1 else fmean(self.counted) ** 2
        return self.documents**2 * (1 - count / self.documents) * each / count


@dataclass(frozen=True)
class Unreadable:
    """Why a document can't be opened: the fact and its code."""

    error: str
    error_code: str


@dataclass(frozen=True)
class PageEstimate:
    """How many pages an input has: `counted` of its `documents` (files, or a dataset's files) were
    opened, `unreadable` says why some could not be, and `pages` are those of all."""

    documents: int
    counted: int
    bytes: int
    pages: Interval
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def is_exact(self) -> bool:
        return self.pages.low == self.pages.high


@dataclass(frozen=True)
class _Sample:
    """Documents of one kind, of which those in `sampled` are counted."""

    documents: int
    sampled: Sequence[Document]


def estimate_pages(
    inputs: Sequence[str], settings: Settings, sample: int, notify: Notify
) -> PageEstimate:
    """Count the pages of up to `sample` documents of each kind.

    Remote documents are fetched for it. Raises NoInputError if there is nothing to read, or
    nothing that can be opened; StorageError.
    """

    async def work(stop: CancellationToken) -> PageEstimate:
        return await stop.guard(_estimate(inputs, settings, sample, notify))

    return run_until_stopped(work)


def total_pages(strata: Sequence[Stratum]) -> Interval:
    """The pages of all strata with their 95% confidence interval; at least what was counted."""
    sampled = [stratum for stratum in strata if stratum.is_sampled]
    expected = sum(stratum.total for stratum in strata)
    freedom = max(1, sum(len(stratum.counted) - 1 for stratum in sampled))
    student = _STUDENT[max(key for key in _STUDENT if key <= freedom)]
    margin = student * math.sqrt(sum(stratum.variance for stratum in sampled))
    counted = sum(sum(stratum.counted) for stratum in strata)
    return Interval(max(counted, expected - margin), expected, expected + margin)


async def _estimate(
    inputs: Sequence[str], settings: Settings, sample: int, notify: Notify
) -> PageEstimate:
    documents = await asyncio.to_thread(list_documents, inputs)
    single_pages, samples = _select_samples(documents, sample)
    opened = sum(len(kind.sampled) for kind in samples)
    strata = [_single_page_stratum(single_pages, settings)]
    unreadable: list[Unreadable] = []
    notify(StageStarted("plan", opened))
    async with render_pool(settings) as pool:
        for kind in samples:
            counting = (_count(document, settings, pool, notify) for document in kind.sampled)
            counts = await asyncio.gather(*counting)
            pages = [count if isinstance(count, int) else 0 for count in counts]
            strata.append(Stratum(kind.documents, pages))
            unreadable += [count for count in counts if isinstance(count, Unreadable)]
    notify(StageEnded("plan", opened))
    total = total_pages(strata)
    if not total.expected:
        raise _nothing_to_read(opened, unreadable)
    size = sum(document.size for document in documents)
    return PageEstimate(len(documents), single_pages + opened, size, total, tuple(unreadable))


def _single_page_stratum(documents: int, settings: Settings) -> Stratum:
    """Images of one page each, which counts if `pages` selects the first page."""
    is_selected = settings.selection is None or bool(settings.selection.select(1))
    return Stratum(documents, [int(is_selected)] * documents)


def _select_samples(documents: Sequence[Document], sample: int) -> tuple[int, list[_Sample]]:
    """How many documents have a single page, and which of the others to count, kind by kind."""
    kinds: defaultdict[str, list[Document]] = defaultdict(list)
    single_pages = 0
    for document in documents:
        extension = PurePosixPath(document.source_uri).suffix.lower()
        if document.kind == "image" and extension not in MULTIPAGE:
            single_pages += 1
        else:
            kinds[f"{document.kind}{extension}"].append(document)
    return single_pages, [
        selected for kind in sorted(kinds) for selected in _sample_kind(kinds[kind], sample)
    ]


def _sample_kind(documents: list[Document], sample: int) -> list[_Sample]:
    """All documents if there are few; else the largest ones, and a random sample of the rest.

    Remote documents are all sampled at random: the largest would take long to fetch.
    """
    if len(documents) <= sample:
        return [_Sample(len(documents), documents)]
    by_size = sorted(documents, key=lambda document: document.size, reverse=True)
    first = 0 if is_remote(documents[0].source_uri) else sample // LARGEST
    rest = random.Random(0).sample(by_size[first:], sample - first)
    largest = [_Sample(first, by_size[:first])] if first else []
    return [*largest, _Sample(len(documents) - first, rest)]


async def _count(
    document: Document, settings: Settings, pool: RenderPool, notify: Notify
) -> int | Unreadable:
    """How many pages of the document `pages` selects, or why it can't be opened."""
    try:
        if document.kind in DATASET_KINDS.values():
            rows = await asyncio.to_thread(count_rows, document, None)
            count = sum(batch.pages for batch in rows.batches or ())
        else:
            count = await pool.count_pages(document)
            pool.release(document)
            selection = settings.selection
            count = len(selection.select(count)) if selection else count
    except PageError as error:
        if error.code is ErrorCode.READ_ERROR and is_remote(document.source_uri):
            raise StorageError(error.message, error.code) from error
        notify(ItemsDone("plan", PageStatus.FAILED, 1, fresh=True))
        return Unreadable(error.message, error.code)
    notify(ItemsDone("plan", PageStatus.OK, 1, fresh=True))
    return count


def _nothing_to_read(opened: int, unreadable: Sequence[Unreadable]) -> NoInputError:
    if not unreadable:
        return NoInputError("the documents have no page that `pages` selects")
    first = unreadable[0]
    code = ErrorCode(first.error_code)
    if opened == 1:
        return NoInputError(first.error, code)
    said = f"none of the {opened} sampled documents can be opened; the first: {first.error}"
    return NoInputError(said, code)

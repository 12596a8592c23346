"""Count the pages and rows of listed documents, to plan a run."""

import asyncio
import itertools
import random
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from llm_ocr.batch.events import ItemsDone, Notify, StageEnded, StageStarted
from llm_ocr.documents import Document
from llm_ocr.records import ErrorCode, PageError, PageStatus
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import NoInputError
from llm_ocr.sources.listing import is_remote
from llm_ocr.sources.names import BYTES_PER_PAGE, DATASET_KINDS
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.sources.row_batches import RowCount, count_rows, iter_batches
from llm_ocr.storage.store import StorageError
from llm_ocr.tables.plan import PlannedDocument

# Files of datasets whose footers are read at once.
FOOTERS = 16


@dataclass(frozen=True)
class _Looked:
    """A listed file: itself the document, or with its rows counted, or why they can't be."""

    document: Document
    counted: RowCount | None = None
    error: PageError | None = None

    @property
    def row_count(self) -> int:
        return 1 if self.counted is None else self.counted.row_count


async def count_documents(
    listed: Sequence[Document],
    settings: Settings,
    pool: RenderPool,
    notify: Notify,
    workers: int = 1,
) -> list[PlannedDocument]:
    """What of `listed` so many workers are to read: all, or what `limit` and `sample` choose.

    Raises NoInputError where no dataset has a column to read, or any row; StorageError.
    """
    notify(StageStarted("plan", len(listed)))
    looked = await _look_into(listed, settings, notify, workers)
    chosen = _choose(looked, settings)
    several = [
        _planned(one, rows, settings, pool, notify)
        for one, rows in zip(looked, chosen, strict=True)
    ]
    planned = [one for some in await asyncio.gather(*several) for one in some]
    notify(StageEnded("plan", len(looked)))
    if not planned:
        raise NoInputError(f"{listed[0].source_uri}: the dataset has no rows; choose another one")
    return planned


async def _planned(
    looked: _Looked,
    rows: Sequence[int] | None,
    settings: Settings,
    pool: RenderPool,
    notify: Notify,
) -> list[PlannedDocument]:
    if looked.counted is not None:
        batches = iter_batches(looked.counted, rows)
        return [
            PlannedDocument(document, pages, smallest_part=smallest)
            for document, pages, smallest in batches
        ]
    if rows is not None and not rows:
        return []
    if looked.error is not None:
        return [PlannedDocument(looked.document, None)]
    return [await _count(pool, looked.document, settings, notify)]


async def _look_into(
    listed: Sequence[Document], settings: Settings, notify: Notify, workers: int
) -> list[_Looked]:
    """The rows of datasets counted, of as many files as `limit` needs."""
    looked: list[_Looked] = []
    loop, limit, some = asyncio.get_running_loop(), settings.limit, FOOTERS
    if limit is not None:
        some = 1
    with ThreadPoolExecutor(FOOTERS, thread_name_prefix="footer") as threads:
        while len(looked) < len(listed):
            if limit is not None and sum(one.row_count for one in looked) >= limit:
                break
            following = listed[len(looked) : len(looked) + some]
            looking = (
                loop.run_in_executor(threads, _look, one, _tar_limit(one, settings, workers))
                for one in following
            )
            for one in await asyncio.gather(*looking):
                looked.append(one)
                _tell(one, notify)
            some = min(2 * some, FOOTERS)
    wrong = [one.error for one in looked if one.error is not None]
    unsuitable = [one for one in wrong if one.code is ErrorCode.UNSUPPORTED_FORMAT]
    if unsuitable and len(wrong) == len(looked):
        raise NoInputError(unsuitable[0].message, unsuitable[0].code)
    return looked


def _tar_limit(document: Document, settings: Settings, workers: int) -> int | None:
    """How many samples of a tar to count: its headers are all over it, so only for a choice, or to
    divide one on a disk among workers."""
    if settings.limit is not None or settings.sample is not None:
        return settings.limit
    return None if workers > 1 and not is_remote(document.source_uri) else 0


def _look(document: Document, tar_limit: int | None) -> _Looked:
    if document.kind not in DATASET_KINDS.values():
        return _Looked(document)
    try:
        return _Looked(document, count_rows(document, tar_limit))
    except PageError as error:
        if error.code is ErrorCode.READ_ERROR and is_remote(document.source_uri):
            # What the network keeps from being counted now is no reason to leave it out for ever.
            raise StorageError(error.message, error.code) from error
        return _Looked(document, error=error)


def _tell(looked: _Looked, notify: Notify) -> None:
    if looked.error is not None:
        notify(ItemsDone("plan", PageStatus.FAILED, 1, fresh=True))
    elif looked.counted is not None:
        notify(ItemsDone("plan", PageStatus.OK, 1, fresh=True))


def _choose(looked: Sequence[_Looked], settings: Settings) -> list[Sequence[int] | None]:
    """For each file the rows that `limit` and `sample` leave, in order; None for all."""
    starts = [0, *itertools.accumulate(one.row_count for one in looked)]
    total = min(starts[-1], settings.limit or starts[-1])
    wanted: Sequence[int] = range(total)
    if settings.sample is not None and settings.sample < total:
        wanted = sorted(random.Random(settings.seed).sample(range(total), settings.sample))
    elif total == starts[-1]:
        return [None] * len(looked)
    chosen: list[Sequence[int] | None] = []
    for start, end in itertools.pairwise(starts):
        inside = wanted[bisect_left(wanted, start) : bisect_left(wanted, end)]
        chosen.append([number - start for number in inside])
    return chosen


async def _count(
    pool: RenderPool, document: Document, settings: Settings, notify: Notify
) -> PlannedDocument:
    """The document with its wanted pages; one that can't be opened says why when it is read."""
    selection = settings.selection
    if is_remote(document.source_uri):
        # To count them it would have to be fetched.
        notify(ItemsDone("plan", PageStatus.OK, 1, fresh=True))
        return PlannedDocument(document, max(1, document.size // BYTES_PER_PAGE))
    try:
        pages = await pool.count_pages(document)
    except PageError:
        notify(ItemsDone("plan", PageStatus.FAILED, 1, fresh=True))
        return PlannedDocument(document, None)
    notify(ItemsDone("plan", PageStatus.OK, 1, fresh=True))
    return PlannedDocument(document, len(selection.select(pages)) if selection else pages)

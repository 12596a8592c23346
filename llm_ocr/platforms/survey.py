"""An input looked into, as far as it takes to tell what reading it will cost."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from llm_ocr.documents import Document
from llm_ocr.pipeline.events import ItemsDone, Notify, StageEnded, StageStarted
from llm_ocr.pipeline.executor import render_pool
from llm_ocr.pipeline.interruption import Stop, run_until_stopped
from llm_ocr.platforms.prices import Interval
from llm_ocr.platforms.sampling import Stratum, total_pages
from llm_ocr.records import ErrorCode, PageError, PageStatus
from llm_ocr.settings import Settings
from llm_ocr.sources.files import is_remote
from llm_ocr.sources.names import DATASET_KINDS
from llm_ocr.sources.open import NoInputError, list_documents
from llm_ocr.sources.pool import RenderPool
from llm_ocr.sources.units import count_rows
from llm_ocr.storage.store import StorageError

# Images that may hold more than one page; the others are not opened.
SEVERAL_PAGES = (".tif", ".tiff")
# Of the documents that are looked into, the share that is taken for its size: a few large files
# may hold most of the pages, and chance would miss them.
LARGEST = 4


@dataclass(frozen=True)
class Survey:
    """What an input holds: `counted` of its `documents` (files, or a dataset's files) were opened,
    `unreadable` says why some could not be, and `pages` are those of all."""

    documents: int
    counted: int
    bytes: int
    pages: Interval
    unreadable: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        return self.pages.low == self.pages.high


@dataclass(frozen=True)
class _Sample:
    """Documents of one kind, of which `taken` are counted."""

    documents: int
    taken: Sequence[Document]


def survey(inputs: Sequence[str], settings: Settings, sample: int, notify: Notify) -> Survey:
    """Count the pages of up to `sample` documents of each kind.

    Remote documents are fetched for it. Raises NoInputError where there is nothing to read, or
    nothing that can be opened; StorageError.
    """

    async def work(stop: Stop) -> Survey:
        return await stop.before(_survey(inputs, settings, sample, notify))

    return run_until_stopped(work, settings.stop_seconds)


async def _survey(inputs: Sequence[str], settings: Settings, sample: int, notify: Notify) -> Survey:
    listed = await asyncio.to_thread(list_documents, inputs)
    known, samples = _chosen(listed, sample)
    opened = sum(len(one.taken) for one in samples)
    strata = [_of_images(known, settings)]
    unreadable: list[str] = []
    notify(StageStarted("plan", opened))
    async with render_pool(settings) as pool:
        for one in samples:
            counting = (_pages(document, settings, pool, notify) for document in one.taken)
            found = await asyncio.gather(*counting)
            pages = [count if isinstance(count, int) else 0 for count in found]
            strata.append(Stratum(one.documents, pages))
            unreadable += [count for count in found if isinstance(count, str)]
    notify(StageEnded("plan", opened))
    total = total_pages(strata)
    if not total.expected:
        raise NoInputError(_nothing_to_read(opened, unreadable))
    size = sum(document.size for document in listed)
    return Survey(len(listed), known + opened, size, total, tuple(unreadable))


def _of_images(documents: int, settings: Settings) -> Stratum:
    """Images of a page each, if the first page is wanted."""
    wanted = settings.selection is None or bool(settings.selection.select(1))
    return Stratum(documents, [int(wanted)] * documents)


def _chosen(listed: Sequence[Document], sample: int) -> tuple[int, list[_Sample]]:
    """How many documents are a page each, and what of the others is counted, kind by kind."""
    kinds: defaultdict[str, list[Document]] = defaultdict(list)
    known = 0
    for document in listed:
        ending = PurePosixPath(document.source_uri).suffix.lower()
        if document.kind == "image" and ending not in SEVERAL_PAGES:
            known += 1
        else:
            kinds[f"{document.kind}{ending}"].append(document)
    return known, [one for kind in sorted(kinds) for one in _samples(kinds[kind], sample)]


def _samples(documents: list[Document], sample: int) -> list[_Sample]:
    """All of them if there are few; else the largest, and some of the rest by chance.

    Of remote ones only some by chance: the largest would take long to fetch.
    """
    if len(documents) <= sample:
        return [_Sample(len(documents), documents)]
    by_size = sorted(documents, key=lambda one: one.size, reverse=True)
    first = 0 if is_remote(documents[0].source_uri) else sample // LARGEST
    rest = random.Random(0).sample(by_size[first:], sample - first)
    largest = [_Sample(first, by_size[:first])] if first else []
    return [*largest, _Sample(len(documents) - first, rest)]


async def _pages(
    document: Document, settings: Settings, pool: RenderPool, notify: Notify
) -> int | str:
    """How many pages it has that are wanted, or why it can't be opened."""
    try:
        if document.kind in DATASET_KINDS.values():
            rows = await asyncio.to_thread(count_rows, document, None)
            count = sum(group.pages for group in rows.groups or ())
        else:
            count = await pool.count_pages(document)
            pool.release(document)
            selection = settings.selection
            count = len(selection.select(count)) if selection else count
    except PageError as error:
        if error.code is ErrorCode.READ_ERROR and is_remote(document.source_uri):
            raise StorageError(error.message) from error
        notify(ItemsDone("plan", PageStatus.FAILED, 1, fresh=True))
        return error.message
    notify(ItemsDone("plan", PageStatus.OK, 1, fresh=True))
    return count


def _nothing_to_read(opened: int, unreadable: Sequence[str]) -> str:
    if not unreadable:
        return "the documents have no page that is wanted: look at --pages"
    first = unreadable[0]
    if opened == 1:
        return first
    return f"none of the {opened} documents that were looked into can be opened; the first: {first}"

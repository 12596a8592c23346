"""The stages of a run: for each shard, the items of a document step, whose results become rows.

The loop over items, concurrency, retries and counting are not here: see `stage_runner`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from llm_ocr.document.items import AskModel, Item, Result
from llm_ocr.document.page import PageItem
from llm_ocr.document.record import ParseSpec
from llm_ocr.document.steps import Assemble, Extract, Parse, Step, page_share
from llm_ocr.documents import Document
from llm_ocr.inference.model_item import ModelResult, Usage
from llm_ocr.models.profile import ModelProfile
from llm_ocr.records import (
    AssembledDocument,
    Description,
    Figure,
    Page,
    PageClass,
    PageError,
    PageResult,
    Record,
)
from llm_ocr.sources.render_pool import DocumentInfo, RenderPool
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.rows import (
    description_from_row,
    document_item,
    figure_from_row,
    page_from_row,
    page_item,
    record_item,
)
from llm_ocr.tables.schema import Row

# Reads what earlier stages made: (table, shard, columns or None for all) -> rows; none where the
# earlier stage was not run.
ReadShard = Callable[[str, str, Sequence[str] | None], Iterator[Row]]

# Page columns that later stages read; page images only where a model is shown them.
PAGE_COLUMNS = [
    *("page_id", "doc_id", "source_uri", "name", "content_hash", "metadata", "page_number"),
    *("width", "height", "markdown", "blocks", "lines", "status", "error_code", "error"),
]
FIGURE_COLUMNS = ["figure_id", "page_id", "doc_id", "name"]
DESCRIPTION_COLUMNS = ["figure_id", "task", "text", "data"]

AnyItem = TypeVar("AnyItem", bound=Item[ItemResult])
Items = TypeVar("Items", bound=Item[ItemResult], covariant=True)


class Stage(Protocol[Items]):
    """A name, whether a model is asked, and the items of a shard."""

    @property
    def name(self) -> str: ...

    @property
    def asks_model(self) -> bool: ...

    def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator[Items]:
        """All items of the shard; `done` are the ids of those that earlier attempts staged."""
        ...


class RowItem(Generic[Result]):
    """An item whose result becomes rows."""

    def __init__(self, item: Item[Result], to_rows: Callable[[Result], ItemResult]) -> None:
        self._item, self._to_rows = item, to_rows

    @property
    def item_id(self) -> str:
        return self._item.item_id

    async def ask(self, ask_model: AskModel, usage: Usage) -> ModelResult | None:
        return await self._item.ask(ask_model, usage)

    async def result(self, answer: ModelResult | None, usage: Usage) -> ItemResult:
        return self.rows(await self._item.result(answer, usage))

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        return self.rows(self._item.failure(error, usage))

    def rows(self, result: Result) -> ItemResult:
        return self._to_rows(result)


@dataclass(frozen=True)
class TableInputs:
    """The documents of a shard and what earlier stages made of them, from the run's tables."""

    rows_of: ReadShard
    shard: Shard

    def documents(self) -> Iterator[Document]:
        return (planned.document for planned in self.shard.documents)

    async def pages(self, *, images: bool = False) -> AsyncIterator[PageResult]:
        figures: dict[str, list[Figure]] = {}
        for row in self.rows_of("figures", self.shard.name, FIGURE_COLUMNS):
            figures.setdefault(row["page_id"], []).append(figure_from_row(row))
        columns = None if images else PAGE_COLUMNS
        for row in self.rows_of("pages", self.shard.name, columns):
            yield page_from_row(row, figures.get(row["page_id"], ()))

    async def figures(self) -> AsyncIterator[tuple[Figure, float]]:
        columns = ["page_id", "width", "height"]
        pages = {row["page_id"]: row for row in self.rows_of("pages", self.shard.name, columns)}
        for row in self.rows_of("figures", self.shard.name, None):
            figure = figure_from_row(row)
            page = pages.get(figure.page_id, {})
            yield figure, page_share(figure, page.get("width"), page.get("height"))

    async def descriptions(self) -> AsyncIterator[Description]:
        for row in self.rows_of("descriptions", self.shard.name, DESCRIPTION_COLUMNS):
            yield description_from_row(row)

    async def page_classes(self) -> AsyncIterator[PageClass]:
        # No stage of a run classifies pages.
        return
        yield


# Pages of a document whose lengths are looked up at once: about 50 ms of a renderer's time.
PAGES_MEASURED = 32


class PageLengths:
    """About how long the answers for a document's pages will be, looked up when it is asked for."""

    def __init__(self, pool: RenderPool, document: Document, numbers: Sequence[int]) -> None:
        self._pool, self._document, self._numbers = pool, document, numbers
        self._tokens: dict[int, int] = {}

    async def expected_tokens(self, number: int) -> int:
        """Of a page, in tokens; 0 if it can't be said."""
        if number not in self._tokens:
            first = self._numbers.index(number)
            wanted = list(self._numbers[first : first + PAGES_MEASURED])
            try:
                found = await self._pool.expected_tokens(self._document, wanted)
            except PageError:
                # It is reported when the page is rendered.
                found = [0] * len(wanted)
            self._tokens = dict(zip(wanted, found, strict=True))
        return self._tokens[number]


class ExtractedPage(RowItem[PageResult]):
    """A page on its way from its source to rows.

    `unfinished` are the numbers of its document's pages that are not rows yet: after the last of
    them the document's local copy is deleted. `lengths` are those of its document, if there is one.
    """

    def __init__(
        self,
        extract: Extract,
        page: PageItem,
        unfinished: set[int],
        lengths: PageLengths | None = None,
    ) -> None:
        super().__init__(page, page_item)
        self.page = page
        self._extract, self._unfinished, self._lengths = extract, unfinished, lengths
        self._result_future: asyncio.Future[PageResult] | None = None

    async def expected_tokens(self) -> int:
        """As `MeasuredItem.expected_tokens`."""
        if self._lengths is None:
            return 0
        return await self._lengths.expected_tokens(self.page.page.number)

    def result_future(self) -> "asyncio.Future[PageResult]":
        """The page's result, for duplicates that wait for it."""
        if self._result_future is None:
            self._result_future = asyncio.get_running_loop().create_future()
        return self._result_future

    def rows(self, result: PageResult) -> ItemResult:
        page = self.page.page
        self._unfinished.discard(page.number)
        if not self._unfinished:
            self._extract.options.pool.release(page.document)
        if self._result_future is not None and not self._result_future.done():
            self._result_future.set_result(result)
        return super().rows(result)


@dataclass(frozen=True)
class ExtractStage:
    """The pages of the shard's documents, or of the rows that these stand for."""

    extract: Extract
    name: str = "extract"
    asks_model: bool = True

    @property
    def pool(self) -> RenderPool:
        return self.extract.options.pool

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator[Item[ItemResult]]:
        for planned in shard.documents:
            async for page in self.pages_of(planned.document, done):
                yield page

    async def pages_of(
        self, planned: Document, done: Collection[str]
    ) -> AsyncIterator[ExtractedPage]:
        async for document, error in self.pool.rows(planned):
            for page in await self.pages_of_one(document, error, done):
                yield page

    async def pages_of_one(
        self, document: Document, error: PageError | None, done: Collection[str]
    ) -> Iterator[ExtractedPage]:
        info, numbers, error = await self.extract.open(document, error)
        if error is not None:
            self.pool.release(document)
            # It could be opened at an earlier attempt: what that read of it is kept.
            numbers = [*numbers, *sorted(_page_numbers(document, done) - {0})]
        unfinished = set(numbers)
        lengths = None if info is None else PageLengths(self.pool, document, numbers)
        # Each is made when its turn comes, and held no longer: it has its page's image.
        return (
            self.page(Page(document, n), info, error if n == 0 else None, unfinished, lengths)
            for n in numbers
        )

    def page(
        self,
        page: Page,
        info: DocumentInfo | None,
        error: PageError | None = None,
        unfinished: set[int] | None = None,
        lengths: PageLengths | None = None,
    ) -> ExtractedPage:
        """One page of a document; as one that can't be read, with `error`."""
        item = self.extract.page(page, info, error)
        return ExtractedPage(self.extract, item, unfinished or set(), lengths)


def _page_numbers(document: Document, item_ids: Collection[str]) -> set[int]:
    """The numbers of the document's pages that are among items."""
    ids = (item_id.split("/") for item_id in item_ids)
    return {int(number) for doc_id, number in ids if doc_id == document.doc_id}


def no_task_versions(shard: str) -> Mapping[str, str]:
    """For stages without tasks."""
    return {}


@dataclass(frozen=True)
class StepStage(Generic[Result]):
    """A document step, on what earlier stages made of a shard.

    `step` makes the step for a shard, `task_versions` says what the shard is asked, as its commit
    will say it.
    """

    name: str
    rows_of: ReadShard
    step: Callable[[str], Step[Result]]
    to_rows: Callable[[Result], ItemResult]
    task_versions: Callable[[str], Mapping[str, str]] = no_task_versions
    asks_model: bool = True

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator[RowItem[Result]]:
        async for item in self.step(shard.name).items(TableInputs(self.rows_of, shard)):
            yield RowItem(item, self.to_rows)


def assemble_stage(rows_of: ReadShard) -> StepStage[AssembledDocument]:
    """The shard's documents, each joined from its pages. Asks no model."""
    step = Assemble()
    return StepStage("assemble", rows_of, lambda _: step, document_item, asks_model=False)


def parse_stage(rows_of: ReadShard, wanted: ParseSpec, profile: ModelProfile) -> StepStage[Record]:
    """The shard's documents, or its pages, as records; `profile` is that of the model."""
    step, versions = Parse(wanted, profile), {"parse": wanted.asked}
    return StepStage("parse", rows_of, lambda _: step, record_item, lambda _: versions)

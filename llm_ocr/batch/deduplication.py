"""Documents with the same bytes: the first is read, and the pages of the others are copies."""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import replace

from llm_ocr.batch.stages import ExtractedPage, ExtractStage
from llm_ocr.document.figures import figure_name
from llm_ocr.document.items import AskModel, Item
from llm_ocr.document.markdown import page_markdown
from llm_ocr.documents import Document
from llm_ocr.inference.model_item import ModelResult, Usage
from llm_ocr.records import Page, PageError, PageResult, PageStatus
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.plan import PlannedDocument, Shard
from llm_ocr.tables.rows import page_item


class DeduplicatedExtractStage(ExtractStage):
    """Extract that reads each of several equal documents of a shard once."""

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator[Item[ItemResult]]:
        for first, *others in _groups(shard.documents):
            opened = [(other, (await self.extract.open(other))[0]) for other in others]
            copied: set[str] = set()
            async for page in self.pages_of(first, done):
                yield page
                for other, info in opened:
                    # What another attempt read is on the store: a copy is not worth fetching that.
                    if info is None or info != page.page.info or page.item_id in done:
                        continue
                    own = self.page(Page(other, page.page.page.number), info)
                    copied.add(own.item_id)
                    yield DuplicatePage(page, own)
            for other in others:
                async for own in self.pages_of(other, done):
                    if own.item_id not in copied:
                        yield own


def _groups(documents: Sequence[PlannedDocument]) -> Iterator[list[Document]]:
    """Documents, each with those that are planned as its duplicates behind it."""
    group: list[Document] = []
    for planned in documents:
        if group and planned.same_as != group[0].doc_id:
            yield group
            group = []
        group.append(planned.document)
    if group:
        yield group


class DuplicatePage:
    """A page of a duplicate: a copy of the first one's result, once there is one. Where the first
    one failed, it is read itself."""

    def __init__(self, first: ExtractedPage, own: ExtractedPage) -> None:
        self._page, self._first = first, first.result_future()
        self._own = own
        self._copy: PageResult | None = None

    @property
    def item_id(self) -> str:
        return self._own.item_id

    async def expected_tokens(self) -> int:
        """That of the first one, behind which it comes: it must not wait for one without a slot."""
        return await self._page.expected_tokens()

    async def ask(self, ask_model: AskModel, usage: Usage) -> ModelResult | None:
        first = await self._first
        if first.status is PageStatus.FAILED:
            return await self._own.ask(ask_model, usage)
        self._copy = _copy_of(first, self._own.page.page)
        return None

    async def result(self, answer: ModelResult | None, usage: Usage) -> ItemResult:
        if self._copy is not None:
            return page_item(self._copy)
        return await self._own.result(answer, usage)

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        return self._own.failure(error, usage)


def _copy_of(first: PageResult, page: Page) -> PageResult:
    """The result of another document's page as that of this one. It cost nothing."""
    document = page.document
    figures = tuple(
        replace(
            figure,
            figure_id=f"{page.page_id}/{number}",
            page_id=page.page_id,
            doc_id=document.doc_id,
            name=figure_name(document.name, page.number, number),
        )
        for number, figure in enumerate(first.figures, 1)
    )
    free = replace(first.outcome, attempts=0, prompt_tokens=0, completion_tokens=0, seconds=0.0)
    note = f"a copy: the file has the same bytes as {first.source_uri}"
    return replace(
        first,
        outcome=free,
        page_id=page.page_id,
        doc_id=document.doc_id,
        source_uri=document.source_uri,
        name=document.name,
        figures=figures,
        markdown=page_markdown(first.blocks, [figure.name for figure in figures]),
        notes=(*first.notes, note),
    )

"""Extract: the pages of documents, each to be read."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass

from llm_ocr.documents import Document
from llm_ocr.messages import pluralize
from llm_ocr.models.profile import ModelProfile
from llm_ocr.records import ErrorCode, Page, PageError, TextLayerUse
from llm_ocr.sources.inputs import PageSelection
from llm_ocr.sources.render_pool import DocumentInfo, RenderPool
from llm_ocr.stages.page import ExtractOptions, PageItem
from llm_ocr.tables.plan import Shard


@dataclass(frozen=True)
class ExtractStage:
    """Pages of the shard's documents, rendered, asked about, read and cut.

    The page image of `profile` is the one that is stored; `min_agreement` as in `Evidence`,
    `text_layer` as in `ExtractOptions`.
    """

    pool: RenderPool
    profile: ModelProfile
    selection: PageSelection | None = None
    min_agreement: float = 0.0
    text_layer: TextLayerUse = TextLayerUse.AUTO
    name: str = "extract"
    tables: Sequence[str] = ("pages", "figures")

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator[PageItem]:
        for planned in shard.documents:
            async for page in self.pages_of(planned.document, done):
                yield page

    async def pages_of(self, planned: Document, done: Collection[str]) -> AsyncIterator[PageItem]:
        """The pages of a document, or of all rows that it stands for; of one that can't be opened
        the one that stands for all."""
        async for document, wrong in self.pool.rows(planned):
            async for page in self.pages_of_one(document, wrong, done):
                yield page

    async def pages_of_one(
        self, document: Document, wrong: PageError | None, done: Collection[str]
    ) -> AsyncIterator[PageItem]:
        try:
            if wrong is not None:
                raise wrong
            info = await self.pool.inspect(document)
            numbers = self._numbers(document, info)
        except PageError as error:
            self.pool.release(document)
            # It could be opened at an earlier attempt: what that read of it is kept.
            for number in sorted(_numbers_of(document, done) | {0}):
                yield self.item(Page(document, number), None, error)
            return
        unfinished = set(numbers)
        for number in numbers:
            yield self.item(Page(document, number), info, unfinished=unfinished)

    def item(
        self,
        page: Page,
        info: DocumentInfo | None,
        error: PageError | None = None,
        unfinished: set[int] | None = None,
    ) -> PageItem:
        """A page; as one that can't be read, with `error`."""
        how = ExtractOptions(self.pool, self.profile, self.min_agreement, self.text_layer)
        return PageItem(how, page, info, error, unfinished)

    def _numbers(self, document: Document, info: DocumentInfo) -> Sequence[int]:
        if self.selection is None:
            return range(1, info.page_count + 1)
        numbers = self.selection.select(info.page_count)
        if not numbers:
            raise PageError(
                ErrorCode.NO_PAGES,
                f"{document.source_uri}: --pages selects no page: it has "
                f"{pluralize(info.page_count, 'page')}",
            )
        return numbers


def _numbers_of(document: Document, item_ids: Collection[str]) -> set[int]:
    """The numbers of the document's pages that are among items."""
    ids = (item_id.split("/") for item_id in item_ids)
    return {int(number) for doc_id, number in ids if doc_id == document.doc_id}

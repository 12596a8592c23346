"""Documents with the same bytes: the first is read, and the pages of the others are copies."""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass

from llm_ocr.documents import Document
from llm_ocr.inference.replies import Answer
from llm_ocr.models.profile import ModelProfile, Rung
from llm_ocr.records import Page, PageError, PageStatus
from llm_ocr.sources.raster import Crop
from llm_ocr.sources.render_pool import DocumentInfo
from llm_ocr.stages.extract import ExtractStage
from llm_ocr.stages.figures import figures_of
from llm_ocr.stages.page import PageItem
from llm_ocr.stages.row_builders import block_of, page_rows
from llm_ocr.stages.stage import ModelRef, ModelResult, PromptRequest, Usage, item_result
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.plan import PlannedDocument, Shard

FREE = {"attempts": 0, "prompt_tokens": 0, "completion_tokens": 0, "seconds": 0.0}


@dataclass(frozen=True)
class DeduplicatedExtractStage:
    """Extract that reads what is there several times once, within a shard."""

    extract: ExtractStage
    name: str = "extract"
    tables: Sequence[str] = ("pages", "figures")

    async def items(
        self, shard: Shard, done: Collection[str]
    ) -> AsyncIterator["PageItem | DuplicatePage"]:
        for first, *others in _families(shard.documents):
            opened = [(one, await self._info(one)) for one in others]
            copied: set[str] = set()
            async for page in self.extract.pages_of(first, done):
                yield page
                for other, info in opened:
                    # What another attempt read is on the store: a copy is not worth fetching that.
                    if info is None or info != page.info or page.item_id in done:
                        continue
                    own = self.extract.item(Page(other, page.number), info)
                    copied.add(own.item_id)
                    yield DuplicatePage(page, own)
            for other in others:
                async for own in self.extract.pages_of(other, done):
                    if own.item_id not in copied:
                        yield own

    async def _info(self, document: Document) -> DocumentInfo | None:
        try:
            return await self.extract.pool.inspect(document)
        except PageError:
            return None


def _families(documents: Sequence[PlannedDocument]) -> Iterator[list[Document]]:
    """Documents, each with those that are planned as the same behind it."""
    family: list[Document] = []
    for planned in documents:
        if family and planned.same_as != family[0].doc_id:
            yield family
            family = []
        family.append(planned.document)
    if family:
        yield family


class DuplicatePage:
    """A page that is there already: a copy of the first one's rows, once these are made. Where the
    first one failed, it is read on its own."""

    def __init__(self, first: PageItem, own: PageItem) -> None:
        self._result_future, self._uri = first.result_future(), first.source_uri
        self._own = own
        self._copy: ItemResult | None = None

    @property
    def item_id(self) -> str:
        return self._own.item_id

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        return self._own.ladder(profile)

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        result = await self._result_future
        if result.status == PageStatus.FAILED:
            return await self._own.prompt_requests(profile, rung)
        self._copy = self._copied(result)
        return ()

    def read(
        self, reader: ModelRef, rung: Rung, asked: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        return self._own.read(reader, rung, asked)

    def read_without_model(self) -> ModelResult | None:
        return self._own.read_without_model()

    async def result(self, reading: ModelResult | None, usage: Usage) -> ItemResult:
        return self._copy or await self._own.result(reading, usage)

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        return self._own.failure(error, usage)

    def _copied(self, result: ItemResult) -> ItemResult:
        row, figures = result.rows["pages"][0], result.rows["figures"]
        page, document = self._own.page, self._own.page.document
        blocks = [block_of(one) for one in row["blocks"]]
        crops = [Crop(one["image"]["bytes"], one["width"], one["height"]) for one in figures]
        own = {
            "page_id": page.page_id,
            "doc_id": document.doc_id,
            "source_uri": document.source_uri,
            "name": document.name,
            "image": {**row["image"], "path": f"{page.page_id.replace('/', '-')}.jpg"},
        }
        # Figures may be missing: those that could not be cut of the first one.
        named = (
            figures_of(document.doc_id, document.name, page.number, blocks, crops) if crops else []
        )
        notes = [*row["notes"], f"a copy: the file has the same bytes as {self._uri}"]
        rows = page_rows({**row, **own, **FREE}, blocks, named, notes)
        return item_result(page.page_id, rows["pages"][0], rows)

"""Retry: read pages that failed or are doubtful again; keep the better of both results."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.documents import Document
from llm_ocr.inference.replies import Answer
from llm_ocr.models.profile import ModelProfile, Rung
from llm_ocr.records import Page, PageError, PageStatus
from llm_ocr.sources.render_pool import DocumentInfo
from llm_ocr.stages.extract import ExtractStage
from llm_ocr.stages.page import PageItem
from llm_ocr.stages.stage import ModelRef, ModelResult, PromptRequest, Usage
from llm_ocr.tables.counts import ItemResult, doubt_reason
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.schema import Row

# The columns by which readings of a page are compared, and those that add up.
COSTS = ("attempts", "prompt_tokens", "completion_tokens", "seconds")
COMPARED = ("page_id", "doc_id", "page_number", "status", "error_code", "flaw", "markdown", *COSTS)
WORTH = {
    PageStatus.FAILED: 0,
    PageStatus.REPETITIVE: 1,
    PageStatus.TRUNCATED: 1,
    PageStatus.FALLBACK: 2,
    PageStatus.OK: 3,
    PageStatus.BLANK: 3,
}


@dataclass(frozen=True)
class RetryStage:
    """The `chosen` pages of a shard (its name -> their rows), as Extract would do them."""

    extract: ExtractStage
    chosen: Callable[[str], Sequence[Row]]
    name: str = "extract"
    tables: Sequence[str] = ("pages", "figures")

    async def items(
        self, shard: Shard, done: Collection[str]
    ) -> AsyncIterator["PageItem | RetriedItem"]:
        chosen: dict[str, dict[int, Row]] = {}
        for row in await asyncio.to_thread(self.chosen, shard.name):
            chosen.setdefault(row["doc_id"], {})[row["page_number"]] = row
        for planned in shard.documents:
            # Only the rows of a dataset that have such a page are read again.
            wanted = chosen.keys()
            async for document, wrong in self.extract.pool.rows(planned.document, wanted):
                async for item in self._again(document, wrong, chosen[document.doc_id], done):
                    yield item

    async def _again(
        self,
        document: Document,
        wrong: PageError | None,
        before: Mapping[int, Row],
        done: Collection[str],
    ) -> AsyncIterator["PageItem | RetriedItem"]:
        if 0 in before:
            # It could not be opened: all its pages are new.
            async for page in self.extract.pages_of_one(document, wrong, done):
                yield RetriedItem(page, before[0]) if page.number == 0 else page
            return
        unfinished = set(before)
        for number, info, error in await self._opened(document, wrong, before):
            page = self.extract.item(Page(document, number), info, error, unfinished)
            yield RetriedItem(page, before[number])

    async def _opened(
        self, document: Document, error: PageError | None, before: Mapping[int, Row]
    ) -> list[tuple[int, DocumentInfo | None, PageError | None]]:
        info = None
        try:
            info = None if error else await self.extract.pool.inspect(document)
        except PageError as refused:
            error = refused
        return [(number, info, error) for number in sorted(before)]


@dataclass(frozen=True)
class RetriedItem:
    """A page that was read before, and the row of that result."""

    page: PageItem
    before: Row

    @property
    def item_id(self) -> str:
        return self.page.item_id

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        return self.page.ladder(profile)

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        return await self.page.prompt_requests(profile, rung)

    def read(
        self, reader: ModelRef, rung: Rung, asked: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        return self.page.read(reader, rung, asked)

    def read_without_model(self) -> ModelResult | None:
        return self.page.read_without_model()

    async def result(self, reading: ModelResult | None, usage: Usage) -> ItemResult:
        return self._better(await self.page.result(reading, usage))

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        return self._better(self.page.failure(error, usage))

    def _better(self, result: ItemResult) -> ItemResult:
        """The new reading with what both cost, or, if it is no better, what stood."""
        row, before = result.rows["pages"][0], self.before
        paid = {name: (row[name] or 0) + (before[name] or 0) for name in COSTS}
        is_unimproved = not is_better(row, before)
        kept = before if is_unimproved else row
        return ItemResult(
            item_id=result.item_id,
            status=kept["status"],
            rows={} if is_unimproved else {**result.rows, "pages": [{**row, **paid}]},
            prompt_tokens=paid["prompt_tokens"],
            completion_tokens=paid["completion_tokens"],
            attempts=paid["attempts"],
            error_code=kept["error_code"],
            is_unimproved=is_unimproved,
            doubt=doubt_reason(kept),
        )


def is_better(row: Row, before: Row) -> bool:
    """Whether a page's new row is worth more than what stood.

    Of two good readings the new one is wanted, of two cut ones the longer. A page that failed
    again stands as it was.
    """
    worth, was = WORTH[row["status"]], WORTH[before["status"]]
    if worth != was:
        return worth > was
    if worth == WORTH[PageStatus.TRUNCATED]:
        return len(row["markdown"] or "") > len(before["markdown"] or "")
    return worth > WORTH[PageStatus.FAILED]

"""Reparse: parse stored answers again with a newer parser, without a model."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from llm_ocr.documents import Document
from llm_ocr.inference.quality import DOUBTS, WITNESSED, Evidence, Flaw, before_loop, judge
from llm_ocr.inference.replies import Answer
from llm_ocr.models.profile import ModelProfile
from llm_ocr.records import (
    Block,
    Box,
    Page,
    PageError,
    PageStatus,
    ParsedAnswer,
    TextLayer,
)
from llm_ocr.sources.raster import Crop
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.stages.engine_extension import LAYER_IS_WRONG
from llm_ocr.stages.figures import crops_of, figure_blocks, figures_of
from llm_ocr.stages.mending import mended_from
from llm_ocr.stages.row_builders import block_of, page_rows
from llm_ocr.stages.stage import BY_FLAW, ModelResult, Usage, item_result
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.schema import Row

# The columns that say what was read, and how.
READ = (
    *("page_id", "doc_id", "source_uri", "page_number", "status", "width", "height"),
    *("blocks", "agreement", "flaw", "notes", "text_layer", "layer_text"),
    *("raw_answer", "profile", "parser_version", "strategy", "finish_reason", "error_code"),
    *("attempts", "prompt_tokens", "completion_tokens"),
)


@dataclass(frozen=True)
class ReparsedPage:
    """What a stored answer says to a newer parser; `before` is what stood, without the image."""

    before: Row
    status: PageStatus
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    parser_version: int
    flaw: str | None = None


def reparse_answer(
    row: Row, profile: ModelProfile, layer: TextLayer | None = None
) -> ReparsedPage | None:
    """The reading of a page's row, if the profile's parser is newer and reads it otherwise.

    The page's text layer is used as a run uses it. What a newer parser can't read at all stays as
    it was.
    """
    if row["raw_answer"] is None or row["parser_version"] >= profile.parser_version:
        return None
    answer = Answer(
        row["raw_answer"], row["finish_reason"] or "stop", 0, row["completion_tokens"] or 0, 0.0, 1
    )
    parsed = profile.read(answer.text, row["width"], row["height"])
    # Of a page with a loop the agreement is that of what was kept.
    is_repetitive = row["status"] == PageStatus.REPETITIVE
    is_witnessed = (row["agreement"] or 0.0) >= WITNESSED and not is_repetitive
    evidence = Evidence(ink=1.0, layer=layer, may_loop=profile.may_loop)
    if layer is None:
        evidence = replace(evidence, is_witnessed=is_witnessed)
    verdict = judge(answer, parsed.blocks, evidence)
    if verdict.agreement is not None:
        is_witnessed = verdict.agreement >= WITNESSED
    if verdict.flaw in (Flaw.EMPTY, Flaw.NO_TEXT):
        return None
    if verdict.flaw is Flaw.LOOP:
        kept = before_loop(answer, is_witnessed=is_witnessed)
        parsed = profile.read(kept.text, row["width"], row["height"])
    if verdict.why:
        parsed = ParsedAnswer(parsed.blocks, (*parsed.notes, verdict.why))
    # What an answer was doubted for is not looked at here: that stands, as its agreement does.
    flaw = verdict.flaw or (row.get("flaw") if row.get("flaw") in DOUBTS else None)
    if flaw is None and not profile.takes_extension:
        parsed = mended_from(layer, parsed)
    if LAYER_IS_WRONG in (row["notes"] or ()):
        parsed = ParsedAnswer(parsed.blocks, (*parsed.notes, LAYER_IS_WRONG))
    is_fallback = row["status"] == PageStatus.FALLBACK
    status = PageStatus.FALLBACK if is_fallback else BY_FLAW[verdict.flaw]
    before = [block_of(one) for one in row["blocks"] or ()]
    blocks = tuple(replace(one, text=one.text.strip()) for one in parsed.blocks)
    if len(blocks) == len(before):
        pairs = zip(blocks, before, strict=True)
        blocks = tuple(replace(one, confidence=old.confidence) for one, old in pairs)
    if status == row["status"] and list(blocks) == before:
        return None
    return ReparsedPage(row, status, blocks, parsed.notes, profile.parser_version, flaw)


@dataclass(frozen=True)
class ReparseStage:
    """The pages of a shard that are read otherwise by now; `chosen` and the old rows by shard."""

    pool: RenderPool
    chosen: Callable[[str], Sequence[ReparsedPage]]
    rows_of: Callable[[str, str, Collection[str]], Sequence[Row]]
    name: str = "extract"
    tables: Sequence[str] = ("pages", "figures")

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator["ReparsedItem"]:
        for reading in await asyncio.to_thread(self.chosen, shard.name):
            document = shard.document(reading.before["doc_id"], reading.before["source_uri"])
            yield ReparsedItem(self, shard.name, document, reading)


@dataclass(frozen=True)
class ReparsedItem:
    """A page with a new reading of its old answer."""

    stage: ReparseStage
    shard: str
    document: Document
    reading: ReparsedPage

    @property
    def item_id(self) -> str:
        return str(self.reading.before["page_id"])

    async def result(self, reading: ModelResult | None, usage: Usage) -> ItemResult:
        rows_of, page_id = self.stage.rows_of, [self.item_id]
        page = (await asyncio.to_thread(rows_of, "pages", self.shard, page_id))[0]
        old = await asyncio.to_thread(rows_of, "figures", self.shard, page_id)
        blocks, notes = self.reading.blocks, list(self.reading.notes)
        crops, remark = await self._crops(page, old)
        number = page["page_number"]
        figures = figures_of(page["doc_id"], page["name"], number, blocks, crops)
        row = {
            **page,
            "status": self.reading.status.value,
            "error_code": None,
            "error": None,
            "parser_version": self.reading.parser_version,
            "flaw": self.reading.flaw,
        }
        rows = page_rows(row, blocks, figures, [*notes, *remark])
        return item_result(self.item_id, rows["pages"][0], rows)

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        """Keep the old rows."""
        before = self.reading.before
        return replace(item_result(self.item_id, before, {}), is_unimproved=True)

    async def _crops(self, page: Row, old: Sequence[Row]) -> tuple[list[Crop], list[str]]:
        """The figures' images: those that were cut at the same place, others from the source, or,
        if that is gone, from the page image, which is said."""
        boxes = [box for k in figure_blocks(self.reading.blocks) if (box := self._box(k))]
        known = {_box(row): row for row in old}
        new = [box for box in boxes if box not in known]
        cut, remark = await self._cut(page, new) if new else ({}, [])
        return [cut[box] if box in cut else _crop(known[box]) for box in boxes], remark

    def _box(self, block: int) -> Box | None:
        return self.reading.blocks[block].box

    async def _cut(self, page: Row, boxes: Sequence[Box]) -> tuple[Mapping[Box, Crop], list[str]]:
        there = Page(self.document, page["page_number"])
        try:
            size, turn = (page["width"], page["height"]), page["rotation"]
            crops = await self.stage.pool.crop(there, *size, boxes, rotation=turn)
            return dict(zip(boxes, crops, strict=True)), []
        except PageError as error:
            jpeg = page["image"]["bytes"]
            crops = await asyncio.to_thread(crops_of, jpeg, boxes)
            said = f"figures cut from the page image: {error.message}"
            return dict(zip(boxes, crops, strict=True)), [said]


def _box(row: Row) -> Box:
    return Box(row["x1"], row["y1"], row["x2"], row["y2"])


def _crop(row: Row) -> Crop:
    return Crop(row["image"]["bytes"], row["width"], row["height"])

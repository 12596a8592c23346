"""Reparse: parse stored answers again with a newer parser, without a model."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from llm_ocr.batch.planning import IMAGE_SIZES, image_sizes
from llm_ocr.batch.rework import ReworkFactory, ReworkStage
from llm_ocr.batch.stage_runner import RunContext
from llm_ocr.document.figures import cut_boxes, figure_boxes, figures_of
from llm_ocr.document.items import AskModel
from llm_ocr.document.markdown import page_markdown
from llm_ocr.document.mending import mended_from
from llm_ocr.documents import Document
from llm_ocr.engines.embedded.serving.command import EMBEDDED
from llm_ocr.inference.engine_extension import WRONG_TEXT_LAYER_NOTE, stored_text_layer
from llm_ocr.inference.model_item import FIRST_RUNG, STATUS_BY_ISSUE, ModelResult, Usage
from llm_ocr.inference.quality import (
    CONFIRMING_AGREEMENT,
    UNCERTAIN_ISSUES,
    QualityIssue,
    QualitySignals,
    assess,
    truncate_at_loop,
)
from llm_ocr.inference.responses import Answer
from llm_ocr.models.catalog import profile_named
from llm_ocr.models.profile import ModelProfile
from llm_ocr.records import (
    Block,
    Figure,
    Page,
    PageError,
    PageStatus,
    ParsedAnswer,
    TextLayer,
    TextLayerUse,
)
from llm_ocr.sources.raster import Crop
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import Store
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.plan import Plan, Shard
from llm_ocr.tables.read import read_shard_rows
from llm_ocr.tables.rows import block_from_row, figure_from_row, page_from_row, page_item
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


def reparse_answer(row: Row, profile: ModelProfile, layer: TextLayer | None) -> ReparsedPage | None:
    """The reading of a page's row by the profile's parser, if it differs from the stored one.

    The page's text layer is used as a run uses it. What a newer parser can't read at all stays as
    it was.
    """
    answer = Answer(
        row["raw_answer"], row["finish_reason"] or "stop", 0, row["completion_tokens"] or 0, 0.0, 1
    )
    parsed = profile.read(answer.text, row["width"], row["height"])
    # Of a page with a loop the agreement is that of what was kept.
    is_repetitive = row["status"] == PageStatus.REPETITIVE
    is_confirmed = (row["agreement"] or 0.0) >= CONFIRMING_AGREEMENT and not is_repetitive
    may_loop = profile.may_loop and profile.two_step is None
    evidence = QualitySignals(ink=1.0, layer=layer, may_loop=may_loop)
    if layer is None:
        evidence = replace(evidence, is_confirmed=is_confirmed)
    assessment = assess(answer, parsed.blocks, evidence)
    if assessment.agreement is not None:
        is_confirmed = assessment.agreement >= CONFIRMING_AGREEMENT
    if assessment.issue in (QualityIssue.EMPTY, QualityIssue.NO_TEXT):
        return None
    if assessment.issue is QualityIssue.LOOP:
        kept = truncate_at_loop(answer, is_confirmed=is_confirmed)
        parsed = profile.read(kept.text, row["width"], row["height"])
    if assessment.reason:
        parsed = ParsedAnswer(parsed.blocks, (*parsed.notes, assessment.reason))
    # What an answer was doubted for is not looked at here: that stands, as its agreement does.
    flaw = assessment.issue or (row.get("flaw") if row.get("flaw") in UNCERTAIN_ISSUES else None)
    if flaw is None and not profile.takes_extension:
        parsed = mended_from(layer, parsed)
    if WRONG_TEXT_LAYER_NOTE in (row["notes"] or ()):
        parsed = ParsedAnswer(parsed.blocks, (*parsed.notes, WRONG_TEXT_LAYER_NOTE))
    is_fallback = row["status"] == PageStatus.FALLBACK
    status = PageStatus.FALLBACK if is_fallback else STATUS_BY_ISSUE[assessment.issue]
    if profile.two_step is not None:
        # Its elements were assessed one by one; what was bad about one is not in their texts.
        status, flaw = PageStatus(row["status"]), row.get("flaw")
    before = [block_from_row(block) for block in row["blocks"] or ()]
    blocks = tuple(replace(block, text=block.text.strip()) for block in parsed.blocks)
    if len(blocks) == len(before):
        pairs = zip(blocks, before, strict=True)
        blocks = tuple(replace(block, confidence=old.confidence) for block, old in pairs)
    if status == row["status"] and list(blocks) == before:
        return None
    return ReparsedPage(row, status, blocks, parsed.notes, profile.parser_version, flaw)


@dataclass(frozen=True)
class ReparsedItem:
    """A page of a shard with a new reading of its old answer. `rows` reads the old rows: (table,
    shard, page ids) -> rows."""

    pool: RenderPool
    rows: Callable[[str, str, Collection[str]], Sequence[Row]]
    shard: str
    document: Document
    reading: ReparsedPage

    @property
    def item_id(self) -> str:
        return str(self.reading.before["page_id"])

    async def ask(self, ask_model: AskModel, usage: Usage) -> None:
        return None

    async def result(self, answer: ModelResult | None, usage: Usage) -> ItemResult:
        page_id = [self.item_id]
        page = (await asyncio.to_thread(self.rows, "pages", self.shard, page_id))[0]
        old = await asyncio.to_thread(self.rows, "figures", self.shard, page_id)
        blocks = self.reading.blocks
        crops, remarks = await self._crops(page, [figure_from_row(row) for row in old])
        number = page["page_number"]
        figures = figures_of(page["doc_id"], page["name"], number, blocks, crops)
        before = page_from_row(page)
        status = self.reading.status
        return page_item(
            replace(
                before,
                outcome=replace(before.outcome, status=status, error_code=None, error=None),
                parser_version=self.reading.parser_version,
                flaw=self.reading.flaw,
                markdown=page_markdown(blocks, [figure.name for figure in figures]),
                blocks=blocks,
                figures=tuple(figures),
                notes=(*self.reading.notes, *remarks),
            )
        )

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        """Keep the old rows."""
        before = page_item(page_from_row(self.reading.before))
        return replace(before, rows={}, is_unimproved=True)

    async def _crops(self, page: Row, old: Sequence[Figure]) -> tuple[list[Crop], list[str]]:
        """The figures' images: those that were cut at the same place, others from the source, or,
        if that is gone, from the page image, which is said."""
        boxes = figure_boxes(self.reading.blocks)
        crops = {figure.box: Crop(figure.jpeg, figure.width, figure.height) for figure in old}
        new, remarks = [box for box in boxes if box not in crops], list[str]()
        if new:
            there = Page(self.document, page["page_number"])
            size, jpeg = (page["width"], page["height"]), page["image"]["bytes"]
            cut, remarks = await cut_boxes(self.pool, there, new, size, page["rotation"], jpeg)
            crops |= dict(zip(new, cut, strict=True))
        return [crops[box] for box in boxes], remarks


class ReparseStage(ReworkStage[ReparsedPage]):
    """The pages whose stored answers a newer parser reads otherwise. `own` is a profile that is
    not installed."""

    columns = READ
    asks_model = False

    def __init__(self, context: RunContext, own: ModelProfile | None) -> None:
        super().__init__(context, "reparse", "reparse")
        self._pool, self._own = context.pool, own
        self._profiles: dict[str, ModelProfile | None] = {EMBEDDED.id: EMBEDDED}
        if own is not None:
            self._profiles[own.id] = own

    def pending_generations(self) -> Mapping[str, int]:
        return self._commit_index.committed_generations(self.name)

    def factory(self) -> ReworkFactory:
        return partial(ReparseStage, own=self._own)

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator[ReparsedItem]:
        for reading in self._chosen.pop(shard.name):
            document = shard.document(reading.before["doc_id"], reading.before["source_uri"])
            yield ReparsedItem(self._pool, self._rows, shard.name, document, reading)

    def _choose_pages(
        self, shard: str, generation: int, plan: Plan, store: Store
    ) -> frozenset[str] | None:
        unchanged = super()._choose_pages(shard, generation, plan, store)
        return unchanged if self._chosen[shard] else None

    def choose(self, row: Row, plan: Plan) -> ReparsedPage | None:
        if row["raw_answer"] is None or row["profile"] is None:
            return None
        profile = self._profile(row["profile"])
        if profile is None:
            self.unchanged_pages[f"the profile {row['profile']!r} is not installed here"] += 1
            return None
        if row["parser_version"] >= profile.parser_version:
            return None
        if not _was_shown_whole(row, profile, plan):
            self.unchanged_pages["the model saw a different image than the stored one"] += 1
            return None
        is_used = plan.settings.get("text_layer") != TextLayerUse.OFF
        return reparse_answer(row, profile, stored_text_layer(row) if is_used else None)

    def _profile(self, name: str) -> ModelProfile | None:
        if name not in self._profiles:
            try:
                self._profiles[name] = profile_named(name)
            except ValueError:
                self._profiles[name] = None
        return self._profiles[name]

    def _rows(self, table: str, shard: str, page_ids: Collection[str]) -> Sequence[Row]:
        generation = self.pending_generations()[shard]
        only = ("page_id", page_ids)
        return list(read_shard_rows(self._store, table, shard, generation, only=only))


def _was_shown_whole(row: Row, profile: ModelProfile, plan: Plan) -> bool:
    """Whether the answer is about the stored page image, not about strips or a smaller one."""
    rungs = {rung.name: rung for rung in (FIRST_RUNG, *profile.ladder)}
    rung = rungs.get(row["strategy"])
    image, settings = profile.image, plan.settings
    sizes = {name: value for name, value in settings.items() if name in IMAGE_SIZES}
    is_same_image = image_sizes(image) == sizes
    return rung is not None and rung.bands == 1 and rung.scale == 1.0 and is_same_image

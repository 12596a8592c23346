"""Process one page: render it, ask the model, read the answer, cut figures, build rows."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llm_ocr.inference.agreement import lacking
from llm_ocr.inference.quality import (
    SPECKLED_INK,
    WITNESSED,
    Evidence,
    Flaw,
    Verdict,
    agreement_with,
    before_loop,
    judge,
)
from llm_ocr.inference.replies import Answer
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.text_rows import TextRows, text_rows
from llm_ocr.models.profile import Gives, ModelProfile, Rung, Task
from llm_ocr.records import (
    FIGURE_LABELS,
    Block,
    ErrorCode,
    Figure,
    Page,
    PageError,
    PageImage,
    PageStatus,
    ParsedAnswer,
    TextLayer,
    TextLayerUse,
)
from llm_ocr.sources.raster import BLANK_INK
from llm_ocr.sources.render_pool import DocumentInfo, RenderPool
from llm_ocr.stages.engine_extension import (
    check_text,
    is_language,
    parse_engine_metadata,
    request_extension,
    text_beside,
)
from llm_ocr.stages.figures import crops_of, figure_blocks, figures_of
from llm_ocr.stages.mending import mended_from
from llm_ocr.stages.row_builders import image_columns, metadata_columns, page_columns, page_rows
from llm_ocr.stages.stage import (
    ModelRef,
    ModelResult,
    PromptRequest,
    Usage,
    combine_answers,
    item_result,
    outcome_columns,
)
from llm_ocr.stages.tiling import (
    merge_tiles,
    rotate_page,
    swap_sides,
    tile_page,
    to_page_coordinates,
)
from llm_ocr.tables.counts import ItemResult
from llm_ocr.text.markdown import escaped

# A page of which so much of the text (0..1) can't be read is not ok.
MUCH_UNREAD = 0.25
# Characters from which on an answer that still runs is watched for loops: most pages end before.
LONG_ANSWER = 3_000
# Pages of which something was read.
READ = frozenset(PageStatus) - {PageStatus.BLANK, PageStatus.FAILED}


@dataclass(frozen=True)
class ExtractOptions:
    """What draws the pages, which profile's page image is stored, `min_agreement` as in
    `Evidence`, and what a PDF's own text is used for."""

    pool: RenderPool
    profile: ModelProfile
    min_agreement: float = 0.0
    text_layer: TextLayerUse = TextLayerUse.AUTO


@dataclass(frozen=True)
class _Shown:
    """What a model is shown: the JPEG, its size, where it stands on the page image as in
    `Question`, and the text layer of a whole page."""

    jpeg: bytes
    width: int
    height: int
    top: float
    scale: float
    layer: TextLayer | None = None


class PageItem:
    """One page on its way from source to rows.

    `unfinished` are the numbers of its document's pages that are not rows yet: with the last of
    them the document is not needed more.
    """

    def __init__(
        self,
        how: ExtractOptions,
        page: Page,
        info: DocumentInfo | None,
        error: PageError | None = None,
        unfinished: set[int] | None = None,
    ) -> None:
        self._how, self._page, self._info, self._error = how, page, info, error
        self._unfinished = unfinished or set()
        self._image: PageImage | None = None
        self._rows_of_text: TextRows | None = None
        self._is_layer_broken = False
        self._result_future: asyncio.Future[ItemResult] | None = None

    @property
    def item_id(self) -> str:
        return self._page.page_id

    @property
    def page(self) -> Page:
        return self._page

    @property
    def number(self) -> int:
        return self._page.number

    @property
    def info(self) -> DocumentInfo | None:
        return self._info

    @property
    def source_uri(self) -> str:
        return self._page.document.source_uri

    def result_future(self) -> "asyncio.Future[ItemResult]":
        """What will come of this page, for one who waits for it."""
        if self._result_future is None:
            self._result_future = asyncio.get_running_loop().create_future()
        return self._result_future

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        return profile.ladder

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        if self._error is not None:
            raise self._error
        image = await self._rendered()
        if image.ink < BLANK_INK:
            return ()
        if self._how.text_layer is TextLayerUse.ONLY:
            check_text(self._page, image.text_layer)
        prompt = profile.prompts[rung.task]
        sampling = {**profile.sampling, **rung.sampling}
        watched = self._watched_from() if profile.may_loop else None
        strips = await self._shown(image, profile, rung)
        return [
            PromptRequest(
                ChatRequest(
                    prompt.text,
                    one.jpeg,
                    prompt.max_tokens,
                    sampling,
                    watched,
                    extension=request_extension(
                        profile, rung.task, one.layer, self._how.text_layer
                    ),
                ),
                one.width,
                one.height,
                one.top,
                one.scale,
            )
            for one in strips
        ]

    @property
    def _layer(self) -> TextLayer | None:
        """The page's own text, where it may be asked."""
        if self._image is None or self._is_layer_broken:
            return None
        return None if self._how.text_layer is TextLayerUse.OFF else self._image.text_layer

    def _watched_from(self) -> int:
        """Until an answer is longer than its page's own text, what repeats may stand there."""
        layer = self._layer
        return max(LONG_ANSWER, 0 if layer is None else int(1.5 * len(layer.text)))

    @property
    def _drawn(self) -> PageImage:
        assert self._image is not None, "a page is rendered before its answer is read"
        return self._image

    async def _rendered(self) -> PageImage:
        if self._image is None:
            self._image = await self._how.pool.render(self._page, self._how.profile.image)
            layer = self._image.text_layer
            self._is_layer_broken = layer is not None and not is_language(layer.text)
        return self._image

    async def _shown(self, image: PageImage, profile: ModelProfile, rung: Rung) -> "list[_Shown]":
        shown = image
        if profile.image != self._how.profile.image:
            shown = await self._how.pool.render(self._page, profile.image)
        ratio = image.width / shown.width
        if rung.scale == 1.0 and rung.bands == 1:
            size = shown.width, shown.height
            return [_Shown(shown.jpeg, *size, 0.0, ratio, shown.text_layer)]
        strips = await asyncio.to_thread(
            tile_page, shown.jpeg, profile.image, scale=rung.scale, bands=rung.bands
        )
        return [
            _Shown(one.jpeg, one.width, one.height, one.top * ratio, one.scale * ratio)
            for one in strips
        ]

    def read(
        self, reader: ModelRef, rung: Rung, asked: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        answer, profile = combine_answers([answer for _, answer in asked]), reader.profile
        metadata = parse_engine_metadata(answer.extension, asked[0][0].scale)
        if metadata is not None and metadata.turned % 180:
            asked = [(swap_sides(question), one) for question, one in asked]
        if metadata is not None and metadata.is_layer_used is False:
            self._is_layer_broken = True
        parsed = merge_tiles(to_page_coordinates(profile, *one) for one in asked)
        verdict = judge(answer, parsed.blocks, self._evidence(profile, rung.task))
        if verdict.flaw is Flaw.LOOP:
            is_witnessed = (verdict.agreement or 0.0) >= WITNESSED
            kept = [
                (question, before_loop(one, is_witnessed=is_witnessed)) for question, one in asked
            ]
            parsed = merge_tiles(to_page_coordinates(profile, *one) for one in kept)
            agrees = agreement_with(self._layer, parsed.blocks)
            length = sum(len(one.text) for _, one in kept)
            verdict = replace(verdict, kept=length, agreement=agrees)
        if metadata is not None:
            parsed = ParsedAnswer(metadata.of(parsed.blocks), (*metadata.notes, *parsed.notes))
        if verdict.why:
            parsed = ParsedAnswer(parsed.blocks, (*parsed.notes, verdict.why))
        if not profile.takes_extension and verdict.is_good:
            parsed = mended_from(self._layer, parsed)
        prompt = profile.prompt_hash(rung.task)
        return ModelResult(reader, rung.name, prompt, answer, parsed, verdict, metadata=metadata)

    def _evidence(self, profile: ModelProfile, task: Task) -> Evidence:
        page, least = self._drawn, self._how.min_agreement
        boxes = task is Task.DOCUMENT and Gives.BOXES in profile.card.gives
        rows = self._text_rows() if least and profile.may_loop else None
        return Evidence(
            page.ink,
            self._layer,
            least,
            may_loop=profile.may_loop,
            rows=rows,
            expects_boxes=boxes and profile.may_loop,
        )

    def _text_rows(self) -> TextRows | None:
        """Where the page seems to have text; None where its own text can be asked instead."""
        if self._layer is not None and self._layer.is_own:
            return None
        if self._rows_of_text is None:
            self._rows_of_text = text_rows(self._drawn.jpeg)
        return self._rows_of_text

    def _missing(self, reading: ModelResult | None) -> Sequence[str]:
        """What the page's own text has, and the reading of it lacks."""
        layer = self._layer
        if reading is None or layer is None or not layer.is_own:
            return []
        blocks = reading.parsed.blocks
        figures = [one.box for one in blocks if one.label in FIGURE_LABELS and one.box is not None]
        return lacking("\n\n".join(block.text for block in blocks), text_beside(layer, figures))

    def read_without_model(self) -> ModelResult | None:
        """The PDF's own text, as one block without layout."""
        layer = self._layer
        if layer is None or not layer.is_usable:
            return None
        text = escaped("\n".join(line.strip() for line in layer.text.splitlines()).strip())
        parsed = ParsedAnswer((Block("text", text, None),), ("from the PDF's own text",))
        verdict = Verdict(None, len(text), 1.0)
        return ModelResult(None, "text layer", None, None, parsed, verdict, is_fallback=True)

    async def result(self, reading: ModelResult | None, usage: Usage) -> ItemResult:
        image = self._drawn
        if reading is None:
            return self._rows(PageStatus.BLANK, None, usage)
        blocks = [replace(one, text=one.text.strip()) for one in reading.parsed.blocks]
        if reading.metadata is not None and reading.metadata.turned:
            quality = self._how.profile.image.jpeg_quality
            turn = reading.metadata.turned
            image = self._image = await asyncio.to_thread(rotate_page, image, turn, quality)
        if not blocks and image.ink < SPECKLED_INK:
            return self._rows(PageStatus.BLANK, reading, usage)
        if reading.status is PageStatus.FAILED:
            error = PageError(
                ErrorCode.EMPTY_ANSWER,
                f"{self._page.document.source_uri}, page {self._page.number}: the model read "
                "nothing on a page that has ink; look at the page, or try another model",
            )
            return self._rows(PageStatus.FAILED, reading, usage, error)
        notes = list(reading.parsed.notes)
        figures = await self._cut(blocks, image, notes)
        unread = reading.metadata.unread if reading.metadata is not None else 0.0
        if unread >= MUCH_UNREAD and reading.status is PageStatus.OK:
            lost = self._unread(unread)
            return self._rows(PageStatus.TRUNCATED, reading, usage, lost, blocks, figures, notes)
        return self._rows(reading.status, reading, usage, None, blocks, figures, notes)

    def _unread(self, share: float) -> PageError:
        return PageError(
            ErrorCode.UNREADABLE_ANSWER,
            f"{self._page.document.source_uri}, page {self._page.number}: {share:.0%} of its text "
            "could not be read: it is in a script that the engine doesn't know, or too faint; read "
            "it with another model",
        )

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        return self._rows(PageStatus.FAILED, None, usage, self._named(error))

    def _named(self, error: PageError) -> PageError:
        """The error with the page's name, which those of servers don't know."""
        uri = self._page.document.source_uri
        if uri in error.message or self._page.document.file_uri in error.message:
            return error
        where = f"{uri}, page {self._page.number}" if self._page.number else uri
        return PageError(error.code, f"{where}: {error.message}", error.attempts)

    async def _cut(
        self, blocks: Sequence[Block], image: PageImage, notes: list[str]
    ) -> list[Figure]:
        places = figure_blocks(blocks)
        boxes = [box for k in places if (box := blocks[k].box) is not None]
        if not boxes:
            return []
        page, document = self._page, self._page.document
        size = image.width, image.height
        try:
            crops = await self._how.pool.crop(page, *size, boxes, rotation=image.rotation)
        except PageError as error:
            # Coarser than from the source, and better than none.
            notes.append(f"figures cut from the page image: {error.message}")
            crops = await asyncio.to_thread(crops_of, image.jpeg, boxes)
        return figures_of(document.doc_id, document.name, page.number, blocks, crops)

    def _rows(
        self,
        status: PageStatus,
        reading: ModelResult | None,
        usage: Usage,
        error: PageError | None = None,
        blocks: Sequence[Block] = (),
        figures: Sequence[Figure] = (),
        notes: Sequence[str] = (),
    ) -> ItemResult:
        self._unfinished.discard(self._page.number)
        if not self._unfinished:
            self._how.pool.release(self._page.document)
        page_row = self._page_row(status, reading, usage, error)
        rows = page_rows(page_row, blocks, figures, notes)
        result = item_result(self.item_id, rows["pages"][0], rows)
        if self._result_future is not None and not self._result_future.done():
            self._result_future.set_result(result)
        return result

    def _page_row(
        self, status: PageStatus, reading: ModelResult | None, usage: Usage, error: PageError | None
    ) -> dict[str, object]:
        reader = reading.reader if reading else None
        return {
            **page_columns(self._page, self._info.content_hash if self._info else None),
            **(image_columns(self._page, self._image) if self._image else {}),
            "raw_answer": reading.answer.text if reading and reading.answer else None,
            "parser_version": reader.profile.parser_version if reader else None,
            "agreement": reading.verdict.agreement if reading else None,
            "flaw": reading.verdict.flaw if reading else None,
            "missing": self._missing(reading) if status in READ else [],
            **metadata_columns(reading.metadata if reading else None, self._image),
            **outcome_columns(status, reading, usage, error),
        }

"""Process one page: render it, ask the model, read the answer, cut out its figures."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llm_ocr.document.figures import cut_boxes, figure_boxes, figures_of
from llm_ocr.document.items import AskModel, outcome
from llm_ocr.document.markdown import page_markdown
from llm_ocr.document.mending import mended_from
from llm_ocr.document.page_elements import PageElements
from llm_ocr.document.routing import has_simple_layout, has_simple_text
from llm_ocr.document.tiling import (
    merge_tiles,
    rotate_page,
    swap_sides,
    tile_page,
    to_page_coordinates,
)
from llm_ocr.inference.agreement import missing_passages
from llm_ocr.inference.engine_extension import (
    EngineMetadata,
    looks_like_language,
    parse_engine_metadata,
    request_extension,
    require_text_layer,
    text_outside_figures,
)
from llm_ocr.inference.model_item import (
    FIRST_RUNG,
    ModelRef,
    ModelResult,
    PromptRequest,
    Usage,
    combine_answers,
)
from llm_ocr.inference.quality import (
    CONFIRMING_AGREEMENT,
    MAX_BLANK_INK,
    SEVERITY,
    QualityAssessment,
    QualityIssue,
    QualitySignals,
    assess,
    text_layer_agreement,
    truncate_at_loop,
)
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer
from llm_ocr.inference.text_rows import TextRows, detect_text_rows
from llm_ocr.models.profile import Gives, ModelProfile, Rung, Task
from llm_ocr.records import (
    FIGURE_LABELS,
    Block,
    ErrorCode,
    Figure,
    Page,
    PageError,
    PageImage,
    PageResult,
    PageStatus,
    ParsedAnswer,
    TextLayer,
    TextLayerUse,
)
from llm_ocr.sources.raster import BLANK_INK
from llm_ocr.sources.render_pool import DocumentInfo, RenderPool
from llm_ocr.text.markdown import escape_markdown

# A page of which so much of the text (0..1) can't be read is not ok.
MUCH_UNREAD = 0.25
# Characters from which on an answer that still runs is watched for loops: most pages end before.
LONG_ANSWER = 3_000
# Pages of which something was read.
READ = frozenset(PageStatus) - {PageStatus.BLANK, PageStatus.FAILED}


@dataclass(frozen=True)
class ExtractOptions:
    """What draws the pages, which profile's page image is stored, `min_agreement` as in
    `QualitySignals`, what a PDF's own text is used for, and whether results keep page images."""

    pool: RenderPool
    profile: ModelProfile
    min_agreement: float = 0.0
    text_layer: TextLayerUse = TextLayerUse.AUTO
    keep_images: bool = True


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
    """One page, read: an `Item` of `PageResult`, and what a model is asked about.

    `error` is why its document, or the page, can't be read.
    """

    def __init__(
        self,
        how: ExtractOptions,
        page: Page,
        info: DocumentInfo | None,
        error: PageError | None = None,
    ) -> None:
        self._how, self._page, self._info, self._error = how, page, info, error
        self._image: PageImage | None = None
        self._rows_of_text: TextRows | None = None
        self._is_layer_broken = False
        # Of profiles that read in two steps, and the scale of the image that they are shown.
        self._elements: dict[str, tuple[PageElements, float]] = {}

    @property
    def item_id(self) -> str:
        return self._page.page_id

    @property
    def page(self) -> Page:
        return self._page

    @property
    def info(self) -> DocumentInfo | None:
        return self._info

    async def ask(self, ask_model: AskModel, usage: Usage) -> ModelResult | None:
        return await ask_model(self, usage)

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        return profile.ladder

    async def may_be_simple(self) -> bool:
        if self._error is not None:
            return False
        await self._rendered()
        return self._layer is not None and has_simple_text(self._layer)

    def is_simple(self, result: ModelResult) -> bool:
        return has_simple_layout(result) and not self._missing(result)

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        if self._error is not None:
            raise self._error
        image = await self._rendered()
        if image.ink < BLANK_INK:
            return ()
        if self._how.text_layer is TextLayerUse.ONLY:
            require_text_layer(self._page, image.text_layer)
        elements = await self._elements_of(profile)
        if elements is not None:
            return await elements.requests(rung)
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

    async def _elements_of(self, profile: ModelProfile) -> PageElements | None:
        """The elements of the page, for a profile that reads one by one."""
        if profile.two_step is None:
            return None
        if profile.id not in self._elements:
            image = await self._rendered()
            (shown,) = await self._shown(image, profile, FIRST_RUNG)
            elements = PageElements(
                profile, profile.two_step, shown.jpeg, (shown.width, shown.height)
            )
            self._elements[profile.id] = elements, shown.scale
        return self._elements[profile.id][0]

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
            self._is_layer_broken = layer is not None and not looks_like_language(layer.text)
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
        self, model: ModelRef, rung: Rung, exchanges: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        profile = model.profile
        if profile.two_step is not None:
            return self._read_elements(model, rung, exchanges)
        answer = combine_answers([answer for _, answer in exchanges])
        metadata = parse_engine_metadata(answer.extension, exchanges[0][0].scale)
        if metadata is not None and metadata.rotation % 180:
            exchanges = [(swap_sides(request), answer) for request, answer in exchanges]
        if metadata is not None and metadata.is_layer_used is False:
            self._is_layer_broken = True
        parsed = merge_tiles(to_page_coordinates(profile, *exchange) for exchange in exchanges)
        assessment = assess(answer, parsed.blocks, self._evidence(profile, rung.task))
        if assessment.issue is QualityIssue.LOOP:
            is_confirmed = (assessment.agreement or 0.0) >= CONFIRMING_AGREEMENT
            kept = [
                (request, truncate_at_loop(part, is_confirmed=is_confirmed))
                for request, part in exchanges
            ]
            parsed = merge_tiles(to_page_coordinates(profile, *exchange) for exchange in kept)
            agrees = text_layer_agreement(self._layer, parsed.blocks)
            length = sum(len(one.text) for _, one in kept)
            assessment = replace(assessment, kept_length=length, agreement=agrees)
        if metadata is not None:
            parsed = ParsedAnswer(
                metadata.with_confidences(parsed.blocks), (*metadata.notes, *parsed.notes)
            )
        return self._result_of(model, rung, answer, parsed, assessment, metadata)

    def _read_elements(
        self, model: ModelRef, rung: Rung, exchanges: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        """As `read`, of a page whose elements are read one by one."""
        profile = model.profile
        elements, scale = self._elements[profile.id]
        read = elements.read(exchanges)
        shown = replace(exchanges[0][0], scale=scale)
        parsed = to_page_coordinates(profile, shown, read.answer)
        # Each element was looked at for loops and cuts: together, short ones may look like a loop.
        signals = replace(self._evidence(profile, rung.task), may_loop=False)
        assessment = assess(replace(read.answer, finish_reason="stop"), parsed.blocks, signals)
        found = assessment.issue
        if read.issue is not None and (found is None or SEVERITY[found] < SEVERITY[read.issue]):
            assessment = replace(assessment, issue=read.issue, reason=read.reason)
        return self._result_of(model, rung, read.answer, parsed, assessment)

    def _result_of(
        self,
        model: ModelRef,
        rung: Rung,
        answer: Answer,
        parsed: ParsedAnswer,
        assessment: QualityAssessment,
        metadata: EngineMetadata | None = None,
    ) -> ModelResult:
        if assessment.reason:
            parsed = ParsedAnswer(parsed.blocks, (*parsed.notes, assessment.reason))
        if not model.profile.takes_extension and assessment.is_good:
            parsed = mended_from(self._layer, parsed)
        prompt = model.profile.prompt_hash(rung.task)
        return ModelResult(model, rung.name, prompt, answer, parsed, assessment, metadata=metadata)

    def _evidence(self, profile: ModelProfile, task: Task) -> QualitySignals:
        page, least = self._drawn, self._how.min_agreement
        boxes = task is Task.DOCUMENT and Gives.BOXES in profile.card.gives
        rows = self._text_rows() if least and profile.may_loop else None
        return QualitySignals(
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
            self._rows_of_text = detect_text_rows(self._drawn.jpeg)
        return self._rows_of_text

    def _missing(self, reading: ModelResult | None) -> Sequence[str]:
        """What the page's own text has, and the reading of it lacks."""
        layer = self._layer
        if reading is None or layer is None or not layer.is_own:
            return []
        blocks = reading.parsed.blocks
        figures = [one.box for one in blocks if one.label in FIGURE_LABELS and one.box is not None]
        return missing_passages(
            "\n\n".join(block.text for block in blocks), text_outside_figures(layer, figures)
        )

    def read_without_model(self) -> ModelResult | None:
        """The PDF's own text, as one block without layout."""
        layer = self._layer
        if layer is None or not layer.is_usable:
            return None
        text = escape_markdown("\n".join(line.strip() for line in layer.text.splitlines()).strip())
        parsed = ParsedAnswer((Block("text", text, None),), ("from the PDF's own text",))
        assessment = QualityAssessment(None, len(text), 1.0)
        return ModelResult(None, "text layer", None, None, parsed, assessment, is_fallback=True)

    async def result(self, answer: ModelResult | None, usage: Usage) -> PageResult:
        image = self._drawn
        if answer is None:
            return self._result(PageStatus.BLANK, None, usage)
        blocks = [replace(block, text=block.text.strip()) for block in answer.parsed.blocks]
        if answer.metadata is not None and answer.metadata.rotation:
            quality = self._how.profile.image.jpeg_quality
            turn = answer.metadata.rotation
            image = self._image = await asyncio.to_thread(rotate_page, image, turn, quality)
        if not blocks and image.ink < MAX_BLANK_INK:
            return self._result(PageStatus.BLANK, answer, usage)
        if answer.status is PageStatus.FAILED:
            error = PageError(
                ErrorCode.EMPTY_ANSWER,
                f"{self._page.document.display_name}, page {self._page.number}: the model read "
                "nothing on a page that has ink; look at the page, or try another model",
            )
            return self._result(PageStatus.FAILED, answer, usage, error)
        notes = list(answer.parsed.notes)
        figures = await self._cut(blocks, image, notes)
        status, incomplete = answer.status, None
        unread = answer.metadata.unread_share if answer.metadata is not None else 0.0
        if unread >= MUCH_UNREAD and status is PageStatus.OK:
            status, incomplete = PageStatus.TRUNCATED, self._unread(unread)
        return replace(
            self._result(status, answer, usage, incomplete),
            markdown=page_markdown(blocks, [figure.name for figure in figures]),
            blocks=tuple(blocks),
            figures=tuple(figures),
            notes=tuple(notes),
        )

    def _unread(self, share: float) -> PageError:
        return PageError(
            ErrorCode.UNREADABLE_ANSWER,
            f"{self._page.document.display_name}, page {self._page.number}: {share:.0%} of its "
            "text could not be read: it is in a script that the engine doesn't know, or too "
            "faint; read it with another model",
        )

    def failure(self, error: PageError, usage: Usage) -> PageResult:
        return self._result(PageStatus.FAILED, None, usage, self._named(error))

    def _named(self, error: PageError) -> PageError:
        """The error with the page's name, which those of servers don't know."""
        uri = self._page.document.display_name
        if uri in error.message or self._page.document.file_uri in error.message:
            return error
        where = f"{uri}, page {self._page.number}" if self._page.number else uri
        return PageError(error.code, f"{where}: {error.message}", error.attempts)

    async def _cut(
        self, blocks: Sequence[Block], image: PageImage, notes: list[str]
    ) -> list[Figure]:
        boxes = figure_boxes(blocks)
        if not boxes:
            return []
        page, document = self._page, self._page.document
        size = image.width, image.height
        crops, remarks = await cut_boxes(
            self._how.pool, page, boxes, size, image.rotation, image.jpeg
        )
        notes += remarks
        return figures_of(document.doc_id, document.name, page.number, blocks, crops)

    def _result(
        self,
        status: PageStatus,
        answer: ModelResult | None,
        usage: Usage,
        error: PageError | None = None,
    ) -> PageResult:
        """The page without its text and figures."""
        document, image, info = self._page.document, self._image, self._info
        model = answer.model if answer else None
        metadata = answer.metadata if answer else None
        layer = image.text_layer if image else None
        agreement = metadata.layer_agreement if metadata else None
        return PageResult(
            outcome=outcome(status, answer, usage, error),
            page_id=self._page.page_id,
            doc_id=document.doc_id,
            source_uri=document.source_uri,
            name=document.name,
            page_number=self._page.number,
            content_hash=info.content_hash if info else None,
            metadata=document.metadata,
            image=image.jpeg if image and self._how.keep_images else None,
            width=image.width if image else None,
            height=image.height if image else None,
            width_pt=image.width_pt if image else None,
            height_pt=image.height_pt if image else None,
            rotation=image.rotation if image else None,
            lines=metadata.lines if metadata else None,
            confidence=metadata.confidence if metadata else None,
            raw_answer=answer.answer.text if answer and answer.answer else None,
            agreement=answer.assessment.agreement if answer else None,
            flaw=answer.assessment.issue if answer else None,
            missing=tuple(self._missing(answer)) if status in READ else (),
            text_layer=None
            if layer is None
            else min(layer.trust, 1.0 if agreement is None else agreement),
            layer_text=layer.text if layer else None,
            parser_version=model.profile.parser_version if model else None,
        )

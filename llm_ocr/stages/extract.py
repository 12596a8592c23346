"""Extract: page -> Markdown, blocks, figure crops."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from llm_ocr.inference.client import Answer, ChatRequest
from llm_ocr.models.profile import ModelProfile, Task
from llm_ocr.records import (
    Block,
    Document,
    ErrorCode,
    Figure,
    Page,
    PageError,
    PageImage,
    PageStatus,
)
from llm_ocr.sources.open import PageSelection
from llm_ocr.sources.pool import DocumentInfo, RenderPool
from llm_ocr.stages.figures import caption_text, captions_of, figure_blocks
from llm_ocr.stages.markdown import page_markdown
from llm_ocr.stages.stage import item_result, outcome
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.schema import Row
from llm_ocr.tables.shards import ItemResult

# Pages with less ink than this share of their pixels have nothing to read: about 40 pixels of a
# page of 1,400 x 1,900, less than one printed digit.
BLANK_INK = 1.5e-5
# With an empty answer, pages with less ink than this are taken for blank: specks of dust, a fold.
SPECKLED_INK = 2e-3


@dataclass(frozen=True)
class ExtractStage:
    """Pages of the shard's documents, rendered, asked about, read and cut."""

    pool: RenderPool
    profile: ModelProfile
    model: str
    selection: PageSelection | None = None
    name: str = "extract"
    tables: Sequence[str] = ("pages", "figures")

    async def items(self, shard: Shard) -> AsyncIterator["PageItem"]:
        for planned in shard.documents:
            document = planned.document
            try:
                info = await self.pool.inspect(document)
                numbers = self._numbers(document, info)
            except PageError as error:
                yield PageItem(self, Page(document, 0), None, error)
                continue
            for number in numbers:
                yield PageItem(self, Page(document, number), info)

    def _numbers(self, document: Document, info: DocumentInfo) -> Sequence[int]:
        if self.selection is None:
            return range(1, info.page_count + 1)
        numbers = self.selection.select(info.page_count)
        if not numbers:
            raise PageError(
                ErrorCode.NO_PAGES,
                f"{document.source_uri}: --pages selects none of its {info.page_count} pages",
            )
        return numbers


class PageItem:
    """One page on its way from source to rows."""

    def __init__(
        self,
        stage: ExtractStage,
        page: Page,
        info: DocumentInfo | None,
        error: PageError | None = None,
    ) -> None:
        self._stage, self._page, self._info, self._error = stage, page, info, error
        self._image: PageImage | None = None

    @property
    def item_id(self) -> str:
        return self._page.page_id

    async def request(self) -> ChatRequest | None:
        if self._error is not None:
            raise self._error
        profile = self._stage.profile
        self._image = await self._stage.pool.render(self._page, profile.image)
        if self._image.ink < BLANK_INK:
            return None
        prompt = profile.prompts[Task.DOCUMENT]
        return ChatRequest(prompt.text, self._image.jpeg, prompt.max_tokens, profile.sampling)

    async def result(self, answer: Answer | None) -> ItemResult:
        image = self._image
        assert image is not None, "a page is rendered before its answer is read"
        if answer is None:
            return self._rows(PageStatus.BLANK, None)
        parsed = self._stage.profile.parse(answer.text, image.width, image.height)
        blocks = [Block(block.label, block.text.strip(), block.box) for block in parsed.blocks]
        if not blocks and image.ink < SPECKLED_INK:
            return self._rows(PageStatus.BLANK, answer)
        if not blocks:
            error = PageError(
                ErrorCode.EMPTY_ANSWER,
                f"{self._page.document.source_uri}, page {self._page.number}: the model read "
                "nothing on a page that has ink; look at the page, or try another model",
            )
            return self._rows(PageStatus.FAILED, answer, error)
        notes = list(parsed.notes)
        figures: list[Figure] = []
        try:
            figures = await self._cut(blocks, image)
        except PageError as error:
            # The text was read and paid for: it is kept without its figures.
            notes.append(f"figures not cut: {error.message}")
        cut = answer.finish_reason == "length"
        status = PageStatus.TRUNCATED if cut else PageStatus.OK
        return self._rows(status, answer, None, blocks, figures, notes)

    def failure(self, error: PageError) -> ItemResult:
        return self._rows(PageStatus.FAILED, None, error)

    async def _cut(self, blocks: Sequence[Block], image: PageImage) -> list[Figure]:
        places = figure_blocks(blocks)
        boxes = [box for k in places if (box := blocks[k].box) is not None]
        if not boxes:
            return []
        page, document = self._page, self._page.document
        crops = await self._stage.pool.crop(page, image.width, image.height, boxes)
        stem = PurePosixPath(document.name).name
        return [
            Figure(
                figure_id=f"{page.page_id}/{k}",
                page_id=page.page_id,
                doc_id=document.doc_id,
                name=f"{stem}-p{page.number}-{k}.jpg",
                label=blocks[place].label,
                box=box,
                jpeg=crop.jpeg,
                width=crop.width,
                height=crop.height,
            )
            for k, (place, box, crop) in enumerate(zip(places, boxes, crops, strict=True), 1)
        ]

    def _rows(
        self,
        status: PageStatus,
        answer: Answer | None,
        error: PageError | None = None,
        blocks: Sequence[Block] = (),
        figures: Sequence[Figure] = (),
        notes: Sequence[str] = (),
    ) -> ItemResult:
        captions = captions_of(blocks)
        found = [
            caption_text(blocks[captions[k]].text) if k in captions else None
            for k in figure_blocks(blocks)
        ]
        page_row = self._page_row(status, answer, error) | {
            "markdown": page_markdown(blocks, [figure.name for figure in figures]),
            "blocks": [_block_row(block) for block in blocks],
            "notes": list(notes),
        }
        pairs = zip(figures, found, strict=bool(figures))
        figure_rows = [_figure_row(figure, caption) for figure, caption in pairs]
        return item_result(self.item_id, page_row, {"pages": [page_row], "figures": figure_rows})

    def _page_row(
        self, status: PageStatus, answer: Answer | None, error: PageError | None
    ) -> dict[str, object]:
        page, image, profile = self._page, self._image, self._stage.profile
        row: dict[str, object] = {
            "page_id": page.page_id,
            "doc_id": page.document.doc_id,
            "source_uri": page.document.source_uri,
            "name": page.document.name,
            "content_hash": self._info.content_hash if self._info else None,
            "page_number": page.number,
            "raw_answer": answer.text if answer else None,
            "parser_version": profile.parser_version,
        }
        if image is not None:
            row |= {
                "image": {"bytes": image.jpeg, "path": f"{page.page_id.replace('/', '-')}.jpg"},
                "width": image.width,
                "height": image.height,
                "width_pt": image.width_pt,
                "height_pt": image.height_pt,
                "rotation": image.rotation,
            }
        return row | outcome(
            status,
            answer,
            error,
            model=self._stage.model,
            profile=profile.id,
            prompt_hash=profile.prompt_hash(Task.DOCUMENT),
        )


def _block_row(block: Block) -> Row:
    box = block.box
    corners = {"x1": None, "y1": None, "x2": None, "y2": None} if box is None else vars(box)
    return {"label": block.label, "text": block.text, **corners}


def _figure_row(figure: Figure, caption: str | None) -> Row:
    return {
        "figure_id": figure.figure_id,
        "page_id": figure.page_id,
        "doc_id": figure.doc_id,
        "name": figure.name,
        "label": figure.label,
        "caption": caption,
        **vars(figure.box),
        "image": {"bytes": figure.jpeg, "path": figure.name},
        "width": figure.width,
        "height": figure.height,
    }

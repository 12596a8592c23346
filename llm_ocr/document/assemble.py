"""Assemble a document: its pages, figures and descriptions as one enriched Markdown text."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from llm_ocr.document.figures import captions_of, figure_blocks
from llm_ocr.document.heading_levels import document_heading_levels, with_level
from llm_ocr.document.items import AskModel
from llm_ocr.document.markdown import block_markdown, caption_markdown, figure_markdown
from llm_ocr.document.page_joining import BlockKind, MarkdownBlock, join_pages
from llm_ocr.inference.model_item import ModelResult, Usage
from llm_ocr.messages import pluralize
from llm_ocr.models.profile import Task
from llm_ocr.parsing.figure_data import figure_html, load_figure_data
from llm_ocr.records import (
    CAPTION_LABELS,
    FURNITURE_LABELS,
    NOTE_LABEL,
    AssembledDocument,
    Block,
    Box,
    Description,
    ErrorCode,
    PageError,
    PageResult,
    PageStatus,
)
from llm_ocr.text.markdown import blockquote
from llm_ocr.text.numbers import is_page_number

# A running head is no longer than this, in characters.
LONGEST = 300
# One that was misread here and there is still alike: so much (0..1), on one of so many pages
# before or behind, which reaches the heads of left and of right pages. Below `SHORTEST` characters
# two that differ are two.
ALIKE, NEAR, SHORTEST = 0.85, 2, 8
# A text that isn't labeled as a header or footer is one if it is the first or last text on so many
# pages, at the same height. Titles are kept: several forms may be in one file.
MIN_PAGES = 3
EDGE_LABELS = frozenset({"text", "sub_title"})


class Furniture:
    """Which blocks of a document are running heads and feet, or page numbers; `pages` are each
    page's blocks, by its number.

    Models call a block a header or a footer by how one page looks. On a document of one page that
    is a letterhead as often as not, so only what recurs over the pages is left out.
    """

    def __init__(self, pages: Mapping[int, Sequence[Block]]) -> None:
        self._heads = {
            number: {_plain(one.text) for one in blocks if one.label in FURNITURE_LABELS}
            for number, blocks in pages.items()
        }
        texts = (
            {_plain(one.text) for one in blocks if len(one.text) <= LONGEST}
            for blocks in pages.values()
        )
        self._counts = Counter(text for on_page in texts for text in on_page)
        edges = [
            (one.text, number, one.box)
            for number, blocks in sorted(pages.items())
            for one in _outermost(blocks)
            if one.box
        ]
        self._edges = frozenset(edges)
        # Text -> the pages, in order, of which it is the first or last, and where.
        self._edges_of: defaultdict[str, list[tuple[int, Box]]] = defaultdict(list)
        for text, number, box in edges:
            self._edges_of[text].append((number, box))

    def holds(self, block: Block, page: int) -> bool:
        """Whether a block of the page is a page number, or a header or footer that recurs."""
        if block.label not in FURNITURE_LABELS:
            return block.label in EDGE_LABELS and self._is_repeated_at_edge(block, page)
        text = _plain(block.text)
        return is_page_number(block.text) or self._counts[text] > 1 or self._is_near(text, page)

    def _is_repeated_at_edge(self, block: Block, page: int) -> bool:
        """Whether a text at the top or bottom of a page is there on other pages too, one of them
        before it."""
        text, box = block.text, block.box
        if box is None or (text, page, box) not in self._edges:
            return False
        alike: set[int] = set()
        for number, at in self._edges_of[text]:
            if abs(box.y1 - at.y1) < box.y2 - box.y1:
                alike.add(number)
            # The first of them are enough: a running head may be on thousands of pages.
            if len(alike) == MIN_PAGES:
                return min(alike) < page
        return False

    def _is_near(self, text: str, page: int) -> bool:
        """Whether a header or footer of a page nearby is alike."""
        if not SHORTEST <= len(text) <= LONGEST:
            return False
        others = (
            other
            for number in range(page - NEAR, page + NEAR + 1)
            for other in self._heads.get(number, ())
            if number != page and SHORTEST <= len(other) <= LONGEST
        )
        return any(SequenceMatcher(None, text, other).ratio() >= ALIKE for other in others)


def _outermost(blocks: Sequence[Block]) -> list[Block]:
    """The first and the last text of a page, by height."""
    texts = [one for one in blocks if one.box and one.text and one.label not in FURNITURE_LABELS]
    if not texts:
        return []
    first = min(one.box.y2 for one in texts if one.box)
    last = max(one.box.y1 for one in texts if one.box)
    return [one for one in texts if one.box and (one.box.y1 < first or one.box.y2 > last)]


def _plain(text: str) -> str:
    """Letters and digits, each number as 0: a page's own number makes no other head of it."""
    return re.sub(r"\d+", "0", re.sub(r"[\W_]+", "", text.casefold()))


@dataclass(frozen=True)
class FigureText:
    """What a document says of a figure, as far as it was asked: its description, an alternative
    text, and its data as a table."""

    description: str = ""
    alternative: str = ""
    table: str = ""


NOTHING = FigureText()


def figure_texts(descriptions: Iterable[Description]) -> dict[str, FigureText]:
    """What a document says of its figures, by their ids."""
    found: dict[str, dict[str, Description]] = {}
    for description in descriptions:
        found.setdefault(description.figure_id, {})[description.task] = description
    return {figure_id: _figure_text(tasks) for figure_id, tasks in found.items()}


def _figure_text(tasks: Mapping[str, Description]) -> FigureText:
    texts = {task: description.text or "" for task, description in tasks.items()}
    data = tasks[Task.DATA].data if Task.DATA in tasks else None
    return FigureText(
        texts.get(Task.DESCRIBE, ""),
        texts.get(Task.CAPTION, ""),
        figure_html(load_figure_data(data)) if data else "",
    )


@dataclass(frozen=True)
class DocumentItem:
    """One document: an `Item` of `AssembledDocument`. Its `pages` are in order; `texts` are by
    figure, and may hold those of other documents."""

    pages: Sequence[PageResult]
    texts: Mapping[str, FigureText]

    @property
    def item_id(self) -> str:
        return self.pages[0].doc_id

    async def ask(self, ask_model: AskModel, usage: Usage) -> None:
        return None

    async def result(self, answer: ModelResult | None, usage: Usage) -> AssembledDocument:
        furniture = Furniture({page.page_number: page.blocks for page in self.pages})
        levels = document_heading_levels(self.pages)
        markdown = join_pages(
            page_markdown_blocks(page, self.texts, furniture, levels) for page in self.pages
        )
        return self._document(markdown, *document_status(self.pages))

    def failure(self, error: PageError, usage: Usage) -> AssembledDocument:
        return self._document("", PageStatus.FAILED, error)

    def _document(
        self, markdown: str, status: PageStatus, error: PageError | None
    ) -> AssembledDocument:
        first = self.pages[0]
        return AssembledDocument(
            doc_id=first.doc_id,
            source_uri=first.source_uri,
            name=first.name,
            status=status,
            markdown=markdown,
            page_count=sum(page.page_number > 0 for page in self.pages),
            figure_count=sum(len(page.figures) for page in self.pages),
            error_code=error.code if error else None,
            error=error.message if error else None,
            content_hash=first.content_hash,
            metadata=first.metadata,
        )


# Pages of which something may be missing: at the token limit, or where a loop began.
CUT = (PageStatus.TRUNCATED, PageStatus.REPETITIVE)


def document_status(pages: Sequence[PageResult]) -> tuple[PageStatus, PageError | None]:
    """A document is ok, failed (no page of it was read), or truncated: some of it is missing."""
    failed = [page for page in pages if page.status is PageStatus.FAILED]
    cut = [page for page in pages if page.status in CUT]
    if failed and len(failed) == len(pages):
        first = failed[0].outcome
        code = first.error_code or ErrorCode.MISSING_PAGES
        return PageStatus.FAILED, PageError(code, first.error or "no page was read")
    if failed or cut:
        numbers = ", ".join(str(page.page_number) for page in (*failed, *cut))
        ends = [(len(failed), "failed"), (len(cut), "was cut" if len(cut) == 1 else "were cut")]
        said = ", ".join(f"{count} {end}" for count, end in ends if count)
        message = f"of {pluralize(len(pages), 'page')}, {said}: {numbers}"
        return PageStatus.TRUNCATED, PageError(ErrorCode.MISSING_PAGES, message)
    return PageStatus.OK, None


def page_markdown_blocks(
    page: PageResult,
    texts: Mapping[str, FigureText],
    furniture: Furniture,
    levels: Mapping[tuple[int, int], int],
) -> list[MarkdownBlock]:
    """A page's anchor, then its blocks in reading order, the document's furniture left out;
    `levels` are those of headings by page number and place."""
    pieces = [MarkdownBlock(BlockKind.ANCHOR, f'<a id="page-{page.page_number}"></a>')]
    if page.status is PageStatus.FAILED:
        why = str(page.error or page.outcome.error_code).replace("--", "- -")
        comment = f"<!-- page {page.page_number} failed: {why} -->"
        return [*pieces, MarkdownBlock(BlockKind.OTHER, comment)]
    blocks = page.blocks
    cut = dict(zip(figure_blocks(blocks), page.figures, strict=bool(page.figures)))
    owners = captions_of(blocks)
    for k, block in enumerate(blocks):
        if k in cut:
            caption = blocks[owners[k]].text if k in owners else ""
            text = texts.get(cut[k].figure_id, NOTHING)
            markdown = figure_markdown_block(cut[k].name, caption, text)
            pieces.append(MarkdownBlock(BlockKind.FLOAT, markdown))
        is_furniture = furniture.holds(block, page.page_number)
        if block.text and k not in owners.values() and not is_furniture:
            markdown = block_markdown(block)
            if level := levels.get((page.page_number, k)):
                markdown = with_level(markdown, level)
            pieces.append(MarkdownBlock(_kind(block), markdown, block.box))
    return pieces


def figure_markdown_block(name: str, caption: str, said: FigureText) -> str:
    """The figure with an alternative text; below it its caption, description (quoted) and data."""
    description = said.description
    lines = [figure_markdown(name, said.alternative or caption or description)]
    if caption:
        lines.append(caption_markdown(caption))
    if description:
        lines.append(blockquote(description))
    if said.table:
        lines.append(said.table)
    return "\n\n".join(lines)


def _kind(block: Block) -> BlockKind:
    if block.label in CAPTION_LABELS | FURNITURE_LABELS or block.label == NOTE_LABEL:
        return BlockKind.FLOAT
    return {"text": BlockKind.TEXT, "table": BlockKind.TABLE}.get(block.label, BlockKind.OTHER)

"""Assemble: pages, figures and descriptions -> one enriched Markdown text a document."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from llm_ocr.messages import pluralize
from llm_ocr.models.profile import Task
from llm_ocr.parsing.figure_data import figure_html, load_figure_data
from llm_ocr.records import (
    CAPTION_LABELS,
    FURNITURE_LABELS,
    NOTE_LABEL,
    Block,
    ErrorCode,
    PageError,
    PageStatus,
)
from llm_ocr.stages.figures import captions_of, figure_blocks
from llm_ocr.stages.furniture import Furniture
from llm_ocr.stages.markdown import block_markdown, caption_markdown, figure_markdown
from llm_ocr.stages.page_joining import BlockKind, MarkdownBlock, join_pages
from llm_ocr.stages.row_builders import block_of
from llm_ocr.stages.stage import ModelResult, ReadShard, Usage, item_result
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.schema import Row
from llm_ocr.text.markdown import quoted

PAGE_COLUMNS = [
    *("page_id", "doc_id", "source_uri", "name", "content_hash", "metadata"),
    *("page_number", "blocks", "status", "error_code", "error"),
]
FIGURE_COLUMNS = ["figure_id", "page_id", "name"]
DESCRIPTION_COLUMNS = ["figure_id", "task", "text", "data"]


@dataclass(frozen=True)
class FigureText:
    """What a document says of a figure, as far as it was asked: its description, an alternative
    text, and its data as a table."""

    description: str = ""
    alternative: str = ""
    table: str = ""


NOTHING = FigureText()


@dataclass(frozen=True)
class AssembleStage:
    """The shard's documents, each joined from its pages. Asks nothing of an engine."""

    rows_of: ReadShard
    name: str = "assemble"
    tables: Sequence[str] = ("documents",)

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator["DocumentItem"]:
        figures: dict[str, list[Row]] = {}
        for row in self.rows_of("figures", shard.name, FIGURE_COLUMNS):
            figures.setdefault(row["page_id"], []).append(row)
        descriptions = self._descriptions(shard)
        pages = self.rows_of("pages", shard.name, PAGE_COLUMNS)
        for doc_id, rows in groupby(pages, key=lambda row: str(row["doc_id"])):
            yield DocumentItem(doc_id, list(rows), figures, descriptions)

    def _descriptions(self, shard: Shard) -> Mapping[str, FigureText]:
        found: dict[str, dict[str, Row]] = {}
        for row in self.rows_of("descriptions", shard.name, DESCRIPTION_COLUMNS):
            found.setdefault(row["figure_id"], {})[row["task"]] = row
        return {figure_id: _figure_text(tasks) for figure_id, tasks in found.items()}


def _figure_text(tasks: Mapping[str, Row]) -> FigureText:
    texts = {task: row["text"] or "" for task, row in tasks.items()}
    data = tasks[Task.DATA]["data"] if Task.DATA in tasks else None
    return FigureText(
        texts.get(Task.DESCRIBE, ""),
        texts.get(Task.CAPTION, ""),
        figure_html(load_figure_data(data)) if data else "",
    )


@dataclass(frozen=True)
class DocumentItem:
    """One document: its page rows in order, and the figures and descriptions of its shard."""

    doc_id: str
    pages: Sequence[Row]
    figures: Mapping[str, Sequence[Row]]
    descriptions: Mapping[str, FigureText]

    @property
    def item_id(self) -> str:
        return self.doc_id

    async def result(self, reading: ModelResult | None, usage: Usage) -> ItemResult:
        furniture = Furniture(
            {
                page["page_number"]: [block_of(b) for b in page["blocks"] or ()]
                for page in self.pages
            }
        )
        markdown = join_pages(self._pieces(page, furniture) for page in self.pages)
        return self._row(markdown, *document_status(self.pages))

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        return self._row("", PageStatus.FAILED, error)

    def _pieces(self, page: Row, furniture: Furniture) -> list[MarkdownBlock]:
        figures = self.figures.get(page["page_id"], ())
        return page_markdown_blocks(page, figures, self.descriptions, furniture)

    def _row(self, markdown: str, status: PageStatus, error: PageError | None) -> ItemResult:
        first = self.pages[0]
        row = {
            "doc_id": self.doc_id,
            "source_uri": first["source_uri"],
            "name": first["name"],
            "content_hash": first["content_hash"],
            # Runs from before it was known have no such column.
            "metadata": first.get("metadata"),
            "markdown": markdown,
            "page_count": sum(page["page_number"] > 0 for page in self.pages),
            "figure_count": sum(len(self.figures.get(page["page_id"], ())) for page in self.pages),
            "status": status.value,
            "error_code": error.code.value if error else None,
            "error": error.message if error else None,
        }
        return item_result(self.item_id, row, {"documents": [row]})


# Pages of which something may be missing: at the token limit, or where a loop began.
CUT = (PageStatus.TRUNCATED, PageStatus.REPETITIVE)


def document_status(pages: Sequence[Row]) -> tuple[PageStatus, PageError | None]:
    """A document is ok, failed (no page of it was read), or truncated: some of it is missing."""
    failed = [page for page in pages if page["status"] == PageStatus.FAILED]
    cut = [page for page in pages if page["status"] in CUT]
    if failed and len(failed) == len(pages):
        first = failed[0]
        code = ErrorCode(first["error_code"] or ErrorCode.MISSING_PAGES)
        return PageStatus.FAILED, PageError(code, first["error"] or "no page was read")
    if failed or cut:
        numbers = ", ".join(str(page["page_number"]) for page in (*failed, *cut))
        ends = [(len(failed), "failed"), (len(cut), "was cut" if len(cut) == 1 else "were cut")]
        said = ", ".join(f"{count} {end}" for count, end in ends if count)
        message = f"of {pluralize(len(pages), 'page')}, {said}: {numbers}"
        return PageStatus.TRUNCATED, PageError(ErrorCode.MISSING_PAGES, message)
    return PageStatus.OK, None


def page_markdown_blocks(
    page: Row,
    figures: Sequence[Row],
    descriptions: Mapping[str, FigureText],
    furniture: Furniture,
) -> list[MarkdownBlock]:
    """A page's anchor, then its blocks in reading order, the document's furniture left out."""
    pieces = [MarkdownBlock(BlockKind.ANCHOR, f'<a id="page-{page["page_number"]}"></a>')]
    if page["status"] == PageStatus.FAILED:
        why = str(page["error"] or page["error_code"]).replace("--", "- -")
        return [
            *pieces,
            MarkdownBlock(BlockKind.OTHER, f"<!-- page {page['page_number']} failed: {why} -->"),
        ]
    blocks = [block_of(row) for row in page["blocks"] or ()]
    rows = dict(zip(figure_blocks(blocks), figures, strict=bool(figures)))
    owners = captions_of(blocks)
    for k, block in enumerate(blocks):
        if k in rows:
            said = descriptions.get(rows[k]["figure_id"], NOTHING)
            caption = blocks[owners[k]].text if k in owners else ""
            pieces.append(
                MarkdownBlock(
                    BlockKind.FLOAT, figure_markdown_block(rows[k]["name"], caption, said)
                )
            )
        is_furniture = furniture.holds(block, page["page_number"])
        if block.text and k not in owners.values() and not is_furniture:
            pieces.append(MarkdownBlock(_kind(block), block_markdown(block), block.box))
    return pieces


def figure_markdown_block(name: str, caption: str, said: FigureText) -> str:
    """The figure with an alternative text, its caption below, its description quoted, its data."""
    description = said.description
    lines = [figure_markdown(name, said.alternative or caption or description)]
    if caption:
        lines.append(caption_markdown(caption))
    if description:
        lines.append(quoted(description))
    if said.table:
        lines.append(said.table)
    return "\n\n".join(lines)


def _kind(block: Block) -> BlockKind:
    if block.label in CAPTION_LABELS | FURNITURE_LABELS or block.label == NOTE_LABEL:
        return BlockKind.FLOAT
    return {"text": BlockKind.TEXT, "table": BlockKind.TABLE}.get(block.label, BlockKind.OTHER)

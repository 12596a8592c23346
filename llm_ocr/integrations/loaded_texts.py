"""Texts of documents with their metadata, one at a time, for the loaders of other frameworks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_ocr.document.converter import Converter
from llm_ocr.records import Block, DocumentResult
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import NoInputError, absolute_input, list_documents
from llm_ocr.sources.web import is_url
from llm_ocr.storage.store import open_snapshot
from llm_ocr.tables.read import read_table
from llm_ocr.tables.schema import Row

# Metadata that is not text to be searched.
TECHNICAL_KEYS = ("status", "error", "blocks", "width", "height")
_OF_BOTH = ["doc_id", "name", "source_uri", "markdown", "status", "error"]
_OF_PAGE = [*_OF_BOTH, "page_id", "page_number"]
_OF_BLOCKS = ["blocks", "width", "height"]


@dataclass(frozen=True)
class LoadedText:
    """The Markdown of a page, or of a document, and its metadata: `source`, `name`, `page` or
    `pages`, `status`, `error` if it failed, and `blocks` if they were wanted."""

    text_id: str
    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True)
class TextOptions:
    """`per_page`: one text per page, or else per document. `blocks`: the metadata of a page has the
    label and the box of each block in pixels of the page image, and its size."""

    per_page: bool = True
    blocks: bool = False


def read_texts(
    sources: Sequence[str | Path], options: TextOptions, settings: Settings
) -> Iterator[LoadedText]:
    """The texts of files, folders, globs and URLs, which are read one by one. What failed has an
    empty text. Raises what `Converter.convert` raises."""
    with Converter(settings) as converter:
        for source in sources:
            for one in _expand(str(source)):
                yield from _texts_of(converter.convert(one), options)


def _expand(source: str) -> Iterator[str]:
    if is_url(source):
        yield source
        return
    for document in list_documents([absolute_input(source)]):
        if document.row_count != 1:
            raise NoInputError(
                f"{source}: a dataset of many documents; read it with llm_ocr.run, then load the "
                "run"
            )
        yield document.source_uri


def _texts_of(result: DocumentResult, options: TextOptions) -> Iterator[LoadedText]:
    about = {"source": result.source_uri, "name": result.name}
    if not options.per_page:
        pages = sum(page.page_number > 0 for page in result.pages)
        metadata = {**about, "pages": pages, **_outcome(result.status, result.error)}
        yield LoadedText(result.doc_id or result.source_uri, result.markdown, metadata)
        return
    for page in result.pages:
        metadata = {**about, "page": page.page_number, **_outcome(page.status, page.error)}
        if options.blocks:
            size = {"width": page.width, "height": page.height}
            metadata |= {"blocks": [_block(block) for block in page.blocks], **size}
        yield LoadedText(page.page_id, page.markdown, metadata)


def _outcome(status: str, error: str | None) -> dict[str, Any]:
    return {"status": str(status), **({"error": error} if error else {})}


def _block(block: Block) -> dict[str, Any]:
    box = block.box
    return {"label": block.label, "box": box and [box.x1, box.y1, box.x2, box.y2]}


def run_texts(run: str | Path, options: TextOptions) -> Iterator[LoadedText]:
    """The texts of a run that has been done, from its tables. Nothing is read again."""
    store = open_snapshot(str(run))
    if not options.per_page:
        for row in read_table(store, "documents", [*_OF_BOTH, "page_count"]):
            metadata = {"pages": row["page_count"], **_outcome(row["status"], row["error"])}
            yield LoadedText(row["doc_id"], row["markdown"] or "", {**_about(row), **metadata})
        return
    columns = [*_OF_PAGE, *_OF_BLOCKS] if options.blocks else _OF_PAGE
    for row in read_table(store, "pages", columns):
        metadata = {"page": row["page_number"], **_outcome(row["status"], row["error"])}
        if options.blocks:
            size = {"width": row["width"], "height": row["height"]}
            metadata |= {"blocks": [_block_of_row(one) for one in row["blocks"] or ()], **size}
        yield LoadedText(row["page_id"], row["markdown"] or "", {**_about(row), **metadata})


def _about(row: Row) -> dict[str, Any]:
    return {"source": row["source_uri"], "name": row["name"]}


def _block_of_row(block: Row) -> dict[str, Any]:
    corners = [block[corner] for corner in ("x1", "y1", "x2", "y2")]
    return {"label": block["label"], "box": None if None in corners else corners}

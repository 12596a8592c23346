"""Write one document's result as files: Markdown with its figures, HTML and JSON.

Equal results are equal bytes: what differs from run to run, as times and ids do, is left out.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from llm_ocr.records import (
    Block,
    Box,
    DocumentResult,
    FieldError,
    FieldEvidence,
    Figure,
    PageResult,
    PageStatus,
    Record,
)
from llm_ocr.text.markdown import figure_address

# Formats of a document's file, which are also their suffixes.
FORMATS = ("md", "json", "html")
FIGURES = "figures"


def render_document(result: DocumentResult, format_name: str) -> bytes:
    """A document as a file of one of the `FORMATS`."""
    text = {"md": render_markdown, "json": render_json, "html": render_html}[format_name](result)
    return text.encode()


def document_files(result: DocumentResult, formats: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """`(path, content)` of a document's files: `NAME.md` and so on, after the figures that they
    refer to, as `figures/NAME`. HTML has its figures inside.

    A document of which nothing could be read has no Markdown and no HTML.
    """
    if set(formats) & {"md", "json"}:
        for figure in result.figures:
            yield f"{FIGURES}/{figure.name}", figure.jpeg
    for format_name in formats:
        if format_name == "json" or result.status is not PageStatus.FAILED:
            yield f"{result.name}.{format_name}", render_document(result, format_name)


def rename_document(result: DocumentResult, name: str) -> DocumentResult:
    """The result with another name, after which its figures are named too."""
    if name == result.name:
        return result
    old = PurePath(result.name).name
    new = PurePath(name).name
    names = {
        figure.name: f"{new}{figure.name.removeprefix(old)}"
        for figure in result.figures
        if figure.name.startswith(old)
    }

    def rename(text: str) -> str:
        for before, after in names.items():
            text = text.replace(f"({figure_address(before)})", f"({figure_address(after)})")
        return text

    pages = tuple(
        replace(
            page,
            markdown=rename(page.markdown),
            blocks=tuple(replace(block, text=rename(block.text)) for block in page.blocks),
            figures=tuple(
                replace(figure, name=names.get(figure.name, figure.name)) for figure in page.figures
            ),
        )
        for page in result.pages
    )
    return replace(result, name=name, markdown=rename(result.markdown), pages=pages)


def render_markdown(result: DocumentResult) -> str:
    """The document's Markdown, which ends with a line break."""
    return f"{result.markdown.rstrip()}\n"


def render_html(result: DocumentResult) -> str:
    """The document as an HTML page; see `html_page`."""
    return html_page(result.name, result.markdown, result.figures)


def html_page(title: str, markdown: str, figures: Iterable[Figure]) -> str:
    """A document's Markdown as an HTML page that has the figures inside, needs no other file, and
    can neither run nor fetch anything."""
    # Imported on demand: neither Markdown nor JSON needs them.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from llm_ocr.report.viewer import safe_html

    images = {f"{FIGURES}/{figure.name}": data_uri(figure.jpeg) for figure in figures}
    loader = PackageLoader("llm_ocr.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    template = environment.get_template("document.html")
    return template.render(title=title, body=safe_html(markdown, images))


def data_uri(jpeg: bytes) -> str:
    """A JPEG as an address that contains it."""
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"


def render_json(result: DocumentResult) -> str:
    """The document as JSON; see `document_content`."""
    return json.dumps(document_content(result), ensure_ascii=False, indent=2) + "\n"


def document_content(result: DocumentResult) -> dict[str, Any]:
    """The document's Markdown, pages with blocks, figures and records, for JSON."""
    return {
        "name": result.name,
        "source": result.source_uri,
        "status": result.status,
        "error_code": result.error_code,
        "error": result.error,
        "markdown": result.markdown,
        "pages": [page_content(page) for page in result.pages],
        "figures": figure_content(result.figures),
        "record": result.record,
        "records": [_record(record) for record in result.records],
    }


def page_content(page: PageResult) -> Mapping[str, Any]:
    """A page with its blocks, for JSON."""
    return {
        "number": page.page_number,
        "status": page.status,
        "error_code": page.outcome.error_code,
        "error": page.error,
        "width": page.width,
        "height": page.height,
        "markdown": page.markdown,
        "blocks": [_block(block) for block in page.blocks],
    }


def _block(block: Block) -> Mapping[str, Any]:
    return {
        "label": block.label,
        "text": block.text,
        "box": _box(block.box),
        "confidence": block.confidence,
    }


def figure_content(figures: Iterable[Figure]) -> list[Mapping[str, Any]]:
    """Figures without their images, for JSON."""
    return [_figure(figure) for figure in figures]


def _figure(figure: Figure) -> Mapping[str, Any]:
    return {
        "file": f"{FIGURES}/{figure.name}",
        "page": figure.page_number,
        "label": figure.label,
        "box": _box(figure.box),
        "width": figure.width,
        "height": figure.height,
        "caption": figure.caption,
        "description": figure.description,
    }


def _record(record: Record) -> Mapping[str, Any]:
    """A record; `page` is its page's number, None for a record of the whole document or of several
    pages."""
    number = record.record_id.partition("/")[2]
    return {
        "page": int(number) if number.isdecimal() else None,
        "pages": list(record.page_numbers),
        "class": record.class_name,
        "schema": record.schema,
        "status": record.status,
        "error_code": record.outcome.error_code,
        "error": record.error,
        "fields": record.fields,
        "errors": [_field_error(error) for error in record.errors],
        "evidence": [_evidence(evidence) for evidence in record.evidence],
    }


def _field_error(error: FieldError) -> Mapping[str, Any]:
    return {"path": error.path, "value": error.value, "reason": error.reason}


def _evidence(evidence: FieldEvidence) -> Mapping[str, Any]:
    return {
        "path": evidence.path,
        "matched": evidence.matched,
        "confidence": evidence.confidence,
        "page": evidence.page_number,
        "box": _box(evidence.box),
        "quote": evidence.quote,
    }


def _box(box: Box | None) -> list[float] | None:
    """Left, top, right and bottom in pixels of the page image."""
    return None if box is None else [box.x1, box.y1, box.x2, box.y2]

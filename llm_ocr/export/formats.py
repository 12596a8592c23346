"""The formats of exports: what each needs, and the files that it makes of a document."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from json import dumps

from llm_ocr.export.alto import alto
from llm_ocr.export.chunks import chunk_json, chunks
from llm_ocr.export.docling_document import docling_document
from llm_ocr.export.document import ExportDocument, ExportError, ExportFile
from llm_ocr.export.docx import docx
from llm_ocr.export.hocr import hocr
from llm_ocr.export.layout import PageLayout
from llm_ocr.export.page_xml import page_xml
from llm_ocr.export.pdf import image_pdf, searchable_pdf
from llm_ocr.export.plain_text import markdown_text
from llm_ocr.export.tokenizers import estimate_tokens
from llm_ocr.report.document_files import (
    FIGURES,
    data_uri,
    figure_content,
    html_page,
    page_content,
)


class DocumentFormat(StrEnum):
    """A format that documents can be exported in."""

    TEXT = "text"
    HTML = "html"
    HOCR = "hocr"
    ALTO = "alto"
    PAGE_XML = "page-xml"
    PDF = "pdf"
    PDFA = "pdfa"
    DOCX = "docx"
    DOCLING = "docling"
    CHUNKS = "chunks"


# The formats of `llm-ocr convert` that aren't made here: it writes HTML itself.
CONVERT_FORMATS = tuple(one for one in DocumentFormat if one is not DocumentFormat.HTML)


@dataclass(frozen=True)
class ExportOptions:
    """How documents are exported: the size of chunks in tokens, what counts these, and the path of
    pandoc."""

    chunk_tokens: int = 512
    count_tokens: Callable[[str], int] = estimate_tokens
    pandoc: str = "pandoc"


@dataclass(frozen=True)
class FormatSpec:
    """A format: the suffix of the file that is written last, what it needs of a document besides
    its pages, and `files`, which makes its files."""

    suffix: str
    files: Callable[[ExportDocument, ExportOptions], Iterator[ExportFile]]
    needs_markdown: bool = False
    needs_figures: bool = False
    needs_images: bool = False


def export_files(
    document: ExportDocument, to: DocumentFormat, options: ExportOptions
) -> Iterator[ExportFile]:
    """The files of a document in a format, one after the other; each has to be read before the
    next. Raises ExportError or PageError."""
    return SPECS[to].files(document, options)


def _text(document: ExportDocument, options: ExportOptions) -> Iterator[ExportFile]:
    yield _whole(".txt", f"{markdown_text(document.markdown)}\n")


def _html(document: ExportDocument, options: ExportOptions) -> Iterator[ExportFile]:
    yield _whole(".html", html_page(document.name, document.markdown, document.figures))


def _hocr(document: ExportDocument, options: ExportOptions) -> Iterator[ExportFile]:
    pages = hocr(document.name, document.source_uri, _layouts(document))
    yield ExportFile(".hocr", _encode_pieces(pages))


def _alto(document: ExportDocument, options: ExportOptions) -> Iterator[ExportFile]:
    yield ExportFile(".alto.xml", _encode_pieces(alto(document.source_uri, _layouts(document))))


def _page_xml(document: ExportDocument, options: ExportOptions) -> Iterator[ExportFile]:
    """A folder with a file per page, next to its image, if that was stored; and, written last, an
    index of them."""
    created = datetime.now(UTC)
    index: list[Mapping[str, object]] = []
    for page, layout in document.layouts():
        name = f"{layout.number:04d}"
        if page.image is not None:
            yield ExportFile(f".page/{name}.jpg", [page.image])
        yield _whole(f".page/{name}.xml", page_xml(layout, f"{name}.jpg", created))
        index.append(
            {
                "page": layout.number,
                "file": f"{name}.xml",
                "image": f"{name}.jpg" if page.image is not None else None,
                "words": [str(source) for source in layout.word_sources],
            }
        )
    yield _whole(".page/index.json", dumps({"source": document.source_uri, "pages": index}))


def _pdf(document: ExportDocument, options: ExportOptions) -> Iterator[ExportFile]:
    # Not NAME.pdf: next to the originals that would replace one of them.
    yield ExportFile(".searchable.pdf", searchable_pdf(document))


def _pdfa(document: ExportDocument, options: ExportOptions) -> Iterator[ExportFile]:
    yield ExportFile(".archive.pdf", image_pdf(document, is_archive=True))


def _docx(document: ExportDocument, options: ExportOptions) -> Iterator[ExportFile]:
    made = docx(document.name, document.markdown, document.figures, options.pandoc)
    yield ExportFile(".docx", [made])


def _docling(document: ExportDocument, options: ExportOptions) -> Iterator[ExportFile]:
    """The figures are in the file, so that it needs no other."""
    content = figure_content(document.figures)
    pages = [page_content(page) for page in document.pages]
    images = {f"{FIGURES}/{figure.name}": data_uri(figure.jpeg) for figure in document.figures}
    made = docling_document({"name": document.name, "pages": pages, "figures": content}, images.get)
    yield _whole(".docling.json", dumps(made, ensure_ascii=False))


def _chunks(document: ExportDocument, options: ExportOptions) -> Iterator[ExportFile]:
    found = chunks(list(document.pages), options.chunk_tokens, options.count_tokens)
    lines = (
        f"{dumps(chunk_json(chunk, k, document.name, document.source_uri), ensure_ascii=False)}\n"
        for k, chunk in enumerate(found, 1)
    )
    yield ExportFile(".chunks.jsonl", _encode_pieces(lines))


def _layouts(document: ExportDocument) -> Iterator[PageLayout]:
    """The layouts of the pages. Raises ExportError if no page has one."""
    layouts = (layout for _, layout in document.layouts())
    first = next(layouts, None)
    if first is None:
        raise ExportError(f"{document.source_uri}: no page of it could be rendered")
    return chain([first], layouts)


def _whole(suffix: str, content: str) -> ExportFile:
    return ExportFile(suffix, [content.encode()])


def _encode_pieces(pieces: Iterable[str]) -> Iterator[bytes]:
    return (piece.encode() for piece in pieces)


SPECS: Mapping[DocumentFormat, FormatSpec] = {
    DocumentFormat.TEXT: FormatSpec(".txt", _text, needs_markdown=True),
    DocumentFormat.HTML: FormatSpec(".html", _html, needs_markdown=True, needs_figures=True),
    DocumentFormat.HOCR: FormatSpec(".hocr", _hocr),
    DocumentFormat.ALTO: FormatSpec(".alto.xml", _alto),
    DocumentFormat.PAGE_XML: FormatSpec(".page/index.json", _page_xml, needs_images=True),
    DocumentFormat.PDF: FormatSpec(".searchable.pdf", _pdf, needs_images=True),
    DocumentFormat.PDFA: FormatSpec(".archive.pdf", _pdfa, needs_images=True),
    DocumentFormat.DOCX: FormatSpec(".docx", _docx, needs_markdown=True, needs_figures=True),
    DocumentFormat.DOCLING: FormatSpec(".docling.json", _docling, needs_figures=True),
    DocumentFormat.CHUNKS: FormatSpec(".chunks.jsonl", _chunks),
}

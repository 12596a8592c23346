"""A document to export: its pages, its Markdown and figures, and the original it was read from."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from llm_ocr.export.layout import PageLayout, page_layout
from llm_ocr.export.source import DocumentSource
from llm_ocr.messages import CodedError
from llm_ocr.records import (
    MIN_LAYER_TRUST,
    DocumentResult,
    Figure,
    PageError,
    PageResult,
    TextLine,
)


class ExportError(CodedError):
    """Something can't be exported; the message names it, and says why and what to do."""


@dataclass(frozen=True)
class ExportFile:
    """A file of an export: what follows the document's name in its path, and its content in
    pieces."""

    suffix: str
    content: Iterable[bytes]


@dataclass(frozen=True)
class ExportDocument:
    """A document to export.

    `pages` are in order and may be iterable only once, so that a long document is not held in
    memory. `source` is the original, None where it can't be had. `figures` and the images of pages
    may be missing where a format doesn't need them. `notes` are added while it is exported: what
    is less than it should be.
    """

    name: str
    source_uri: str
    pages: Iterable[PageResult]
    markdown: str = ""
    figures: Sequence[Figure] = ()
    source: DocumentSource | None = None
    notes: list[str] = field(default_factory=list)

    def layouts(self) -> Iterator[tuple[PageResult, PageLayout]]:
        """The pages that have a size, with their layouts. A page that could not be rendered has
        none."""
        for page in self.pages:
            if page.width and page.height:
                yield page, page_layout(page, self._layer(page))

    def _layer(self, page: PageResult) -> Sequence[TextLine]:
        """The lines of the PDF's own text, where the engine reports no lines and the text is
        trusted; none where the source can't be read."""
        is_trusted = (page.text_layer or 0.0) >= MIN_LAYER_TRUST
        if page.lines is not None or not is_trusted or self.source is None:
            return ()
        try:
            return self.source.text_lines(page)
        except PageError:
            return ()


def document_of_result(
    result: DocumentResult, source: DocumentSource | None = None
) -> ExportDocument:
    """A result of `llm_ocr.convert` as a document to export."""
    pages = [page for page in result.pages if page.page_number > 0]
    return ExportDocument(
        result.name, result.source_uri, pages, result.markdown, result.figures, source
    )

"""Render documents: each is opened once and stays open for its next pages."""

import hashlib
from collections import Counter, OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from llm_ocr.documents import Document
from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError, PageImage
from llm_ocr.sources.formats import HEAD_BYTES, detect_suffix
from llm_ocr.sources.names import (
    CHANGED,
    DATASET_KINDS,
    PAGES_KIND,
    file_version,
    missing_file_message,
)
from llm_ocr.sources.raster import Crop, RenderLimits

MAX_OPEN_DOCUMENTS = 4
# pdfium keeps decoded images for as long as a document is open.
MAX_USES_PER_DOCUMENT = 40


@dataclass(frozen=True)
class DocumentInfo:
    """An opened document's page count, and the SHA-256 of its bytes in hex."""

    page_count: int
    content_hash: str


class OpenDocument(Protocol):
    """A document that is open for rendering."""

    page_count: int

    def expected_tokens(self, number: int) -> int:
        """About how many tokens the page's text has, judged without rendering it."""
        ...

    def render(self, number: int, policy: ImagePolicy) -> PageImage: ...

    def crop(
        self,
        number: int,
        size: tuple[int, int],
        boxes: list[Box],
        dpi: int,
        max_side: int,
        rotation: int | None = None,
    ) -> list[Crop]:
        """Parts of a page of `size`, which was rotated by `rotation` (None: as rendered)."""
        ...

    def close(self) -> None: ...


class DocumentRenderer:
    """Renders pages and crops; keeps the last few documents open."""

    def __init__(self, password: str | None, limits: RenderLimits) -> None:
        self._password, self._limits = password, limits
        self._open: OrderedDict[str, OpenDocument] = OrderedDict()
        self._uses: Counter[str] = Counter()

    def count_pages(self, document: Document) -> int:
        return self._document(document).page_count

    def inspect(self, document: Document) -> DocumentInfo:
        page_count = self._document(document).page_count
        return DocumentInfo(page_count, _content_hash(Path(document.source_uri)))

    def expected_tokens(self, document: Document, numbers: list[int]) -> tuple[int, ...]:
        opened = self._document(document)
        return tuple(opened.expected_tokens(number) for number in numbers)

    def render(self, document: Document, number: int, policy: ImagePolicy) -> PageImage:
        return self._document(document).render(number, policy)

    def crop(
        self,
        document: Document,
        number: int,
        size: tuple[int, int],
        boxes: list[Box],
        dpi: int,
        rotation: int | None = None,
    ) -> list[Crop]:
        side = self._limits.max_figure_side
        return self._document(document).crop(number, size, boxes, dpi, side, rotation)

    def _document(self, document: Document) -> OpenDocument:
        _check_version(document)
        doc_id = document.doc_id
        if self._uses[doc_id] >= MAX_USES_PER_DOCUMENT:
            self._close(doc_id)
        if doc_id not in self._open:
            while len(self._open) >= MAX_OPEN_DOCUMENTS:
                self._close(next(iter(self._open)))
            path = Path(document.source_uri)
            may_be_folder = document.kind in (PAGES_KIND, *DATASET_KINDS.values())
            open_path = self._open_folder if may_be_folder and path.is_dir() else self._open_file
            self._open[doc_id] = open_path(path)
        self._open.move_to_end(doc_id)
        self._uses[doc_id] += 1
        return self._open[doc_id]

    def _close(self, doc_id: str) -> None:
        self._open.pop(doc_id).close()
        del self._uses[doc_id]

    def _open_folder(self, path: Path) -> OpenDocument:
        from llm_ocr.sources.images import MultiImageDocument

        return MultiImageDocument(
            path, self._limits.max_pixels, keep_metadata=self._limits.keep_metadata
        )

    def _open_file(self, path: Path) -> OpenDocument:
        # Imported on demand: a run over images never loads pdfium.
        if _detect_suffix(path) == ".pdf":
            from llm_ocr.sources.pdf import PdfFile

            return PdfFile(path, self._password, self._limits.max_pixels)
        from llm_ocr.sources.images import ImageFile

        return ImageFile(path, self._limits.max_pixels, keep_metadata=self._limits.keep_metadata)


def _content_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, or of those of all files in a folder of pages."""
    digest = hashlib.sha256()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        with file.open("rb") as body:
            while chunk := body.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def _check_version(document: Document) -> None:
    path = Path(document.source_uri)
    try:
        version, size = file_version(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PageError(
            ErrorCode.NOT_FOUND, f"{path}: {missing_file_message(str(path))}"
        ) from error
    if version != document.version:
        raise PageError(
            ErrorCode.SOURCE_CHANGED,
            f"{path}: {CHANGED}",
        )
    if size == 0:
        raise PageError(
            ErrorCode.EMPTY_FILE, f"{path}: the file is empty; copy it again or recreate it"
        )


def _detect_suffix(path: Path) -> str:
    """The file type by the first bytes and not by the name, as a suffix. Raises PageError."""
    try:
        with path.open("rb") as body:
            head = body.read(HEAD_BYTES)
    except IsADirectoryError as error:
        problem = "this is a folder, not a file; list its files instead"
        raise PageError(ErrorCode.READ_ERROR, f"{path}: {problem}") from error
    return detect_suffix(str(path), head)

"""Rendering documents: each is opened once and kept open for its next pages."""

import codecs
import hashlib
from collections import Counter, OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from llm_ocr.documents import Document
from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError, PageImage
from llm_ocr.sources.names import DATASET_KINDS, file_version, missing_file_message
from llm_ocr.sources.raster import Crop, RenderLimits

MAX_OPEN_DOCUMENTS = 4
# pdfium keeps decoded images for as long as a document is open.
MAX_USES_PER_DOCUMENT = 40
FILE_SIGNATURES = {
    b"PK\x03\x04": "a ZIP or Office file",
    b"\xd0\xcf\x11\xe0": "an old Office file",
    b"{\\rtf": "an RTF text",
    b"%!PS": "PostScript",
    b"GIF8": "a GIF image",
    b"BM": "a BMP image",
    b"\0\0\0\x0cjP  ": "a JPEG 2000 image",
    b"AT&TFORM": "a DjVu file",
    b"\x1f\x8b": "a gzip archive",
}
IMAGE_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


@dataclass(frozen=True)
class DocumentInfo:
    """An opened document's page count, and the SHA-256 of its bytes in hex."""

    page_count: int
    content_hash: str


class OpenDocument(Protocol):
    """A document that is open for rendering."""

    page_count: int

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
            in_dataset = document.kind in DATASET_KINDS.values()
            open_path = self._open_folder if in_dataset and path.is_dir() else self._open_file
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
        if _looks_like_pdf(path):
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
            f"{path}: the file has changed since the run was planned; choose another --out",
        )
    if size == 0:
        raise PageError(
            ErrorCode.EMPTY_FILE, f"{path}: the file is empty; copy it again or recreate it"
        )


def _looks_like_pdf(path: Path) -> bool:
    """True for a PDF, False for an image, by their first bytes, whatever the name says."""
    try:
        with path.open("rb") as body:
            head = body.read(1024)
    except IsADirectoryError as error:
        said = "this is a folder, not a file; list its files instead"
        raise PageError(ErrorCode.READ_ERROR, f"{path}: {said}") from error
    if b"%PDF-" in head:
        return True
    if head.startswith(IMAGE_MAGIC) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return False
    raise PageError(
        ErrorCode.UNSUPPORTED_FORMAT,
        f"{path}: {_describe_format(head)}, not a PDF, PNG, JPEG, WebP or TIFF; convert it first",
    )


def _describe_format(head: bytes) -> str:
    for magic, format_name in FILE_SIGNATURES.items():
        if head.startswith(magic):
            return f"this is {format_name}"
    if head[4:8] == b"ftyp":
        return "this is a HEIC or AVIF image, or a video"
    if head[:5].lower() in (b"<html", b"<!doc") or b"<html" in head[:200].lower():
        return "this is a web page"
    try:
        # Incrementally, as a character may be cut at the end of what was read.
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "this is some other format"
    return "this is some other format" if "\0" in text else "this is text"

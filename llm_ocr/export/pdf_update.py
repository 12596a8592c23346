"""Add invisible text to an existing PDF: the file stays as it is, and an update is appended."""

import io
import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, BinaryIO

from llm_ocr.export.invisible_font import InvisibleFont
from llm_ocr.export.layout import page_layout
from llm_ocr.export.pdf_text import invisible_text, page_matrix
from llm_ocr.export.pdf_writer import PdfWriter
from llm_ocr.records import MIN_LAYER_TRUST, Box, PageResult

FONT_NAME = b"LlmOcrInvisible"
CHUNK = 1 << 20
# Where the end of a file says where its last table of objects is.
_TAIL_BYTES = 2048
_START = re.compile(rb"startxref\s+(\d+)\s+%%EOF\s*\Z")
_TABLE, _STREAM = re.compile(rb"\s*xref\s"), re.compile(rb"\s*\d+\s+\d+\s+obj")


class CannotUpdateError(Exception):
    """A PDF to which nothing can be appended; the message says why."""


class PdfUpdate:
    """An existing PDF, opened to add text to its pages.

    Objects are read when they are needed, so a large file is not held in memory. Raises
    CannotUpdateError for a PDF that is encrypted, or damaged so that readers have to repair it.
    """

    def __init__(self, file: BinaryIO) -> None:
        # Imported on demand: no other format needs it.
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError

        self._file = file
        self._length = file.seek(0, io.SEEK_END)
        self._start = self._find_table()
        try:
            self._reader: Any = PdfReader(file)
            if self._reader.is_encrypted:
                raise CannotUpdateError("it is encrypted")
            self._pages: list[Any] = list(self._reader.pages)
        except (PyPdfError, *_DAMAGE) as error:
            raise CannotUpdateError(f"it is damaged ({error})") from error
        if any(page.indirect_reference is None for page in self._pages):
            raise CannotUpdateError("it has pages that can't be replaced")

    def with_text(self, pages: Iterable[PageResult]) -> Iterator[bytes]:
        """The file in pieces, with the text of the pages that have none of their own that can be
        trusted. The file is unchanged if there is no such page."""
        yield from self._copy()
        size = int(self._reader.trailer["/Size"])
        writer = PdfWriter(self._length, size)
        font: InvisibleFont | None = None
        for page in pages:
            if not _needs_text(page) or page.page_number > len(self._pages):
                continue
            if font is None:
                # A file may end without a line break.
                yield writer.raw(b"\n")
                font = InvisibleFont(writer)
            yield from self._page(page, writer, font)
        if font is not None:
            yield from font.objects()
            yield self._end(writer)

    def _find_table(self) -> int:
        """The offset of the last table of objects, if it is where the file says."""
        self._file.seek(0)
        if not self._file.read(5) == b"%PDF-":
            raise CannotUpdateError("it begins with something else than a PDF")
        self._file.seek(max(0, self._length - _TAIL_BYTES))
        found = _START.search(self._file.read())
        if found is None:
            raise CannotUpdateError("its end is damaged")
        start = int(found[1])
        self._file.seek(start)
        head = self._file.read(64)
        self._has_table = _TABLE.match(head) is not None
        if not self._has_table and _STREAM.match(head) is None:
            raise CannotUpdateError("its table of objects is damaged")
        return start

    def _copy(self) -> Iterator[bytes]:
        left = self._length
        while left:
            # The reader moves in the same file.
            self._file.seek(self._length - left)
            piece = self._file.read(min(CHUNK, left))
            left -= len(piece)
            yield piece

    def _page(self, page: PageResult, writer: PdfWriter, font: InvisibleFont) -> Iterator[bytes]:
        original = self._pages[page.page_number - 1]
        layout = page_layout(page)
        matrix = page_matrix(
            _visible_box(original), (layout.width, layout.height), page.rotation or 0
        )
        name = _free_name(original)
        content = invisible_text(layout, matrix, font, name)
        if not content:
            return
        number = writer.reserve()
        yield writer.stream(number, content)
        changed = self._page_with_content(original, number, (name, font.number))
        reference = original.indirect_reference
        yield writer.object(reference.idnum, _bytes_of(changed), reference.generation)

    def _page_with_content(self, original: Any, content: int, font: tuple[bytes, int]) -> Any:  # noqa: ANN401
        """The page with the content in front of its own, where no state that its own leaves behind
        matters, and with the font."""
        from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, NameObject

        page: Any = DictionaryObject({key: original.raw_get(key) for key in original})
        own: Any = page.raw_get("/Contents") if "/Contents" in page else ArrayObject()
        is_list = isinstance(own.get_object(), ArrayObject)
        streams = [*own.get_object()] if is_list else [own]
        reference = IndirectObject(content, 0, self._reader)
        page[NameObject("/Contents")] = ArrayObject([reference, *streams])
        resources = _copy_dictionary(page.get("/Resources"))
        fonts = _copy_dictionary(resources.get("/Font"))
        name, number = font
        fonts[NameObject(f"/{name.decode()}")] = IndirectObject(number, 0, self._reader)
        resources[NameObject("/Font")] = fonts
        page[NameObject("/Resources")] = resources
        return page

    def _end(self, writer: PdfWriter) -> bytes:
        trailer = self._reader.trailer
        entries = [
            b"%s %s" % (key.encode(), _bytes_of(trailer.raw_get(key)))
            for key in ("/Root", "/Info", "/ID")
            if key in trailer
        ]
        end = writer.end_with_table if self._has_table else writer.end_with_stream
        return end(b" ".join([*entries, b"/Prev %d" % self._start]))


# What pypdf raises on damaged files besides its own errors.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError)


def _needs_text(page: PageResult) -> bool:
    has_own = (page.text_layer or 0.0) >= MIN_LAYER_TRUST
    return bool(page.width and page.height and page.page_number) and not has_own


def _free_name(page: Any) -> bytes:  # noqa: ANN401
    """A name for the font that the page doesn't use: it may have been extended before."""
    fonts = _copy_dictionary(_copy_dictionary(page.get("/Resources")).get("/Font"))
    names = (FONT_NAME + (b"%d" % number if number > 1 else b"") for number in count(1))
    return next(name for name in names if f"/{name.decode()}" not in fonts)


def _visible_box(page: Any) -> Box:  # noqa: ANN401
    """The part of a page that is shown: its CropBox within its MediaBox."""
    media, crop = page.mediabox, page.cropbox
    left, bottom = max(media.left, crop.left), max(media.bottom, crop.bottom)
    right, top = min(media.right, crop.right), min(media.top, crop.top)
    if left >= right or bottom >= top:
        left, bottom, right, top = media.left, media.bottom, media.right, media.top
    return Box(float(left), float(bottom), float(right), float(top))


def _copy_dictionary(value: Any) -> Any:  # noqa: ANN401
    """A dictionary, or none, as one that can be changed without changing the original."""
    from pypdf.generic import DictionaryObject

    if value is None:
        return DictionaryObject()
    found = value.get_object()
    return DictionaryObject({key: found.raw_get(key) for key in found})


def _bytes_of(value: Any) -> bytes:  # noqa: ANN401
    sink = io.BytesIO()
    value.write_to_stream(sink)
    return sink.getvalue()

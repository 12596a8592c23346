"""A PDF page's own text: words with boxes, and a score of its quality."""

import ctypes
from typing import Any

import pypdfium2.raw as pdfium_c

from llm_ocr.records import Box, TextLayer, TextLine, valid_text
from llm_ocr.sources.page_transform import PageTransform, detect_text_rotation
from llm_ocr.sources.text_glyphs import join_text, may_need_repair, read_glyphs
from llm_ocr.sources.text_layer_quality import (
    TextLayerReport,
    garbled_share,
    invisible_share,
    is_shown,
    overlapping_share,
)
from llm_ocr.sources.text_lines import build_lines

# The share of a page that an image covers if the text is under it.
PAGE_SIZED = 0.7
# Images from this share of the page on are told of.
SMALLEST_PICTURE = 0.005


class PdfTextPage:
    """The text page of an open page; close it after use."""

    def __init__(self, page: Any) -> None:  # noqa: ANN401
        self._page, self._opened = page, page.get_textpage()
        self._raw = self._opened.raw

    def close(self) -> None:
        self._opened.close()

    def turn(self) -> int:
        """The clockwise turn in degrees by which (nearly) all of the text would be upright."""
        return detect_text_rotation(self._page, self._raw)

    def layer(self, turn: int, size: tuple[int, int], *, with_lines: bool) -> TextLayer | None:
        """The page's text, placed on the page as it is drawn turned by `turn`, `size` in pixels."""
        text = valid_text(str(self._opened.get_text_bounded()))
        if not text.strip():
            return None
        frame = PageTransform(self._page, size, turn)
        pictures, under_image = self._pictures(frame)
        lines: tuple[TextLine, ...] = ()
        if with_lines or may_need_repair(text):
            glyphs, is_mended = read_glyphs(self._raw, frame)
            text = join_text(glyphs) if is_mended else text
            lines = build_lines(self._raw, glyphs) if with_lines else ()
        found = TextLayerReport(
            garbled_share(text), invisible_share(self._raw), under_image, overlapping_share(lines)
        )
        kept = tuple(pictures) if with_lines else ()
        return TextLayer(text, under_image, found.damage, found.trust, found.doubts, lines, kept)

    def _pictures(self, frame: PageTransform) -> tuple[list[Box], bool]:
        """The page's own images, and whether one of them covers the page and its text.

        Text that is drawn after such an image, and can be seen, is printed on it.
        """
        whole = frame.size[0] * frame.size[1]
        pictures: list[Box] = []
        covers, shown_after = False, 0
        edges = [ctypes.c_float() for _ in range(4)]
        for index in range(pdfium_c.FPDFPage_CountObjects(self._page)):
            item = pdfium_c.FPDFPage_GetObject(self._page, index)
            kind = pdfium_c.FPDFPageObj_GetType(item)
            if kind == pdfium_c.FPDF_PAGEOBJ_TEXT:
                shown_after += int(is_shown(item))
            elif kind == pdfium_c.FPDF_PAGEOBJ_IMAGE:
                if not pdfium_c.FPDFPageObj_GetBounds(item, *edges):
                    continue
                box = frame.clipped(*(edge.value for edge in edges))
                if box.area > SMALLEST_PICTURE * whole:
                    pictures.append(box)
                if box.area > PAGE_SIZED * whole:
                    covers, shown_after = True, 0
        return pictures, covers and not shown_after

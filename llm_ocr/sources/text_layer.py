"""Read a PDF page's text layer: lines and words with boxes, and a score of its quality."""

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
    is_visible,
    overlapping_share,
)
from llm_ocr.sources.text_lines import build_lines

# The share of the page from which on an image counts as covering the text.
MIN_COVER_SHARE = 0.7
# The share of the page from which on an image is reported.
MIN_PICTURE_SHARE = 0.005


class PdfTextPage:
    """The text page of an open page; close it after use."""

    def __init__(self, page: Any) -> None:  # noqa: ANN401
        self._page, self._opened = page, page.get_textpage()
        self._raw = self._opened.raw

    def close(self) -> None:
        self._opened.close()

    def turn(self) -> int:
        """The clockwise rotation in degrees that makes (nearly) all text upright."""
        return detect_text_rotation(self._page, self._raw)

    def layer(self, turn: int, size: tuple[int, int], *, with_lines: bool) -> TextLayer | None:
        """The text layer, in pixels of the page rendered at `size` and rotated by `turn`; None for
        a page without text."""
        text = valid_text(str(self._opened.get_text_bounded()))
        if not text.strip():
            return None
        frame = PageTransform(self._page, size, turn)
        pictures, under_image, may_be_hidden = self._pictures(frame)
        lines: tuple[TextLine, ...] = ()
        if with_lines or may_need_repair(text):
            glyphs, is_repaired = read_glyphs(self._raw, frame)
            text = join_text(glyphs) if is_repaired else text
            lines = build_lines(self._raw, glyphs) if with_lines else ()
        invisible = invisible_share(self._raw) if may_be_hidden else 0.0
        report = TextLayerReport(
            garbled_share(text), invisible, under_image, overlapping_share(lines)
        )
        return TextLayer(
            text,
            under_image,
            report.damage,
            report.trust,
            report.doubts,
            lines,
            tuple(pictures) if with_lines else (),
        )

    def _pictures(self, frame: PageTransform) -> tuple[list[Box], bool, bool]:
        """The boxes of the page's images, whether one of them covers the page and its text, and
        whether some of the text may not be painted.

        Visible text that is drawn after such an image is printed on it. Text in forms is not
        looked at.
        """
        page_area = frame.size[0] * frame.size[1]
        pictures: list[Box] = []
        covers, visible_after, may_be_hidden = False, 0, False
        edges = [ctypes.c_float() for _ in range(4)]
        for index in range(pdfium_c.FPDFPage_CountObjects(self._page)):
            item = pdfium_c.FPDFPage_GetObject(self._page, index)
            kind = pdfium_c.FPDFPageObj_GetType(item)
            if kind == pdfium_c.FPDF_PAGEOBJ_TEXT:
                visible = is_visible(item)
                visible_after += int(visible)
                may_be_hidden |= not visible
            elif kind == pdfium_c.FPDF_PAGEOBJ_FORM:
                may_be_hidden = True
            elif kind == pdfium_c.FPDF_PAGEOBJ_IMAGE:
                if not pdfium_c.FPDFPageObj_GetBounds(item, *edges):
                    continue
                box = frame.clipped_box(*(edge.value for edge in edges))
                if box.area > MIN_PICTURE_SHARE * page_area:
                    pictures.append(box)
                if box.area > MIN_COVER_SHARE * page_area:
                    covers, visible_after = True, 0
        return pictures, covers and not visible_after, may_be_hidden

"""A page image -> its blocks in reading order, in four stages: words, regions, tables, structure.
The fifth, the output, is `answer`."""

from collections.abc import Sequence
from dataclasses import replace

import cv2

from llm_ocr.engines.embedded.block import PageBlock
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word, area, inside, overlap
from llm_ocr.engines.embedded.page import OcrPage
from llm_ocr.engines.embedded.regions.layout import LayoutModel, Region, with_ruled_tables
from llm_ocr.engines.embedded.regions.page_regions import page_regions
from llm_ocr.engines.embedded.structure.blocks import margin_notes, page_blocks
from llm_ocr.engines.embedded.structure.reading_order import in_order
from llm_ocr.engines.embedded.tables import ruled_areas, table_html
from llm_ocr.engines.embedded.words.deskew import DeskewTransform
from llm_ocr.engines.embedded.words.recognize import Image, RecognizedPage, Recognizer
from llm_ocr.engines.embedded.words.text_layer_check import verify_text_layer
from llm_ocr.engines.embedded.words.text_layer_input import TextLayerInput

# An image whose colors all vary less than this (standard deviation, 0..255) has nothing on it.
BLANK_DEVIATION = 1.5


class Reader:
    """The models; may be used by several threads at once."""

    def __init__(self) -> None:
        self._recognizer, self._layout = Recognizer(), LayoutModel()

    def read(self, image: Image, text_layer: TextLayerInput | None = None) -> OcrPage:
        """Everything on the image (height x width x 3, BGR), which may be turned or askew, unless
        a text layer comes with it."""
        height, width = image.shape[:2]
        if float(cv2.meanStdDev(image)[1].max()) < BLANK_DEVIATION:
            return OcrPage(image, DeskewTransform(width, height))
        if text_layer is None:
            return self._read_image(image)
        regions = self._layout.regions(image)
        figures = [one.rect for one in regions if one.label == "figure"]
        verified = verify_text_layer(image, text_layer, figures, self._recognizer)
        if not verified.is_used:
            return replace(self._read_image(image), text_layer=verified)
        words = RecognizedPage(image, verified.lines, DeskewTransform(width, height))
        return replace(read_page(words, regions, text_layer.pictures), text_layer=verified)

    def _read_image(self, image: Image) -> OcrPage:
        words = self._recognizer.page(image)
        return read_page(words, self._layout.regions(words.image))


def read_page(
    words: RecognizedPage, regions: Sequence[Region], pictures: Sequence[Rect] = ()
) -> OcrPage:
    """The page with these words on it and what the layout model says of it, after the first stage;
    `pictures` are images that it is known to have."""
    image = words.image
    # Regions, of which rules tell, too.
    across = [line for line in words.lines if not line.vertical]
    regions = with_ruled_tables(regions, ruled_areas(image, across))
    lines, vertical = _with_turned_heads(words.lines, regions)
    found = page_regions(lines, regions, image, pictures)
    # Tables.
    tables = [replace(one, html=table_html(one.lines, image)) for one in found.tables]
    # Structure: blocks in order.
    blocks = page_blocks(replace(found, tables=tables))
    ordered = in_order(blocks) + margin_notes(vertical, blocks, image.shape[1])
    unread = _outside_figures(words.unread, regions, ordered)
    return OcrPage(image, words.frame, lines, vertical, unread, regions, ordered)


def _with_turned_heads(
    lines: Sequence[OcrLine], regions: Sequence[Region]
) -> tuple[list[OcrLine], list[OcrLine]]:
    """The lines that run across, with the heads of tables that run up, which are cells like others;
    and the other vertical ones."""
    tables = [region.rect for region in regions if region.label == "table"]
    heads = [line for line in lines if line.vertical and inside(line, tables)]
    # Words that stand above each other have their own order, not that of rows.
    cells = [replace(line, words=(Word(line.rect, line.text),)) for line in heads]
    vertical = [line for line in lines if line.vertical and line not in heads]
    return [*(line for line in lines if not line.vertical), *cells], vertical


def _outside_figures(
    rects: Sequence[Rect], regions: Sequence[Region], blocks: Sequence[PageBlock]
) -> list[Rect]:
    drawn = [one.rect for one in regions if one.label == "figure"]
    drawn += [block.rect for block in blocks if block.label == "image"]
    return [rect for rect in rects if all(overlap(rect, one) < area(rect) / 2 for one in drawn)]

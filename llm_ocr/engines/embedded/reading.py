"""A page image -> its blocks in reading order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2

from llm_ocr.engines.embedded.block import PageBlock
from llm_ocr.engines.embedded.blocks import page_blocks
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word, area, overlap
from llm_ocr.engines.embedded.layout import LayoutModel, Region, with_ruled_tables
from llm_ocr.engines.embedded.margins import margin_notes
from llm_ocr.engines.embedded.pictured import inside
from llm_ocr.engines.embedded.recognize import Image, RecognizedPage, Recognizer
from llm_ocr.engines.embedded.sequence import in_order
from llm_ocr.engines.embedded.tables import ruled_areas
from llm_ocr.engines.embedded.text_layer_input import TextLayerInput
from llm_ocr.engines.embedded.upright import DeskewTransform
from llm_ocr.engines.embedded.witness import Held, held_against

# An image whose colors all vary less than this (standard deviation, 0..255) has nothing on it.
BLANK_DEVIATION = 1.5


@dataclass(frozen=True)
class Reading:
    """What was read on an image: the upright page, `width` x `height` pixels, and what is on it.

    `frame` leads back from the page to the image as turned. `vertical` are the lines that run up or
    down: they stand in a margin or along an axis, and are no part of `lines`. `unread` are where
    text stands, outside of figures, that can't be read. `held` is what became of the text layer
    that came with the page.
    """

    image: Image
    frame: DeskewTransform
    lines: Sequence[OcrLine]
    regions: Sequence[Region]
    blocks: Sequence[PageBlock]
    vertical: Sequence[OcrLine] = ()
    unread: Sequence[Rect] = ()
    held: Held | None = None

    @property
    def width(self) -> int:
        return int(self.image.shape[1])

    @property
    def height(self) -> int:
        return int(self.image.shape[0])

    @property
    def turned(self) -> int:
        """The degrees, clockwise, that made the image upright: 0, 90, 180 or 270."""
        return self.frame.turned


class Reader:
    """The models; may be used by several threads at once."""

    def __init__(self) -> None:
        self._recognizer, self._layout = Recognizer(), LayoutModel()

    def read(self, image: Image, given: TextLayerInput | None = None) -> Reading:
        """Everything on the image (height x width x 3, BGR), which may be turned or askew, unless
        a text layer comes with it."""
        height, width = image.shape[:2]
        if float(cv2.meanStdDev(image)[1].max()) < BLANK_DEVIATION:
            return Reading(image, DeskewTransform(width, height), (), (), ())
        if given is None:
            return self._read(self._recognizer.page(image))
        regions = self._layout.regions(image)
        held = held_against(image, given, regions, self._recognizer)
        if not held.is_used:
            return replace(self._read(self._recognizer.page(image)), held=held)
        page = RecognizedPage(image, held.lines, DeskewTransform(width, height))
        return replace(self._arranged(page, regions, given.pictures), held=held)

    def _read(self, page: RecognizedPage) -> Reading:
        return self._arranged(page, self._layout.regions(page.image))

    @staticmethod
    def _arranged(
        page: RecognizedPage, regions: Sequence[Region], pictures: Sequence[Rect] = ()
    ) -> Reading:
        across = [line for line in page.lines if not line.vertical]
        height, width = page.image.shape[:2]
        regions = with_ruled_tables(regions, ruled_areas(page.image, across))
        tables = [region.rect for region in regions if region.label == "table"]
        # A head that runs up is a cell like others.
        heads = [line for line in page.lines if line.vertical and inside(line, tables)]
        vertical = [line for line in page.lines if line.vertical and line not in heads]
        lines = [*across, *map(_as_one_word, heads)]
        blocks = page_blocks(lines, regions, width, height, pictures, page.image)
        ordered = in_order(blocks) + margin_notes(vertical, blocks, width)
        drawn = [one.rect for one in regions if one.label == "figure"]
        drawn += [block.rect for block in ordered if block.label == "image"]
        unread = [
            rect
            for rect in page.unread
            if all(overlap(rect, one) < area(rect) / 2 for one in drawn)
        ]
        return Reading(page.image, page.frame, lines, regions, ordered, vertical, unread)


def _as_one_word(line: OcrLine) -> OcrLine:
    """A line whose words stand above each other in their own order, not in that of rows."""
    return replace(line, words=(Word(line.rect, line.text),))

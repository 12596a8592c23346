"""A page image -> its blocks in reading order."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.blocks import PageBlock, page_blocks
from llm_ocr.engines.embedded.geometry import Line
from llm_ocr.engines.embedded.layout import LayoutModel, Region
from llm_ocr.engines.embedded.order import reading_order
from llm_ocr.engines.embedded.recognise import Image, Recogniser

# An image whose pixels vary less than this (standard deviation, 0..255) has nothing on it.
BLANK_DEVIATION = 1.5


@dataclass(frozen=True)
class Reading:
    """What was read on an image of `width` x `height` pixels."""

    width: int
    height: int
    lines: Sequence[Line]
    regions: Sequence[Region]
    blocks: Sequence[PageBlock]


class Reader:
    """The models of one thread; reads one image at a time."""

    def __init__(self) -> None:
        self._recogniser, self._layout = Recogniser(), LayoutModel()

    def read(self, image: Image) -> Reading:
        """Everything on the image (height x width x 3, BGR)."""
        height, width = image.shape[:2]
        if float(image.std()) < BLANK_DEVIATION:
            return Reading(width, height, (), (), ())
        lines, regions = self._recogniser.lines(image), self._layout.regions(image)
        blocks = page_blocks(lines, regions, width, height)
        order = reading_order([block.rect for block in blocks])
        return Reading(width, height, lines, regions, [blocks[k] for k in order])

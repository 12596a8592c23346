"""A page image -> its blocks in reading order."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.blocks import PageBlock, page_blocks
from llm_ocr.engines.embedded.geometry import Line
from llm_ocr.engines.embedded.given import Given
from llm_ocr.engines.embedded.layout import LayoutModel, Region
from llm_ocr.engines.embedded.order import reading_order
from llm_ocr.engines.embedded.recognise import Image, Recogniser
from llm_ocr.engines.embedded.witness import Held, held_against

# An image whose pixels vary less than this (standard deviation, 0..255) has nothing on it.
BLANK_DEVIATION = 1.5


@dataclass(frozen=True)
class Reading:
    """What was read on an image of `width` x `height` pixels.

    `held` is what became of the text layer that came with it.
    """

    width: int
    height: int
    lines: Sequence[Line]
    regions: Sequence[Region]
    blocks: Sequence[PageBlock]
    held: Held | None = None


class Reader:
    """The models of one thread; reads one image at a time."""

    def __init__(self) -> None:
        self._recogniser, self._layout = Recogniser(), LayoutModel()

    def read(self, image: Image, given: Given | None = None) -> Reading:
        """Everything on the image (height x width x 3, BGR), with a text layer if there is one."""
        height, width = image.shape[:2]
        if float(image.std()) < BLANK_DEVIATION:
            return Reading(width, height, (), (), ())
        regions = self._layout.regions(image)
        held = held_against(image, given, regions, self._recogniser) if given else None
        lines = held.lines if held else self._recogniser.lines(image)
        blocks = page_blocks(lines, regions, width, height)
        order = reading_order([block.rect for block in blocks])
        return Reading(width, height, lines, regions, [blocks[k] for k in order], held)

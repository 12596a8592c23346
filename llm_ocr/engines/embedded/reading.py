"""A page image -> its blocks in reading order."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_ocr.engines.embedded.blocks import PageBlock, page_blocks
from llm_ocr.engines.embedded.geometry import Line, Rect, area, overlap
from llm_ocr.engines.embedded.layout import LayoutModel, Region
from llm_ocr.engines.embedded.order import reading_order
from llm_ocr.engines.embedded.recognise import Image, Recogniser
from llm_ocr.engines.embedded.tables import ruled_areas

# An image whose pixels vary less than this (standard deviation, 0..255) has nothing on it.
BLANK_DEVIATION = 1.5
# A region of which a table covers so much is a part of it.
COVERED = 0.7


@dataclass(frozen=True)
class Reading:
    """What was read on an image of `width` x `height` pixels."""

    width: int
    height: int
    lines: Sequence[Line]
    regions: Sequence[Region]
    blocks: Sequence[PageBlock]
    # The pixels themselves, for what is read of a table's rules; None where nobody kept them.
    image: Image | None = None


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
        regions = with_ruled_tables(regions, ruled_areas(image, lines))
        blocks = page_blocks(lines, regions, width, height)
        order = reading_order([block.rect for block in blocks])
        return Reading(width, height, lines, regions, [blocks[k] for k in order], image)


def with_ruled_tables(regions: Sequence[Region], areas: Sequence[Rect]) -> list[Region]:
    """Regions with those of tables that only their rules show, in place of what they cover."""
    tables = [region.rect for region in regions if region.label == "table"]
    missed = [one for one in areas if not any(_same(one, other) for other in tables)]
    kept = [
        region
        for region in regions
        if not any(overlap(region.rect, one) > COVERED * area(region.rect) for one in missed)
    ]
    return [*kept, *(Region("table", one, 1.0) for one in missed)]


def _same(ruled: Rect, table: Rect) -> bool:
    return overlap(ruled, table) > COVERED * area(ruled)

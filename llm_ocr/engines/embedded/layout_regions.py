"""The regions of a page image as the layout model alone finds them, in reading order."""

from functools import cache

from llm_ocr.engines.embedded.geometry import Rect
from llm_ocr.engines.embedded.regions.layout import LayoutModel
from llm_ocr.engines.embedded.serving.reader_pool import decode_image
from llm_ocr.engines.embedded.structure.reading_order import reading_order


def layout_regions(jpeg: bytes) -> list[tuple[str, Rect]]:
    """Labels (see `regions.layout.LABELS`) and boxes in pixels of the image."""
    regions = _model().regions(decode_image(jpeg))
    heads = [k for k, region in enumerate(regions) if region.label == "title"]
    order = reading_order([region.rect for region in regions], heads)
    return [(regions[k].label, regions[k].rect) for k in order]


@cache
def _model() -> LayoutModel:
    return LayoutModel()

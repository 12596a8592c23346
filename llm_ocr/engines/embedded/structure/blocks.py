"""Regions of a page -> labeled blocks, as DeepSeek-OCR labels them."""

import re

from llm_ocr.engines.embedded.block import PageBlock, block_of
from llm_ocr.engines.embedded.regions.page_regions import PageRegions
from llm_ocr.engines.embedded.structure.grouping import groups
from llm_ocr.engines.embedded.structure.labels import LABELS, assign_labels


def page_blocks(page: PageRegions) -> list[PageBlock]:
    """Every line in one block, or inside of a figure; not yet in reading order."""
    grouped = groups(page.text, page.lines)
    text = [block_of(LABELS.get(one.label, "text"), one.lines) for one in grouped]
    drawn = [PageBlock("image", (), rect) for rect in page.figures]
    blocks = [*page.furniture, *text, *page.tables, *drawn]
    blocks = [one for one in blocks if not one.lines or re.search(r"\w", one.text)]
    return assign_labels(blocks, page.body, page.height)

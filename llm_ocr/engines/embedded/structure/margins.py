"""Text that runs up or down along a page's side: stamps, running heads of turned pages."""

from collections.abc import Sequence

from llm_ocr.engines.embedded.block import PageBlock
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, area, overlap

# How far from a side the middle of such a line is at most, as a share of the page's width.
SIDE = 0.12


def margin_notes(
    vertical: Sequence[OcrLine], blocks: Sequence[PageBlock], width: int
) -> list[PageBlock]:
    """The vertical lines at a page's sides, as furniture; not those of figures and tables."""
    taken = [block.rect for block in blocks if block.label in ("image", "table")]
    return [
        PageBlock("header", (line,), line.rect)
        for line in vertical
        if _is_at_side(line.rect, width) and not _is_inside(line.rect, taken)
    ]


def _is_at_side(rect: Rect, width: int) -> bool:
    middle = (rect[0] + rect[2]) / 2
    return min(middle, width - middle) < SIDE * width


def _is_inside(rect: Rect, others: Sequence[Rect]) -> bool:
    return any(overlap(rect, other) > 0.5 * area(rect) for other in others)

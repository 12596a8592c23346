"""Lines of text where they stand on a page, for the tests of what is made of them."""

from collections.abc import Iterable, Sequence

import numpy as np

from llm_ocr.engines.embedded.block import PageBlock
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.regions.page_regions import page_regions
from llm_ocr.engines.embedded.structure.blocks import page_blocks

LETTER, SPACE, HEIGHT, PITCH = 9, 6, 20, 26
# As wide as each other: 372 pixels.
FLOOD = "the flood of that year was the highest since"
RECORDS = "records had been kept and it took the bridge"


def line(text: str, x: float, y: float, thickness: float = 0.0) -> OcrLine:
    """A line as it is read on a scan; `thickness` is that of its strokes."""
    words = []
    for part in text.split():
        words.append(Word((x, y, x + LETTER * len(part), y + HEIGHT), part))
        x = words[-1].rect[2] + SPACE
    return OcrLine(text, tuple(words), 0.98, thickness=thickness)


def column(texts: Iterable[str], x: float, y: float, thickness: float = 0.0) -> list[OcrLine]:
    """Lines below each other, as close as those of one paragraph."""
    return [line(text, x, y + PITCH * k, thickness) for k, text in enumerate(texts)]


def rows(texts: Sequence[Sequence[str]], places: Sequence[float], y: float) -> list[OcrLine]:
    """Rows of parts, each of which begins at a place; an empty part is none."""
    return [
        line(text, x, y + PITCH * k)
        for k, row in enumerate(texts)
        for text, x in zip(row, places, strict=True)
        if text
    ]


def labeled_blocks(
    lines: Sequence[OcrLine],
    regions: Sequence[Region],
    width: int,
    height: int,
    pictures: Sequence[Rect] = (),
) -> list[PageBlock]:
    """The blocks of a page on which something is drawn everywhere."""
    squares = (np.indices((height, width)) // 30).sum(axis=0) % 2
    image = np.repeat(squares[:, :, None] * 255, 3, axis=2).astype(np.uint8)
    return page_blocks(page_regions(lines, regions, image, pictures))

"""Lines and regions of a page -> labeled blocks, as DeepSeek-OCR labels them."""

import re
from collections.abc import Sequence

from llm_ocr.engines.embedded.aligned import with_aligned_tables, with_head_row, with_label_column
from llm_ocr.engines.embedded.block import PageBlock, block_of
from llm_ocr.engines.embedded.captioned import with_captioned_figures
from llm_ocr.engines.embedded.captions import begins_caption, names_table
from llm_ocr.engines.embedded.furniture import furniture
from llm_ocr.engines.embedded.geometry import (
    OcrLine,
    Rect,
    area,
    hull,
    overlap,
    shared_columns,
    shared_rows,
    typical_height,
)
from llm_ocr.engines.embedded.grouping import groups, is_prose
from llm_ocr.engines.embedded.labels import LABELS, labeled
from llm_ocr.engines.embedded.layout import Region
from llm_ocr.engines.embedded.paragraphs import rows_of
from llm_ocr.engines.embedded.pictured import SMALLEST, figures, inside, is_drawn, with_tables
from llm_ocr.engines.embedded.recognize import Image

# A caption's second row is longer than this share of its table's width.
CAPTION = 0.5
# A column of row labels is so high, as shares of its table's height.
SIDE = (0.6, 1.15)


def page_blocks(
    lines: Sequence[OcrLine],
    regions: Sequence[Region],
    width: int,
    height: int,
    pictures: Sequence[Rect] = (),
    image: Image | None = None,
) -> list[PageBlock]:
    """Every line in one block, or inside of a figure; not yet in reading order.

    `pictures` are images that the page is known to have; `image` are its pixels (height x width x
    3, BGR), to see whether anything is drawn where a figure is left.
    """
    if not lines:
        return _pictures(regions, width, height)
    body = typical_height(lines)
    regions = with_tables(regions, lines, width * height)
    margins, free = furniture(lines, regions, height)
    regions = with_captioned_figures(with_aligned_tables(regions, free), free)
    drawn = figures(regions, pictures, free, width * height)
    whole = [*(one.rect for one in regions if one.label == "figure"), *pictures]
    drawn = [rect for rect in drawn if image is None or is_drawn(image, rect, whole)]
    free = [line for line in free if not inside(line, drawn)]
    tables, free = _tables(regions, free, body)
    text = [block_of(LABELS.get(one.label, "text"), one.lines) for one in groups(regions, free)]
    blocks = [*margins, *text, *tables, *(PageBlock("image", (), rect) for rect in drawn)]
    blocks = [one for one in blocks if not one.lines or re.search(r"\w", one.text)]
    return labeled(blocks, body, height)


def _pictures(regions: Sequence[Region], width: int, height: int) -> list[PageBlock]:
    """A page without text: its figures, or the page as one if something is on it."""
    found = [one.rect for one in regions if one.label in ("figure", "table")]
    large = [rect for rect in found if area(rect) > SMALLEST * width * height]
    return [PageBlock("image", (), rect) for rect in large]


def _tables(
    regions: Sequence[Region], lines: Sequence[OcrLine], body: float
) -> tuple[list[PageBlock], list[OcrLine]]:
    """Blocks of the table regions, and the lines outside of them."""
    areas = [region.rect for region in regions if region.label == "table"]
    others = [
        one
        for one in regions
        if one.label not in ("table", "figure")
        and not is_prose([line for line in lines if inside(line, [one.rect])])
    ]
    areas = [with_label_column(_with_side_column(rect, others, body), lines) for rect in areas]
    areas = [with_head_row(rect, lines) for rect in areas]
    free = list(lines)
    tables: list[PageBlock] = []
    for rect in areas:
        inner = [line for line in free if overlap(line.rect, rect) > 0.5 * area(line.rect)]
        inner = _without_caption(inner, rect)
        if len(inner) >= 4 and not is_prose(inner):
            tables.append(block_of("table", inner))
            free = [line for line in free if line not in inner]
    return tables, free


def _without_caption(lines: Sequence[OcrLine], table: Rect) -> list[OcrLine]:
    """A table's lines, less the caption above its first row."""
    rows = rows_of(lines)
    count = 0
    while count < len(rows) and len(rows[count]) == 1:
        (line,) = rows[count]
        is_long = line.rect[2] - line.rect[0] > CAPTION * (table[2] - table[0])
        if not (is_long if count else names_table(line.text) and begins_caption(line.text)):
            break
        count += 1
    return [line for row in rows[count:] for line in row]


def _with_side_column(table: Rect, others: Sequence[Region], body: float) -> Rect:
    """A table grown by regions beside it: a column of row labels is often taken for text."""
    for other in others:
        tall = other.rect[3] - other.rect[1]
        beside = shared_rows(other.rect, table) > 0.75 * tall
        near = 0 <= -shared_columns(other.rect, table) < 3 * body
        if beside and near and SIDE[0] < tall / (table[3] - table[1]) < SIDE[1]:
            table = hull((table, other.rect))
    return table

"""What stands on a page: furniture, tables (of contents, too), figures, and running text with its
regions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llm_ocr.engines.embedded.block import HEADER, PageBlock, block_of
from llm_ocr.engines.embedded.geometry import (
    OcrLine,
    Rect,
    area,
    hull,
    inside,
    overlap,
    shared_rows,
    typical_height,
)
from llm_ocr.engines.embedded.regions.borderless_tables import (
    with_aligned_tables,
    with_head_row,
    with_label_column,
)
from llm_ocr.engines.embedded.regions.captions import begins_caption, names_table
from llm_ocr.engines.embedded.regions.contents import contents
from llm_ocr.engines.embedded.regions.figures import (
    SMALLEST,
    with_captioned_figures,
    with_figures,
)
from llm_ocr.engines.embedded.regions.furniture import furniture
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.regions.text_columns import is_prose, with_joined_marks
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.engines.embedded.words.rows import rows_of

# A caption's second row is longer than this share of its table's width.
CAPTION = 0.5
# Text above or below a table is further from it than this, in line heights; the extent of a table
# that its rules or rows tell of is certain.
FAR, CERTAIN = 1.5, 1.0


@dataclass(frozen=True)
class PageRegions:
    """The parts of a page that is `height` pixels high: each line is in one of them.

    `lines` are those of running text, `text` what the layout model says of where they stand;
    `body` is the usual height of all lines.
    """

    height: int
    body: float = 1.0
    furniture: Sequence[PageBlock] = ()
    contents: Sequence[PageBlock] = ()
    tables: Sequence[PageBlock] = ()
    figures: Sequence[Rect] = ()
    lines: Sequence[OcrLine] = ()
    text: Sequence[Region] = ()


def page_regions(
    lines: Sequence[OcrLine],
    regions: Sequence[Region],
    image: Image,
    pictures: Sequence[Rect] = (),
) -> PageRegions:
    """What the layout model found on an image (height x width x 3, BGR), corrected by how the lines
    stand; `pictures` are images that the page is known to have."""
    height, width = image.shape[:2]
    if not lines:
        return PageRegions(height, figures=_pictures(regions, width, height))
    body = typical_height(lines)
    regions = _with_slide_title(regions, lines, body) if width > height else regions
    regions = with_figures(regions, pictures, lines, image)
    listed, free = contents(lines)
    margins, free = furniture(free, regions, height, body)
    regions = with_captioned_figures(with_aligned_tables(regions, free), free, image)
    drawn = [one.rect for one in regions if one.label == "figure"]
    free = [line for line in free if not inside(line, drawn)]
    tables, free = _tables(regions, free, body)
    text = with_joined_marks(free)
    return PageRegions(height, body, margins, listed, tables, drawn, text, regions)


def _with_slide_title(
    regions: Sequence[Region], lines: Sequence[OcrLine], body: float
) -> list[Region]:
    """A slide's regions: what is as large as its text is no header but its title."""
    large = [line for line in lines if line.height >= body]
    return [
        replace(one, label="title")
        if one.label == HEADER and any(inside(line, [one.rect]) for line in large)
        else one
        for one in regions
    ]


def _pictures(regions: Sequence[Region], width: int, height: int) -> list[Rect]:
    """A page without text: its figures, or the page as one if something is on it."""
    found = [one.rect for one in regions if one.label in ("figure", "table")]
    return [rect for rect in found if area(rect) > SMALLEST * width * height]


def _tables(
    regions: Sequence[Region], lines: Sequence[OcrLine], body: float
) -> tuple[list[PageBlock], list[OcrLine]]:
    """Blocks of the table regions, and the lines outside of them."""
    free = list(lines)
    tables: list[PageBlock] = []
    for region in (one for one in regions if one.label == "table"):
        rect = with_head_row(with_label_column(region.rect, lines), lines)
        inner = [line for line in free if overlap(line.rect, rect) > 0.5 * area(line.rect)]
        inner = _without_caption(inner, rect)
        if region.score < CERTAIN:
            inner = _without_text_around(inner, body)
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
        is_long = line.width > CAPTION * (table[2] - table[0])
        if not (is_long if count else names_table(line.text) and begins_caption(line.text)):
            break
        count += 1
    return [line for row in rows[count:] for line in row]


def _without_text_around(lines: Sequence[OcrLine], body: float) -> list[OcrLine]:
    """A table's lines, less the text above and below it: rows of one part, a gap away from the
    first and last row of several."""
    rows = rows_of(lines)
    for _ in range(2):
        # Once from the bottom, once from the top.
        rows = rows[::-1]
        first = next((k for k, row in enumerate(rows) if len(row) > 1), 0)
        if first:
            inner, outer = (
                hull(line.rect for line in row) for row in (rows[first], rows[first - 1])
            )
            if -shared_rows(inner, outer) > FAR * body:
                rows = rows[first:]
    return [line for row in rows for line in row]

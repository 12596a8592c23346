"""Lines and regions of a page -> labelled blocks, as DeepSeek-OCR labels them."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llm_ocr.engines.embedded.geometry import (
    Line,
    Rect,
    area,
    hull,
    overlap,
    shared_columns,
    shared_rows,
    typical_height,
)
from llm_ocr.engines.embedded.layout import Region

# Regions are called figures only above this share of the page, and not above the other one when
# there is text to read on it: a whole handwritten page looks like one figure to the detector.
SMALLEST_FIGURE, LARGEST_FIGURE = 0.01, 0.7
PROSE_WORDS = 40
FURNITURE_WORDS = 18
LABELS = {
    "title": "title",
    "figure_caption": "image_caption",
    "table_caption": "table_caption",
    "header": "header",
    "footer": "footer",
    "equation": "text",
}
_PAGE_NUMBER = re.compile(
    r"\W*(?:page\s+)?(\d{1,4}|[ivxlc]{1,6})(?:\s*(?:of|/)\s*\d{1,4})?\W*", re.I
)
_FURNITURE = re.compile(r"(page \d+|https?://\S+$|www\.\S+$|©|copyright|downloaded from)", re.I)
_SUBSECTION = re.compile(r"\d{1,2}(\.\d{1,2})+\s+[^\W\d_a-z]")
_CAPTION = re.compile(r"(fig(ure|\.)?|abb(ildung|\.)?|chart|photo)\s*\d", re.I)
_TABLE_CAPTION = re.compile(r"tab(le|elle|\.)?\s*\d", re.I)


@dataclass(frozen=True)
class PageBlock:
    """A part of the page: its label, its lines (none for a figure), where it stands."""

    label: str
    lines: tuple[Line, ...]
    rect: Rect

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines).strip()

    @property
    def height(self) -> float:
        return statistics.median(line.height for line in self.lines)


def page_blocks(
    lines: Sequence[Line], regions: Sequence[Region], width: int, height: int
) -> list[PageBlock]:
    """Every line in one block, or inside of a figure; not yet in reading order."""
    if not lines:
        return _pictures(regions, width, height)
    body = typical_height(lines)
    figures = _figures(regions, lines, width * height)
    free = [line for line in lines if not _inside(line, figures)]
    tables, free = _tables(regions, free, body)
    blocks, free = _labelled(regions, free)
    blocks = [*blocks, *tables, *(_block("text", group) for group in _groups(free))]
    blocks = [block for block in blocks if re.search(r"\w", block.text)]
    blocks = [_furniture(block, blocks, figures, height, body) for block in blocks]
    blocks = [_heading(_caption(block, bool(figures)), body) for block in blocks]
    return [*blocks, *(PageBlock("image", (), figure) for figure in figures)]


def _block(label: str, lines: Sequence[Line]) -> PageBlock:
    ordered = sorted(lines, key=lambda line: (line.rect[1], line.rect[0]))
    return PageBlock(label, tuple(ordered), hull(line.rect for line in ordered))


def _pictures(regions: Sequence[Region], width: int, height: int) -> list[PageBlock]:
    """A page without text: its figures, or the page as one if something is on it."""
    found = [one.rect for one in regions if one.label in ("figure", "table")]
    large = [rect for rect in found if area(rect) > SMALLEST_FIGURE * width * height]
    return [PageBlock("image", (), rect) for rect in large]


def _figures(regions: Sequence[Region], lines: Sequence[Line], page: float) -> list[Rect]:
    figures: list[Rect] = []
    for region in regions:
        share = area(region.rect) / page
        if region.label != "figure" or share < SMALLEST_FIGURE:
            continue
        inner = sum(len(line.text.split()) for line in lines if _inside(line, [region.rect]))
        if share > LARGEST_FIGURE and inner > 0:
            continue
        if inner > PROSE_WORDS and share > 0.25:
            continue
        figures.append(region.rect)
    return figures


def _inside(line: Line, rects: Sequence[Rect]) -> bool:
    return any(overlap(line.rect, rect) > 0.6 * area(line.rect) for rect in rects)


def _tables(
    regions: Sequence[Region], lines: Sequence[Line], body: float
) -> tuple[list[PageBlock], list[Line]]:
    """Blocks of the table regions, and the lines outside of them."""
    areas = [region.rect for region in regions if region.label == "table"]
    others = [one for one in regions if one.label not in ("table", "figure")]
    areas = [_with_side_column(rect, others, body) for rect in areas]
    free = list(lines)
    tables: list[PageBlock] = []
    for rect in areas:
        inner = [line for line in free if overlap(line.rect, rect) > 0.5 * area(line.rect)]
        if len(inner) >= 4:
            tables.append(_block("table", inner))
            free = [line for line in free if line not in inner]
    return tables, free


def _with_side_column(table: Rect, others: Sequence[Region], body: float) -> Rect:
    """A table grown by regions beside it: a column of row labels is often taken for text."""
    for other in others:
        tall = other.rect[3] - other.rect[1]
        beside = shared_rows(other.rect, table) > 0.75 * tall
        near = 0 <= -shared_columns(other.rect, table) < 3 * body
        if beside and near and tall < 1.15 * (table[3] - table[1]):
            table = hull((table, other.rect))
    return table


def _labelled(
    regions: Sequence[Region], lines: Sequence[Line]
) -> tuple[list[PageBlock], list[Line]]:
    """Blocks of the text regions, and the lines that lie in none."""
    held: dict[int, list[Line]] = {}
    free: list[Line] = []
    for line in lines:
        shares = [
            (overlap(line.rect, region.rect) / max(1.0, area(line.rect)), region.score, k)
            for k, region in enumerate(regions)
            if region.label not in ("figure", "table")
        ]
        share, _, k = max(shares, default=(0.0, 0.0, 0))
        if share > 0.45:
            held.setdefault(k, []).append(line)
        else:
            free.append(line)
    blocks = [_block(LABELS.get(regions[k].label, "text"), inner) for k, inner in held.items()]
    return blocks, free


def _groups(lines: Sequence[Line]) -> list[list[Line]]:
    """Lines close below each other and of one size."""
    groups: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: (line.rect[1], line.rect[0])):
        fitting = (group for group in reversed(groups) if _follows(group[-1], line))
        group = next(fitting, None)
        if group is None:
            groups.append([line])
        else:
            group.append(line)
    return groups


def _follows(above: Line, line: Line) -> bool:
    gap = line.rect[1] - above.rect[3]
    narrower = min(above.rect[2] - above.rect[0], line.rect[2] - line.rect[0])
    return (
        gap < 0.7 * min(above.height, line.height)
        and line.rect[1] > above.rect[1] - 2
        and shared_columns(above.rect, line.rect) > 0.3 * narrower
        and 0.75 < line.height / above.height < 1.33
    )


def _furniture(
    block: PageBlock, blocks: Sequence[PageBlock], figures: Sequence[Rect], height: int, body: float
) -> PageBlock:
    """Running headers, footers and page numbers by where they stand, alone at an edge."""
    top, bottom = block.rect[3] < 0.09 * height, block.rect[1] > 0.92 * height
    if block.label == "table":
        return block
    edge = top or bottom
    if _PAGE_NUMBER.fullmatch(block.text) and len(block.lines) == 1 and edge:
        return replace(block, label="page_number")
    far_off = (block.label == "header" and block.rect[3] > 0.2 * height) or (
        block.label == "footer" and block.rect[1] < 0.8 * height
    )
    letterhead = block.label == "header" and (len(block.lines) > 2 or block.height > 1.3 * body)
    if far_off or letterhead:
        return replace(block, label="text")
    if block.label in ("header", "footer") or not edge or len(block.lines) > 2:
        return block
    if len(block.text.split()) > FURNITURE_WORDS:
        return block
    others = [other.rect for other in blocks if other is not block] + list(figures)
    gaps = [gap for rect in others if (gap := -shared_rows(rect, block.rect)) >= 0]
    if min(gaps, default=0.0) > 0.8 * body or _FURNITURE.match(block.text):
        return replace(block, label="header" if top else "footer")
    return block


def _caption(block: PageBlock, has_figures: bool) -> PageBlock:
    """Captions by how they begin; a figure's caption on a page without figures is text."""
    if block.label == "image_caption" and not has_figures and not _CAPTION.match(block.text):
        return replace(block, label="text")
    if block.label in ("text", "title") and len(block.lines) <= 4:
        if _CAPTION.match(block.text):
            return replace(block, label="image_caption")
        if _TABLE_CAPTION.match(block.text):
            return replace(block, label="table_caption")
    return block


def _heading(block: PageBlock, body: float) -> PageBlock:
    """Titles by their size; what the detector calls a title at too great a length is none."""
    if block.label == "title" and (len(block.lines) > 4 or len(block.text) > 260):
        return replace(block, label="text")
    if block.label != "text" or len(block.lines) > 3:
        return block
    text = block.text
    plain = len(text) < 140 and not text.endswith((".", ",", ";", ":"))
    if plain and len(block.lines) == 1 and _SUBSECTION.match(text):
        return replace(block, label="title")
    if plain and re.search(r"[^\W\d_]{2}", text) and block.height > 1.3 * body:
        return replace(block, label="title")
    return block

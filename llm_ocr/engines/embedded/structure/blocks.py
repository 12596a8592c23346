"""Regions of a page -> blocks, as DeepSeek-OCR labels them: captions, headings, footnotes, text; by
their look and by the detector."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from llm_ocr.engines.embedded.block import FURNITURE, HEADER, PageBlock, block_of
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, apart, inside, shared_columns
from llm_ocr.engines.embedded.regions.captions import begins_caption, names_figure
from llm_ocr.engines.embedded.regions.page_regions import PageRegions
from llm_ocr.engines.embedded.regions.text_columns import words_in
from llm_ocr.engines.embedded.structure.grouping import groups
from llm_ocr.engines.embedded.structure.headings import as_heading, with_heads
from llm_ocr.engines.embedded.words.rows import rows_of

LABELS = {
    "title": "title",
    "figure_caption": "image_caption",
    "table_caption": "table_caption",
}
LONGEST_CAPTION = 8
# Notes are so much smaller than the text, and have so many words in their first line.
NOTE_SIZE, NOTE_WORDS = 0.92, 3
# How far from a side the middle of a margin's vertical line is at most, as a share of the page's
# width.
SIDE = 0.12

_NOTE = re.compile(r"([*†‡§¶¹²³⁴-⁹]+|\(?\d{1,2}\)?[.)]?)\s*[^\W\d]")


def page_blocks(page: PageRegions) -> list[PageBlock]:
    """Every line in one block, or inside of a figure; not yet in reading order."""
    grouped = groups(page.text, page.lines)
    text = [block_of(LABELS.get(one.label, "text"), one.lines) for one in grouped]
    drawn = [PageBlock("image", (), rect) for rect in page.figures]
    blocks = [*page.furniture, *text, *page.tables, *drawn]
    blocks = [one for one in blocks if not one.lines or re.search(r"\w", one.text)]
    return _assign_labels(blocks, page.body, page.height)


def _assign_labels(blocks: Sequence[PageBlock], body: float, height: int) -> list[PageBlock]:
    """A page's blocks, those that are called text or by the detector's words with their labels."""
    drawn = [block.rect for block in blocks if block.label == "image"]
    named = [
        _caption(part, drawn, body) for block in blocks for part in _without_caption(block, body)
    ]
    named = [
        part for block in named for whole in with_heads(block) for part in _without_note(whole)
    ]
    named = [as_heading(block, named, body) for block in named]
    return [_footnote(block, named, body, height) for block in named]


def margin_notes(
    vertical: Sequence[OcrLine], blocks: Sequence[PageBlock], width: int
) -> list[PageBlock]:
    """The lines that run up or down at a page's sides, as headers (stamps, running heads of turned
    pages); not those of figures and tables."""
    taken = [block.rect for block in blocks if block.label in ("image", "table")]
    return [
        PageBlock(HEADER, (line,), line.rect)
        for line in vertical
        if not SIDE * width <= (line.rect[0] + line.rect[2]) / 2 <= (1 - SIDE) * width
        and not inside(line, taken)
    ]


def _without_caption(block: PageBlock, body: float) -> list[PageBlock]:
    """A block of text, a caption in it being one of its own."""
    if block.label != "text":
        return [block]
    rows = rows_of(block.lines)
    pitches = [below[0].rect[1] - above[0].rect[1] for above, below in pairwise(rows)]
    start = next((k for k, row in enumerate(rows) if _starts_caption(row, rows[:k], body)), None)
    if start is None or len(rows) < 2:
        return [block]
    end = len(rows)
    for k in range(start + 1, min(len(rows), start + 8)):
        larger = rows[k][0].height > 1.06 * rows[k - 1][0].height and rows[k][0].is_exact
        if larger or pitches[k - 1] > 1.35 * min(pitches):
            end = k
            break
    parts = rows[:start], rows[start:end], rows[end:]
    return [block_of("text", [one for row in part for one in row]) for part in parts if part]


def _starts_caption(
    row: Sequence[OcrLine], above: Sequence[Sequence[OcrLine]], body: float
) -> bool:
    """Whether a row begins a caption: within a text only if it is set apart."""
    text = " ".join(line.text for line in row)
    if not begins_caption(text):
        return False
    if not above:
        return True
    gap = row[0].rect[1] - max(line.rect[3] for line in above[-1])
    left = min(one[0].rect[0] for one in above)
    return gap > 0.5 * body or row[0].rect[0] > left + body


def _without_note(block: PageBlock) -> list[PageBlock]:
    """A block of text, the note in small print that it ends with being one of its own."""
    rows = rows_of(block.lines)
    for k in range(1, len(rows) if block.label == "text" else 0):
        above, below = (
            statistics.median(row[0].height for row in part) for part in (rows[:k], rows[k:])
        )
        first = rows[k][0]
        small = max(first.height, below) < NOTE_SIZE * above
        if small and _NOTE.match(first.text) and words_in(first) >= NOTE_WORDS:
            parts = rows[:k], rows[k:]
            return [block_of("text", [line for row in part for line in row]) for part in parts]
    return [block]


def _caption(block: PageBlock, drawn: Sequence[Rect], body: float) -> PageBlock:
    """Captions by how they begin; what the detector calls a figure's caption is text unless a
    figure is near."""
    if block.label == "image_caption" and not names_figure(block.text):
        if any(apart(block.rect, rect) < 3 * body for rect in drawn):
            return block
        block = replace(block, label="text")
    if (
        block.label in ("text", "title")
        and begins_caption(block.text)
        and len(rows_of(block.lines)) <= LONGEST_CAPTION
    ):
        of_figure = names_figure(block.text)
        return replace(block, label="image_caption" if of_figure else "table_caption")
    return block


def _footnote(block: PageBlock, blocks: Sequence[PageBlock], body: float, height: int) -> PageBlock:
    """Notes stand at the foot of a column, below its text, and are of small print or begin with
    their mark; below a note are only others."""
    marked = _NOTE.match(block.text) is not None
    small = _is_small(block, body) or (marked and block.text[0] in "*†‡§¶")
    if block.label != "text" or not small or block.rect[1] < 0.5 * height:
        return block
    column = [
        other
        for other in blocks
        if other.label not in FURNITURE and shared_columns(other.rect, block.rect) > 0
    ]
    below = [other for other in column if other.rect[1] > block.rect[3] - 0.5 * body]
    if not all(
        other.label == "text" and (_is_small(other, body) or _NOTE.match(other.text))
        for other in below
    ):
        return block
    above = [other for other in column if other.rect[3] < block.rect[1] + 0.5 * body]
    print_above = [other for other in above if not _is_small(other, body)]
    last = max(print_above, key=lambda other: other.rect[3], default=None)
    follows = last is not None and last.label == "text" and len(last.lines) > 1
    follows = follows and words_in(block.lines[0]) >= NOTE_WORDS
    return replace(block, label="footnote") if marked or follows else block


def _is_small(block: PageBlock, body: float) -> bool:
    return bool(block.lines) and block.height < NOTE_SIZE * body

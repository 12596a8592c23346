"""Regions of a page -> blocks, as DeepSeek-OCR labels them: captions, headings, footnotes, text; by
their look and by the detector."""

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from llm_ocr.engines.embedded.block import FURNITURE, HEADER, PageBlock
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, apart, inside, shared_columns
from llm_ocr.engines.embedded.regions.captions import begins_caption, begins_note, names_figure
from llm_ocr.engines.embedded.regions.page_regions import PageRegions
from llm_ocr.engines.embedded.regions.text_columns import words_in
from llm_ocr.engines.embedded.structure.grouping import groups
from llm_ocr.engines.embedded.structure.headings import as_heading, heads, other_sizes
from llm_ocr.engines.embedded.words.rows import pitches, text_of

LONGEST_CAPTION = 8
# Notes are so much smaller than the text, and have so many words in their first line.
NOTE_SIZE, NOTE_WORDS = 0.92, 3
# How far from a side the middle of a margin's vertical line is at most, as a share of the page's
# width.
SIDE = 0.12


def page_blocks(page: PageRegions) -> list[PageBlock]:
    """Every line in one block, or inside of a figure; not yet in reading order."""
    body = page.body
    rects = [*page.figures, *(one.rect for one in (*page.contents, *page.tables))]
    text = [one for one in groups(page.text, page.lines) if _is_worded(one)]
    text = _divide(text, lambda block: _rows_below(block, rects))
    text = _divide(_divide(text, other_sizes), lambda block: _captions(block, body))
    text = [_caption(block, page.figures, body) for block in text]
    text = _divide(_divide(text, heads), _notes)
    other = [one for one in (*page.furniture, *page.contents, *page.tables) if _is_worded(one)]
    blocks = [*other, *text, *(PageBlock("image", (), rect) for rect in page.figures)]
    blocks = [as_heading(block, blocks, body) for block in blocks]
    return [_footnote(block, blocks, body, page.height) for block in blocks]


def _is_worded(block: PageBlock) -> bool:
    return re.search(r"\w", block.text) is not None


def _divide(
    blocks: Sequence[PageBlock], starts: Callable[[PageBlock], Mapping[int, str]]
) -> list[PageBlock]:
    """Blocks, those in whose rows other ones start being divided there."""
    return [part for block in blocks for part in block.divide(starts(block))]


def _rows_below(block: PageBlock, rects: Sequence[Rect]) -> dict[int, str]:
    """The rows of a block that are the first ones below something between its rows, such as a
    table."""
    middles = [row[0].middle for row in block.rows]
    starts = [
        sum(middle < rect[1] for middle in middles)
        for rect in rects
        if shared_columns(block.rect, rect) > 0
        and not any(rect[1] < middle < rect[3] for middle in middles)
    ]
    return {k: block.label for k in starts if 0 < k < len(middles)}


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


def _captions(block: PageBlock, body: float) -> dict[int, str]:
    """The row of a block of text at which a caption begins, and the one below it."""
    rows = block.rows if block.label == "text" else []
    steps = pitches(rows)
    start = next((k for k, row in enumerate(rows) if _starts_caption(row, rows[:k], body)), None)
    if start is None:
        return {}
    ends = (
        k
        for k in range(start + 1, min(len(rows), start + LONGEST_CAPTION))
        if (rows[k][0].is_exact and rows[k][0].height > 1.06 * rows[k - 1][0].height)
        or steps[k - 1] > 1.35 * min(steps)
    )
    return {start: "text", next(ends, len(rows)): "text"}


def _starts_caption(
    row: Sequence[OcrLine], above: Sequence[Sequence[OcrLine]], body: float
) -> bool:
    """Whether a row begins a caption: within a text only if it is set apart."""
    if not begins_caption(text_of(row)):
        return False
    if not above:
        return True
    gap = row[0].rect[1] - max(line.rect[3] for line in above[-1])
    left = min(one[0].rect[0] for one in above)
    return gap > 0.5 * body or row[0].rect[0] > left + body


def _notes(block: PageBlock) -> dict[int, str]:
    """The row of a block of text at which the note in small print begins that it ends with."""
    rows = block.rows if block.label == "text" else []
    for k in range(1, len(rows)):
        above, below = (
            statistics.median(row[0].height for row in part) for part in (rows[:k], rows[k:])
        )
        first = rows[k][0]
        small = max(first.height, below) < NOTE_SIZE * above
        if small and begins_note(first.text) and words_in(first) >= NOTE_WORDS:
            return {k: "text"}
    return {}


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
        and len(block.rows) <= LONGEST_CAPTION
    ):
        of_figure = names_figure(block.text)
        return replace(block, label="image_caption" if of_figure else "table_caption")
    return block


def _footnote(block: PageBlock, blocks: Sequence[PageBlock], body: float, height: int) -> PageBlock:
    """Notes stand at the foot of a column, below its text, and are of small print or begin with
    their mark; below a note are only others."""
    marked = begins_note(block.text)
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
        other.label == "text" and (_is_small(other, body) or begins_note(other.text))
        for other in below
    ):
        return block
    above = [other for other in column if other.rect[3] < block.rect[1] + 0.5 * body]
    print_above = [other for other in above if not _is_small(other, body)]
    last = max(print_above, key=lambda other: other.rect[3], default=None)
    follows = last is not None and last.label == "text" and len(last.lines) > 1
    # Code begins with a sign or a line's number.
    follows = follows and block.text[0].isalpha() and words_in(block.lines[0]) >= NOTE_WORDS
    return replace(block, label="footnote") if marked or follows else block


def _is_small(block: PageBlock, body: float) -> bool:
    return bool(block.lines) and block.height < NOTE_SIZE * body

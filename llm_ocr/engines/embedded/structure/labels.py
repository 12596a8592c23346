"""What a block is: a caption, a heading, a footnote or text; by its look and by the detector."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from llm_ocr.engines.embedded.block import FURNITURE, PageBlock, block_of
from llm_ocr.engines.embedded.geometry import OcrLine, Rect, apart, shared_columns, shared_rows
from llm_ocr.engines.embedded.regions.captions import begins_caption, is_marked, names_figure
from llm_ocr.engines.embedded.regions.gutters import words_in
from llm_ocr.engines.embedded.structure.measured_headings import heads_text, with_heads
from llm_ocr.engines.embedded.words.doubt import ALONE
from llm_ocr.engines.embedded.words.rows import rows_of

LABELS = {
    "title": "title",
    "figure_caption": "image_caption",
    "table_caption": "table_caption",
}
# How much larger than the text a heading is: on a text layer sizes are known, else measured.
LARGER, LARGER_EXACT = 1.3, 1.15
LONGEST_HEADING, MOST_LINES = 140, 3
LONGEST_TITLE, MOST_TITLE_LINES = 260, 4
LONGEST_CAPTION = 8
# Notes are so much smaller than the text, and have so many words in their first line.
NOTE_SIZE, NOTE_WORDS = 0.92, 3

_SUBSECTION = re.compile(r"\d{1,2}(\.\d{1,2})+\.?\s+[^\W\d_a-z]")
_SECTION = re.compile(r"(\d{1,2}|[IVX]{1,5})\.?\s+[^\W\d_a-z]")
_NOTE = re.compile(r"([*†‡§¶¹²³⁴-⁹]+|\(?\d{1,2}\)?[.)]?)\s*[^\W\d]")
_LETTERS = re.compile(r"[^\W\d_]{3}|[\u3040-\u9fff]{2}")
_FORMULA = re.compile(r"[=≈≤≥∇∫∑√]")
_ITEM = re.compile(r"[•▪◦●‣\-–*]\s|\(?[a-z\d]{1,2}[.)]\s")


def assign_labels(blocks: Sequence[PageBlock], body: float, height: int) -> list[PageBlock]:
    """A page's blocks, those that are called text or by the detector's words with their labels."""
    drawn = [block.rect for block in blocks if block.label == "image"]
    named = [
        _caption(part, drawn, body) for block in blocks for part in _without_caption(block, body)
    ]
    named = [
        part for block in named for whole in with_heads(block) for part in _without_note(whole)
    ]
    named = [_heading(block, named, body) for block in named]
    return [_footnote(block, named, body, height) for block in named]


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
    """Whether a row begins a caption: within a text only if it is marked and set apart."""
    text = " ".join(line.text for line in row)
    if not begins_caption(text):
        return False
    if not above:
        return True
    gap = row[0].rect[1] - max(line.rect[3] for line in above[-1])
    left = min(one[0].rect[0] for one in above)
    return is_marked(text) and (gap > 0.5 * body or row[0].rect[0] > left + body)


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


def _heading(block: PageBlock, blocks: Sequence[PageBlock], body: float) -> PageBlock:
    """Titles by their size, number or weight; what the detector calls a title at too great a
    length is none."""
    text = block.text
    if block.label in ("text", "title") and all(line.score < ALONE for line in block.lines):
        # A signature, a scribble: whatever it is, it heads nothing.
        return replace(block, label="text")
    if block.label == "title":
        if _is_title(block, body):
            return block
        block = replace(block, label="text")
    if block.label != "text" or not _may_head(block):
        return block
    exact = all(line.is_exact for line in block.lines)
    alone = len(block.lines) == 1
    numbered = alone and (_SUBSECTION.match(text) or _is_section(block, blocks, body))
    if numbered:
        return replace(block, label="title")
    larger = block.height > (LARGER_EXACT if exact else LARGER) * body
    stands_out = block.bold and _stands_out(block, blocks, body)
    if larger or stands_out or heads_text(block, blocks, body):
        return replace(block, label="title")
    return block


def _is_title(block: PageBlock, body: float) -> bool:
    """Whether what the detector calls a title looks like one."""
    if len(block.lines) > MOST_TITLE_LINES or len(block.text) > LONGEST_TITLE:
        return False
    if all(line.is_exact for line in block.lines):
        looks = block.bold or block.height > 1.08 * body or block.text.isupper()
        looks = looks or _SUBSECTION.match(block.text) is not None
    else:
        looks = len(block.lines) < 3 or block.height > 1.15 * body
    sentence = len(block.text) > 60 and block.text.endswith(".")
    item = _ITEM.match(block.text) is not None and _SECTION.match(block.text) is None
    return looks and not sentence and not item and _is_worded(block.text)


def _is_worded(text: str) -> bool:
    """Whether a text is of words, and no formula or number."""
    letters = len(re.findall(r"[^\W\d_]", text))
    formula = _FORMULA.search(text) is not None and letters < 25
    return _LETTERS.search(text) is not None and not formula


def _may_head(block: PageBlock) -> bool:
    text = block.text
    return (
        len(block.lines) <= MOST_LINES
        and len(text) < LONGEST_HEADING
        and not text.endswith((".", ",", ";", ":"))
        and _is_worded(text)
        and (_ITEM.match(text) is None or _SECTION.match(text) is not None)
    )


def _is_section(block: PageBlock, blocks: Sequence[PageBlock], body: float) -> bool:
    """Whether a short numbered line stands alone, with room above it, and is no list's item."""
    if not _SECTION.match(block.text) or len(block.text) > 60:
        return False
    column = [
        other
        for other in blocks
        if other is not block and shared_columns(other.rect, block.rect) > 0
    ]
    room = all(
        block.rect[1] - other.rect[3] > 0.7 * body
        for other in column
        if other.rect[1] < block.rect[1]
    )
    below = [other for other in column if other.rect[1] > block.rect[1]]
    nearest = min(below, key=lambda other: other.rect[1], default=None)
    return (
        room
        and nearest is not None
        and nearest.rect[1] - block.rect[3] < 5 * body
        and not _ITEM.match(nearest.text)
        and not _SECTION.match(nearest.text)
    )


def _stands_out(block: PageBlock, blocks: Sequence[PageBlock], body: float) -> bool:
    """Whether a bold block heads something: there is text below it that isn't bold, and nothing
    beside it that it labels."""
    if block.height < 0.9 * body or len(block.text) > 90:
        return False
    others = [other for other in blocks if other is not block and other.lines]
    beside = any(
        shared_rows(other.rect, block.rect) > 0.5 * block.height
        and 0 < -shared_columns(other.rect, block.rect) < 12 * body
        and len(other.lines) <= 2
        and not other.bold
        for other in others
    )
    below = [
        other
        for other in others
        if other.rect[1] >= block.rect[3] - 0.3 * body
        and shared_columns(other.rect, block.rect) > 0
        and other.rect[1] - block.rect[3] < 8 * body
    ]
    return bool(below) and not beside


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

"""Headings of the text's size: short lines without an end mark, apart from the text above, in bold
or of thicker strokes, with lines of text below."""

import re
import statistics
from collections.abc import Sequence
from itertools import pairwise

from llm_ocr.engines.embedded.block import PageBlock, block_of
from llm_ocr.engines.embedded.geometry import OcrLine, hull, shared_columns
from llm_ocr.engines.embedded.regions.text_columns import is_apart
from llm_ocr.engines.embedded.words.rows import rows_of

# A heading is narrower than this share of its column, and has no more words than this.
NARROW, MOST_WORDS = 0.96, 10
# The room above it, as a share of the usual distance of two lines.
ROOM = 1.3
# Strokes so much thicker than those of the lines below are bold; of shorter texts they tell little.
THICKER, TELLING = 1.14, 4
_BEGINS = re.compile(r"(\d{1,2}(\.\d{1,2})*\.?\s+)?[^\W\d_a-z][^\W\d_]+")
_ENDS = re.compile(r"[.:!?。！？”\"')\]]$")
_CLOSED = re.compile(r"[.,;:!]$")

Row = list[OcrLine]


def with_heads(block: PageBlock) -> list[PageBlock]:
    """A block of text, the headings in it being blocks of their own."""
    rows = rows_of(block.lines)
    if block.label != "text" or len(rows) < 3 or not _is_column(rows):
        return [block]
    pitch = statistics.median(_pitches(rows))
    parts: list[tuple[str, list[Row]]] = [("text", [])]
    for k, row in enumerate(rows):
        if _heads(rows, k, pitch):
            parts += [("title", [row]), ("text", [])]
        else:
            parts[-1][1].append(row)
    return [
        block_of(label, [line for row in part for line in row]) for label, part in parts if part
    ]


def heads_text(block: PageBlock, blocks: Sequence[PageBlock], body: float) -> bool:
    """Whether a block of one line stands above text that fills its lines, nearer to it than to
    what is above."""
    row, *further = rows_of(block.lines)
    if further or any(is_apart(*two) for two in pairwise(row)) or not _looks(block.text):
        return False
    column = [
        other
        for other in blocks
        if other is not block and shared_columns(other.rect, block.rect) > 0
    ]
    lower = [other for other in column if other.rect[1] > block.rect[1]]
    upper = [other for other in column if other.rect[1] <= block.rect[1]]
    below = min(lower, key=lambda other: other.rect[1], default=None)
    above = max(upper, key=lambda other: other.rect[3], default=None)
    if below is None or below.label != "text" or not below.lines:
        return False
    rows = rows_of(below.lines)
    gap = below.rect[1] - block.rect[3]
    room = 10 * body if above is None else block.rect[1] - above.rect[3]
    open_above = above is not None and above.label == "text" and not _ENDS.search(above.text)
    narrow = block.rect[2] - block.rect[0] < NARROW * (below.rect[2] - below.rect[0])
    if len(rows) < 2 or not narrow or rows[0][0].text.strip()[:1].islower():
        return False
    if _is_bold(block.lines, below.lines):
        return gap < 2.5 * body
    if above is not None and above.label == "title" and "," in block.text:
        # The authors below the title.
        return False
    stands_alone = gap < min(2.5 * body, 1.1 * room) and room > 0.5 * body
    return _is_column(rows) and stands_alone and not open_above


def _is_bold(lines: Sequence[OcrLine], others: Sequence[OcrLine]) -> bool:
    """Whether lines are bold, or have thicker strokes than most of the others."""
    if all(line.bold for line in lines):
        return not all(line.bold for line in others)
    one, other = (
        [line.thickness for line in some if line.thickness and len(line.text) >= TELLING]
        for some in (lines, others)
    )
    return bool(one and other) and min(one) > THICKER * statistics.median(other)


def _pitches(rows: Sequence[Row]) -> list[float]:
    return [below[0].rect[1] - above[0].rect[1] for above, below in pairwise(rows)]


def _is_column(rows: Sequence[Row]) -> bool:
    """Whether most rows fill the width, as running text does."""
    left, _, right, _ = hull(line.rect for row in rows for line in row)
    full = sum(row[-1].rect[2] - row[0].rect[0] > 0.8 * (right - left) for row in rows[:-1])
    return full >= 0.5 * (len(rows) - 1)


def _looks(text: str) -> bool:
    short = len(text.split()) <= MOST_WORDS and len(text) < 90
    return short and _BEGINS.match(text) is not None and _CLOSED.search(text) is None


def _heads(rows: Sequence[Row], k: int, pitch: float) -> bool:
    row = rows[k]
    left, _, right, _ = hull(line.rect for one in rows for line in one)
    text = " ".join(line.text.strip() for line in row)
    if k + 2 > len(rows) or not _looks(text):
        return False
    goes_on = rows[k + 1][0].text.strip()[:1].islower()
    if goes_on or row[-1].rect[2] - row[0].rect[0] > NARROW * (right - left):
        return False
    if _is_bold(row, [line for one in rows if one is not row for line in one]):
        return True
    below = rows[k + 1][0].rect[1] - row[0].rect[1]
    if k == 0:
        rest = _pitches(rows[1:])
        return below > ROOM * statistics.median(rest) if rest else False
    above = row[0].rect[1] - rows[k - 1][0].rect[1]
    ended = _ENDS.search(rows[k - 1][-1].text.strip()) is not None
    return above > ROOM * pitch and below < 1.1 * above and ended

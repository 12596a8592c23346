"""Headings: titles by their number, size or weight, and short lines that stand above text; and how
deep they are."""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from llm_ocr.engines.embedded.block import CONTENTS, PageBlock
from llm_ocr.engines.embedded.geometry import (
    OcrLine,
    hull,
    shared_columns,
    shared_rows,
    typical_height,
)
from llm_ocr.engines.embedded.regions.text_columns import fills_width, is_apart
from llm_ocr.engines.embedded.words.doubt import ALONE
from llm_ocr.engines.embedded.words.rows import pitches, text_of
from llm_ocr.text.headings import DEEPEST, class_of, numbered_level, size_classes

# How much larger than the text a heading is, and one that the detector calls a title, if sizes are
# known from a text layer. Measured sizes vary by so much more: then the detector is believed.
LARGER, LARGER_TITLE, MEASURED = 1.15, 1.08, 1.13
# A heading's characters and lines, at most, and those of what the detector calls a title.
LONGEST_HEADING, LONGEST_TITLE = (140, 3), (260, 4)
# A heading of the text's size is narrower than this share of its column, and has no more words.
NARROW, MOST_WORDS = 0.96, 10
# The room above it within a text, as a share of the usual distance of two lines.
ROOM = 1.3
# Strokes so much thicker than those of the lines below are bold; of shorter texts they tell little.
THICKER, TELLING = 1.14, 4
# Sizes that differ by less are of one level: known sizes, and measured ones.
SAME_LEVEL, SAME_LEVEL_MEASURED = 1.08, 1.18
# A page's title is so much larger than the text, or by this much if it comes first, stands alone
# and has no number: the first heading of a later page is a section's.
TITLE, FIRST_TITLE = 1.75, 1.3

_SUBSECTION = re.compile(r"(\d{1,2}|[A-Z]|[IVX]{1,5})(\.\d{1,2})+\.?\s+[^\W\d_a-z]")
_SECTION = re.compile(r"(\d{1,2}|[IVX]{1,5})\.?\s+[^\W\d_a-z]")
_ITEM = re.compile(r"[•▪◦●‣\-–*]\s|\(?[a-z\d]{1,2}[.)]\s")
_LETTERS = re.compile(r"[^\W\d_]{3}|[\u3040-\u9fff]{2}")
_FORMULA = re.compile(r"[=≈≤≥∇∫∑√]")
_BEGINS = re.compile(r"(\d{1,2}(\.\d{1,2})*\.?\s+)?[^\W\d_a-z][^\W\d_]+")
_ENDS = re.compile(r"[.:!?。！？”\"')\]]$")
_CLOSED = re.compile(r"[.,;:!]$")

Row = list[OcrLine]


def other_sizes(block: PageBlock) -> dict[int, str]:
    """The rows at which text in bold, or of another size, begins or ends in a block that is a head
    or two, each of a few short lines, and text: the detector often puts both into one region."""
    rows = block.rows
    label = "text" if block.label == "title" else block.label
    starts = [0, *(k for k in range(1, len(rows)) if _begins_other(rows[k - 1], rows[k], block))]
    parts = block.divide(dict.fromkeys(starts, label))
    short = sum(
        len(part.lines) <= 3
        and len(part.text) < 120
        and not (
            _fills(part.rows[-1], block)
            and _CLOSED.search(part.text)
            and part.height < LARGER * parts[-1].height
        )
        for part in parts[:-1]
    )
    is_headed = 2 <= len(parts) <= 4 and short >= len(parts) // 2
    return dict.fromkeys(starts, label) if is_headed else {}


def _begins_other(above: Row, row: Row, block: PageBlock) -> bool:
    """Whether a row is of another size than the one above, or one of both is in bold, unless its
    sentence goes on."""
    most = LARGER * (1.0 if any(line.is_exact for line in row) else MEASURED)
    ratio = max(line.height for line in row) / above[-1].height
    goes_on = _fills(above, block) and row[0].text.strip()[:1].islower()
    is_other = all(line.bold for line in row) != above[-1].bold
    return (is_other and not goes_on) or not 1 / most < ratio < most


def _fills(row: Row, block: PageBlock) -> bool:
    """Whether a row is as wide as its block."""
    return row[-1].rect[2] - row[0].rect[0] > NARROW * (block.rect[2] - block.rect[0])


def heads(block: PageBlock) -> dict[int, str]:
    """The rows of a block of text at which a heading begins, and what is below it."""
    rows = block.rows
    if block.label != "text" or len(rows) < 3 or not fills_width(rows):
        return {}
    pitch = statistics.median(pitches(rows))
    found: dict[int, str] = {}
    for k in range(len(rows)):
        if _is_head(rows, k, pitch):
            found |= {k: "title", k + 1: "text"}
    return found


def as_heading(block: PageBlock, blocks: Sequence[PageBlock], body: float) -> PageBlock:
    """A block with its label, `title` if it is a heading; what the detector calls a title and
    doesn't look like one is text. `body` is the height of the page's lines."""
    if block.label not in ("text", "title"):
        return block
    if all(line.score < ALONE for line in block.lines):
        # A signature, a scribble: whatever it is, it heads nothing.
        return replace(block, label="text")
    is_title = _may_head(block) and (
        _looks_like_title(block, body)
        or block.height > LARGER * (1.0 if block.is_exact else MEASURED) * body
        or _heads_text(block, blocks, body)
    )
    return replace(block, label="title" if is_title else "text")


def _may_head(block: PageBlock) -> bool:
    """Whether a block is short, of words, and no item or sentence; what the detector calls a title
    may be longer, and end as a sentence if it is no longer than a line."""
    text, is_title = block.text, block.label == "title"
    longest, most_lines = LONGEST_TITLE if is_title else LONGEST_HEADING
    is_short = len(block.lines) <= most_lines and len(text) <= longest
    is_sentence = text.endswith((".", ",", ";", ":")) and (len(text) > 60 or not is_title)
    is_cut = text.endswith(("-", "\u00ad"))
    return is_short and not (is_sentence or is_cut) and _is_worded(text) and not _is_item(text)


def _looks_like_title(block: PageBlock, body: float) -> bool:
    """Whether a block is a numbered subsection, or looks like a title and is called one."""
    is_subsection = _SUBSECTION.match(block.text) is not None
    if block.label != "title":
        return is_subsection and len(block.lines) == 1
    return (
        is_subsection
        or block.height > LARGER_TITLE * body
        or block.bold
        or block.text.isupper()
        or not block.is_exact
    )


def _is_item(text: str) -> bool:
    return _ITEM.match(text) is not None and _SECTION.match(text) is None


def _is_worded(text: str) -> bool:
    """Whether a text is of words, and no formula or number."""
    letters = len(re.findall(r"[^\W\d_]", text))
    is_equation = text.endswith(")") and _BEGINS.match(text) is None
    is_formula = (is_equation or _FORMULA.search(text) is not None) and letters < 25
    return _LETTERS.search(text) is not None and not is_formula


def _heads_text(block: PageBlock, blocks: Sequence[PageBlock], body: float) -> bool:
    """Whether a block of the text's size stands above something as its heading does: with a number
    and room above it, in bold, or as one line nearer to the text below than to what is above."""
    others = [one for one in blocks if one is not block and one.lines]
    column = [one for one in others if shared_columns(one.rect, block.rect) > 0]
    lower = [one for one in column if one.rect[1] > block.rect[1]]
    upper = [one for one in column if one.rect[1] <= block.rect[1]]
    below = min(lower, key=lambda one: one.rect[1], default=None)
    above = max(upper, key=lambda one: one.rect[3], default=None)
    if below is None:
        return False
    gap = below.rect[1] - block.rect[3]
    room = 10 * body if above is None else block.rect[1] - above.rect[3]
    is_short = len(block.lines) == 1 and len(block.text) <= 60
    if is_short and _SECTION.match(block.text) and room > 0.7 * body and gap < 5 * body:
        # A list's item is followed by another.
        return not _ITEM.match(below.text) and not _SECTION.match(below.text)
    if block.bold and gap < 8 * body and block.height >= 0.9 * body and len(block.text) <= 90:
        return not any(_is_value_beside(one, block, body) for one in others)
    (row, *further), rows = block.rows, below.rows
    width = below.rect[2] - below.rect[0]
    is_text = below.label in ("text", CONTENTS) and len(rows) > 1 and gap < 2.5 * body
    if further or not is_text or not _may_stand_above(row, rows[0], width):
        return False
    if _is_bold(block.lines, below.lines):
        return True
    if above is not None and above.label == "title" and "," in block.text:
        # The authors below the title.
        return False
    is_open = above is not None and above.label == "text" and not _ENDS.search(above.text)
    return fills_width(rows) and gap < 1.1 * room and room > 0.5 * body and not is_open


def _is_value_beside(other: PageBlock, block: PageBlock, body: float) -> bool:
    """Whether a block is a label with its value beside it, as on a form."""
    return (
        shared_rows(other.rect, block.rect) > 0.5 * block.height
        and 0 < -shared_columns(other.rect, block.rect) < 12 * body
        and len(other.lines) <= 2
        and not other.bold
    )


def _is_head(rows: Sequence[Row], k: int, pitch: float) -> bool:
    """Whether a row of a block of text is a heading."""
    row = rows[k]
    left, _, right, _ = hull(line.rect for one in rows for line in one)
    if k + 2 > len(rows) or not _may_stand_above(row, rows[k + 1], right - left):
        return False
    if _is_bold(row, [line for one in rows if one is not row for line in one]):
        return True
    below = rows[k + 1][0].rect[1] - row[0].rect[1]
    if k == 0:
        rest = pitches(rows[1:])
        return below > ROOM * statistics.median(rest) if rest else False
    above = row[0].rect[1] - rows[k - 1][0].rect[1]
    ended = _ENDS.search(rows[k - 1][-1].text.strip()) is not None
    return above > ROOM * pitch and below < 1.1 * above and ended


def _is_bold(lines: Sequence[OcrLine], others: Sequence[OcrLine]) -> bool:
    """Whether lines are bold, or have thicker strokes than most of the others."""
    if all(line.bold for line in lines):
        return not all(line.bold for line in others)
    one, other = (
        [line.thickness for line in some if line.thickness and len(line.text) >= TELLING]
        for some in (lines, others)
    )
    return bool(one and other) and min(one) > THICKER * statistics.median(other)


def _may_stand_above(row: Row, below: Row, width: float) -> bool:
    """Whether a row reads as a heading of what begins below it in a column of a width."""
    text = text_of(row)
    is_short = len(text.split()) <= MOST_WORDS and len(text) < 90
    is_narrow = row[-1].rect[2] - row[0].rect[0] < NARROW * width
    if not is_short or not is_narrow or any(is_apart(*two) for two in pairwise(row)):
        return False
    begins = _BEGINS.match(text) is not None and not below[0].text.strip()[:1].islower()
    return begins and _CLOSED.search(text) is None


def heading_levels(blocks: Sequence[PageBlock]) -> Mapping[int, int]:
    """The levels (1 is the page's title) of a page's headings, by their places among `blocks`: by
    their numbers, and else by their sizes."""
    heads = [k for k, block in enumerate(blocks) if block.label == "title"]
    if not heads:
        return {}
    body = typical_height([line for block in blocks for line in block.lines])
    is_exact = all(blocks[k].is_exact for k in heads)
    sizes = (blocks[k].height for k in heads)
    classes = size_classes(sizes, SAME_LEVEL if is_exact else SAME_LEVEL_MEASURED)
    largest = [k for k in heads if class_of(blocks[k].height, classes) == 0]
    ratio = blocks[largest[0]].height / body
    alone = len(largest) == 1 and largest[0] == heads[0]
    numbered = numbered_level(blocks[largest[0]].text) is not None
    first = 1 if ratio > TITLE or (alone and ratio > FIRST_TITLE and not numbered) else 2
    found: dict[int, int] = {}
    for k in heads:
        by_size = first + class_of(blocks[k].height, classes)
        by_number = None if by_size == 1 else numbered_level(blocks[k].text)
        found[k] = min(DEEPEST, by_number or by_size)
    return found

"""Running headers, footers and page numbers: the outermost rows of a page, one by one, as long as
there is evidence that they are no text; and line numbers and watermarks."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from llm_ocr.engines.embedded.block import FOOTER, HEADER, PAGE_NUMBER, PageBlock, block_of
from llm_ocr.engines.embedded.geometry import (
    OcrLine,
    Rect,
    area,
    hull,
    overlap,
    shared_rows,
)
from llm_ocr.engines.embedded.regions.captions import begins_caption, begins_note
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.words.rows import rows_of, text_of
from llm_ocr.text.numbers import is_page_number, says_page_number

# The margins in which furniture is looked for, and those in which hardly anything else stands:
# shares of the page's height.
ZONE, DEEP = 0.125, 0.06
# What has a page number may be so far from the edge, if it is so far from the text, in heights.
NUMBER_ZONE, NUMBER_GAP = 0.18, 0.8
MOST_ROWS, MOST_WORDS = 6, 30
# So many words with a stop behind them are a sentence.
SPOKEN = 6
# From so much evidence on a row is furniture, or may be if the next one is.
ENOUGH, SOME = 3, 0
# Text that is larger than the page's text by this is a title; or by this, if it is found to be a
# header.
LARGE, LARGE_HEADER = 1.35, 1.65
# Parts of a row that lie so many line heights apart have nothing to do with each other.
APART = 1.0
# So many rows at the foot may be one, if no gap between them is larger than this, and the gap above
# them is larger than that; at the top they would be a letterhead.
MOST_TOGETHER, TOGETHER, FAR = 3, 0.5, 1.5
# A row that is no further from the text than this, in heights of the text's lines, is a part of it.
TOUCHING = 0.3

# A margin with so many numbers counts lines, if nearly all of them go up by the same step.
COUNTED, STEADY = 6, 0.8
# A line so many times as high as the text, with less than such a share of its height in width for
# each character, across so many other lines, is a watermark.
WATERMARK, ASLANT, CROSSED = 4.0, 0.3, 3

_STAMP = re.compile(
    r"(page \d+|seite \d+|https?://\S+$|www\.\S+$|doi:|©|\(c\) |copyright\b|all rights reserved"
    r"|downloaded from|printed (on|from)\b|published by|this content downloaded|terms and cond"
    r"|confidential$|draft$|licensed (to|under)\b|available online|open access\b|arxiv:)",
    re.IGNORECASE,
)
# A list's item goes on from the page before.
_ITEM = re.compile(r"(?:\(?[a-z]\)|\d{1,2}\.)\s+[^\W\d_]{2}")
_SENTENCE = re.compile(r"[^\W\d_]{2,}[.!?]$")


def furniture(
    lines: Sequence[OcrLine], regions: Sequence[Region], height: int, body: float
) -> tuple[list[PageBlock], list[OcrLine]]:
    """The furniture of a page of `height` pixels, whose lines mostly have the height `body`, and
    the lines that are none."""
    counted, marks = _line_numbers(lines), _watermarks(lines, body)
    rows = rows_of([line for line in lines if line not in counted and line not in marks])
    top = _outer(rows, regions, height, body)
    # A heading with nothing below it is none.
    headless = [one for one in regions if one.label != "title"]
    bottom = _outer(rows[len(top) :][::-1], headless, height, body, MOST_TOGETHER)
    blocks = [block for row in top for block in _parts(row, HEADER)]
    blocks += [block for row in reversed(bottom) for block in _parts(row, FOOTER)]
    inner = rows[len(top) : len(rows) - len(bottom)]
    # `Page 4 of 6` in a margin is a page number, whatever is printed beyond it.
    paged = [
        row
        for row in inner
        if _margin(row, height) < ZONE
        and says_page_number(text_of(row))
        and _detected_label(row, regions) != "table"
    ]
    blocks += [block_of(PAGE_NUMBER, row) for row in paged]
    blocks += [block_of(HEADER, [mark]) for mark in marks]
    blocks += [block_of(PAGE_NUMBER, counted)] if counted else []
    return blocks, [line for row in inner if row not in paged for line in row]


def _line_numbers(lines: Sequence[OcrLine]) -> list[OcrLine]:
    """The numbers in a margin that count the lines beside it."""
    numbers = [line for line in lines if line.text.strip().isdecimal()]
    if len(numbers) < COUNTED or len(numbers) == len(lines):
        return []
    left, _, right, _ = hull(line.rect for line in lines if line not in numbers)
    found: list[OcrLine] = []
    for column in (
        [line for line in numbers if line.rect[2] < left],
        [line for line in numbers if line.rect[0] > right],
    ):
        pairs = list(pairwise(sorted(column, key=lambda line: line.middle)))
        steps = [int(below.text) - int(above.text) for above, below in pairs]
        step, count = Counter(steps).most_common(1)[0] if steps else (0, 0)
        if step > 0 and count >= max(COUNTED - 1, STEADY * len(steps)):
            counted = (two for two, one in zip(pairs, steps, strict=True) if one == step)
            found += dict.fromkeys(line for two in counted for line in two)
    return found


def _watermarks(lines: Sequence[OcrLine], body: float) -> list[OcrLine]:
    """Lines that are printed aslant across the text."""
    return [
        line
        for line in lines
        if line.height > WATERMARK * body
        and line.width < ASLANT * len(line.text) * line.height
        and sum(overlap(other.rect, line.rect) > 0 for other in lines if other is not line)
        >= CROSSED
    ]


def _margin(row: Sequence[OcrLine], height: int) -> float:
    """How far the inner side of a row is from the nearer edge of the page, as a share of it."""
    _, top, _, bottom = hull(line.rect for line in row)
    return max(0.0, min(bottom, height - top) / height)


def _outer(
    rows: Sequence[list[OcrLine]],
    regions: Sequence[Region],
    height: int,
    body: float,
    together: int = 1,
) -> list[list[OcrLine]]:
    """The rows from the edge on that are furniture; up to `together` of them are judged as one."""
    figures = [one.rect for one in regions if one.label in ("figure", "table")]
    count = 0
    for k, row in enumerate(rows[:MOST_ROWS]):
        text, margin, is_numbered = text_of(row), _margin(row, height), _is_numbered(rows[k:])
        is_item = _ITEM.match(text) and not is_numbered
        if _detected_label(row, regions) == "table" or is_item or begins_caption(text):
            break
        gap, size = _gap_to_text(rows[k:], figures, body, together)
        evidence = [_evidence(rows[j:], gap, regions, body) for j in range(k, k + size)]
        certainty = evidence[0] + (margin < DEEP)
        is_apart = is_numbered and gap > NUMBER_GAP * body
        if margin > (NUMBER_ZONE if is_apart else ZONE) or certainty < SOME:
            break
        # What lies between the edge and furniture is furniture too.
        if certainty >= ENOUGH and (gap > TOUCHING * body or is_numbered):
            count = max(count, k + size if min(evidence) >= SOME else k + 1)
    return [] if count == len(rows) else list(rows[:count])


def _gap_to_text(
    rows: Sequence[Sequence[OcrLine]], figures: Sequence[Rect], body: float, most: int
) -> tuple[float, int]:
    """How far the first row, or the up to `most` rows close together that it begins, is from what
    stands further inside; and how many rows these are."""
    gaps: list[float] = []
    for k, row in enumerate(rows[:most]):
        rect = hull(line.rect for line in row)
        inner = [hull(line.rect for line in one) for one in rows[k + 1 :][:3]]
        beside = [one for one in figures if shared_rows(rect, one) < 0.3 * body]
        gaps.append(
            min((-shared_rows(rect, other) for other in (*inner, *beside)), default=10 * body)
        )
        if k and begins_note(text_of(row)) and not _is_numbered(rows[k:]):
            break
        if gaps[-1] > FAR * body:
            return gaps[-1], k + 1
        if gaps[-1] > TOGETHER * body:
            break
    return gaps[0], 1


def _evidence(
    rows: Sequence[Sequence[OcrLine]], gap: float, regions: Sequence[Region], body: float
) -> int:
    """How much speaks for the first of some rows being furniture."""
    row = rows[0]
    text = text_of(row)
    words = len(text.split())
    parts = _apart(row)
    size = max(line.height for line in max(parts, key=lambda part: len(text_of(part))))
    numbered = _is_numbered(rows)
    stamped = any(_STAMP.match(text_of(part)) for part in parts)
    label = _detected_label(row, regions)
    spoken = words >= SPOKEN and _SENTENCE.search(text) is not None and not stamped
    called = label in (HEADER, FOOTER)
    score = 2 * numbered + 2 * stamped + 2 * called - 2 * (label == "title") - (label == "text")
    score += (gap > 0.8 * body) + (gap > 1.5 * body) + (gap > 3 * body)
    score += (size < 0.9 * body) + (len(parts) > 1)
    score -= 3 * (size > (LARGE_HEADER if called else LARGE) * body)
    score -= 2 * (begins_note(text) and not numbered)
    score -= 2 * (words > MOST_WORDS) + 2 * spoken
    return score


def _is_numbered(rows: Sequence[Sequence[OcrLine]]) -> bool:
    """Whether a page number stands at one end of the first of some rows, apart from its other text;
    a number above another one is a line's."""
    ends = [(parts[0], parts[-1]) for parts in map(_apart, rows[:2])]
    first, last = (text_of(end) for end in ends[0])
    if len(ends) > 1 and all(is_page_number(text_of(first)) for first, _ in ends):
        (one, *_), (other, *_) = (first for first, _ in ends)
        if abs(one.rect[2] - other.rect[2]) < one.height:
            return False
    # A heading's number has a point.
    is_first = is_page_number(first) and not first.endswith(".")
    return is_first or is_page_number(last)


def _detected_label(row: Sequence[OcrLine], regions: Sequence[Region]) -> str | None:
    """What the detector calls most of a row; a header of many rows is a letterhead."""
    for region in regions:
        shared = sum(overlap(line.rect, region.rect) for line in row)
        tall = region.rect[3] - region.rect[1] > 4 * max(line.height for line in row)
        if shared > 0.4 * sum(area(line.rect) for line in row):
            return None if tall and region.label in (HEADER, FOOTER) else region.label
    return None


def _apart(row: Sequence[OcrLine]) -> list[list[OcrLine]]:
    """A row's lines, those that lie far apart each for itself."""
    parts: list[list[OcrLine]] = []
    for line in row:
        if parts and line.rect[0] - parts[-1][-1].rect[2] < APART * line.height:
            parts[-1].append(line)
        else:
            parts.append([line])
    return parts


def _parts(row: Sequence[OcrLine], label: str) -> list[PageBlock]:
    return [
        block_of(PAGE_NUMBER if is_page_number(text_of(part)) else label, part)
        for part in _apart(row)
    ]

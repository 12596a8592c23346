"""Lines of running text -> blocks, by the detector's regions and by how close they are."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from llm_ocr.engines.embedded.block import PageBlock, block_of
from llm_ocr.engines.embedded.geometry import (
    OcrLine,
    area,
    is_aligned,
    lies_in,
    overlap,
    shared_rows,
)
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.regions.text_columns import (
    CLOSE,
    close_together,
    follows,
    gutters,
    is_apart,
)
from llm_ocr.engines.embedded.words.rows import rows_of, text_start

# The detector's labels; the others are text.
LABELS = {
    "title": "title",
    "figure_caption": "image_caption",
    "table_caption": "table_caption",
}
# Of a line at least this share lies in the region that it is counted to.
HELD = 0.45
# A region that holds so much of several others is around them.
AROUND = 0.7
# Of one region lines may be further apart than elsewhere, as a share of their height.
CLOSE_IN_REGION = 1.6
# A list of definitions has so many terms of so few words, no further from the text, in heights.
DEFINED, TERM_WORDS, FAR = 3, 3, 12.0
# A line that the next word did not fit in ends so near the right edge, in line heights.
NEAR_EDGE = 3.0
_EQUATION_NUMBER = re.compile(r"\((?:[A-Z]\.?)?\d{1,3}(?:\.\d{1,3})*[a-z]?\)")
_SENTENCE_END = re.compile(r"[.:;!?。！？]\W*$")


def groups(regions: Sequence[Region], lines: Sequence[OcrLine]) -> list[PageBlock]:
    """Every line in one block: by the detector's regions, where these are of one column, and else
    by how close the lines are."""
    texts = [one.rect for one in regions if one.label == "text"]
    # Text around other texts is none of its own.
    regions = [
        one
        for one in regions
        if one.label != "text"
        or sum(lies_in(one.rect, x, AROUND) and area(x) < area(one.rect) for x in texts) < 2
    ]
    held: dict[int, list[OcrLine]] = {}
    free: list[OcrLine] = []
    for line in lines:
        k = _region_of(line, regions)
        (free if k is None else held.setdefault(k, [])).append(line)
    found = [
        block_of(regions[k].label, part)
        for k, inner in held.items()
        for part in _one_column_each(inner)
    ]
    found += [block_of("text", part) for part in close_together(free, CLOSE)]
    found = _with_terms(_with_equation_numbers(_rejoin(found), lines))
    return [replace(one, label=LABELS.get(one.label, "text")) for one in found]


def _region_of(line: OcrLine, regions: Sequence[Region]) -> int | None:
    shares = [
        (overlap(line.rect, region.rect) / max(1.0, area(line.rect)), region.score, k)
        for k, region in enumerate(regions)
        if region.label not in ("figure", "table")
    ]
    share, _, k = max(shares, default=(0.0, 0.0, 0))
    return k if share > HELD else None


def _one_column_each(lines: list[OcrLine]) -> list[list[OcrLine]]:
    """A region's lines, in several groups where columns stand side by side in it."""
    rows = rows_of(lines)
    apart = [row for row in rows if any(is_apart(*two) for two in pairwise(row))]
    if len(apart) < 2 or not _have_gutter(apart):
        return [lines]
    return close_together(lines, CLOSE_IN_REGION)


def _have_gutter(rows: Sequence[Sequence[OcrLine]]) -> bool:
    """Whether all of the rows with several parts have a gap in one place, and most of those parts
    are no bullets or numbers."""
    start, end = max(row[0].rect[2] for row in rows), min(row[-1].rect[0] for row in rows)
    return start < end and sum(len(row[0].text) > 6 for row in rows) >= 0.6 * len(rows)


def _rejoin(found: Sequence[PageBlock]) -> list[PageBlock]:
    """Blocks with stray lines of running text put where they go on: the detector often draws a
    region a line too small."""
    joined: list[PageBlock] = []
    for block in sorted(found, key=lambda one: one.rect[1]):
        k = next((k for k, one in enumerate(joined) if _goes_on(one, block)), None)
        if k is None:
            joined.append(block)
        else:
            joined[k] = block_of(joined[k].label, [*joined[k].lines, *block.lines])
    return joined


def _with_equation_numbers(found: Sequence[PageBlock], lines: Sequence[OcrLine]) -> list[PageBlock]:
    """Blocks, an equation's number being of that with the equation left of it."""
    numbers = [one for one in found if _EQUATION_NUMBER.fullmatch(one.text)]
    joined = [one for one in found if one not in numbers]
    between = gutters(lines) if numbers else []
    for number in numbers:
        line = number.lines[-1]
        beside = [
            k
            for k, one in enumerate(joined)
            if shared_rows(one.rect, line.rect) > 0.5 * line.height
            and one.rect[2] < line.rect[0]
            and not any(gutter.divides(other, line) for gutter in between for other in one.lines)
        ]
        k = max(beside, key=lambda k: joined[k].rect[2], default=None)
        if k is None:
            joined.append(number)
        else:
            joined[k] = block_of(joined[k].label, [*joined[k].lines, *number.lines])
    return joined


def _with_terms(found: Sequence[PageBlock]) -> list[PageBlock]:
    """Blocks, the terms of a list of definitions being of the text right of them."""
    joined = list(found)
    for text in (one for one in found if len(one.rows) >= DEFINED):
        terms = [one for one in joined if _are_terms(one, text)]
        lines = [line for one in terms for line in one.lines]
        # An address beside another one has numbers in some of its lines; so may a form's fields.
        numbered = {any(map(str.isdigit, line.text)) for line in lines}
        is_list = (len(numbered) == 1 or all(":" in line.text for line in lines)) and all(
            is_aligned(line.rect, lines[0].rect, line.height) for line in lines
        )
        if text in joined and len(lines) >= DEFINED and is_list:
            joined = [one for one in joined if one not in terms and one is not text]
            joined.append(block_of(text.label, [*text.lines, *lines]))
    return joined


def _are_terms(block: PageBlock, text: PageBlock) -> bool:
    """Whether each line of a block is of a few words, and level with a line of a text right of
    it."""
    gap = text.rect[0] - block.rect[2]
    if block.label == "title" or gap <= 0:
        return False
    height = block.height
    return gap < FAR * height and all(
        len(line.text.split()) <= TERM_WORDS
        and any(abs(row[0].middle - line.middle) < 0.3 * height for row in text.rows)
        for line in block.lines
    )


def _goes_on(home: PageBlock, block: PageBlock) -> bool:
    """Whether one of two blocks is a line or two, right below or above the other's prose, or
    whether its sentence goes on in the other one."""
    few, many = sorted((home, block), key=lambda one: len(one.lines))
    is_text = {home.label, block.label} <= {"text", "reference"}
    is_stray = is_text and len(few.lines) <= 2 and not _may_head(home, block)
    if not is_stray and not _runs_on(home, block):
        return False
    last, first = max(home.lines, key=lambda line: line.rect[3]), block.lines[0]
    height = statistics.median(line.height for line in (*home.lines, *block.lines))
    left, right = (min(map(text_start, one.lines)) for one in (few, many))
    return (
        -0.6 * height < left - right < 1.5 * height
        and few.rect[2] < many.rect[2] + 1.5 * height
        and follows(last, first, 0.9)
        and 1 / 1.2 < first.height / last.height < 1.2
    )


def _runs_on(home: PageBlock, block: PageBlock) -> bool:
    """Whether a block ends in the middle of a sentence near its right edge, and another continues
    it."""
    last, first = home.rows[-1][-1], block.lines[0].text.strip()
    is_full = last.rect[2] > max(home.rect[2], block.rect[2]) - NEAR_EDGE * last.height
    continues = first[:1].islower() or first.startswith("(")
    return is_full and continues and _SENTENCE_END.search(last.text) is None


def _may_head(home: PageBlock, block: PageBlock) -> bool:
    """Whether one line above others is so short that it may be their heading."""
    wide = max(line.width for line in block.lines)
    return len(home.lines) == 1 and home.rect[2] - home.rect[0] < 0.75 * wide

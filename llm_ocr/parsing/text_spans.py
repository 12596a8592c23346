"""Split the text of pages into spans with boxes: lines, paragraphs, table cells, and their words.

A block has one box, and its text may be a whole table. A span's box is an estimate: rows share a
table's height, columns share its width by the length of their text, and the number of a
paragraph's lines follows from its shape.
"""

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from llm_ocr.markdown import hidden, shown
from llm_ocr.parsing.schema import MatchType, PageText
from llm_ocr.records import FIGURE_LABELS, Block, Box
from llm_ocr.text.normalize import WordSpan, words_in
from llm_ocr.text.table_markup import (
    TableCell,
    TableRows,
    is_markdown_row,
    read_html_table,
    read_markdown_table,
    split_at_tables,
)


def wrap_evenly(starts: Sequence[int], lines: int) -> tuple[int, ...]:
    """Where each line but the first begins, so that lines differ least in length.

    `starts` are the places where words begin, and one for the end; takes words squared times lines.
    """
    count = len(starts) - 1
    lines = min(lines, count)
    # cost[k]: the least sum of squares for the first k words in the lines so far.
    cost = [float((starts[k] - starts[0]) ** 2) for k in range(count + 1)]
    steps: list[list[int]] = []
    for _ in range(lines - 1):
        better, chosen = [float("inf")] * (count + 1), [0] * (count + 1)
        for end in range(1, count + 1):
            for cut in range(end):
                whole = cost[cut] + (starts[end] - starts[cut]) ** 2
                if cut and whole < better[end]:
                    better[end], chosen[end] = whole, cut
        cost = better
        steps.append(chosen)
    breaks: list[int] = []
    at = count
    for chosen in reversed(steps):
        at = chosen[at]
        breaks.insert(0, starts[at])
    return tuple(breaks)


_MARKUP = re.compile(r"^\s{0,3}#{1,6}\s+|</?center>|\*\*|__|^\s*[-*+]\s+", re.IGNORECASE)
TITLE_LABELS = frozenset({"title", "sub_title"})
# A line's height is about this many widths of a character.
LINE_HEIGHT = 2.4
# Columns of a table of which nothing is known take this share of its width; gaps take the rest.
INK_SHARE = 0.55
# Of a paragraph with more words than this only the share of its text tells the line.
MAX_WRAPPED_WORDS = 60
# How far off, in lines, that may be.
LINE_SLACK = 0.3
# Lines are not all as far apart: a box reaches this much over its own, in lines.
LINE_MARGIN = 0.2
# Lines set this far apart, in widths of a character: between those of prose and those of a table.
LOOSE_LINE_HEIGHT = 3.4


@dataclass(frozen=True)
class TextSpan:
    """A text, its page (an index), and where it stands; `box` None where nobody knows.

    `row` is the same for the cells of one row of a table, and for nothing else; `heading` is the
    text at the top of a cell's column. A piece without a row runs over `lines` lines.
    """

    text: str
    page: int
    box: Box | None
    row: int | None = None
    heading: str = ""
    lines: int = 1

    def box_of(self, start: int, end: int) -> Box | None:
        """Where the characters from `start` to `end` stand: for one line of text by proportion,
        for a paragraph the lines that they are likely in, for a cell all of it."""
        if self.box is None or self.row is not None or not self.text:
            return self.box
        box, length = self.box, len(self.text)
        if self.lines == 1:
            width = box.x2 - box.x1
            return Box(
                box.x1 + start / length * width, box.y1, box.x1 + end / length * width, box.y2
            )
        breaks = self._breaks
        if breaks is None:
            top = max(0, math.floor(start / length * self.lines - LINE_SLACK))
            bottom = min(self.lines, math.ceil(end / length * self.lines + LINE_SLACK))
            return _band(box, top / self.lines, bottom / self.lines)
        first = sum(one <= start for one in breaks)
        last = sum(one < end for one in breaks) + 1
        over, under = max(0.0, first - LINE_MARGIN), min(float(self.lines), last + LINE_MARGIN)
        return _band(box, over / self.lines, under / self.lines)

    @cached_property
    def _breaks(self) -> tuple[int, ...] | None:
        """Where the lines of a short paragraph begin but the first; None for a long one."""
        starts = [match.start() for match in re.finditer(r"\S+", self.text)]
        if len(starts) > MAX_WRAPPED_WORDS:
            return None
        return wrap_evenly([*starts, len(self.text) + 1], self.lines)


def split_spans(pages: Sequence[PageText]) -> list[TextSpan]:
    """The pieces of all pages in reading order."""
    spans: list[TextSpan] = []
    rows = 0
    for number, page in enumerate(pages):
        width = _character_width(page.blocks)
        for block in page.blocks:
            if block.label in FIGURE_LABELS and not block.text.strip():
                continue
            found = list(_of_block(block, number, rows, width))
            rows = max([rows, *(span.row + 1 for span in found if span.row is not None)])
            spans += found
    return spans


def _of_block(block: Block, page: int, rows: int, width: float | None) -> Iterator[TextSpan]:
    parts = _parts(block.text)
    sizes = [_height(part) for part in parts]
    top = 0.0
    for part, size in zip(parts, sizes, strict=True):
        bottom = top + size / sum(sizes)
        box = _band(block.box, top, bottom) if block.box else None
        if isinstance(part, str):
            prose = block.label not in TITLE_LABELS
            yield TextSpan(part, page, box, lines=_line_count(part, box, width if prose else None))
        else:
            yield from _cells(part, page, box, rows, width)
            rows += len(part)
        top = bottom


def _parts(text: str) -> list[str | TableRows]:
    """A block's lines and tables, from top to bottom."""
    parts: list[str | TableRows] = []
    for is_table, span in split_at_tables(hidden(text)):
        if is_table:
            parts.append(read_html_table(span))
            continue
        table: list[str] = []
        for line in [*span.splitlines(), ""]:
            if is_markdown_row(line):
                table.append(line)
                continue
            if table:
                parts.append(_without_escapes(read_markdown_table(table)))
                table = []
            if clean := _MARKUP.sub("", line).strip():
                parts.append(shown(clean))
    return [part for part in parts if part]


def _without_escapes(grid: TableRows) -> TableRows:
    return [[replace(cell, text=shown(cell.text)) for cell in row] for row in grid]


def _height(part: str | TableRows) -> float:
    """How much of a block's height a part takes: a table's row as much as a line of 80."""
    return math.ceil(len(part) / 80) if isinstance(part, str) else sum(_depths(part))


def _depths(grid: TableRows) -> list[int]:
    """How many lines each row of a table has, from the longest of its cells."""
    return [
        max(1, *(cell.text.count("\n") + 1 for cell in row), *(len(c.text) // 60 for c in row))
        for row in grid
    ]


def _cells(
    grid: TableRows, page: int, box: Box | None, rows: int, width: float | None
) -> Iterator[TextSpan]:
    depths, edges = _depths(grid), _edges(grid, box, width)
    headings = {cell.column: cell.text for cell in grid[0]}
    top = 0
    for number, (row, depth) in enumerate(zip(grid, depths, strict=True)):
        for cell in row:
            inner = None
            if box is not None:
                band = _band(box, top / sum(depths), (top + depth) / sum(depths))
                last = min(cell.column + cell.columns, len(edges) - 1)
                inner = Box(edges[cell.column], band.y1, edges[last], band.y2)
            heading = headings.get(cell.column, "") if number else ""
            if cell.text:
                yield TextSpan(cell.text, page, inner, rows + number, heading)
        top += depth


def _edges(grid: TableRows, box: Box | None, width: float | None) -> list[float]:
    """Where columns begin and end: each as wide as its text, with the gaps in proportion."""
    count = max(cell.column + cell.columns for row in grid for cell in row)
    texts = [1] * count
    for cell in _single(grid):
        longest = max(map(len, cell.text.split("\n")))
        texts[cell.column] = max(texts[cell.column], min(60, longest))
    if box is None:
        return [0.0] * (count + 1)
    whole = box.x2 - box.x1
    inked = min((width or math.inf) * sum(texts), 0.9 * whole)
    if width is None:
        inked = INK_SHARE * whole
    scale = inked / sum(texts)
    # Wide columns are set with more room around them than narrow ones.
    rooms = [one + other for one, other in pairwise(texts)]
    edges, at = [box.x1], box.x1
    for text, room in zip(texts, rooms, strict=False):
        gap = (whole - inked) * room / sum(rooms)
        at += text * scale + gap
        edges.append(at - gap / 2)
    return [*edges, box.x2]


def _single(grid: TableRows) -> Iterator[TableCell]:
    return (cell for row in grid for cell in row if cell.columns == 1)


def _band(box: Box, top: float, bottom: float) -> Box:
    height = box.y2 - box.y1
    return Box(box.x1, box.y1 + top * height, box.x2, box.y1 + bottom * height)


def _line_count(text: str, box: Box | None, width: float | None = None) -> int:
    """How many lines a paragraph has, if its characters fill its box.

    Where they would be much wider than the page's usual ones (`width`), its lines are short and
    apart, as those of a column: then their distance tells how many there are.
    """
    if box is None or box.area <= 0:
        return 1
    wide, high = box.x2 - box.x1, box.y2 - box.y1
    count = round(math.sqrt(len(text) * high / (LINE_HEIGHT * wide)))
    if count > 1 and width is not None and wide * count / len(text) > 1.5 * width:
        count = max(count, round(high / (LOOSE_LINE_HEIGHT * width)))
    return max(1, min(count, len(text.split())))


def _character_width(blocks: Sequence[Block]) -> float | None:
    """How wide a character is on this page, from the blocks that are a line or a paragraph."""
    widths = [
        (block.box.x2 - block.box.x1) * _line_count(block.text, block.box) / len(block.text)
        for block in blocks
        if block.box
        and block.box.x2 > block.box.x1
        and len(block.text) > 8
        and "<" not in block.text
        and "|" not in block.text
    ]
    return statistics.median(widths) if widths else None


@dataclass(frozen=True)
class Occurrence:
    """A stretch of pieces: from `start` in the first to `end` in the last, of one page.

    `doubtful`: what stands there may as well be something else (03/04/2024).
    """

    matched: MatchType
    first: int
    last: int
    start: int
    end: int
    similarity: float = 1.0
    doubtful: bool = False


@dataclass(frozen=True)
class TextToken:
    """A word as it is compared, and where in which piece it stands."""

    text: str
    span: int
    start: int
    end: int


class TokenSequence:
    """The words of some pieces, one after the other."""

    def __init__(self, spans: Sequence[TextSpan]) -> None:
        self.spans = spans
        self.words: list[list[WordSpan]] = [list(words_in(span.text)) for span in spans]
        self.all = [
            TextToken(word.text, k, word.start, word.end)
            for k, words in enumerate(self.words)
            for word in words
        ]
        self.texts = [token.text for token in self.all]
        self.places: dict[str, list[int]] = defaultdict(list)
        for at, text in enumerate(self.texts):
            self.places[text].append(at)

    def run(self, first: int, count: int) -> Sequence[TextToken]:
        """`count` words from a place on, if all of them are there, on one page."""
        if first < 0 or first + count > len(self.all):
            return ()
        run = self.all[first : first + count]
        pages = self.spans[run[0].span].page, self.spans[run[-1].span].page
        return run if pages[0] == pages[1] else ()


def occurrence_between(
    found: MatchType, first: TextToken, last: TextToken, likeness: float = 1.0
) -> Occurrence:
    """From one word to another."""
    return Occurrence(found, first.span, last.span, first.start, last.end, likeness)

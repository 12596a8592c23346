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

from llm_ocr.parsing.schema import PageBlocks
from llm_ocr.records import FIGURE_LABELS, Block, Box, MatchType
from llm_ocr.text.markdown import mask_escapes, unmask_escapes
from llm_ocr.text.normalize import WordSpan, words_in
from llm_ocr.text.table_markup import (
    TableCell,
    TableRows,
    is_markdown_row,
    read_html_rows,
    read_markdown_rows,
    split_at_tables,
)

_MARKDOWN_MARKUP = re.compile(r"^\s{0,3}#{1,6}\s+|</?center>|\*\*|__|^\s*[-*+]\s+", re.IGNORECASE)
TITLE_LABELS = frozenset({"title", "sub_title"})
# Height of a line, in character widths.
LINE_HEIGHT = 2.4
# Share of a table's width that its columns' text takes where the character width is unknown; gaps
# take the rest.
INK_SHARE = 0.55
# Line breaks are estimated in paragraphs of at most this many words; in longer ones a line is
# estimated from the share of the text before it.
MAX_WRAPPED_WORDS = 60
# Uncertainty of that estimate, in lines.
LINE_SLACK = 0.3
# Lines are not evenly spaced: a box extends this far beyond its own, in lines.
LINE_MARGIN = 0.2
# Line spacing of short, separate lines, in character widths: between that of prose and of tables.
LOOSE_LINE_HEIGHT = 3.4


def wrap_evenly(starts: Sequence[int], lines: int) -> tuple[int, ...]:
    """Where each line but the first begins, for lines of the most even length.

    `starts` are the offsets at which words begin, and one for the end of the text. The time is
    words squared times lines.
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


@dataclass(frozen=True)
class TextSpan:
    """A text with the index of its page and its box, None where that is unknown.

    `row` identifies a table's row: its cells share it, and other spans have none. `heading` is the
    text at the top of a cell's column. A span without a row has `lines` lines.
    """

    text: str
    page: int
    box: Box | None
    row: int | None = None
    heading: str = ""
    lines: int = 1

    def box_of(self, start: int, end: int) -> Box | None:
        """The box of the characters from `start` to `end`: for one line of text by proportion, for
        a paragraph the lines that probably contain them, for a table cell the whole cell."""
        if self.box is None or self.row is not None or not self.text:
            return self.box
        box, length = self.box, len(self.text)
        if self.lines == 1:
            width = box.x2 - box.x1
            return Box(
                box.x1 + start / length * width, box.y1, box.x1 + end / length * width, box.y2
            )
        breaks = self._line_starts
        if breaks is None:
            top = max(0, math.floor(start / length * self.lines - LINE_SLACK))
            bottom = min(self.lines, math.ceil(end / length * self.lines + LINE_SLACK))
            return _horizontal_band(box, top / self.lines, bottom / self.lines)
        first = sum(one <= start for one in breaks)
        last = sum(one < end for one in breaks) + 1
        over, under = max(0.0, first - LINE_MARGIN), min(float(self.lines), last + LINE_MARGIN)
        return _horizontal_band(box, over / self.lines, under / self.lines)

    @cached_property
    def _line_starts(self) -> tuple[int, ...] | None:
        """Where the lines of a short paragraph begin, except the first; None for a long one."""
        starts = [match.start() for match in re.finditer(r"\S+", self.text)]
        if len(starts) > MAX_WRAPPED_WORDS:
            return None
        return wrap_evenly([*starts, len(self.text) + 1], self.lines)


def split_spans(pages: Sequence[PageBlocks]) -> list[TextSpan]:
    """The spans of all pages in reading order."""
    spans: list[TextSpan] = []
    rows = 0
    for number, page in enumerate(pages):
        width = _character_width(page.blocks)
        for block in page.blocks:
            if block.label in FIGURE_LABELS and not block.text.strip():
                continue
            found = list(_block_spans(block, number, rows, width))
            rows = max([rows, *(span.row + 1 for span in found if span.row is not None)])
            spans += found
    return spans


def _block_spans(block: Block, page: int, rows: int, width: float | None) -> Iterator[TextSpan]:
    parts = _split_block(block.text)
    sizes = [_part_height(part) for part in parts]
    top = 0.0
    for part, size in zip(parts, sizes, strict=True):
        bottom = top + size / sum(sizes)
        box = _horizontal_band(block.box, top, bottom) if block.box else None
        if isinstance(part, str):
            prose = block.label not in TITLE_LABELS
            yield TextSpan(part, page, box, lines=_line_count(part, box, width if prose else None))
        else:
            yield from _cell_spans(part, page, box, rows, width)
            rows += len(part)
        top = bottom


def _split_block(text: str) -> list[str | TableRows]:
    """A block's lines and tables, from top to bottom."""
    parts: list[str | TableRows] = []
    for is_table, span in split_at_tables(mask_escapes(text)):
        if is_table:
            parts.append(read_html_rows(span))
            continue
        table: list[str] = []
        for line in [*span.splitlines(), ""]:
            if is_markdown_row(line):
                table.append(line)
                continue
            if table:
                parts.append(_unescape_cells(read_markdown_rows(table)))
                table = []
            if clean := _MARKDOWN_MARKUP.sub("", line).strip():
                parts.append(unmask_escapes(clean))
    return [part for part in parts if part]


def _unescape_cells(grid: TableRows) -> TableRows:
    return [[replace(cell, text=unmask_escapes(cell.text)) for cell in row] for row in grid]


def _part_height(part: str | TableRows) -> float:
    """The part's share of a block's height, in lines of 80 characters or rows of a table."""
    return math.ceil(len(part) / 80) if isinstance(part, str) else sum(_row_heights(part))


def _row_heights(grid: TableRows) -> list[int]:
    """The number of lines of each row of a table, from the longest of its cells."""
    return [
        max(1, *(cell.text.count("\n") + 1 for cell in row), *(len(c.text) // 60 for c in row))
        for row in grid
    ]


def _cell_spans(
    grid: TableRows, page: int, box: Box | None, rows: int, width: float | None
) -> Iterator[TextSpan]:
    depths, edges = _row_heights(grid), _column_edges(grid, box, width)
    headings = {cell.column: cell.text for cell in grid[0]}
    top = 0
    for number, (row, depth) in enumerate(zip(grid, depths, strict=True)):
        for cell in row:
            inner = None
            if box is not None:
                band = _horizontal_band(box, top / sum(depths), (top + depth) / sum(depths))
                last = min(cell.column + cell.columns, len(edges) - 1)
                inner = Box(edges[cell.column], band.y1, edges[last], band.y2)
            heading = headings.get(cell.column, "") if number else ""
            if cell.text:
                yield TextSpan(cell.text, page, inner, rows + number, heading)
        top += depth


def _column_edges(grid: TableRows, box: Box | None, width: float | None) -> list[float]:
    """The column boundaries: each column as wide as its text, with gaps in proportion."""
    count = max(cell.column + cell.columns for row in grid for cell in row)
    texts = [1] * count
    for cell in _unmerged_cells(grid):
        longest = max(map(len, cell.text.split("\n")))
        texts[cell.column] = max(texts[cell.column], min(60, longest))
    if box is None:
        return [0.0] * (count + 1)
    whole = box.x2 - box.x1
    inked = min((width or math.inf) * sum(texts), 0.9 * whole)
    if width is None:
        inked = INK_SHARE * whole
    scale = inked / sum(texts)
    # Wide columns have wider gaps around them than narrow ones.
    rooms = [one + other for one, other in pairwise(texts)]
    edges, at = [box.x1], box.x1
    for text, room in zip(texts, rooms, strict=False):
        gap = (whole - inked) * room / sum(rooms)
        at += text * scale + gap
        edges.append(at - gap / 2)
    return [*edges, box.x2]


def _unmerged_cells(grid: TableRows) -> Iterator[TableCell]:
    return (cell for row in grid for cell in row if cell.columns == 1)


def _horizontal_band(box: Box, top: float, bottom: float) -> Box:
    height = box.y2 - box.y1
    return Box(box.x1, box.y1 + top * height, box.x2, box.y1 + bottom * height)


def _line_count(text: str, box: Box | None, width: float | None = None) -> int:
    """The number of lines of a paragraph whose characters fill its box.

    Where the characters would be much wider than is usual on the page (`width`), the lines are
    short and far apart, as in a column: their number then follows from the line spacing.
    """
    if box is None or box.area <= 0:
        return 1
    wide, high = box.x2 - box.x1, box.y2 - box.y1
    count = round(math.sqrt(len(text) * high / (LINE_HEIGHT * wide)))
    if count > 1 and width is not None and wide * count / len(text) > 1.5 * width:
        count = max(count, round(high / (LOOSE_LINE_HEIGHT * width)))
    return max(1, min(count, len(text.split())))


def _character_width(blocks: Sequence[Block]) -> float | None:
    """The width of a character on this page, from the blocks that are a line or a paragraph."""
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
    """Where a value occurs on a page: from `start` in the span `first` to `end` in the span `last`.

    `doubtful`: the text there has another interpretation that is as likely (03/04/2024).
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
    """A normalized word and its position in the span with the index `span`."""

    text: str
    span: int
    start: int
    end: int


class TokenSequence:
    """The words of text spans in reading order, with the positions of each word."""

    def __init__(self, spans: Sequence[TextSpan]) -> None:
        self.spans = spans
        self.words: list[list[WordSpan]] = [list(words_in(span.text)) for span in spans]
        self.all = [
            TextToken(word.text, k, word.start, word.end)
            for k, words in enumerate(self.words)
            for word in words
        ]
        self.texts = [token.text for token in self.all]
        self.positions: dict[str, list[int]] = defaultdict(list)
        for at, text in enumerate(self.texts):
            self.positions[text].append(at)

    def run(self, first: int, count: int) -> Sequence[TextToken]:
        """`count` words from the word `first` on; empty unless all of them are on one page."""
        if first < 0 or first + count > len(self.all):
            return ()
        run = self.all[first : first + count]
        pages = self.spans[run[0].span].page, self.spans[run[-1].span].page
        return run if pages[0] == pages[1] else ()


def occurrence_between(
    matched: MatchType, first: TextToken, last: TextToken, similarity: float = 1.0
) -> Occurrence:
    """The occurrence from one word to another."""
    return Occurrence(matched, first.span, last.span, first.start, last.end, similarity)

"""Estimate where words stand in a box of which only the text is known."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from llm_ocr.export.plain_text import block_lines
from llm_ocr.records import Block, Box, TextWord
from llm_ocr.text.table_markup import TableGrid, read_tables

# The average width of a letter and the distance of lines, in font sizes; wide characters (Chinese,
# Japanese, Korean) have width 1.
LETTER_WIDTH, LINE_DISTANCE = 0.5, 1.25
# The share of the distance of lines that their letters take, and the space beside a block without a
# box, as a share of the page.
LETTER_HEIGHT, MARGIN = 0.8, 0.08


def estimate_line(text: str, box: Box) -> tuple[TextWord, ...]:
    """The words of a line of text, spread over its box by their lengths, from the right in
    right-to-left text."""
    words = text.split()
    if not words:
        return ()
    widths = [text_width(word) for word in words]
    unit = (box.x2 - box.x1) / (sum(widths) + LETTER_WIDTH * (len(words) - 1))
    from_right = runs_right_to_left(text)
    found, at = [], 0.0
    for word, width in zip(words, widths, strict=True):
        begin, end = at * unit, (at + width) * unit
        if from_right:
            where = Box(box.x2 - end, box.y1, box.x2 - begin, box.y2)
        else:
            where = Box(box.x1 + begin, box.y1, box.x1 + end, box.y2)
        found.append(TextWord(word, where))
        at += width + LETTER_WIDTH
    return tuple(found)


def estimate_block(block: Block) -> list[tuple[TextWord, ...]]:
    """The lines of a block with a box and text, as the words of each.

    The text is set in a size in which it fills the box. The cells of a table share its box evenly
    in height, and in width by their longest texts.
    """
    assert block.box is not None, "a block without a box has no room for words"
    tables = read_tables(block.text) if block.label == "table" else []
    if tables and tables[0].cells:
        return _table_lines(tables[0], block.box)
    paragraphs = block_lines(block)
    box = block.box
    width, height = max(1.0, box.x2 - box.x1), max(1.0, box.y2 - box.y1)
    total = sum(text_width(line) for line in paragraphs)
    # With lines that are `d` apart, `height / d` lines hold `width / d * LINE_DISTANCE` each.
    count = max(len(paragraphs), round(math.sqrt(total * height / width / LINE_DISTANCE)), 1)
    capacity = max(total / count, width / height * count * LINE_DISTANCE)
    lines = [part for line in paragraphs for part in _wrap(line, capacity)]
    step = height / max(1, len(lines))
    longest = max((text_width(line) for line in lines), default=1.0)
    return [
        estimate_line(line, _line_box(box, k, step, text_width(line) / longest, line))
        for k, line in enumerate(lines)
    ]


def spread_over_page(blocks: Sequence[Block], width: int, height: int) -> list[Block]:
    """The blocks, each with a box: those that came without one share the page, inside of its
    margins, in their order and by the lengths of their texts."""
    lengths = [
        0.0 if block.box is not None else 1.0 + text_width(" ".join(block_lines(block)))
        for block in blocks
    ]
    total, at, placed = sum(lengths), 0.0, []
    left, top = MARGIN * width, MARGIN * height
    for block, length in zip(blocks, lengths, strict=True):
        if block.box is not None:
            placed.append(block)
            continue
        begin, end = at / total, (at + length) / total
        room = height - 2 * top
        box = Box(left, top + begin * room, width - left, top + end * room)
        placed.append(replace(block, box=box))
        at += length
    return placed


def text_width(text: str) -> float:
    """The width of a text in font sizes."""
    return sum(
        1.0 if unicodedata.east_asian_width(char) in "WF" else LETTER_WIDTH
        for char in text
        if not unicodedata.combining(char)
    )


def runs_right_to_left(text: str) -> bool:
    """Whether most letters of a text are of a script that runs from right to left."""
    classes = [unicodedata.bidirectional(char) for char in text]
    right = sum(one in ("R", "AL") for one in classes)
    return right > classes.count("L")


def _line_box(box: Box, k: int, step: float, share: float, text: str) -> Box:
    """The box of line `k`, which fills a share of the width."""
    top = box.y1 + k * step
    width = (box.x2 - box.x1) * min(1.0, share)
    bottom = top + LETTER_HEIGHT * step
    if runs_right_to_left(text):
        return Box(box.x2 - width, top, box.x2, bottom)
    return Box(box.x1, top, box.x1 + width, bottom)


def _wrap(text: str, capacity: float) -> list[str]:
    """A paragraph in lines of at most `capacity` font sizes, words being kept whole."""
    lines: list[str] = []
    room = 0.0
    for word in text.split():
        width = text_width(word)
        if lines and width + LETTER_WIDTH <= room:
            lines[-1] += f" {word}"
            room -= width + LETTER_WIDTH
        else:
            lines.append(word)
            room = capacity - width
    return lines


def _table_lines(grid: TableGrid, box: Box) -> list[tuple[TextWord, ...]]:
    """A line for each cell that has text, row by row."""
    longest = [1.0] * grid.column_count
    for cell in grid.cells:
        share = text_width(cell.text) / cell.columns
        for column in range(cell.column, cell.column + cell.columns):
            longest[column] = max(longest[column], share)
    edges = [box.x1]
    for width in longest:
        edges.append(edges[-1] + width / sum(longest) * (box.x2 - box.x1))
    step = (box.y2 - box.y1) / grid.row_count
    lines = []
    for cell in grid.cells:
        left, right = edges[cell.column], edges[cell.column + cell.columns]
        gap = 0.05 * (right - left)
        top = box.y1 + cell.row * step
        inner = Box(left + gap, top, right - gap, top + LETTER_HEIGHT * step)
        words = estimate_line(" ".join(cell.text.split()), inner)
        if words:
            lines.append(words)
    return lines

"""The layout of a page as hOCR, ALTO, PAGE XML and searchable PDFs have it: blocks, lines, words.

Word boxes come from the engine, or from the PDF's own text layer, where either has them; elsewhere
they are estimated from the box of their line or block, and say so.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from llm_ocr.export.estimation import estimate_block, estimate_line, spread_over_page
from llm_ocr.records import FIGURE_LABELS, Block, Box, PageLine, PageResult, TextLine, TextWord

# The label of lines that stand in a figure, and of lines that belong to no block.
FIGURE_TEXT, OTHER_TEXT = "figure_text", "text"


class WordSource(StrEnum):
    """Where word boxes come from: measured by the engine, from the PDF's own text layer, or
    estimated."""

    ENGINE = "engine"
    TEXT_LAYER = "text_layer"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class LayoutLine:
    """A line and its words in reading order; `source` is where their boxes come from, `confidence`
    (0..1) the engine's."""

    words: tuple[TextWord, ...]
    box: Box
    source: WordSource
    confidence: float | None = None

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)


@dataclass(frozen=True)
class LayoutBlock:
    """A block with its lines in reading order; a figure has none."""

    label: str
    box: Box
    lines: tuple[LayoutLine, ...] = ()

    @property
    def is_figure(self) -> bool:
        return self.label in FIGURE_LABELS


@dataclass(frozen=True)
class PageLayout:
    """A page's blocks in reading order, in pixels of its image, `width` x `height`.

    `dpi` is None for an image without a resolution.
    """

    number: int
    width: int
    height: int
    dpi: float | None
    blocks: tuple[LayoutBlock, ...]

    @property
    def lines(self) -> Iterator[LayoutLine]:
        return (line for block in self.blocks for line in block.lines)

    @property
    def word_sources(self) -> tuple[WordSource, ...]:
        """Where the word boxes of the page come from, each once."""
        found = {line.source for line in self.lines}
        return tuple(source for source in WordSource if source in found)


def page_layout(page: PageResult, layer: Sequence[TextLine] = ()) -> PageLayout:
    """The layout of a page that has a size; `layer` are the lines of its text layer, used where the
    engine reports no lines."""
    width, height = page.width or 0, page.height or 0
    dpi = width / page.width_pt * 72 if page.width_pt else None
    if page.lines is not None:
        lines = [_engine_line(line) for line in page.lines if line.text.strip()]
    else:
        lines = [_layer_line(line) for line in layer if line.words]
    blocks = _blocks(spread_over_page(page.blocks, width, height), lines)
    return PageLayout(page.page_number, width, height, dpi, tuple(blocks))


def hull(boxes: Iterable[Box]) -> Box:
    """The smallest box around some."""
    found = list(boxes)
    return Box(
        min(box.x1 for box in found),
        min(box.y1 for box in found),
        max(box.x2 for box in found),
        max(box.y2 for box in found),
    )


def _engine_line(line: PageLine) -> LayoutLine:
    if line.words:
        return LayoutLine(line.words, line.box, WordSource.ENGINE, line.confidence)
    words = estimate_line(line.text, line.box)
    return LayoutLine(words, line.box, WordSource.ESTIMATED, line.confidence)


def _layer_line(line: TextLine) -> LayoutLine:
    box = hull(word.box for word in line.words)
    return LayoutLine(line.words, box, WordSource.TEXT_LAYER)


def _blocks(blocks: Sequence[Block], lines: Sequence[LayoutLine]) -> Iterator[LayoutBlock]:
    """The blocks, each with its lines: those whose center it contains. Lines that belong to none
    are blocks of their own, at the end."""
    owners = [_owner(line, blocks) for line in lines]
    for k, block in enumerate(blocks):
        assert block.box is not None, "every block was given a box"
        own = tuple(line for line, owner in zip(lines, owners, strict=True) if owner == k)
        if block.label in FIGURE_LABELS:
            yield LayoutBlock(block.label, block.box)
            if own:
                yield LayoutBlock(FIGURE_TEXT, hull(line.box for line in own), own)
        elif own:
            yield LayoutBlock(block.label, hull([block.box, *(line.box for line in own)]), own)
        elif block.text.strip():
            estimated = tuple(
                LayoutLine(words, hull(word.box for word in words), WordSource.ESTIMATED)
                for words in estimate_block(block)
            )
            yield LayoutBlock(block.label, block.box, _with_confidence(estimated, block))
    others = (line for line, owner in zip(lines, owners, strict=True) if owner is None)
    for _, group in groupby(_with_gaps(others), key=lambda pair: pair[0]):
        own = tuple(line for _, line in group)
        yield LayoutBlock(OTHER_TEXT, hull(line.box for line in own), own)


def _with_confidence(lines: Sequence[LayoutLine], block: Block) -> tuple[LayoutLine, ...]:
    return tuple(replace(line, confidence=block.confidence) for line in lines)


def _owner(line: LayoutLine, blocks: Sequence[Block]) -> int | None:
    """The smallest block that contains the center of a line; a figure only if no other does."""
    found = [
        (block.label in FIGURE_LABELS, block.box.area, k)
        for k, block in enumerate(blocks)
        if block.box is not None and block.box.contains_center(line.box)
    ]
    return min(found)[2] if found else None


def _with_gaps(lines: Iterable[LayoutLine]) -> Iterator[tuple[int, LayoutLine]]:
    """Lines with the number of their group: a line that is far from the one before begins one."""
    group, before = 0, None
    for line in lines:
        if before is not None and _is_apart(before.box, line.box):
            group += 1
        yield group, line
        before = line


def _is_apart(one: Box, other: Box) -> bool:
    height = statistics.fmean((one.y2 - one.y1, other.y2 - other.y1))
    down = max(other.y1 - one.y2, one.y1 - other.y2)
    across = max(other.x1 - one.x2, one.x1 - other.x2)
    return down > height or across > height

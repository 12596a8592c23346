"""Levels of headings over a whole document: a page alone doesn't show how deep its headings are."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_ocr.records import Block, Box, PageResult
from llm_ocr.text.headings import DEEPEST, class_of, numbered_level, size_classes

# Sizes that differ by less are of one level.
SAME_SIZE = 1.08
# Lines of a text layer have this confidence; their sizes are known.
KNOWN = 1.0
_HEADING = re.compile(r"(?P<marks>#{1,6}) +(?P<title>[^\n]+)")

Place = tuple[int, int]


@dataclass(frozen=True)
class _Heading:
    """A heading: the level that its page gave it, its title, its height as a share of the page's
    size."""

    level: int
    title: str
    size: float


def document_heading_levels(pages: Sequence[PageResult]) -> Mapping[Place, int]:
    """The levels of a document's headings, by page number and place among the page's blocks.

    Headings of one level on their page stay of one level. The largest of those that are titles
    (level 1) on their pages remain titles; of the others, those of one size have one level, which
    their numbers give (`3.1` is of level 3); without numbers smaller ones are one level deeper.

    Nothing is returned where fewer than two pages have headings, or where sizes aren't known: few
    models report the lines of a page, and heights that are measured on images vary too much.
    """
    headings: dict[Place, _Heading] = {}
    for page in pages:
        for k, block in enumerate(page.blocks):
            match = _HEADING.fullmatch(block.text)
            if match is None:
                continue
            lines = [line for line in page.lines or () if _is_in(block, line.box)]
            if not lines or not page.width or not page.height:
                return {}
            if any(line.confidence < KNOWN for line in lines):
                return {}
            height = statistics.median(line.box.y2 - line.box.y1 for line in lines)
            # Pages of one document may be images of different resolutions.
            size = height / math.sqrt(page.width * page.height)
            headings[page.page_number, k] = _Heading(len(match["marks"]), match["title"], size)
    if len({number for number, _ in headings}) < 2:
        return {}
    return _levels(headings)


def _levels(headings: Mapping[Place, _Heading]) -> Mapping[Place, int]:
    groups: dict[tuple[int, int], list[_Heading]] = {}
    for (page, _), one in headings.items():
        groups.setdefault((page, one.level), []).append(one)
    sizes = {key: statistics.median(one.size for one in group) for key, group in groups.items()}
    largest = max((size for (_, level), size in sizes.items() if level == 1), default=math.inf)
    titles = {key for key in groups if key[1] == 1 and sizes[key] * SAME_SIZE > largest}
    others = [key for key in groups if key not in titles]
    levels = dict.fromkeys(titles, 1)
    classes = size_classes((sizes[key] for key in others), SAME_SIZE)
    level = 1
    for k in range(len(classes)):
        keys = [key for key in others if class_of(sizes[key], classes) == k]
        numbers = Counter(
            number
            for key in keys
            for one in groups[key]
            if (number := numbered_level(one.title)) is not None
        )
        level = max(numbers, key=numbers.__getitem__) if numbers else level + 1
        levels.update(dict.fromkeys(keys, level))
    return {
        (page, k): levels[page, one.level]
        if (page, one.level) in titles
        else min(DEEPEST, numbered_level(one.title) or levels[page, one.level])
        for (page, k), one in headings.items()
    }


def with_level(markdown: str, level: int) -> str:
    """A heading's Markdown with as many # as its level."""
    return f"{'#' * level} {markdown.lstrip('#').lstrip()}"


def _is_in(block: Block, box: Box) -> bool:
    x, y = (box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2
    return block.box is not None and (
        block.box.x1 <= x <= block.box.x2 and block.box.y1 <= y <= block.box.y2
    )

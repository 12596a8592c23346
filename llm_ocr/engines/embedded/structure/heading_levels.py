"""How deep the headings of a page are: by their numbers, and else by their sizes."""

import re
from collections.abc import Mapping, Sequence

from llm_ocr.engines.embedded.block import PageBlock
from llm_ocr.engines.embedded.geometry import typical_height

DEEPEST = 4
# Sizes that differ by less are of one level: known sizes, and measured ones.
SAME_SIZE, SAME_MEASURED = 1.08, 1.18
# A title is so much larger than the text, or by this much if it comes first, stands alone and has
# no number: the first heading of a later page is a section's.
TITLE, FIRST_TITLE = 1.75, 1.3
_NUMBERED = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,3}\.?)\s+[^\W\d_]")


def heading_levels(blocks: Sequence[PageBlock]) -> Mapping[int, int]:
    """The levels (1 is the page's title) of a page's headings, by their places among `blocks`."""
    heads = [k for k, block in enumerate(blocks) if block.label == "title"]
    if not heads:
        return {}
    body = typical_height([line for block in blocks for line in block.lines])
    sizes = _sizes([blocks[k] for k in heads])
    largest = [k for k in heads if _rank(blocks[k].height, sizes) == 0]
    ratio = blocks[largest[0]].height / body
    alone = len(largest) == 1 and largest[0] == heads[0]
    numbered = _numbered_level(blocks[largest[0]].text) is not None
    first = 1 if ratio > TITLE or (alone and ratio > FIRST_TITLE and not numbered) else 2
    found: dict[int, int] = {}
    for k in heads:
        by_size = first + _rank(blocks[k].height, sizes)
        by_number = None if by_size == 1 else _numbered_level(blocks[k].text)
        found[k] = min(DEEPEST, by_number or by_size)
    return found


def _sizes(heads: Sequence[PageBlock]) -> list[float]:
    """The headings' sizes, largest first, each the smallest of its level."""
    exact = all(line.is_exact for block in heads for line in block.lines)
    same = SAME_SIZE if exact else SAME_MEASURED
    steps: list[float] = []
    top = 0.0
    for size in sorted((block.height for block in heads), reverse=True):
        if steps and top / size < same:
            steps[-1] = size
        else:
            steps.append(size)
            top = size
    return steps


def _rank(size: float, sizes: Sequence[float]) -> int:
    return next(k for k, least in enumerate(sizes) if size >= least)


def _numbered_level(title: str) -> int | None:
    """The level that a heading's number gives it: 2 for `3 Results`, 3 for `3.1 Rivers`."""
    number = _NUMBERED.match(title)
    return None if number is None else 2 + number[1].rstrip(".").count(".")

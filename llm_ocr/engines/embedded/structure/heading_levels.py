"""How deep the headings of a page are: by their numbers, and else by their sizes."""

from collections.abc import Mapping, Sequence

from llm_ocr.engines.embedded.block import PageBlock
from llm_ocr.engines.embedded.geometry import typical_height
from llm_ocr.text.headings import DEEPEST, class_of, numbered_level, size_classes

# Sizes that differ by less are of one level: known sizes, and measured ones.
SAME_SIZE, SAME_MEASURED = 1.08, 1.18
# A title is so much larger than the text, or by this much if it comes first, stands alone and has
# no number: the first heading of a later page is a section's.
TITLE, FIRST_TITLE = 1.75, 1.3


def heading_levels(blocks: Sequence[PageBlock]) -> Mapping[int, int]:
    """The levels (1 is the page's title) of a page's headings, by their places among `blocks`."""
    heads = [k for k, block in enumerate(blocks) if block.label == "title"]
    if not heads:
        return {}
    body = typical_height([line for block in blocks for line in block.lines])
    classes = _classes([blocks[k] for k in heads])
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


def _classes(heads: Sequence[PageBlock]) -> list[float]:
    exact = all(line.is_exact for block in heads for line in block.lines)
    return size_classes((block.height for block in heads), SAME_SIZE if exact else SAME_MEASURED)

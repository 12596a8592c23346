"""Running heads and feet of a document: what its pages repeat, and its page numbers.

Models call a block a header or a footer by how one page looks. On a document of one page that is a
letterhead as often as not, so only what recurs over the pages is left out of the document's text.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from llm_ocr.records import FURNITURE_LABELS, Block
from llm_ocr.text.numbers import is_page_number

# A running head is no longer than this, in characters.
LONGEST = 300
# One that was misread here and there is still alike: so much (0..1), on one of so many pages
# before or behind, which reaches the heads of left and of right pages. Below `SHORTEST` characters
# two that differ are two.
ALIKE, NEAR, SHORTEST = 0.85, 2, 8


class Furniture:
    """Which blocks of a document are furniture; `pages` are each page's blocks, by its number."""

    def __init__(self, pages: Mapping[int, Sequence[Block]]) -> None:
        self._heads = {
            number: {_plain(one.text) for one in blocks if one.label in FURNITURE_LABELS}
            for number, blocks in pages.items()
        }
        texts = (
            {_plain(one.text) for one in blocks if len(one.text) <= LONGEST}
            for blocks in pages.values()
        )
        self._counts = Counter(text for on_page in texts for text in on_page)

    def holds(self, block: Block, page: int) -> bool:
        """Whether a block of the page is a page number, or a header or footer that recurs."""
        if block.label not in FURNITURE_LABELS:
            return False
        text = _plain(block.text)
        return is_page_number(block.text) or self._counts[text] > 1 or self._is_near(text, page)

    def _is_near(self, text: str, page: int) -> bool:
        """Whether a header or footer of a page nearby is alike."""
        if not SHORTEST <= len(text) <= LONGEST:
            return False
        others = (
            other
            for number in range(page - NEAR, page + NEAR + 1)
            for other in self._heads.get(number, ())
            if number != page and SHORTEST <= len(other) <= LONGEST
        )
        return any(SequenceMatcher(None, text, other).ratio() >= ALIKE for other in others)


def _plain(text: str) -> str:
    """Letters and digits, each number as 0: a page's own number makes no other head of it."""
    return re.sub(r"\d+", "0", re.sub(r"[\W_]+", "", text.casefold()))

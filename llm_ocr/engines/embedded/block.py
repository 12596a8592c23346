"""A labeled part of a page."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, hull
from llm_ocr.engines.embedded.words.rows import rows_of

HEADER, FOOTER, PAGE_NUMBER = "header", "footer", "page_number"
FURNITURE = frozenset({HEADER, FOOTER, PAGE_NUMBER})
# A column of a table of contents.
CONTENTS = "contents"


@dataclass(frozen=True)
class PageBlock:
    """A part of the page: its label, its lines (none for a figure), where it stands; of a table,
    its HTML, if its cells could be told apart."""

    label: str
    lines: tuple[OcrLine, ...]
    rect: Rect
    html: str | None = None

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines).strip()

    @cached_property
    def rows(self) -> list[list[OcrLine]]:
        """Its lines that stand side by side, from top to bottom."""
        return rows_of(self.lines)

    @property
    def height(self) -> float:
        """The usual height of its lines."""
        return statistics.median(line.height for line in self.lines)

    @property
    def bold(self) -> bool:
        """Whether all of it is known to be bold."""
        return all(line.bold for line in self.lines)

    @property
    def is_exact(self) -> bool:
        """Whether its sizes are known from a text layer, and not measured."""
        return all(line.is_exact for line in self.lines)

    def divide(self, labels: Mapping[int, str]) -> list["PageBlock"]:
        """Blocks of its rows: those at some places begin a block with another label each."""
        starts = {0: self.label, **{k: one for k, one in labels.items() if k < len(self.rows)}}
        parts = pairwise([*sorted(starts), len(self.rows)]) if labels else ()
        return [
            block_of(starts[begin], [line for row in self.rows[begin:end] for line in row])
            for begin, end in parts
        ] or [self]


def block_of(label: str, lines: list[OcrLine]) -> PageBlock:
    ordered = sorted(lines, key=lambda line: (line.rect[1], line.rect[0]))
    return PageBlock(label, tuple(ordered), hull(line.rect for line in ordered))

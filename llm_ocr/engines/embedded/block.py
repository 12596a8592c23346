"""A labeled part of a page."""

import statistics
from dataclasses import dataclass

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, hull

HEADER, FOOTER, PAGE_NUMBER = "header", "footer", "page_number"
FURNITURE = frozenset({HEADER, FOOTER, PAGE_NUMBER})


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

    @property
    def height(self) -> float:
        """The usual height of its lines."""
        return statistics.median(line.height for line in self.lines)

    @property
    def bold(self) -> bool:
        """Whether all of it is known to be bold."""
        return all(line.bold for line in self.lines)


def block_of(label: str, lines: list[OcrLine]) -> PageBlock:
    ordered = sorted(lines, key=lambda line: (line.rect[1], line.rect[0]))
    return PageBlock(label, tuple(ordered), hull(line.rect for line in ordered))

"""A page's text, as the tests look at it: each way is worked out once."""

import re
from dataclasses import dataclass
from functools import cached_property

from llm_ocr.evaluation.grids import PageTable, bar_tables, html_tables
from llm_ocr.evaluation.text import normalized
from llm_ocr.markdown import unescaped

# Bounded: a page of beginnings without an end takes no longer than another.
_BACKSLASHED = (r"\\\((.{1,2000}?)\\\)", r"\\\[(.{1,2000}?)\\\]")
_DOLLARS = (r"(?<!\\)\$\$(.{1,2000}?)\$\$", r"(?<!\\)\$(.{1,2000}?)(?<!\\)\$")
# What is LaTeX between dollars, and no text between two prices.
_LATEX = re.compile(r"\\[a-zA-Z]|[\^_{}=]")


@dataclass(frozen=True)
class Said:
    """The Markdown that was read from a page."""

    markdown: str

    @cached_property
    def text(self) -> str:
        """Without bold and italics, white space as one space."""
        return normalized(unescaped(self.markdown))

    @cached_property
    def html_tables(self) -> list[PageTable]:
        return html_tables(self.markdown)

    @cached_property
    def bar_tables(self) -> list[PageTable]:
        return bar_tables(self.markdown)

    def formulas(self, dollars: bool = True) -> list[str]:
        r"""The LaTeX between \( and \), \[ and \], and between dollars; where those are money, only
        what looks like LaTeX."""
        found: list[str] = []
        rest = self.markdown
        for pattern in (*_BACKSLASHED, *_DOLLARS):
            inner = [one.strip() for one in re.findall(pattern, rest, re.DOTALL)]
            if pattern in _DOLLARS and not dollars:
                inner = [one for one in inner if _LATEX.search(one)]
            found += inner
            rest = re.sub(pattern, "", rest, flags=re.DOTALL)
        return found

"""The text, tables and formulas of a page as the tests look at them, each computed once."""

import re
from dataclasses import dataclass
from functools import cached_property

from llm_ocr.evaluation.text_similarity import normalize_text
from llm_ocr.text.markdown import unescape_markdown
from llm_ocr.text.table_markup import TableGrid, read_html_tables, read_markdown_tables

# Bounded, so that many opening delimiters without a closing one cost no more than others.
_BACKSLASH_DELIMITED = (r"\\\((.{1,2000}?)\\\)", r"\\\[(.{1,2000}?)\\\]")
_DOLLAR_DELIMITED = (r"(?<!\\)\$\$(.{1,2000}?)\$\$", r"(?<!\\)\$(.{1,2000}?)(?<!\\)\$")
# Tells LaTeX between dollar signs from text between two prices.
_LATEX = re.compile(r"\\[a-zA-Z]|[\^_{}=]")


@dataclass(frozen=True)
class PageView:
    """The Markdown predicted for a page."""

    markdown: str

    @cached_property
    def text(self) -> str:
        """Normalized, without Markdown's escapes."""
        return normalize_text(unescape_markdown(self.markdown))

    @cached_property
    def html_tables(self) -> list[TableGrid]:
        return read_html_tables(self.markdown)

    @cached_property
    def markdown_tables(self) -> list[TableGrid]:
        return read_markdown_tables(self.markdown)

    def formulas(self, dollars: bool = True) -> list[str]:
        r"""The LaTeX between \( and \), \[ and \], and between dollar signs; without `dollars`,
        only what looks like LaTeX between dollar signs, as they may be prices."""
        found: list[str] = []
        rest = self.markdown
        for pattern in (*_BACKSLASH_DELIMITED, *_DOLLAR_DELIMITED):
            inner = [formula.strip() for formula in re.findall(pattern, rest, re.DOTALL)]
            if pattern in _DOLLAR_DELIMITED and not dollars:
                inner = [formula for formula in inner if _LATEX.search(formula)]
            found += inner
            rest = re.sub(pattern, "", rest, flags=re.DOTALL)
        return found

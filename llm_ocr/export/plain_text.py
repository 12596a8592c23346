"""Markdown as plain text: of a block, and of a whole document."""

import re
from collections.abc import Iterable, Iterator, Sequence

from markdown_it.token import Token

from llm_ocr.records import Block
from llm_ocr.report.viewer import markdown_parser
from llm_ocr.text.markdown import strip_center_tags
from llm_ocr.text.table_markup import TableGrid, read_html_tables, read_tables

_TAG = re.compile(r"<!--.*?-->|</?[A-Za-z][^>]*>", re.DOTALL)
_TABLE = re.compile(r"(<table\b.*?(?:</table\s*>|\Z))", re.DOTALL | re.IGNORECASE)
_LISTS = ("bullet_list", "ordered_list")


def markdown_text(markdown: str) -> str:
    """Markdown as plain text: an empty line between paragraphs, each item of a list on its own
    line, tabs between the cells of a table. Figures are left out; formulas stay as they are."""
    pieces = _Pieces()
    for token in markdown_parser().parse(markdown):
        pieces.add(token)
    return "\n\n".join(filter(None, pieces.done))


def block_text(block: Block) -> str:
    """A block's text without markup; the cells of a table are separated by tabs."""
    if block.label == "table" and (tables := read_tables(block.text)):
        return "\n".join(table_text(table) for table in tables)
    return markdown_text(strip_center_tags(block.text).strip())


def block_lines(block: Block) -> list[str]:
    """The lines of a block's text that are not empty, without markup."""
    return [" ".join(line.split()) for line in block_text(block).split("\n") if line.strip()]


def table_text(grid: TableGrid) -> str:
    """A table's rows as lines, its cells separated by tabs. A cell that spans several columns or
    rows is there once; the other places are empty."""
    return "\n".join(row_text(grid, row) for row in range(grid.row_count))


def row_text(grid: TableGrid, row: int) -> str:
    """The cells that begin in a row of a table, separated by tabs."""
    cells = []
    for column in range(grid.column_count):
        cell = grid.at(row, column)
        is_start = cell is not None and (cell.row, cell.column) == (row, column)
        cells.append(" ".join(cell.text.split()) if cell is not None and is_start else "")
    return "\t".join(cells).rstrip("\t")


class _Pieces:
    """The text of each block of Markdown, as its tokens come in; a list is one piece."""

    def __init__(self) -> None:
        self.done: list[str] = []
        # For each list that is open the number of its next item; None for bullets.
        self._numbers: list[int | None] = []
        self._items: list[str] = []
        self._rows: list[list[str]] = []

    def add(self, token: Token) -> None:
        name, _, end = token.type.rpartition("_")
        if name in _LISTS:
            self._add_list(token, is_open=end == "open")
        elif token.type == "list_item_open":
            self._begin_item()
        elif token.type == "tr_open":
            self._rows.append([])
        elif token.type == "table_close":
            self.done.append("\n".join("\t".join(row) for row in self._rows))
            self._rows = []
        elif text := _token_text(token):
            self._add_text(text)
        elif self._rows and token.type == "inline":
            self._rows[-1].append("")

    def _add_list(self, token: Token, *, is_open: bool) -> None:
        if is_open:
            is_bullet = token.type.startswith("bullet")
            self._numbers.append(None if is_bullet else int(token.attrGet("start") or 1))
            return
        self._numbers.pop()
        if not self._numbers:
            self.done.append("\n".join(item.rstrip() for item in self._items))
            self._items = []

    def _begin_item(self) -> None:
        number = self._numbers[-1]
        if number is not None:
            self._numbers[-1] = number + 1
        mark = "-" if number is None else f"{number}."
        self._items.append(f"{'  ' * (len(self._numbers) - 1)}{mark} ")

    def _add_text(self, text: str) -> None:
        if self._rows:
            self._rows[-1].append(" ".join(text.split()))
        elif self._items:
            is_first = self._items[-1].endswith((". ", "- "))
            self._items[-1] += text if is_first else f"\n{'  ' * len(self._numbers)}{text}"
        else:
            self.done.append(text)


def _token_text(token: Token) -> str:
    if token.type in ("fence", "code_block"):
        return token.content.rstrip("\n")
    if token.type == "html_block":
        return "\n\n".join(filter(None, _html_pieces(token.content)))
    return _inline_text(token.children or ()).strip() if token.type == "inline" else ""


def _html_pieces(html: str) -> Iterator[str]:
    """The tables and texts of HTML, in order."""
    for piece in _TABLE.split(html):
        if tables := read_html_tables(piece):
            yield from (table_text(table) for table in tables)
        else:
            yield _TAG.sub("", piece).strip()


def _inline_text(children: Sequence[Token] | Iterable[Token]) -> str:
    pieces = []
    for child in children:
        if child.type in ("text", "code_inline"):
            pieces.append(child.content)
        elif child.type in ("softbreak", "hardbreak") or child.content.lower().startswith("<br"):
            pieces.append("\n")
    return "".join(pieces)

"""Tables in a block's text, as HTML or Markdown -> rows of cells."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser

MAX_SPAN = 1000
_RULE = re.compile(r"[\s|:+-]+")
_TABLE = re.compile(r"(?<!\\)<table\b.*?(?:</table\s*>|\Z)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class TableCell:
    """Text that begins in a column, counted from 0, and spans `columns` of them, and `rows`."""

    column: int
    columns: int
    text: str
    rows: int = 1


TableRows = Sequence[Sequence[TableCell]]


def read_html_table(text: str) -> TableRows:
    """The rows of the HTML tables in a text that have cells of their own; those that span rows
    stand in their first one."""
    return [row for row in read_html_rows(text) if row]


def read_html_rows(text: str) -> TableRows:
    """The rows of the HTML tables in a text, be they empty."""
    reader = _TableReader()
    # The parser raises on some of these, and pages have none that are to be read.
    reader.feed(text.replace("<![", "&lt;!["))
    reader.close()
    reader.end_cell()
    return reader.rows


def read_markdown_table(lines: Sequence[str]) -> TableRows:
    """The rows of a Markdown table, its ruler left out."""
    rows = [line.strip().strip("|").split("|") for line in lines if not _RULE.fullmatch(line)]
    return [[TableCell(k, 1, text.strip()) for k, text in enumerate(row)] for row in rows]


def is_markdown_row(line: str) -> bool:
    return line.strip().startswith("|") and line.count("|") > 1


def split_at_tables(text: str) -> list[tuple[bool, str]]:
    """A text in pieces: whether each is an HTML table, and the piece."""
    pieces: list[tuple[bool, str]] = []
    at = 0
    for match in _TABLE.finditer(text):
        pieces += [(False, text[at : match.start()]), (True, match.group())]
        at = match.end()
    return [piece for piece in [*pieces, (False, text[at:])] if piece[1].strip()]


class _TableReader(HTMLParser):
    """Collects rows; takes any text, closed tags or not."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[TableCell]] = []
        # For each column the rows that a cell from above still reaches into.
        self._hanging: dict[int, int] = {}
        self._parts: list[str] | None = None
        self._column, self._span, self._depth = 0, 1, 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.end_cell()
            self.rows.append([])
            self._hanging = {k: n - 1 for k, n in self._hanging.items() if n > 1}
            self._column = 0
        elif tag in ("td", "th"):
            self.end_cell()
            if not self.rows:
                self.rows.append([])
            spans = {name: _count(value) for name, value in attrs}
            self._span, self._depth = spans.get("colspan", 1), spans.get("rowspan", 1)
            self._parts = []
        elif tag == "br" and self._parts is not None:
            self._parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self.end_cell()

    def handle_data(self, data: str) -> None:
        if self._parts is not None:
            self._parts.append(data)

    def end_cell(self) -> None:
        if self._parts is None:
            return
        while self._column in self._hanging:
            self._column += 1
        text = re.sub(r"[ \t]+", " ", "".join(self._parts)).strip()
        self.rows[-1].append(TableCell(self._column, self._span, text, self._depth))
        if self._depth > 1:
            reached = range(self._column, self._column + self._span)
            # One more than it reaches: the next row takes one off.
            self._hanging |= dict.fromkeys(reached, self._depth)
        self._column += self._span
        self._parts = None


def _count(value: str | None) -> int:
    """What a span says, within reason."""
    if not value or not value.isdecimal():
        return 1
    return max(1, int(value)) if len(value) < len(str(MAX_SPAN)) else MAX_SPAN


_PIPED = re.compile(r"[^|\n]*\|.*")


def first_table(text: str) -> list[list[str]] | None:
    """Rows of equal length, the first of which is taken for the head; None without a table."""
    tables = (piece for is_table, piece in split_at_tables(text) if is_table)
    table = next(tables, None)
    found = _of_bars(text) if table is None else _of_html(table)
    rows = [row for row in found if row]
    if len(rows) < 2:
        return None
    widest = max(len(row) for row in rows)
    return [[*row, *[""] * (widest - len(row))] for row in rows]


def _of_html(table: str) -> Sequence[list[str]]:
    """The rows of a table; what spans several columns or rows stands in each."""
    rows: list[list[str]] = []
    # Column -> text and how many more rows it goes down.
    hanging: dict[int, tuple[str, int]] = {}
    for cells in read_html_rows(table):
        row = {column: said for column, (said, _) in hanging.items()}
        hanging = {k: (said, left - 1) for k, (said, left) in hanging.items() if left > 1}
        for cell in cells:
            said = " ".join(cell.text.split())
            reached = range(cell.column, cell.column + cell.columns)
            row |= dict.fromkeys(reached, said)
            if cell.rows > 1:
                hanging |= dict.fromkeys(reached, (said, cell.rows - 1))
        rows.append([row.get(column, "") for column in range(max(row, default=-1) + 1)])
    return rows


def _of_bars(text: str) -> Sequence[list[str]]:
    """The first lines that follow each other with bars between their cells."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if not _PIPED.fullmatch(line):
            if rows:
                break
            continue
        if not _RULE.fullmatch(line):
            inner = line.strip().removeprefix("|").removesuffix("|")
            rows.append([" ".join(cell.split()) for cell in inner.split("|")])
    return rows

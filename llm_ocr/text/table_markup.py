"""Read tables in HTML and Markdown, and write them as HTML."""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser

MAX_SPAN = 1000
_RULER = re.compile(r"[\s|:+-]+")
_HTML_TABLE = re.compile(r"(?<!\\)<table\b.*?(?:</table\s*>|\Z)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class TableCell:
    """A cell that begins in a column, counted from 0, and spans `columns` and `rows`."""

    column: int
    columns: int
    text: str
    rows: int = 1


TableRows = Sequence[Sequence[TableCell]]


def read_html_table(text: str) -> TableRows:
    """The rows of the HTML tables in a text, without empty ones; a cell that spans rows is only in
    its first row."""
    return [row for row in read_html_rows(text) if row]


def read_html_rows(text: str) -> TableRows:
    """The rows of the HTML tables in a text, including empty ones."""
    reader = _TableReader()
    # HTMLParser raises on some marked sections, and pages contain none that matter.
    reader.feed(text.replace("<![", "&lt;!["))
    reader.close()
    reader.end_cell()
    return reader.rows


def read_markdown_table(lines: Sequence[str]) -> TableRows:
    """The rows of a Markdown table, without the ruler below its header."""
    rows = [line.strip().strip("|").split("|") for line in lines if not _RULER.fullmatch(line)]
    return [[TableCell(k, 1, text.strip()) for k, text in enumerate(row)] for row in rows]


def is_markdown_row(line: str) -> bool:
    return line.strip().startswith("|") and line.count("|") > 1


def split_at_tables(text: str) -> list[tuple[bool, str]]:
    """The parts of a text, each with whether it is an HTML table."""
    parts: list[tuple[bool, str]] = []
    at = 0
    for match in _HTML_TABLE.finditer(text):
        parts += [(False, text[at : match.start()]), (True, match.group())]
        at = match.end()
    return [part for part in [*parts, (False, text[at:])] if part[1].strip()]


class _TableReader(HTMLParser):
    """Collects rows, also from HTML with unclosed tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[TableCell]] = []
        # Column -> the number of rows that a cell from above still extends into.
        self._hanging: dict[int, int] = {}
        self._cell_text: list[str] | None = None
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
            spans = {name: _span_count(value) for name, value in attrs}
            self._span, self._depth = spans.get("colspan", 1), spans.get("rowspan", 1)
            self._cell_text = []
        elif tag == "br" and self._cell_text is not None:
            self._cell_text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self.end_cell()

    def handle_data(self, data: str) -> None:
        if self._cell_text is not None:
            self._cell_text.append(data)

    def end_cell(self) -> None:
        if self._cell_text is None:
            return
        while self._column in self._hanging:
            self._column += 1
        text = re.sub(r"[ \t]+", " ", "".join(self._cell_text)).strip()
        self.rows[-1].append(TableCell(self._column, self._span, text, self._depth))
        if self._depth > 1:
            reached = range(self._column, self._column + self._span)
            # One more than that: the next row subtracts one.
            self._hanging |= dict.fromkeys(reached, self._depth)
        self._column += self._span
        self._cell_text = None


def _span_count(value: str | None) -> int:
    """The value of a span attribute, limited to `MAX_SPAN`."""
    if not value or not value.isdecimal():
        return 1
    return max(1, int(value)) if len(value) < len(str(MAX_SPAN)) else MAX_SPAN


_MARKDOWN_ROW = re.compile(r"[^|\n]*\|.*")


def first_table(text: str) -> list[list[str]] | None:
    """The first table of a text, in HTML or Markdown; None if there is none with two rows.

    The rows have equal length; the first is the header.
    """
    tables = (part for is_table, part in split_at_tables(text) if is_table)
    table = next(tables, None)
    found = _first_markdown_table(text) if table is None else _expand_html_table(table)
    rows = [row for row in found if row]
    if len(rows) < 2:
        return None
    widest = max(len(row) for row in rows)
    return [[*row, *[""] * (widest - len(row))] for row in rows]


def _expand_html_table(table: str) -> Sequence[list[str]]:
    """The rows of a table; the text of a cell that spans columns or rows is in each of them."""
    rows: list[list[str]] = []
    # Column -> the text and the number of further rows that it extends into.
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


def _first_markdown_table(text: str) -> Sequence[list[str]]:
    """The first consecutive lines with `|` between cells."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if not _MARKDOWN_ROW.fullmatch(line):
            if rows:
                break
            continue
        if not _RULER.fullmatch(line):
            inner = line.strip().removeprefix("|").removesuffix("|")
            rows.append([" ".join(cell.split()) for cell in inner.split("|")])
    return rows


def html_table(rows: Iterable[Iterable[str]]) -> str:
    """Rows of `html_cell`s as an HTML table in one line, as Markdown has it."""
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table>{lines}</table>"


def html_cell(tag: str, text: str, **spans: int) -> str:
    """A cell of an HTML table. `spans` are `rowspan` and `colspan`, omitted where they are 1."""
    attributes = "".join(f' {name}="{count}"' for name, count in spans.items() if count > 1)
    return f"<{tag}{attributes}>{html.escape(text, quote=False)}</{tag}>"

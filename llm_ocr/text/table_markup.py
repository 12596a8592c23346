"""Read tables in HTML and Markdown, and write them as HTML."""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser

# The limit of rowspan and colspan.
MAX_SPAN = 1000
_DELIMITER_ROW = re.compile(r"[\s|:-]*-[\s|:-]*")
# Delimiter rows, and rows whose cells are all empty.
_NO_CELLS = re.compile(r"[\s|:+-]+")
_BAR = re.compile(r"(?<!\\)\|")
_MARKDOWN_ROW = re.compile(r"[^|\n]*\|.*")
_TABLE_START = re.compile(r"<table\b", re.IGNORECASE)
_HTML_TABLE = re.compile(r"(?<!\\)<table\b.*?(?:</table\s*>|\Z)", re.IGNORECASE | re.DOTALL)


# Rows and cells as HTML, for texts whose markup is kept.
_WHOLE_TABLE = re.compile(r"\s*<table[^>]*>(?P<rows>.*)</table>\s*", re.DOTALL | re.IGNORECASE)
_HTML_ROW = re.compile(r"<tr[^>]*>.*?</tr>", re.DOTALL | re.IGNORECASE)
_HTML_CELL = re.compile(r"<t[dh](?P<attributes>[^>]*)>", re.IGNORECASE)
_COLSPAN = re.compile(r"colspan\s*=\s*[\"']?(\d{1,3})", re.IGNORECASE)


@dataclass(frozen=True)
class TableCell:
    """A cell's text, its first row and column (from 0), and how many rows and columns it spans."""

    row: int
    column: int
    text: str
    rows: int = 1
    columns: int = 1
    is_header: bool = False


TableRows = Sequence[Sequence[TableCell]]


@dataclass(frozen=True)
class TableGrid:
    """A table's cells in row order. `is_html` is false for a Markdown table."""

    cells: tuple[TableCell, ...]
    is_html: bool = True

    @cached_property
    def _cells_by_position(self) -> dict[tuple[int, int], TableCell]:
        positions: dict[tuple[int, int], TableCell] = {}
        for cell in self.cells:
            for row in range(cell.row, cell.row + cell.rows):
                for column in range(cell.column, cell.column + cell.columns):
                    positions.setdefault((row, column), cell)
        return positions

    @property
    def row_count(self) -> int:
        return max((cell.row + cell.rows for cell in self.cells), default=0)

    @property
    def column_count(self) -> int:
        return max((cell.column + cell.columns for cell in self.cells), default=0)

    def at(self, row: int, column: int) -> TableCell | None:
        """The cell that covers a position, or None."""
        return self._cells_by_position.get((row, column))

    def by_rows(self) -> list[list[TableCell]]:
        """The cells that begin in each row; rows covered only by cells from above are empty."""
        last = max((cell.row for cell in self.cells), default=-1)
        rows: list[list[TableCell]] = [[] for _ in range(last + 1)]
        for cell in self.cells:
            rows[cell.row].append(cell)
        return rows


def read_tables(markdown: str) -> list[TableGrid]:
    """The Markdown tables of a text in order, then its HTML tables in order."""
    return [*read_markdown_tables(markdown), *read_html_tables(markdown)]


def normalize_lines(text: str) -> str:
    """Text with single spaces within lines and none around them."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n")).strip()


def _collapse_blanks(text: str) -> str:
    """Text with single blanks; other spaces stay, as those between the digits of a number."""
    return re.sub(r"[ \t]+", " ", text).strip()


def read_html_tables(text: str, clean: Callable[[str], str] = normalize_lines) -> list[TableGrid]:
    """The HTML tables of a text, also without closing tags; nested tables follow the outer one.

    `clean` normalizes the white space of a cell's text.
    """
    if not _TABLE_START.search(text):
        return []
    parser = _TableParser(clean)
    # The parser raises on some marked sections, which pages don't use.
    parser.feed(text.replace("<![", "&lt;!["))
    parser.close()
    return parser.finish()


def read_html_rows(text: str) -> TableRows:
    """The rows of the HTML tables of a text, without empty ones; a cell that spans rows is in the
    first of them."""
    tables = read_html_tables(text, _collapse_blanks)
    return [row for table in tables for row in table.by_rows() if row]


def read_markdown_tables(text: str) -> list[TableGrid]:
    """The Markdown tables of a text: two or more consecutive lines with bars. The first row is the
    header, with or without a delimiter row below it."""
    return [
        TableGrid(cells, is_html=False)
        for lines in _find_bar_lines(text)
        if (cells := _parse_cells(lines))
    ]


def _find_bar_lines(text: str) -> Iterator[list[str]]:
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        if _BAR.search(line):
            lines.append(line)
            continue
        if len(lines) > 1:
            yield lines
        lines = []


def _parse_cells(lines: Sequence[str]) -> tuple[TableCell, ...]:
    rows = [split_markdown_row(line) for line in lines if not _DELIMITER_ROW.fullmatch(line)]
    return tuple(
        TableCell(row, column, text, is_header=row == 0)
        for row, texts in enumerate(filter(None, rows))
        for column, text in enumerate(texts)
    )


def read_markdown_rows(lines: Iterable[str]) -> TableRows:
    """The rows of a Markdown table, without delimiter rows and rows of empty cells."""
    rows = [split_markdown_row(line) for line in lines if not _NO_CELLS.fullmatch(line)]
    return [
        [TableCell(number, column, text) for column, text in enumerate(row)]
        for number, row in enumerate(rows)
    ]


def is_markdown_row(line: str) -> bool:
    return line.strip().startswith("|") and line.count("|") > 1


def split_markdown_row(line: str) -> list[str]:
    """The cells of a row of a Markdown table, with or without bars at its ends."""
    texts = [text.replace("\\|", "|").strip() for text in _BAR.split(line)]
    if texts and not texts[0]:
        texts = texts[1:]
    if texts and not texts[-1]:
        texts = texts[:-1]
    return texts


def split_at_tables(text: str) -> list[tuple[bool, str]]:
    """The parts of a text, each with whether it is an HTML table."""
    parts: list[tuple[bool, str]] = []
    at = 0
    for match in _HTML_TABLE.finditer(text):
        parts += [(False, text[at : match.start()]), (True, match.group())]
        at = match.end()
    return [part for part in [*parts, (False, text[at:])] if part[1].strip()]


def remove_html_tables(text: str) -> str:
    """The text with a blank line in the place of each HTML table."""
    return _HTML_TABLE.sub("\n\n", text)


def split_html_rows(table: str) -> list[str]:
    """The rows of a text that is one HTML table, as their HTML; empty for any other text."""
    match = _WHOLE_TABLE.fullmatch(table)
    return _HTML_ROW.findall(match["rows"]) if match else []


def count_html_columns(rows: Sequence[str]) -> int:
    """The number of columns of rows of HTML."""
    return max(
        sum(_read_colspan(cell["attributes"]) for cell in _HTML_CELL.finditer(row)) for row in rows
    )


def _read_colspan(attributes: str) -> int:
    span = _COLSPAN.search(attributes)
    return int(span[1]) if span else 1


def first_table(text: str) -> list[list[str]] | None:
    """The first table of a text, in HTML or Markdown; None if there is none with two rows.

    The rows have equal length; the first is the header.
    """
    tables = (part for is_table, part in split_at_tables(text) if is_table)
    table = next(tables, None)
    found = _first_markdown_table(text) if table is None else _expand_html_tables(table)
    rows = [row for row in found if row]
    if len(rows) < 2:
        return None
    widest = max(len(row) for row in rows)
    return [[*row, *[""] * (widest - len(row))] for row in rows]


def _expand_html_tables(text: str) -> Iterator[list[str]]:
    """The rows of tables; the text of a cell that spans columns or rows is in each of them."""
    for table in read_html_tables(text):
        texts: list[dict[int, str]] = [{} for _ in range(table.row_count)]
        for cell in table.cells:
            content = " ".join(cell.text.split())
            for row in range(cell.row, cell.row + cell.rows):
                texts[row] |= dict.fromkeys(range(cell.column, cell.column + cell.columns), content)
        for columns in texts:
            yield [columns.get(k, "") for k in range(max(columns, default=-1) + 1)]


def _first_markdown_table(text: str) -> Sequence[list[str]]:
    """The first consecutive lines with bars between cells."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        if not _MARKDOWN_ROW.fullmatch(line):
            if rows:
                break
            continue
        if not _NO_CELLS.fullmatch(line):
            rows.append([" ".join(text.split()) for text in split_markdown_row(line)])
    return rows


@dataclass
class _OpenTable:
    """A table that is being parsed; `clean` normalizes the white space of a cell's text."""

    clean: Callable[[str], str]
    cells: list[TableCell] = field(default_factory=list)
    row: int = -1
    column: int = 0
    in_head: bool = False
    # Column -> the last row that a cell from above covers there.
    rowspans: dict[int, int] = field(default_factory=dict)
    parts: list[str] | None = None
    spans: tuple[int, int] = (1, 1)
    is_header: bool = False

    def begin_row(self) -> None:
        self.end_cell()
        self.row += 1
        self.column = 0

    def begin_cell(self, tag: str, attributes: Sequence[tuple[str, str | None]]) -> None:
        self.end_cell()
        if self.row < 0:
            self.begin_row()
        values = dict(attributes)
        self.spans = _parse_span(values.get("rowspan")), _parse_span(values.get("colspan"))
        self.is_header = tag == "th" or self.in_head
        self.parts = []

    def end_cell(self) -> None:
        if self.parts is None:
            return
        while self.rowspans.get(self.column, -1) >= self.row:
            self.column += 1
        text = self.clean("".join(self.parts))
        rows, columns = self.spans
        cell = TableCell(self.row, self.column, text, rows, columns, self.is_header)
        self.cells.append(cell)
        for column in range(self.column, self.column + columns):
            last = self.row + rows - 1
            self.rowspans[column] = max(last, self.rowspans.get(column, last))
        self.column += columns
        self.parts = None


class _TableParser(HTMLParser):
    """Collects tables from any text, with or without closing tags."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        super().__init__(convert_charrefs=True)
        self._clean = clean
        self._found: list[_OpenTable] = []
        self._open: list[_OpenTable] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._open.append(_OpenTable(self._clean))
            self._found.append(self._open[-1])
        elif self._open:
            table = self._open[-1]
            if tag == "tr":
                table.begin_row()
            elif tag in ("td", "th"):
                table.begin_cell(tag, attrs)
            elif tag in ("thead", "tbody", "tfoot"):
                table.end_cell()
                table.in_head = tag == "thead"
            elif tag == "br":
                self.handle_data("\n")

    def handle_endtag(self, tag: str) -> None:
        if not self._open:
            return
        if tag in ("td", "th", "tr", "thead", "tbody"):
            self._open[-1].end_cell()
        if tag == "thead":
            self._open[-1].in_head = False
        elif tag == "table":
            self._open.pop().end_cell()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1].parts is not None:
            self._open[-1].parts.append(data)

    def finish(self) -> list[TableGrid]:
        for table in self._open:
            table.end_cell()
        return [_clip_rowspans(table) for table in self._found if table.cells]


def _clip_rowspans(table: _OpenTable) -> TableGrid:
    """The table, with cells that end at its last row at the latest."""
    end = table.row + 1
    cells = (
        cell
        if cell.row + cell.rows <= end
        else TableCell(
            *(cell.row, cell.column, cell.text),
            *(end - cell.row, cell.columns, cell.is_header),
        )
        for cell in table.cells
    )
    return TableGrid(tuple(cells))


def _parse_span(value: str | None) -> int:
    """The number in a rowspan or colspan, from 1 to `MAX_SPAN`."""
    digits = (value or "").strip()
    if not digits.isdecimal() or len(digits) > 6:
        return 1
    return min(max(1, int(digits)), MAX_SPAN)


def html_table(rows: Iterable[Iterable[str]]) -> str:
    """Rows of `html_cell`s as an HTML table in one line, as Markdown has it."""
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table>{lines}</table>"


def html_cell(tag: str, text: str, **spans: int) -> str:
    """A cell of an HTML table. `spans` are `rowspan` and `colspan`, omitted where they are 1."""
    attributes = "".join(f' {name}="{count}"' for name, count in spans.items() if count > 1)
    return f"<{tag}{attributes}>{html.escape(text, quote=False)}</{tag}>"

"""Read the HTML and Markdown tables of a page as grids of cells."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser

# The limit of rowspan and colspan.
MAX_SPAN = 1000
_DELIMITER_ROW = re.compile(r"[\s|:-]*-[\s|:-]*")
_BAR = re.compile(r"(?<!\\)\|")
_TABLE = re.compile(r"<table\b", re.IGNORECASE)


@dataclass(frozen=True)
class TableCell:
    """A cell's text, its first row and column (from 0), and how many rows and columns it spans."""

    row: int
    column: int
    text: str
    rows: int = 1
    columns: int = 1
    is_header: bool = False


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


def read_html_tables(text: str) -> list[TableGrid]:
    """The HTML tables of a text, also without closing tags; nested tables follow the outer one."""
    if not _TABLE.search(text):
        return []
    parser = _TableParser()
    # The parser raises on some marked sections, which pages don't use.
    parser.feed(text.replace("<![", "&lt;!["))
    parser.close()
    return parser.finish()


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
    rows = [_split_row(line) for line in lines if not _DELIMITER_ROW.fullmatch(line)]
    return tuple(
        TableCell(row, column, text, is_header=row == 0)
        for row, texts in enumerate(filter(None, rows))
        for column, text in enumerate(texts)
    )


def _split_row(line: str) -> list[str]:
    texts = [text.replace("\\|", "|").strip() for text in _BAR.split(line)]
    if texts and not texts[0]:
        texts = texts[1:]
    if texts and not texts[-1]:
        texts = texts[:-1]
    return texts


@dataclass
class _OpenTable:
    """A table that is being parsed."""

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
        text = "\n".join(" ".join(line.split()) for line in "".join(self.parts).split("\n")).strip()
        rows, columns = self.spans
        cell = TableCell(self.row, self.column, text, rows, columns, self.is_header)
        self.cells.append(cell)
        for column in range(self.column, self.column + columns):
            self.rowspans[column] = self.row + rows - 1
        self.column += columns
        self.parts = None


class _TableParser(HTMLParser):
    """Collects tables from any text, with or without closing tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._found: list[_OpenTable] = []
        self._open: list[_OpenTable] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._open.append(_OpenTable())
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

"""Tables in a page's Markdown, written in HTML or with bars -> cells with their places."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser

# What a table may span, whatever it says.
MOST_SPANNED = 1000
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")
_BAR = re.compile(r"(?<!\\)\|")
_TABLE = re.compile(r"<table\b", re.IGNORECASE)


@dataclass(frozen=True)
class TableCell:
    """A cell's text, where it begins (counted from 0), and how many rows and columns it spans."""

    row: int
    column: int
    text: str
    rows: int = 1
    columns: int = 1
    is_header: bool = False


@dataclass(frozen=True)
class PageTable:
    """A table's cells in the order of its rows. `is_html` is false for one with bars."""

    cells: tuple[TableCell, ...]
    is_html: bool = True

    @cached_property
    def _places(self) -> dict[tuple[int, int], TableCell]:
        places: dict[tuple[int, int], TableCell] = {}
        for cell in self.cells:
            for row in range(cell.row, cell.row + cell.rows):
                for column in range(cell.column, cell.column + cell.columns):
                    places.setdefault((row, column), cell)
        return places

    @property
    def row_count(self) -> int:
        return max((cell.row + cell.rows for cell in self.cells), default=0)

    @property
    def column_count(self) -> int:
        return max((cell.column + cell.columns for cell in self.cells), default=0)

    def at(self, row: int, column: int) -> TableCell | None:
        """The cell that covers a place, if one does."""
        return self._places.get((row, column))

    def by_rows(self) -> list[list[TableCell]]:
        """The cells that begin in each row; rows that only cells from above reach are empty."""
        last = max((cell.row for cell in self.cells), default=-1)
        rows: list[list[TableCell]] = [[] for _ in range(last + 1)]
        for cell in self.cells:
            rows[cell.row].append(cell)
        return rows


def tables_of(markdown: str) -> list[PageTable]:
    """The tables of a text: those with bars, then those in HTML, each kind in order."""
    return [*bar_tables(markdown), *html_tables(markdown)]


def html_tables(text: str) -> list[PageTable]:
    """The tables in HTML, closed or not; one within a cell's is a table too, after its own."""
    if not _TABLE.search(text):
        return []
    reader = _Reader()
    # The parser raises on some of these, and pages have none that are to be read.
    reader.feed(text.replace("<![", "&lt;!["))
    reader.close()
    return reader.finished()


def bar_tables(text: str) -> list[PageTable]:
    """The tables with bars between cells: two lines or more that have them, one after the other.
    The first row is the header, with a ruler below it or not."""
    return [PageTable(cells, is_html=False) for lines in _barred(text) if (cells := _cells(lines))]


def _barred(text: str) -> Iterator[list[str]]:
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        if _BAR.search(line):
            lines.append(line)
            continue
        if len(lines) > 1:
            yield lines
        lines = []


def _cells(lines: Sequence[str]) -> tuple[TableCell, ...]:
    rows = [_bar_row(line) for line in lines if not _RULE.fullmatch(line)]
    return tuple(
        TableCell(row, column, text, is_header=row == 0)
        for row, texts in enumerate(one for one in rows if one)
        for column, text in enumerate(texts)
    )


def _bar_row(line: str) -> list[str]:
    texts = [text.replace("\\|", "|").strip() for text in _BAR.split(line)]
    if texts and not texts[0]:
        texts = texts[1:]
    if texts and not texts[-1]:
        texts = texts[:-1]
    return texts


@dataclass
class _Open:
    """A table that is being read."""

    cells: list[TableCell] = field(default_factory=list)
    row: int = -1
    column: int = 0
    in_head: bool = False
    # Column -> the last row that a cell from above reaches there.
    hanging: dict[int, int] = field(default_factory=dict)
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
        given = dict(attributes)
        self.spans = _span(given.get("rowspan")), _span(given.get("colspan"))
        self.is_header = tag == "th" or self.in_head
        self.parts = []

    def end_cell(self) -> None:
        if self.parts is None:
            return
        while self.hanging.get(self.column, -1) >= self.row:
            self.column += 1
        text = "\n".join(" ".join(line.split()) for line in "".join(self.parts).split("\n")).strip()
        rows, columns = self.spans
        place = self.row, self.column
        self.cells.append(TableCell(*place, text, rows, columns, self.is_header))
        for column in range(self.column, self.column + columns):
            self.hanging[column] = self.row + rows - 1
        self.column += columns
        self.parts = None


class _Reader(HTMLParser):
    """Collects tables; takes any text, closed tags or not."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._found: list[_Open] = []
        self._open: list[_Open] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._open.append(_Open())
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

    def finished(self) -> list[PageTable]:
        for table in self._open:
            table.end_cell()
        return [_held(table) for table in self._found if table.cells]


def _held(table: _Open) -> PageTable:
    """The table, its cells reaching no further than its last row."""
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
    return PageTable(tuple(cells))


def _span(value: str | None) -> int:
    """What a span says, within reason."""
    digits = (value or "").strip()
    if not digits.isdecimal() or len(digits) > 6:
        return 1
    return min(max(1, int(digits)), MOST_SPANNED)

"""The first table in a text, written in HTML or in Markdown."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser

_PIPED = re.compile(r"[^|\n]*\|.*")
_RULE = re.compile(r"[\s|:+-]+")
WIDEST = 1000


def first_table(text: str) -> list[list[str]] | None:
    """Rows of equal length, the first of which is taken for the head; None without a table."""
    found = _of_html(text) if "<table" in text.lower() else _of_bars(text)
    rows = [row for row in found if row]
    if len(rows) < 2:
        return None
    widest = max(len(row) for row in rows)
    return [[*row, *[""] * (widest - len(row))] for row in rows]


def _of_html(text: str) -> Sequence[list[str]]:
    reader = _Reader()
    # The parser raises on some declarations; in an answer there are none to be read.
    reader.feed(text.replace("<!", "&lt;!"))
    reader.close()
    reader.end_row()
    return reader.rows


class _Reader(HTMLParser):
    """Cells of the first table; what spans several columns or rows stands in each."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._row: list[str] | None = None
        self._cell: list[str] | None = None
        self._columns = self._lines = 1
        # Column -> text and how many more rows it goes down.
        self._hanging: dict[int, tuple[str, int]] = {}
        self._is_over = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._is_over:
            return
        if tag == "tr":
            self.end_row()
            self._row = []
        elif tag in ("td", "th"):
            self._end_cell()
            self._row = [] if self._row is None else self._row
            self._cell = []
            spans = dict(attrs)
            self._columns = _span(spans.get("colspan"))
            self._lines = _span(spans.get("rowspan"))
        elif tag == "br" and self._cell is not None:
            self._cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._end_cell()
        elif tag == "tr":
            self.end_row()
        elif tag == "table":
            self.end_row()
            self._is_over = True

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def _end_cell(self) -> None:
        if self._cell is None or self._row is None:
            return
        self._fill_from_above(self._row)
        text = " ".join("".join(self._cell).split())
        for _ in range(self._columns):
            if self._lines > 1:
                self._hanging[len(self._row)] = (text, self._lines - 1)
            self._row.append(text)
        self._cell = None

    def end_row(self) -> None:
        """The row under way is whole."""
        self._end_cell()
        if self._row is not None and not self._is_over:
            self._fill_from_above(self._row)
            self.rows.append(self._row)
        self._row = None

    def _fill_from_above(self, row: list[str]) -> None:
        while (hanging := self._hanging.pop(len(row), None)) is not None:
            text, left = hanging
            if left > 1:
                self._hanging[len(row)] = (text, left - 1)
            row.append(text)


def _span(said: str | None) -> int:
    return min(WIDEST, int(said)) if said and said.isdecimal() and int(said) else 1


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

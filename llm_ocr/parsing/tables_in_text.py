"""The first table in a text, written in HTML or in Markdown."""

import re
from collections.abc import Sequence

from llm_ocr.parsing.grids import around_tables, html_rows

_PIPED = re.compile(r"[^|\n]*\|.*")
_RULE = re.compile(r"[\s|:+-]+")


def first_table(text: str) -> list[list[str]] | None:
    """Rows of equal length, the first of which is taken for the head; None without a table."""
    tables = (piece for is_table, piece in around_tables(text) if is_table)
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
    for cells in html_rows(table):
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

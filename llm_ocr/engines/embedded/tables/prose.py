"""Regions that the layout model takes for tables, and that are text in truth."""

import re
from collections.abc import Sequence

from llm_ocr.engines.embedded.tables.grid import Cell
from llm_ocr.engines.embedded.tables.multiline_rows import is_number

# A cell with so many words is running text; a table has fewer of these than this share.
RUNNING, MOST_RUNNING = 6, 0.6
# Of a table's rows at least so many have several cells.
FEWEST_FULL = 0.2
_MARK = re.compile(r"([•▪◦●○■\-–*·►✓]|\(?\d{1,2}[.)]|\(?[a-zA-Z][.)]|\[\d{1,3}\])")


def is_prose(rows: Sequence[Sequence[Cell]], columns: int) -> bool:
    """Whether rows of text with cells are no table: columns of prose, or a list with its marks."""
    cells = [cell for row in rows for cell in row if cell.words]
    full = [row for row in rows if len(row) > 1]
    if len(full) < max(2.0, FEWEST_FULL * len(rows)):
        return len(rows) > 2
    running = sum(len(cell.words) >= RUNNING for cell in cells)
    if running >= MOST_RUNNING * len(cells) and not any(is_number(cell.text) for cell in cells):
        return True
    first = [cell for cell in cells if cell.first == 0]
    return (
        columns == 2
        and len(first) > 1
        and all(_MARK.fullmatch(cell.text) for cell in first if cell.columns == 1)
    )

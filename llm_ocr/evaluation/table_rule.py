"""What a test asks of a table: a cell, its neighbors and its headings."""

from collections.abc import Iterator
from dataclasses import dataclass

from rapidfuzz import fuzz

from llm_ocr.evaluation.grids import PageTable
from llm_ocr.evaluation.rules import PASSED, Outcome, Verdict, failed, needed
from llm_ocr.evaluation.said import Said
from llm_ocr.evaluation.text import normalized

# However many differences are allowed, a cell must be at least so much alike.
LEAST_ALIKE = 0.5
_SIDES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


@dataclass(frozen=True)
class TableRule:
    """Some table has a cell with this text, beside it those texts, and these headings above it
    and to its left. All are normalized, "" where nothing is asked."""

    cell: str
    up: str = ""
    down: str = ""
    left: str = ""
    right: str = ""
    top_heading: str = ""
    left_heading: str = ""
    max_diffs: int = 0
    html_only: bool = False

    def judge(self, said: Said) -> Outcome:
        tables = [*([] if self.html_only else said.bar_tables), *said.html_tables]
        if not tables:
            return failed("there is no table on the page", self._asked())
        best: tuple[int, PageTable, tuple[int, int], list[str]] | None = None
        for table in tables:
            for row, column in self._places(table):
                wrong = list(self._wrong(table, row, column))
                if not wrong:
                    return PASSED
                if best is None or len(wrong) < best[0]:
                    best = len(wrong), table, (row, column), wrong
        if best is None:
            return failed(*self._no_cell(tables))
        _, table, place, wrong = best
        grid, center = _around(table, *place)
        return Outcome(Verdict.FAILED, "; ".join(wrong), self._asked(), (), grid, center)

    def _asked(self) -> str:
        sides = (*_SIDES, "top_heading", "left_heading")
        asked = [f"{side.replace('_', ' ')}: {getattr(self, side)}" for side in sides
                 if getattr(self, side)]  # fmt: skip
        return f"cell: {self.cell}" + "".join(f", {one}" for one in asked)

    def _places(self, table: PageTable) -> Iterator[tuple[int, int]]:
        """Where the cell can be; one that spans rows or columns at each of its places."""
        for cell in table.cells:
            if self._is_alike(self.cell, cell.text):
                for row in range(cell.row, cell.row + cell.rows):
                    for column in range(cell.column, cell.column + cell.columns):
                        yield row, column

    def _wrong(self, table: PageTable, row: int, column: int) -> Iterator[str]:
        for side, (down, right) in _SIDES.items():
            wanted = getattr(self, side)
            if wanted:
                beside = _beside(table, row, column, down, right)
                if not self._is_alike(wanted, beside):
                    yield f"{side} is “{normalized(beside).strip()}”"
        for side, texts in (
            ("top_heading", _above(table, row, column)),
            ("left_heading", _before(table, row, column)),
        ):
            wanted = getattr(self, side)
            if wanted and not any(self._is_alike(wanted, text) for text in texts):
                shown = ", ".join(f"“{normalized(text)}”" for text in texts) or "nothing"
                yield f"{side.replace('_', ' ')} is {shown}"

    def _is_alike(self, wanted: str, text: str) -> bool:
        least = max(LEAST_ALIKE, needed(wanted, self.max_diffs))
        return fuzz.ratio(wanted, normalized(text).strip()) / 100 >= least

    def _no_cell(self, tables: list[PageTable]) -> tuple[str, str]:
        texts = [normalized(cell.text) for table in tables for cell in table.cells]
        best = max(texts, key=lambda text: fuzz.ratio(self.cell, text), default="")
        return f"no such cell; the one most like it is “{best}”", self._asked()


def _beside(table: PageTable, row: int, column: int, down: int, right: int) -> str:
    """The text of the next cell that way; "" where there is none."""
    here = table.at(row, column)
    while True:
        row, column = row + down, column + right
        cell = table.at(row, column)
        if cell is None or cell is not here:
            return cell.text if cell is not None else ""


def _above(table: PageTable, row: int, column: int) -> list[str]:
    """The headings above a place, or all cells above it in a table that marks none."""
    here = table.at(row, column)
    cells = [cell for k in range(row) if (cell := table.at(k, column)) is not None]
    cells = [cell for cell in dict.fromkeys(cells) if cell.text and cell is not here]
    return [cell.text for cell in cells if cell.is_header] or [cell.text for cell in cells]


def _before(table: PageTable, row: int, column: int) -> list[str]:
    """The cells to the left: any of them may be its row's heading."""
    here = table.at(row, column)
    cells = [cell for k in range(column) if (cell := table.at(row, k)) is not None]
    return [cell.text for cell in dict.fromkeys(cells) if cell.text and cell is not here]


def _around(
    table: PageTable, row: int, column: int
) -> tuple[tuple[tuple[str, ...], ...], tuple[int, int]]:
    """The texts around a place, two cells far, and where it is among them."""
    top, left = max(0, row - 2), max(0, column - 2)
    rows = range(top, min(row + 3, table.row_count))
    columns = range(left, min(column + 3, table.column_count))

    def text(k: int, j: int) -> str:
        cell = table.at(k, j)
        return cell.text if cell is not None else ""

    return tuple(tuple(text(k, j) for j in columns) for k in rows), (row - top, column - left)

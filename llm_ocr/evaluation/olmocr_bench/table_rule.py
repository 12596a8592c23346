"""What a test asks of a table: a cell, its neighbors and its headings."""

from collections.abc import Iterator
from dataclasses import dataclass

from rapidfuzz import fuzz

from llm_ocr.evaluation.olmocr_bench.page_view import PageView
from llm_ocr.evaluation.olmocr_bench.rules import (
    PASSED,
    RuleResult,
    RuleVerdict,
    failure,
    required_similarity,
)
from llm_ocr.evaluation.text_similarity import normalize_text
from llm_ocr.text.table_markup import TableGrid

# The similarity required of a cell however many differences are allowed.
MIN_SIMILARITY = 0.5
_SIDES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


@dataclass(frozen=True)
class TableRule:
    """A table on the page has a cell with this text, with these neighbors, and with these headings
    above and to the left. All texts are normalized; "" means any."""

    cell: str
    up: str = ""
    down: str = ""
    left: str = ""
    right: str = ""
    top_heading: str = ""
    left_heading: str = ""
    max_diffs: int = 0
    html_only: bool = False

    def check(self, page: PageView) -> RuleResult:
        tables = [*([] if self.html_only else page.markdown_tables), *page.html_tables]
        if not tables:
            return failure("there is no table on the page", self._requirement())
        best: tuple[int, TableGrid, tuple[int, int], list[str]] | None = None
        for table in tables:
            for row, column in self._candidates(table):
                mismatches = list(self._mismatches(table, row, column))
                if not mismatches:
                    return PASSED
                if best is None or len(mismatches) < best[0]:
                    best = len(mismatches), table, (row, column), mismatches
        if best is None:
            return failure(*self._missing_cell(tables))
        _, table, position, mismatches = best
        grid, center = _surroundings(table, *position)
        reason, expected = "; ".join(mismatches), self._requirement()
        return RuleResult(RuleVerdict.FAILED, reason, expected, (), grid, center)

    def _requirement(self) -> str:
        sides = (*_SIDES, "top_heading", "left_heading")
        parts = [f"{side.replace('_', ' ')}: {getattr(self, side)}" for side in sides
                 if getattr(self, side)]  # fmt: skip
        return f"cell: {self.cell}" + "".join(f", {part}" for part in parts)

    def _candidates(self, table: TableGrid) -> Iterator[tuple[int, int]]:
        """The positions of similar cells; a cell that spans rows or columns has several."""
        for cell in table.cells:
            if self._is_similar(self.cell, cell.text):
                for row in range(cell.row, cell.row + cell.rows):
                    for column in range(cell.column, cell.column + cell.columns):
                        yield row, column

    def _mismatches(self, table: TableGrid, row: int, column: int) -> Iterator[str]:
        for side, (down, right) in _SIDES.items():
            wanted = getattr(self, side)
            if wanted:
                neighbor = _neighbor(table, row, column, down, right)
                if not self._is_similar(wanted, neighbor):
                    yield f"{side} is “{normalize_text(neighbor).strip()}”"
        for side, texts in (
            ("top_heading", _headings_above(table, row, column)),
            ("left_heading", _headings_left(table, row, column)),
        ):
            wanted = getattr(self, side)
            if wanted and not any(self._is_similar(wanted, text) for text in texts):
                shown = ", ".join(f"“{normalize_text(text)}”" for text in texts) or "nothing"
                yield f"{side.replace('_', ' ')} is {shown}"

    def _is_similar(self, wanted: str, text: str) -> bool:
        required = max(MIN_SIMILARITY, required_similarity(wanted, self.max_diffs))
        return fuzz.ratio(wanted, normalize_text(text).strip()) / 100 >= required

    def _missing_cell(self, tables: list[TableGrid]) -> tuple[str, str]:
        texts = [normalize_text(cell.text) for table in tables for cell in table.cells]
        best = max(texts, key=lambda text: fuzz.ratio(self.cell, text), default="")
        return f"no such cell; the most similar one is “{best}”", self._requirement()


def _neighbor(table: TableGrid, row: int, column: int, down: int, right: int) -> str:
    """The text of the next cell in a direction; "" if there is none."""
    here = table.at(row, column)
    while True:
        row, column = row + down, column + right
        cell = table.at(row, column)
        if cell is None or cell is not here:
            return cell.text if cell is not None else ""


def _headings_above(table: TableGrid, row: int, column: int) -> list[str]:
    """The header cells above a cell, or all cells above it in a table without header cells."""
    here = table.at(row, column)
    cells = [cell for k in range(row) if (cell := table.at(k, column)) is not None]
    cells = [cell for cell in dict.fromkeys(cells) if cell.text and cell is not here]
    return [cell.text for cell in cells if cell.is_header] or [cell.text for cell in cells]


def _headings_left(table: TableGrid, row: int, column: int) -> list[str]:
    """The cells to the left, any of which may be the heading of the row."""
    here = table.at(row, column)
    cells = [cell for k in range(column) if (cell := table.at(row, k)) is not None]
    return [cell.text for cell in dict.fromkeys(cells) if cell.text and cell is not here]


def _surroundings(
    table: TableGrid, row: int, column: int
) -> tuple[tuple[tuple[str, ...], ...], tuple[int, int]]:
    """The texts up to two cells away from a cell, and its position among them."""
    top, left = max(0, row - 2), max(0, column - 2)
    rows = range(top, min(row + 3, table.row_count))
    columns = range(left, min(column + 3, table.column_count))

    def text(k: int, j: int) -> str:
        cell = table.at(k, j)
        return cell.text if cell is not None else ""

    return tuple(tuple(text(k, j) for j in columns) for k in rows), (row - top, column - left)

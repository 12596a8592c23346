"""Words -> rows of text; cells of a table, and their HTML."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from llm_ocr.engines.embedded.geometry import Rect, Word, hull
from llm_ocr.text.table_markup import html_cell, html_table

# Words whose middles are closer than this share of their height are of one row.
SAME_ROW = 0.45


@dataclass(frozen=True)
class GridRow:
    """Words beside each other, from left to right."""

    middle: float
    words: list[Word]


def text_rows(words: Sequence[Word], height: float) -> list[GridRow]:
    """The rows that words stand in; `height` is that of a usual word."""
    groups: list[list[Word]] = []
    middles: list[float] = []
    for word in sorted(words, key=lambda word: word.y):
        if groups and abs(word.y - middles[-1]) < SAME_ROW * height:
            groups[-1].append(word)
            middles[-1] += (word.y - middles[-1]) / len(groups[-1])
        else:
            groups.append([word])
            middles.append(word.y)
    return [
        GridRow(middle, sorted(group, key=lambda word: word.rect[0]))
        for middle, group in zip(middles, groups, strict=True)
    ]


@dataclass
class Cell:
    """Words in the columns `first` to `last`, over `rows` rows."""

    first: int
    last: int
    words: list[Word] = field(default_factory=list)
    rows: int = 1

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def rect(self) -> Rect:
        return hull(word.rect for word in self.words)

    @property
    def columns(self) -> int:
        return self.last - self.first + 1


@dataclass
class Grid:
    """Rows of cells from left to right, and how many of the first rows are heads."""

    rows: list[list[Cell]]
    columns: int
    heads: int = 0


def usual_height(words: Sequence[Word]) -> float:
    return statistics.median(word.rect[3] - word.rect[1] for word in words)


def as_html(grid: Grid) -> str:
    """A grid as `<table>…</table>` on one line; where no cell is, an empty one."""
    hanging = [0] * grid.columns
    rows: list[list[str]] = []
    for k, row in enumerate(grid.rows):
        tag = "th" if k < grid.heads else "td"
        starts = {cell.first: cell for cell in row}
        cells: list[str] = []
        at = 0
        while at < grid.columns:
            if hanging[at]:
                hanging[at] -= 1
                at += 1
                continue
            cell = starts.get(at) or Cell(at, at)
            cells.append(html_cell(tag, cell.text, rowspan=cell.rows, colspan=cell.columns))
            hanging[at : cell.last + 1] = [cell.rows - 1] * cell.columns
            at = cell.last + 1
        rows.append(cells)
    return html_table(rows)

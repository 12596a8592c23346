"""Words -> rows of text; cells of a table, and their HTML."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from llm_ocr.engines.embedded.geometry import Rect, Word, hull
from llm_ocr.text.table_markup import html_cell, html_table

# Words whose middles are closer than this share of their height are of one row.
SAME_ROW = 0.45


@dataclass(frozen=True)
class Band:
    """What is between two neighbors of the separators between rows: there may be several lines."""

    number: int
    top: float
    bottom: float


@dataclass(frozen=True)
class GridRow:
    """Words beside each other, from left to right."""

    middle: float
    words: list[Word]
    band: Band

    @property
    def rect(self) -> Rect:
        return hull(word.rect for word in self.words)


def text_rows(words: Sequence[Word], height: float, band: Band) -> list[GridRow]:
    """The rows that a band's words stand in; `height` is that of a usual word."""
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
        GridRow(middle, sorted(group, key=lambda word: word.rect[0]), band)
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
    def spans(self) -> tuple[int, int, int]:
        return self.first, self.last, self.rows

    @property
    def columns(self) -> int:
        return self.last - self.first + 1


@dataclass
class TextRow:
    """Cells beside each other, and between which of the table's separators they stand."""

    middle: float
    cells: list[Cell]
    band: Band

    @property
    def rect(self) -> Rect:
        return hull(cell.rect for cell in self.cells)


def usual_height(words: Sequence[Word]) -> float:
    return statistics.median(word.rect[3] - word.rect[1] for word in words)


def as_html(rows: Sequence[TextRow], heads: int) -> str:
    """Rows of cells as `<table>…</table>` on one line; the first `heads` are header rows."""
    return html_table(
        [
            html_cell(
                "th" if k < heads else "td", cell.text, rowspan=cell.rows, colspan=cell.columns
            )
            for cell in row.cells
        ]
        for k, row in enumerate(rows)
    )

"""Compare tables with TEDS, the tree edit distance based similarity.

TEDS (Zhong, ShafieiBavani and Jimeno Yepes, "Image-based table recognition", 2020) is 1 - the tree
edit distance as a share of the nodes of the larger tree. A table is a tree of rows, a row one of
cells; cells with different spans differ fully, cells with different texts in part. `<th>`,
`<thead>` and `<tbody>` are treated as `<td>` and rows, since Markdown has no equivalent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from apted import APTED, Config
from rapidfuzz.distance import Levenshtein

from llm_ocr.evaluation.text_similarity import normalize_text
from llm_ocr.text.table_markup import (
    TableCell,
    TableGrid,
    read_html_tables,
    read_markdown_tables,
)

# The exact distance takes a second for two trees of 200 nodes, and grows with the product.
MAX_NODE_PAIRS = 40_000
# Rows of larger tables are aligned with the rows at most this far from their position: all rows of
# a table of 1,000 cells and 40 rows, 600 pairs of cells for each cell of a wide one.
MAX_CELL_PAIRS = 2_000_000
MIN_ROW_DISTANCE = 8


@dataclass(frozen=True)
class _Node:
    """A table, row or cell; only cells have a text."""

    name: str
    spans: tuple[int, int] = (1, 1)
    text: str = ""
    children: tuple["_Node", ...] = ()

    @property
    def size(self) -> int:
        return 1 + sum(child.size for child in self.children)


def teds(truth: str, prediction: str, structure_only: bool = False) -> float:
    """The similarity (0..1) of the first tables of two texts, in HTML or Markdown.

    `structure_only` ignores the texts of cells. 0 if one text has no table, 1 if neither has.
    """
    expected, predicted = _first_table(truth), _first_table(prediction)
    if expected is None or predicted is None:
        return float(expected is predicted)
    return table_similarity(expected, predicted, structure_only)


def _first_table(text: str) -> TableGrid | None:
    return next(iter(read_html_tables(text) or read_markdown_tables(text)), None)


def table_similarity(
    truth: TableGrid, prediction: TableGrid, structure_only: bool = False
) -> float:
    """TEDS of two tables, 0..1.

    A lower bound for tables with more than about 200 cells each: whole rows are then aligned, so
    that a row that was split in two costs more.
    """
    expected, predicted = _tree(truth, structure_only), _tree(prediction, structure_only)
    sizes = expected.size, predicted.size
    if sizes[0] * sizes[1] <= MAX_NODE_PAIRS:
        distance = float(APTED(expected, predicted, _Costs()).compute_edit_distance())
    else:
        distance = _align_rows(expected.children, predicted.children)
    return max(0.0, 1 - distance / max(sizes))


def _tree(table: TableGrid, structure_only: bool) -> _Node:
    def cell_node(cell: TableCell) -> _Node:
        text = "" if structure_only else normalize_text(cell.text).strip()
        return _Node("cell", (cell.rows, cell.columns), text)

    rows = (_Node("row", children=tuple(map(cell_node, row))) for row in table.by_rows())
    return _Node("table", children=tuple(rows))


def _cell_cost(cell: _Node, other: _Node) -> float:
    if cell.spans != other.spans:
        return 1.0
    if cell.text == other.text:
        return 0.0
    return _text_cost(cell.text, other.text)


@lru_cache(maxsize=100_000)
def _text_cost(text: str, other: str) -> float:
    return Levenshtein.normalized_distance(text, other)


class _Costs(Config):  # type: ignore[misc]
    """The costs of edits for APTED."""

    def rename(self, node1: _Node, node2: _Node) -> float:
        return 1.0 if node1.name != node2.name else _cell_cost(node1, node2)

    def children(self, node: _Node) -> tuple[_Node, ...]:
        return node.children


def _align_rows(rows: Sequence[_Node], others: Sequence[_Node]) -> float:
    """The edit distance of two lists of rows, where rows are substituted, inserted or deleted."""
    cells = max(1, sum(len(row.children) for row in rows))
    widest = max((len(row.children) for row in others), default=1) or 1
    band = max(MIN_ROW_DISTANCE, MAX_CELL_PAIRS // (2 * cells * widest))
    band += abs(len(rows) - len(others))
    above = [0.0]
    for other in others:
        above.append(above[-1] + other.size)
    for i, row in enumerate(rows):
        here = [above[0] + row.size]
        for j, other in enumerate(others):
            substituted = above[j] + _row_cost(row, other) if abs(i - j) <= band else math.inf
            here.append(min(substituted, above[j + 1] + row.size, here[j] + other.size))
        above = here
    return above[-1]


def _row_cost(row: _Node, other: _Node) -> float:
    """The edit distance of two rows of cells."""
    if row.children == other.children:
        return 0.0
    above = [float(k) for k in range(len(other.children) + 1)]
    for cell in row.children:
        here = [above[0] + 1]
        for j, expected in enumerate(other.children):
            here.append(min(above[j] + _cell_cost(cell, expected), above[j + 1] + 1, here[j] + 1))
        above = here
    return above[-1]


@dataclass(frozen=True)
class TableMatch:
    """A table of the ground truth, the predicted table that matches it (None if there is none), and
    their TEDS with and without texts."""

    truth: TableGrid
    prediction: TableGrid | None
    teds: float
    teds_structure: float


def match_tables(truth: Sequence[TableGrid], prediction: Sequence[TableGrid]) -> list[TableMatch]:
    """Match each table of the ground truth with the predicted table whose text is most similar.

    No table is matched twice; a missing table scores 0. Surplus tables are not in the result.
    """
    texts = [[_table_text(table) for table in tables] for tables in (truth, prediction)]
    candidates = sorted(
        (Levenshtein.normalized_distance(text, other), i, j)
        for i, text in enumerate(texts[0])
        for j, other in enumerate(texts[1])
    )
    pairs: dict[int, int] = {}
    for _, i, j in candidates:
        if i not in pairs and j not in pairs.values():
            pairs[i] = j
    return [
        _table_match(table, prediction[pairs[i]] if i in pairs else None)
        for i, table in enumerate(truth)
    ]


def _table_text(table: TableGrid) -> str:
    return " ".join(cell.text for cell in table.cells)


def _table_match(truth: TableGrid, prediction: TableGrid | None) -> TableMatch:
    if prediction is None:
        return TableMatch(truth, None, 0.0, 0.0)
    similarity = table_similarity(truth, prediction)
    structure = table_similarity(truth, prediction, structure_only=True)
    return TableMatch(truth, prediction, similarity, structure)

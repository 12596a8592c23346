"""How near a table is to what it should be: TEDS, the similarity of tables as trees.

TEDS (Zhong, ShafieiBavani and Jimeno Yepes, "Image-based table recognition", 2020) is 1 less the
tree edit distance as a share of the larger tree's nodes. A table is a tree of rows, a row one of
cells; a cell that spans otherwise is another cell, one with another text is it in part. `<th>`,
`<thead>` and `<tbody>` are not told from `<td>` and rows, since Markdown knows no such thing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from apted import APTED, Config
from rapidfuzz.distance import Levenshtein

from llm_ocr.evaluation.grids import PageTable, TableCell, bar_tables, html_tables, tables_of
from llm_ocr.evaluation.text import normalized

__all__ = [
    "PageTable",
    "TableCell",
    "TableMatch",
    "bar_tables",
    "html_tables",
    "match_tables",
    "table_similarity",
    "tables_of",
    "teds",
]

# The exact distance takes a second for trees of 200 nodes each, and grows with their product.
MOST_NODE_PAIRS = 40_000
# Larger ones are aligned row by row, each with the rows at most so far from its place: all of them
# in a table of 1,000 cells and 40 rows, 600 pairs of cells for each cell of a wide one.
MOST_CELL_PAIRS = 2_000_000
NEAREST_ROWS = 8


@dataclass(frozen=True)
class _Node:
    """A table, a row or a cell; only cells have a text."""

    name: str
    spans: tuple[int, int] = (1, 1)
    text: str = ""
    children: tuple["_Node", ...] = ()

    @property
    def size(self) -> int:
        return 1 + sum(child.size for child in self.children)


def teds(truth: str, said: str, structure_only: bool = False) -> float:
    """The similarity (0..1) of the first table in each of two texts, in HTML or with bars.

    With `structure_only` the texts of cells don't count. 0 where one of them has no table, 1 where
    neither has.
    """
    expected, found = _first(truth), _first(said)
    if expected is None or found is None:
        return float(expected is found)
    return table_similarity(expected, found, structure_only)


def _first(text: str) -> PageTable | None:
    return next(iter(html_tables(text) or bar_tables(text)), None)


def table_similarity(truth: PageTable, said: PageTable, structure_only: bool = False) -> float:
    """TEDS of two tables, 0..1.

    Of tables with more than about 200 cells each it is a lower bound: rows are then matched whole
    with whole rows, so that a row that was cut in two costs more.
    """
    expected, found = _tree(truth, structure_only), _tree(said, structure_only)
    sizes = expected.size, found.size
    if sizes[0] * sizes[1] <= MOST_NODE_PAIRS:
        distance = float(APTED(expected, found, _Costs()).compute_edit_distance())
    else:
        distance = _aligned(expected.children, found.children)
    return max(0.0, 1 - distance / max(sizes))


def _tree(table: PageTable, structure_only: bool) -> _Node:
    def cell(one: TableCell) -> _Node:
        text = "" if structure_only else normalized(one.text).strip()
        return _Node("cell", (one.rows, one.columns), text)

    rows = (_Node("row", children=tuple(map(cell, row))) for row in table.by_rows())
    return _Node("table", children=tuple(rows))


def _cell_cost(one: _Node, other: _Node) -> float:
    if one.spans != other.spans:
        return 1.0
    if one.text == other.text:
        return 0.0
    return _text_cost(one.text, other.text)


@lru_cache(maxsize=100_000)
def _text_cost(one: str, other: str) -> float:
    return Levenshtein.normalized_distance(one, other)


class _Costs(Config):  # type: ignore[misc]
    """What the tree edit distance asks of nodes."""

    def rename(self, node1: _Node, node2: _Node) -> float:
        return 1.0 if node1.name != node2.name else _cell_cost(node1, node2)

    def children(self, node: _Node) -> tuple[_Node, ...]:
        return node.children


def _aligned(rows: Sequence[_Node], others: Sequence[_Node]) -> float:
    """The cost of rows made others, where a row is kept, made another, added or left out whole."""
    cells = max(1, sum(len(row.children) for row in rows))
    widest = max((len(row.children) for row in others), default=1) or 1
    far = max(NEAREST_ROWS, MOST_CELL_PAIRS // (2 * cells * widest)) + abs(len(rows) - len(others))
    no_way = float("inf")
    above = [0.0]
    for other in others:
        above.append(above[-1] + other.size)
    for i, row in enumerate(rows):
        here = [above[0] + row.size]
        for j, other in enumerate(others):
            change = above[j] + _row_cost(row, other) if abs(i - j) <= far else no_way
            here.append(min(change, above[j + 1] + row.size, here[j] + other.size))
        above = here
    return above[-1]


def _row_cost(row: _Node, other: _Node) -> float:
    """The cost of a row made another one, cell by cell."""
    if row.children == other.children:
        return 0.0
    above = [float(k) for k in range(len(other.children) + 1)]
    for cell in row.children:
        here = [above[0] + 1]
        for j, one in enumerate(other.children):
            here.append(min(above[j] + _cell_cost(cell, one), above[j + 1] + 1, here[j] + 1))
        above = here
    return above[-1]


@dataclass(frozen=True)
class TableMatch:
    """A table of the truth, the one that was taken for it (None where there is none left), and
    their TEDS with and without texts."""

    truth: PageTable
    said: PageTable | None
    teds: float
    structure: float


def match_tables(truth: Sequence[PageTable], said: Sequence[PageTable]) -> list[TableMatch]:
    """Each table of the truth with the one most like it; none is taken twice.

    A table that is missing scores 0. Tables that the truth lacks are left over, and are not here.
    """
    texts = [[_said(table) for table in tables] for tables in (truth, said)]
    likeness = sorted(
        (Levenshtein.normalized_distance(one, other), i, j)
        for i, one in enumerate(texts[0])
        for j, other in enumerate(texts[1])
    )
    pairs: dict[int, int] = {}
    for _, i, j in likeness:
        if i not in pairs and j not in pairs.values():
            pairs[i] = j
    return [
        _matched(table, said[pairs[i]] if i in pairs else None) for i, table in enumerate(truth)
    ]


def _said(table: PageTable) -> str:
    return " ".join(cell.text for cell in table.cells)


def _matched(truth: PageTable, said: PageTable | None) -> TableMatch:
    if said is None:
        return TableMatch(truth, None, 0.0, 0.0)
    return TableMatch(
        *(truth, said), table_similarity(truth, said), table_similarity(truth, said, True)
    )

"""Tables with what they hold: rows of numbers under two rows of heads, groups, and texts."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.pages.english import English, begun
from benchmarks.pages.vocabulary import ADJECTIVES, MONTHS, PLACES


@dataclass(frozen=True)
class Cell:
    """A cell that begins in a row and column and spans some; `align` is l, c or r."""

    text: str
    row: int
    column: int
    rows: int = 1
    columns: int = 1
    align: str = "l"
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """`heads` rows are heads; `wraps` are columns whose text goes on over lines."""

    cells: tuple[Cell, ...]
    rows: int
    columns: int
    heads: int
    wraps: frozenset[int] = frozenset()

    @property
    def html(self) -> str:
        rows: list[list[str]] = [[] for _ in range(self.rows)]
        for cell in sorted(self.cells, key=lambda one: (one.row, one.column)):
            spans = f' rowspan="{cell.rows}"' if cell.rows > 1 else ""
            spans += f' colspan="{cell.columns}"' if cell.columns > 1 else ""
            rows[cell.row].append(f"<td{spans}>{escape(cell.text, quote=False)}</td>")
        said = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
        return f"<table>{said}</table>"

    @property
    def text(self) -> str:
        ordered = sorted(self.cells, key=lambda one: (one.row, one.column))
        return " ".join(cell.text for cell in ordered if cell.text)


def drawn(writer: English, wide: float, merged: bool) -> Table:
    """A table for a column so wide; `merged` for one with cells over more than one place."""
    chance = writer.chance
    if merged:
        kinds = (_two_heads, _grouped, _two_heads_grouped)
        return chance.choice(kinds)(writer, _most(wide))
    if wide > 330 and chance.random() < 0.45:
        return _texts(writer)
    return _numbers(writer, _most(wide))


def _most(wide: float) -> int:
    """How many columns of numbers there is room for beside the first column."""
    return max(2, min(6, int((wide - 80) / 55)))


def _numbers(writer: English, most: int) -> Table:
    columns = writer.chance.randint(2, most)
    heads = _heads(writer.chance, columns)
    cells = [Cell(_stub(writer), 0, 0, bold=True)]
    cells += [Cell(one, 0, k + 1, align="r", bold=True) for k, one in enumerate(heads)]
    names = _names(writer, writer.chance.randint(4, 9))
    cells += _body(writer.chance, names, 1, 1, columns)
    return Table(tuple(cells), len(names) + 1, columns + 1, 1)


def _two_heads(writer: English, most: int) -> Table:
    """Pairs or triples of columns under a head over them, the first column's head over two rows."""
    chance = writer.chance
    each = 2 if most < 6 else chance.choice((2, 3))
    groups = max(1, most // each)
    cells = [Cell(_stub(writer), 0, 0, rows=2, bold=True)]
    heads = chance.sample(_SUBHEADS, each)
    for group, name in enumerate(chance.sample(_GROUPS, groups)):
        at = 1 + group * each
        cells.append(Cell(name, 0, at, columns=each, align="c", bold=True))
        cells += [Cell(one, 1, at + k, align="r", bold=True) for k, one in enumerate(heads)]
    names = _names(writer, chance.randint(4, 8))
    cells += _body(chance, names, 2, 1, groups * each)
    return Table(tuple(cells), len(names) + 2, groups * each + 1, 2)


def _grouped(writer: English, most: int) -> Table:
    """The first column's cells stand for two or three rows each."""
    chance = writer.chance
    columns = chance.randint(1, max(1, most - 2))
    heads = [_stub(writer), chance.choice(("Kind", "Class", "Season"))]
    cells = [Cell(one, 0, k, bold=True) for k, one in enumerate(heads)]
    cells += [
        Cell(one, 0, k + 2, align="r", bold=True) for k, one in enumerate(_heads(chance, columns))
    ]
    at = 1
    kinds = chance.choice((("Spring", "Autumn", "Winter"), ("small", "medium", "large")))
    for name in chance.sample(PLACES, chance.randint(2, 4)):
        each = chance.randint(2, 3)
        cells.append(Cell(name, at, 0, rows=each))
        for kind in kinds[:each]:
            cells.append(Cell(kind, at, 1))
            cells += [Cell(_value(chance, k), at, k + 2, align="r") for k in range(columns)]
            at += 1
    return Table(tuple(cells), at, columns + 2, 1)


def _two_heads_grouped(writer: English, most: int) -> Table:
    """As `_two_heads`, with lines across the whole table that name what follows."""
    plain = _two_heads(writer, most)
    chance = writer.chance
    split = chance.randint(3, plain.rows - 1)
    names = (f"{begun(one)} districts" for one in chance.sample(ADJECTIVES, 2))
    cells = []
    for cell in plain.cells:
        shift = 0 if cell.row < 2 else 1 if cell.row < split else 2
        cells.append(
            Cell(cell.text, cell.row + shift, cell.column, cell.rows, cell.columns, cell.align,
                 cell.bold)
        )  # fmt: skip
    for row, name in zip((2, split + 1), names, strict=True):
        cells.append(Cell(name, row, 0, columns=plain.columns, align="c"))
    return Table(tuple(cells), plain.rows + 2, plain.columns, 2)


def _texts(writer: English) -> Table:
    """Three or four columns, of which two hold texts of some lines."""
    chance = writer.chance
    heads = ["No.", writer.thing().capitalize(), "Remarks", "Since"][: chance.choice((3, 4))]
    cells = [Cell(one, 0, k, bold=True) for k, one in enumerate(heads)]
    rows = chance.randint(3, 5)
    for row in range(1, rows + 1):
        said = [f"{row}", writer.phrase(), _remark(writer), str(chance.randint(1950, 2024))]
        cells += [Cell(one, row, k) for k, one in enumerate(said[: len(heads)])]
    return Table(tuple(cells), rows + 1, len(heads), 1, frozenset({1, 2}))


def _remark(writer: English) -> str:
    words = writer.sentence().split()[: writer.chance.randint(6, 16)]
    return " ".join(words).rstrip(",;:.“") + "."


def _body(
    chance: random.Random, names: Sequence[str], first_row: int, first_column: int, columns: int
) -> list[Cell]:
    """Rows of a name and numbers; here and there a dash."""
    cells = []
    for row, name in enumerate(names, first_row):
        cells.append(Cell(name, row, 0))
        for k in range(columns):
            text = "–" if chance.random() < 0.04 else _value(chance, k)
            cells.append(Cell(text, row, first_column + k, align="r"))
    return cells


def _value(chance: random.Random, column: int) -> str:
    """Numbers of one kind in a column."""
    kind = (column * 7 + 3) % 4
    if kind == 0:
        return f"{chance.randint(0, 99)}.{chance.randint(0, 99):02}"
    if kind == 1:
        return f"{chance.randint(100, 98000):,}"
    if kind == 2:
        return f"{chance.randint(0, 99)}.{chance.randint(0, 9)}%"
    return str(chance.randint(3, 990))


def _heads(chance: random.Random, number: int) -> list[str]:
    if chance.random() < 0.4:
        first = chance.randint(1870, 2018)
        return [str(first + k) for k in range(number)]
    return chance.sample(_SUBHEADS, number)


def _names(writer: English, number: int) -> list[str]:
    chance = writer.chance
    kind = chance.randint(0, 2)
    if kind == 0:
        return sorted(chance.sample(PLACES, number))
    if kind == 1:
        return list(MONTHS[:number])
    things = [one.capitalize() for _, one in writer.matter.things if len(one) < 16]
    return chance.sample(things, number)


def _stub(writer: English) -> str:
    return writer.chance.choice(("District", "Town", "Group", "Item", "Region", "Series"))


_SUBHEADS = (
    "Mean", "Total", "Count", "Share", "Min.", "Max.", "Median", "Change", "Cost", "Weight", "Rank",
    "Loss",
)  # fmt: skip
_GROUPS = (
    "Before 1914", "After the war", "First survey", "Second survey", "Women", "Men", "Urban",
    "Rural", "Summer", "Winter",
)  # fmt: skip

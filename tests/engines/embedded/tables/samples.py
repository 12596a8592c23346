"""Random tables of the kinds that documents have."""

import random
from collections.abc import Callable

from tests.engines.embedded.tables.drawn import (
    ALL,
    BETWEEN_COLUMNS,
    BETWEEN_ROWS,
    HEAD,
    OUTER,
    Cell,
    Drawn,
    Rows,
    Style,
    draw,
)

NOUNS = tuple(
    word
    for line in (
        "River Alder Harbour Basin Turbine Orchard Quarry Meadow Bridge Signal Canal Valley Tower",
        "Market Engine Garden Forest Station Vessel Copper Barley Granite Lantern Saddle Compass",
    )
    for word in line.split()
)
ADJECTIVES = tuple(
    word
    for line in (
        "upper northern quiet early annual mean total coastal heavy frozen",
        "inner rapid native wooden",
    )
    for word in line.split()
)
LONG = tuple(
    word
    for line in (
        "measured at the mouth of the river before the spring flood and then compared with older",
        "records of the same place which were kept by hand in the harbour office until the war",
    )
    for word in line.split()
)
HEADS = tuple(
    word
    for line in (
        "Name Region Count Share Length Price Year Total Weight Rate Score Change Depth Speed Site",
        "Area Method Units Volume Class",
    )
    for word in line.split()
)
FONTS = ("Helvetica", "Times-Roman", "Helvetica", "Courier")


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.columns: list[str] = []

    def label(self) -> str:
        pick = self.random
        words = [pick.choice(NOUNS)]
        if pick.random() < 0.5:
            words.insert(0, pick.choice(ADJECTIVES).capitalize())
        if pick.random() < 0.2:
            words.append(str(pick.randint(1, 9)))
        return " ".join(words)

    def value(self, kind: str) -> str:
        pick = self.random
        if kind == "label":
            return self.label()
        if kind == "integer":
            return f"{pick.randint(1, 99999):,}"
        if kind == "decimal":
            return f"{pick.uniform(0, 100):.2f}"
        if kind == "percent":
            return f"{pick.uniform(0, 100):.1f}%"
        if kind == "money":
            return f"${pick.uniform(1, 9000):,.2f}"
        if kind == "signed":
            value = pick.uniform(-50, 50)
            return f"({-value:.1f})" if value < 0 else f"{value:.1f}"
        if kind == "error":
            return f"{pick.uniform(0, 9):.2f} ± {pick.uniform(0, 1):.2f}"
        if kind == "date":
            return f"{pick.randint(1, 28):02d}.{pick.randint(1, 12):02d}.{pick.randint(1990, 2024)}"
        if kind == "mark":
            return pick.choice(("yes", "no", "–", "A", "B+"))
        raise ValueError(kind)

    def wrapped(self, width: int) -> tuple[str, ...]:
        start = self.random.randrange(len(LONG) - 12)
        words = LONG[start : start + self.random.randint(3, 12)]
        lines, line = list[str](), words[0].capitalize()
        for word in words[1:]:
            if len(line) + len(word) >= width:
                lines.append(line)
                line = word
            else:
                line += " " + word
        return (*lines, line)

    def body(self, rows: int, kinds: list[str], empty: float) -> list[list[tuple[int, Cell]]]:
        kept = []
        for _ in range(rows):
            row = []
            for at, kind in enumerate(kinds):
                align = "left" if kind in ("label", "text") else self.columns[at]
                if kind == "text":
                    lines = self.wrapped(24)
                elif at and self.random.random() < empty:
                    lines = ()
                else:
                    lines = (self.value(kind),)
                row.append((at, Cell(lines, align=align)))
            kept.append(row)
        return kept

    def kinds(self, count: int, with_text: bool = False) -> list[str]:
        numbers = ("integer", "decimal", "percent", "money", "signed", "date", "mark", "error")
        picked = ["label", *(self.random.choice(numbers) for _ in range(count - 1))]
        if count > 3 and self.random.random() < 0.3:
            picked[1] = "label"
        if with_text:
            picked[-1] = "text"
        align = self.random.choice(("right", "right", "center", "left"))
        self.columns = [align] * count
        return picked

    def head(self, kinds: list[str]) -> list[tuple[int, Cell]]:
        names = self.random.sample(HEADS, len(kinds))
        return [
            (
                at,
                Cell(
                    (name,),
                    head=True,
                    align="left" if kind in ("label", "text") else self.columns[at],
                ),
            )
            for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
        ]

    def style(self, rules: set[str], **more: object) -> Style:
        pick = self.random
        given = {
            "font": pick.choice(FONTS),
            "size": pick.choice((8.0, 9.0, 10.0, 11.0)),
            "gap": pick.choice((10.0, 14.0, 20.0, 30.0)),
            "row_gap": pick.choice((2.0, 4.0, 6.0)),
            "bold_head": pick.random() < 0.7,
        }
        return Style(rules=frozenset(rules), **{**given, **more})  # type: ignore[arg-type]


def _plain(maker: _Maker, style: Style) -> tuple[Rows, Style]:
    pick = maker.random
    kinds = maker.kinds(pick.randint(3, 7))
    rows = maker.body(pick.randint(4, 14), kinds, pick.choice((0.0, 0.0, 0.15)))
    return [maker.head(kinds), *rows], style


def _wrapped(maker: _Maker, style: Style) -> tuple[Rows, Style]:
    kinds = maker.kinds(maker.random.randint(3, 5), with_text=True)
    return [maker.head(kinds), *maker.body(maker.random.randint(3, 8), kinds, 0.0)], style


def _two_heads(maker: _Maker, style: Style) -> tuple[Rows, Style]:
    pick = maker.random
    each, groups = pick.choice((2, 2, 3)), pick.choice((2, 3))
    kinds = maker.kinds(1 + each * groups)
    names = pick.sample(NOUNS, groups)
    top = [(0, Cell((), head=True))]
    low = [(0, Cell((pick.choice(HEADS),), head=True))]
    subs = pick.sample(HEADS, each)
    for group in range(groups):
        at = 1 + group * each
        top.append((at, Cell((names[group],), columns=each, head=True, align="center")))
        low += [
            (at + k, Cell((subs[k],), head=True, align=maker.columns[at + k])) for k in range(each)
        ]
    return [top, low, *maker.body(pick.randint(4, 9), kinds, 0.0)], style


def _row_groups(maker: _Maker, style: Style) -> tuple[Rows, Style]:
    pick = maker.random
    kinds = maker.kinds(pick.randint(3, 5))
    kinds[1] = "label"
    rows: list[list[tuple[int, Cell]]] = [maker.head(kinds)]
    for _ in range(pick.randint(2, 4)):
        many = pick.randint(2, 4)
        block = maker.body(many, kinds, 0.0)
        rows.append([(0, Cell((maker.label(),), rows=many)), *block[0][1:]])
        rows += [row[1:] for row in block[1:]]
    return rows, style


def _sections(maker: _Maker, style: Style) -> tuple[Rows, Style]:
    """Rows that only name what follows; below them the labels are indented."""
    pick = maker.random
    kinds = maker.kinds(pick.randint(3, 5))
    rows: list[list[tuple[int, Cell]]] = [maker.head(kinds)]
    for _ in range(pick.randint(2, 3)):
        rows.append([(0, Cell((maker.label(),))), *((k, Cell(())) for k in range(1, len(kinds)))])
        for row in maker.body(pick.randint(2, 4), kinds, 0.0):
            first = row[0][1]
            rows.append([(0, Cell(first.lines, indent=10.0)), *row[1:]])
    rows.append(
        [(0, Cell(("Total",))), *((at, cell) for at, cell in maker.body(1, kinds, 0.0)[0][1:])]
    )
    return rows, style


Shape = Callable[[_Maker, Style], tuple[Rows, Style]]
SHAPES: dict[str, Shape] = {
    "plain": _plain,
    "wrapped": _wrapped,
    "heads": _two_heads,
    "groups": _row_groups,
    "sections": _sections,
}
RULED: dict[str, tuple[set[str], dict[str, object]]] = {
    "grid": ({ALL}, {}),
    "gray": ({ALL}, {"gray": 0.75, "rule": 0.4}),
    "dashed": ({ALL}, {"dash": (2.0, 2.0)}),
    "middle": ({ALL}, {"middle": True}),
    "shaded grid": ({ALL}, {"shaded": True}),
    "dark head": ({ALL}, {"dark": True, "gray": 0.75}),
}
OPEN: dict[str, tuple[set[str], dict[str, object]]] = {
    "booktabs": ({OUTER, HEAD}, {"groups": True}),
    "rows": ({BETWEEN_ROWS}, {"gray": 0.6}),
    "columns": ({BETWEEN_COLUMNS}, {}),
    "columns and head": ({BETWEEN_COLUMNS, OUTER, HEAD}, {}),
    "bare": (set(), {}),
    "zebra": (set(), {"shaded": True}),
    "head rule": ({HEAD}, {}),
}
LOOKS = RULED | OPEN


def sample(shape: str, look: str, seed: int) -> Drawn:
    """A random table; the same for the same seed."""
    maker = _Maker(seed)
    rules, more = LOOKS[look]
    rows, style = SHAPES[shape](maker, maker.style(rules, **more))
    return draw(rows, style)

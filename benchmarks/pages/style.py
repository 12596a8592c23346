"""How a page looks, drawn at random: typefaces, sizes, margins, gutters, rules."""

import random
from dataclasses import dataclass

from benchmarks.pages.fonts import FAMILIES, GREEK_FAMILIES, HELVETICA, TIMES, VERA, Family

A4, LETTER, B5 = (595.28, 841.89), (612.0, 792.0), (498.9, 708.66)
GRID, HORIZONTAL, BOOKTABS, PLAIN = "grid", "horizontal", "booktabs", "plain"
Colour = tuple[float, float, float]
BLACK: Colour = (0.05, 0.05, 0.07)


@dataclass(frozen=True)
class Style:
    """Lengths are in points. `heads` are the sizes of a title, a section and a subsection, in
    body sizes; of sections `sections_bold` says whether they are bold, else they are only large.
    """

    paper: tuple[float, float]
    body: Family
    head: Family
    size: float
    leading: float
    indent: float
    between: float
    justified: bool
    hyphenated: bool
    margin: float
    gutter: float
    column_rule: bool
    heads: tuple[float, float, float]
    sections_bold: bool
    centred_heads: bool
    numbers: str | None
    bullet: str
    figure_word: str
    table_word: str
    caption_end: str
    number_place: str
    number_form: str
    header_rule: bool
    ink: Colour = BLACK
    paper_colour: Colour | None = None

    @property
    def small(self) -> float:
        """The size of captions, tables and notes."""
        return max(6.8, self.size - 1.2)


def drawn(chance: random.Random, columns: int, greek: bool = False, dark: bool = False) -> Style:
    """A style for pages of so many columns."""
    body = chance.choice(GREEK_FAMILIES if greek else FAMILIES)
    size = chance.uniform(*{1: (9.8, 12.0), 2: (8.8, 10.2), 3: (8.4, 9.4)}[columns])
    if body.name in ("Vera", "DejaVu Sans", "DejaVu Serif"):
        size *= 0.87
    spaced = chance.random() < 0.5
    bold = chance.random() < 0.65
    section = chance.uniform(1.12, 1.35) if bold else chance.uniform(1.4, 1.7)
    return Style(
        paper=chance.choice((A4, A4, LETTER, B5) if columns == 1 else (A4, LETTER)),
        body=body,
        head=body if greek else chance.choice((body, body, HELVETICA, VERA, TIMES)),
        size=size,
        leading=size * chance.uniform(1.16, 1.36),
        indent=0.0 if spaced else size * chance.uniform(1.0, 1.8),
        between=size * chance.uniform(0.5, 0.8) if spaced else 0.0,
        justified=chance.random() < 0.65,
        hyphenated=chance.random() < 0.6,
        margin=chance.uniform(44, 76),
        gutter=chance.uniform(13, 28),
        column_rule=chance.random() < 0.25,
        heads=(chance.uniform(1.75, 2.5), section, chance.uniform(1.0, 1.12)),
        sections_bold=bold,
        centred_heads=chance.random() < 0.2,
        numbers=chance.choice((None, None, "{}", "{}.")),
        bullet=chance.choice(("•", "•", "–", "-", "·" if body.name == "Times" else "•")),
        figure_word=chance.choice(("Figure", "Figure", "Fig.", "FIGURE")),
        table_word=chance.choice(("Table", "Table", "TABLE")),
        caption_end=chance.choice((".", ":", ".")),
        number_place=chance.choice(("centre", "right", "left", "header")),
        number_form=chance.choice(("{}", "{}", "Page {}", "– {} –", "{} of {last}")),
        header_rule=chance.random() < 0.4,
        ink=(0.93, 0.94, 0.9) if dark else chance.choice((BLACK, BLACK, (0.12, 0.15, 0.3))),
        paper_colour=chance.choice(((0.08, 0.1, 0.16), (0.16, 0.08, 0.1))) if dark else None,
    )

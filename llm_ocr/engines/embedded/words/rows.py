"""Lines of text -> rows of lines that stand side by side."""

import re
from collections.abc import Sequence
from itertools import pairwise

from llm_ocr.engines.embedded.geometry import OcrLine

# Bullets are often in fonts whose characters have no Unicode code points.
SYMBOL = re.compile("[\x80-\x9f\ue000-\uf8ff]")
# An item's bullet or number, or a section's number.
MARK = re.compile(
    rf"[•▪◦●‣○■□–]|{SYMBOL.pattern}|\(?(?:\d{{1,3}}|[A-Za-z]|[ivxIVX]{{2,5}})[.)]"
    r"|(?:[A-Z]?\d{1,2}|[A-Z])(?:\.\d{1,2})+\.?"
)


def rows_of(lines: Sequence[OcrLine]) -> list[list[OcrLine]]:
    """Lines that stand side by side, as rows from top to bottom, each from left to right."""
    rows: list[list[OcrLine]] = []
    for line in sorted(lines, key=lambda line: line.middle):
        last = rows[-1][0] if rows else None
        if last is not None and abs(line.middle - last.middle) < 0.5 * min(
            line.height, last.height
        ):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.rect[0]) for row in rows]


def text_of(row: Sequence[OcrLine]) -> str:
    """What the lines of a row say together."""
    return " ".join(line.text.strip() for line in row)


def pitches(rows: Sequence[Sequence[OcrLine]]) -> list[float]:
    """How far each row but the first is below the one above it."""
    return [below[0].rect[1] - above[0].rect[1] for above, below in pairwise(rows)]


def text_start(line: OcrLine) -> float:
    """Where a line's text begins, in pixels: behind its number or bullet."""
    first, *rest = line.words
    return rest[0].rect[0] if rest and MARK.fullmatch(first.text) else line.rect[0]

"""Lines of text -> rows of lines that stand side by side."""

import re
from collections.abc import Sequence
from dataclasses import replace

from llm_ocr.engines.embedded.geometry import OcrLine

# How far a number or bullet may be from the text that it belongs to, in line heights.
TAB = 5.0
# Bullets are often in fonts whose characters have no Unicode code points.
_SYMBOL = re.compile("[\x80-\x9f\ue000-\uf8ff]")
_MARK = re.compile(
    rf"[•▪◦●‣○■□–]|{_SYMBOL.pattern}|\(?(?:\d{{1,3}}|[A-Za-z]|[ivxIVX]{{2,5}})[.)]"
    r"|[A-Z]?\d{1,2}(?:\.\d{1,2})+\.?"
)
_BEGINS_TEXT = re.compile(r"[\"“‘'(]?[^\W\d_]")


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


def with_joined_marks(lines: Sequence[OcrLine]) -> list[OcrLine]:
    """Lines, those that are only a section's number, or an item's number or bullet, being one with
    the text behind their tab."""
    joined: list[OcrLine] = []
    for row in rows_of(lines):
        parts = [row[0]]
        for line in row[1:]:
            mark = parts[-1]
            if (
                _MARK.fullmatch(mark.text.strip())
                and _BEGINS_TEXT.match(line.text.strip())
                and 0 < line.rect[0] - mark.rect[2] < TAB * line.height
            ):
                sign = "•" if _SYMBOL.fullmatch(mark.text.strip()) else mark.text.strip()
                text = f"{sign} {line.text.strip()}"
                parts[-1] = replace(line, text=text, words=(*mark.words, *line.words))
            else:
                parts.append(line)
        joined += parts
    return joined


def text_start(line: OcrLine) -> float:
    """Where a line's text begins, in pixels: behind its number or bullet."""
    first, *rest = line.words
    return rest[0].rect[0] if rest and _MARK.fullmatch(first.text) else line.rect[0]

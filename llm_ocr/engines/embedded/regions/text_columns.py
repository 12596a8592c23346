"""Lines of text -> the columns that they run on in, whatever the layout model says."""

import re
from collections.abc import Sequence
from dataclasses import replace

from llm_ocr.engines.embedded.geometry import OcrLine, shared_columns
from llm_ocr.engines.embedded.regions.gutters import PROSE_WORDS, RUN, gutters, words_in
from llm_ocr.engines.embedded.words.rows import MARK, SYMBOL, rows_of

# Lines of one group: how far apart, as shares of their height, and how much of a size.
CLOSE = 0.7
ALIKE = 1.33
# Parts of one row are no further apart than this, in line heights; a gutter is wider.
SAME_ROW = 1.3
# A line is compared with so many of a group's last lines: a justified line of a narrow column may
# have several parts, with gaps as wide as those between columns.
WINDOW = 8
# How far a number or bullet may be from the text that it belongs to, in line heights.
TAB = 5.0
_BEGINS_TEXT = re.compile(r"[\"“‘'(]?[^\W\d_]")


def is_prose(lines: Sequence[OcrLine]) -> bool:
    """Whether most lines run on below each other in columns of text; a table's cells do not."""
    columns = [part for part in close_together(lines, CLOSE) if len(part) >= RUN]
    running = [
        part
        for part in columns
        if sum(map(words_in, part)) >= PROSE_WORDS * len(part) and _is_full(part)
    ]
    return len(columns) > 0 and sum(map(len, running)) > 0.6 * len(lines)


def _is_full(lines: Sequence[OcrLine]) -> bool:
    """Whether most of a column's lines reach from its left edge to its right one."""
    left, right = min(line.rect[0] for line in lines), max(line.rect[2] for line in lines)
    full = sum(line.rect[2] - line.rect[0] > 0.8 * (right - left) for line in lines)
    return full > 0.6 * len(lines)


def close_together(lines: Sequence[OcrLine], closeness: float) -> list[list[OcrLine]]:
    """Lines close below or beside each other and of one size."""
    found: list[list[OcrLine]] = []
    between = gutters(lines)
    for line in sorted(lines, key=lambda line: (line.rect[1], line.rect[0])):
        fitting = (
            group
            for group in reversed(found)
            if (
                any(_beside(other, line) for other in group[-WINDOW:])
                or any(follows(other, line, closeness) for other in group[-WINDOW:])
            )
            and not any(
                gutter.divides(other, line) for gutter in between for other in group[-WINDOW:]
            )
        )
        group = next(fitting, None)
        if group is None:
            found.append([line])
        else:
            group.append(line)
    return found


def follows(above: OcrLine, line: OcrLine, closeness: float) -> bool:
    """Whether a line is of one size with another, and no further below it than `closeness` of their
    height."""
    gap = line.rect[1] - above.rect[3]
    narrower = min(above.rect[2] - above.rect[0], line.rect[2] - line.rect[0])
    return (
        gap < closeness * min(above.height, line.height)
        and line.rect[1] > above.rect[1] + 0.3 * above.height
        and shared_columns(above.rect, line.rect) > 0.3 * narrower
        and 1 / ALIKE < line.height / above.height < ALIKE
        and above.bold == line.bold
    )


def is_apart(left: OcrLine, right: OcrLine) -> bool:
    """Whether parts of a row are further apart than those of one line."""
    return right.rect[0] - left.rect[2] > SAME_ROW * min(left.height, right.height)


def _beside(one: OcrLine, line: OcrLine) -> bool:
    gap, height = -shared_columns(one.rect, line.rect), min(one.height, line.height)
    return (
        abs(one.middle - line.middle) < 0.5 * height
        and -0.5 * line.height < gap < SAME_ROW * height
    )


def with_joined_marks(lines: Sequence[OcrLine]) -> list[OcrLine]:
    """Lines, those that are only a section's number, or an item's number or bullet, being one with
    the text behind their tab."""
    between = gutters(lines)
    joined: list[OcrLine] = []
    for row in rows_of(lines):
        parts = [row[0]]
        for line in row[1:]:
            mark = parts[-1]
            if (
                MARK.fullmatch(mark.text.strip())
                and _BEGINS_TEXT.match(line.text.strip())
                and not any(gutter.divides(mark, line) for gutter in between)
                and 0 < line.rect[0] - mark.rect[2] < TAB * line.height
            ):
                sign = "•" if SYMBOL.fullmatch(mark.text.strip()) else mark.text.strip()
                text = f"{sign} {line.text.strip()}"
                parts[-1] = replace(line, text=text, words=(*mark.words, *line.words))
            else:
                parts.append(line)
        joined += parts
    return joined

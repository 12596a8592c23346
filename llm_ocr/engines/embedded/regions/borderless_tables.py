"""Tables that the detector missed, by how lines stand: rows of several parts below each other."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from llm_ocr.engines.embedded.geometry import (
    OcrLine,
    Rect,
    hull,
    inside,
    is_aligned,
    lies_in,
    shared_columns,
    typical_height,
)
from llm_ocr.engines.embedded.regions.captions import names_table
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.regions.text_columns import (
    SAME_ROW,
    Gutter,
    gutters,
    is_prose,
    words_in,
)
from llm_ocr.engines.embedded.words.rows import rows_of

# Rows of a table follow each other within so many line heights; a caption is as near.
FOLLOWING = 1.8
# A table has so many rows of several parts; without a caption, most of at least three parts, or
# sums below them, with this share of numbers, or all of a label and its value.
CAPTIONED_ROWS, ROWS, PARTS, MOSTLY, NUMBERS = 3, 4, 3, 0.7, 0.3
# So many of the parts stand below those of other rows, and edges are the same up to this.
ALIGNED, SAME_EDGE = 0.7, 0.7
# A row of one part within a table has no more words, and more than this share of the parts have
# more only in columns of text.
LABEL_WORDS, WORDY = 4, 0.5
# A column of labels has one for so many of its table's rows, and is no further from it, in heights.
LABELED, FAR = 0.6, 15.0
# The head of a table of so many columns is no further above it, in heights.
HEADED_COLUMNS, NEAR_HEAD = 3, 1.2
# What a table covers so much of, or what holds so much of a table, is no region of text.
COVERED = 0.7
# Of labels with their values so many have no number themselves.
LABELED_ROWS = 0.6
_DIGIT = re.compile(r"\d")
_YEAR = re.compile(r"(19|20)\d\d\b")


@dataclass(frozen=True)
class _Row:
    """Lines side by side, with no gutter between them."""

    parts: tuple[OcrLine, ...]
    rect: Rect

    @property
    def is_wide(self) -> bool:
        return len(self.parts) > 1

    @property
    def is_label(self) -> bool:
        return words_in(self.parts[0]) <= LABEL_WORDS


def with_aligned_tables(regions: Sequence[Region], lines: Sequence[OcrLine]) -> list[Region]:
    """Regions with those of such tables, in place of regions of text around them or in them."""
    known = [region.rect for region in regions if region.label in ("table", "figure")]
    free = [line for line in lines if not inside(line, known)]
    found = _areas(free)
    kept = [
        region
        for region in regions
        if region.label in ("table", "figure")
        or not any(lies_in(region.rect, one, COVERED) for one in found)
    ]
    return [*kept, *(Region("table", one, 1.0) for one in found)]


def _areas(lines: Sequence[OcrLine]) -> list[Rect]:
    found = []
    height = typical_height(lines) if lines else 0.0
    for run in _runs(_rows(lines, gutters(lines)), height):
        rows = run if _is_table(run, _has_caption(run, lines, height)) else _labels_and_values(run)
        inner = [line for row in rows for line in row.parts]
        if inner and not is_prose(inner):
            found.append(hull(line.rect for line in inner))
    return found


def _labels_and_values(run: Sequence[_Row]) -> list[_Row]:
    """The last two parts of all rows, if they are labels with their values beside something else,
    such as an address, from which they stand further than from each other."""
    rows = []
    for row in run:
        if row.is_wide:
            *beside, label, value = row.parts
            rows.append(_row((label, value)))
            gap = value.rect[0] - label.rect[2]
            if any(label.rect[0] - one.rect[2] < gap for one in beside):
                return []
    return rows if _is_of_values(rows) and _is_table(rows, is_captioned=False) else []


def _rows(lines: Sequence[OcrLine], between: Sequence[Gutter]) -> list[_Row]:
    found: list[_Row] = []
    for row in rows_of(lines):
        parts = [row[0]]
        for left, right in pairwise(row):
            if any(gutter.divides(left, right) for gutter in between):
                found.append(_row(parts))
                parts = []
            parts.append(right)
        found.append(_row(parts))
    return found


def _row(lines: Sequence[OcrLine]) -> _Row:
    """Lines that stand close are one part, which its first line stands for where edges count."""
    rect = hull(line.rect for line in lines)
    gaps = [right.rect[0] - left.rect[2] for left, right in pairwise(lines)]
    limit = SAME_ROW * lines[0].height
    return _Row(tuple(lines) if any(gap > limit for gap in gaps) else (lines[0],), rect)


def _runs(rows: Sequence[_Row], height: float) -> list[list[_Row]]:
    """Rows that follow each other, from one of several parts to another."""
    runs: list[list[_Row]] = []
    for row in rows:
        home = next((run for run in reversed(runs) if _follows(run, row, height)), None)
        if home is not None:
            home.append(row)
        elif row.is_wide:
            runs.append([row])
    return [_to_last_wide(run) for run in runs]


def _follows(run: Sequence[_Row], row: _Row, height: float) -> bool:
    last = run[-1]
    if not (last.is_wide or last.is_label):
        return False
    narrower = min(last.rect[2] - last.rect[0], row.rect[2] - row.rect[0])
    whole = hull(one.rect for one in run)
    return (
        row.rect[1] - last.rect[3] < FOLLOWING * height
        and shared_columns(whole, row.rect) > 0.5 * narrower
        and row.rect[0] > whole[0] - 3 * height
    )


def _to_last_wide(run: Sequence[_Row]) -> list[_Row]:
    last = max(k for k, row in enumerate(run) if row.is_wide)
    return [row for row in run[: last + 1] if row.is_wide or row.is_label]


def _has_caption(run: Sequence[_Row], lines: Sequence[OcrLine], height: float) -> bool:
    x1, y1, x2, y2 = hull(row.rect for row in run)
    return any(
        names_table(line.text)
        and min(abs(y1 - line.rect[3]), abs(line.rect[1] - y2)) < FOLLOWING * height
        and shared_columns((x1, y1, x2, y2), line.rect) > 0
        for line in lines
    )


def _is_table(run: Sequence[_Row], is_captioned: bool) -> bool:
    wide = [row for row in run if row.is_wide]
    parts = [part for row in wide for part in row.parts]
    wordy = sum(words_in(part) > LABEL_WORDS for part in parts)
    fewest = CAPTIONED_ROWS if is_captioned or _is_of_values(wide) else ROWS
    if len(wide) < fewest or wordy > WORDY * len(parts):
        return False
    full = wide
    if not is_captioned and not _is_of_values(wide):
        full = [row for row in wide if len(row.parts) >= PARTS]
        numbers = sum(map(_is_value, parts))
        sums = sum(_is_sum(row, full) for row in wide if row not in full)
        if len(full) + sums < MOSTLY * len(wide) or numbers < NUMBERS * len(parts):
            return False
    below = sum(_has_mate(part, row, full) for row in wide for part in row.parts)
    return below >= ALIGNED * len(parts)


def _is_sum(row: _Row, full: Sequence[_Row]) -> bool:
    """Whether a row is a label and its value below the columns of full rows."""
    return (
        len(full) > 1
        and _is_value(row.parts[-1])
        and all(_has_mate(part, row, full) for part in row.parts)
    )


def _is_value(part: OcrLine) -> bool:
    """A number, or one with its unit: 12.50, CHF 12.50, 28 h."""
    return words_in(part) == 0 or (words_in(part) == 1 and _DIGIT.search(part.text) is not None)


def _is_of_values(rows: Sequence[_Row]) -> bool:
    """Whether rows are a label each and its value, as on a bill: 12 March, or £12.50; or, below
    heads for both, a range each and its number: 20-29, 0.265; or years and what was done in them,
    as in a CV."""
    if any(len(row.parts) != 2 for row in rows):
        return False
    years = [_YEAR.match(row.parts[0].text) and words_in(row.parts[0]) == 0 for row in rows]
    if all(years) and all(words_in(row.parts[1]) > 0 for row in rows):
        return True
    numbered = [[_DIGIT.search(part.text) is not None for part in row.parts] for row in rows]
    headed = not any(numbered[0])
    values = numbered[headed:]
    labels = sum(not label for label, _ in values)
    numbers = headed and all(words_in(part) == 0 for row in rows[1:] for part in row.parts)
    return all(value for _, value in values) and (numbers or labels >= LABELED_ROWS * len(values))


def _has_mate(part: OcrLine, row: _Row, rows: Sequence[_Row]) -> bool:
    """Whether an edge, or the middle, of a part is one in half of the other rows too."""
    others = [one for one in rows if one is not row]
    mates = sum(any(_in_line(part, other) for other in one.parts) for one in others)
    return mates >= 0.5 * len(others)


def with_label_column(table: Rect, lines: Sequence[OcrLine]) -> Rect:
    """A table with the column of short texts left of it, one for most of its rows: the detector
    often leaves one out that stands far from the others."""
    rows = rows_of([line for line in lines if inside(line, [table])])
    beside = [
        line
        for line in lines
        if table[1] - line.height < line.middle < table[3] + line.height
        and -0.3 * line.height < table[0] - line.rect[2] < FAR * line.height
    ]
    labels = [line for line in beside if words_in(line) <= LABEL_WORDS]
    labeled = [
        row
        for row in rows
        if any(abs(row[0].middle - one.middle) < 0.5 * one.height for one in labels)
    ]
    if not labels or len(labels) < len(beside) or len(labeled) < LABELED * len(rows):
        return table
    aligned = [line for line in labels if _in_line(line, labels[-1])]
    if len(aligned) < ALIGNED * len(labels):
        return table
    return hull((table, *(line.rect for line in labels)))


def with_head_row(table: Rect, lines: Sequence[OcrLine]) -> Rect:
    """A table with the row right above it, of a few words each over columns of their own: the
    detector often leaves the head out."""
    inner = [line for line in lines if inside(line, [table])]
    known = set(map(id, inner))
    columns = _merge_near(sorted((line.rect for line in inner), key=lambda rect: rect[0]), 0.0)
    above = [
        line
        for line in lines
        if line.rect[1] < table[1]
        and shared_columns(line.rect, table) > 0
        and id(line) not in known
    ]
    if len(columns) < HEADED_COLUMNS or not above:
        return table
    row = rows_of(above)[-1]
    words = [word.rect for line in row for word in line.words]
    parts = _merge_near(words, row[0].height)
    over = [[k for k, one in enumerate(columns) if shared_columns(one, rect) > 0] for rect in parts]
    headed = [k for found in over for k in found]
    gap = min(line.rect[1] for line in inner) - max(rect[3] for rect in words)
    is_head = (
        gap < NEAR_HEAD * row[0].height
        and len(parts) >= min(HEADED_COLUMNS, len(columns) - 1)
        and len(words) <= LABEL_WORDS * len(parts)
        and all(over)
        and len(headed) == len(set(headed))
    )
    return hull((table, *parts)) if is_head else table


def _merge_near(rects: Sequence[Rect], gap: float) -> list[Rect]:
    """Rectangles from left to right, those with a smaller gap between them as one."""
    parts: list[Rect] = []
    for rect in rects:
        if parts and -shared_columns(parts[-1], rect) < gap:
            parts[-1] = hull((parts[-1], rect))
        else:
            parts.append(rect)
    return parts


def _in_line(part: OcrLine, other: OcrLine) -> bool:
    return is_aligned(part.rect, other.rect, SAME_EDGE * part.height)

"""Which parts of a page are figures: what the detector says, the images of a PDF, and the text
that lies in them."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import cv2
import numpy as np

from llm_ocr.engines.embedded.geometry import (
    OcrLine,
    Rect,
    apart,
    area,
    hull,
    overlap,
    shared_columns,
)
from llm_ocr.engines.embedded.regions.captions import begins_caption, names_figure, names_table
from llm_ocr.engines.embedded.regions.gutters import words_in
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.regions.text_columns import CLOSE, close_together, with_joined_marks
from llm_ocr.engines.embedded.words.recognize import Image
from llm_ocr.engines.embedded.words.rows import rows_of, text_start

# Regions are called figures only above this share of the page, and not above the other one when
# there is text to read on it: a whole handwritten page looks like one figure to the detector.
SMALLEST, LARGEST = 0.01, 0.7
# Images no further apart than this, in pixels of the page, are parts of one.
TOUCHING = 2.0
# A figure that is as large as this with so many words holds what the page says.
LARGE, PROSE_WORDS = 0.25, 40
# A figure's caption is no further below it, in line heights.
CAPTION_GAP = 2.0
# Prose that a figure ends with, or begins with, is cut off it.
CUT_WORDS, CUT_MEAN = 9, 3.0
# What is drawn differs from its ground by this (0..255), and is thicker than this share of the
# page's width: about two millimeters.
INKED, THICK = 24, 0.01
# The dark edge of a scan covers at most this share of a figure at the page's edge.
EDGE = 0.34
# Less than this share of its height is left of a figure that was mostly prose.
REST = 0.34
# A row of so many parts, of hardly more words, is an axis's labels.
LABELS = 4
# A list's number or bullet has at most so many characters.
LONGEST_MARK = 3
# So is a column of so many lines with so many words each, beside what is drawn.
COLUMN_LINES, COLUMN_WORDS, LEAST_WIDTH = 4, 3.0, 0.2


def figures(
    regions: Sequence[Region], pictures: Sequence[Rect], lines: Sequence[OcrLine], page: float
) -> list[Rect]:
    """The figures of a page of `page` pixels in all."""
    found: list[Rect] = []
    drawn = [region.rect for region in regions if region.label == "figure"]
    for whole in _merge([*drawn, *_images(pictures, page)]):
        rect = _without_columns(whole, [line for line in lines if inside(line, [whole])])
        share = area(rect) / page
        if share < SMALLEST:
            continue
        inner = [line for line in lines if inside(line, [rect])]
        if (share > LARGEST and inner) or _holds_page(rect, page, lines) or _is_text(inner):
            continue
        cut = _without_prose(rect, inner)
        if area(cut) >= SMALLEST * page:
            # A line that is not said, because most of it is in the figure, is seen there whole.
            found.append(hull((cut, *(line.rect for line in inner if inside(line, [cut])))))
    return found


def is_drawn(
    image: Image, rect: Rect, found: Sequence[Rect], lines: Sequence[OcrLine] = ()
) -> bool:
    """Whether a figure shows anything on its page (height x width x 3, BGR) but its lines, rules
    and specks, and the dark edge of a scan.

    `found` are figures as they were before prose was cut off them. Of one that was mostly prose the
    edge of what stood around it may be left, say of a stamp: that is no figure.
    """
    x1, y1, x2, y2 = (max(0, int(value)) for value in rect)
    crop = image[y1:y2, x1:x2]
    if min(crop.shape[:2]) < 4:
        return False
    gray = cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY).astype(np.int16)
    inked = (np.abs(gray - np.median(gray)) > INKED).astype(np.uint8)
    for line in lines:
        left, top, right, bottom = (int(value) for value in line.rect)
        inked[max(0, top - y1) : max(0, bottom - y1), max(0, left - x1) : max(0, right - x1)] = 0
    thick = max(4.0, THICK * image.shape[1])
    stats: Any = cv2.connectedComponentsWithStats(inked)[2][1:]
    parts = [
        one
        for one in stats
        if min(one[2], one[3]) > thick
        and (one[4] > EDGE * inked.size or not _is_at_edge(one, (x1, y1), image))
    ]
    whole = max(found, key=lambda one: overlap(one, rect), default=rect)
    if rect[3] - rect[1] < REST * (whole[3] - whole[1]):
        above, below = rect[1] > whole[1] + 1, rect[3] < whole[3] - 1
        tall = crop.shape[0]
        cut = [
            one for one in parts if (above and one[1] == 0) or (below and one[1] + one[3] == tall)
        ]
        return len(parts) > len(cut)
    return bool(parts)


def _is_at_edge(part: Sequence[int], origin: tuple[int, int], image: Image) -> bool:
    """Whether a part of a figure (left, top, width, height), which begins at `origin`, reaches an
    edge of the page (height x width x 3, BGR)."""
    left, top = part[0] + origin[0], part[1] + origin[1]
    height, width = image.shape[:2]
    return min(left, top) <= 0 or left + part[2] >= width or top + part[3] >= height


def with_tables(regions: Sequence[Region], lines: Sequence[OcrLine], page: float) -> list[Region]:
    """Regions, what the detector calls a figure but is rows of several cells being a table, and
    what is labels with their values, or holds what the page says, being none.

    What it calls a figure of a whole page is one that it knows nothing of, as of a newspaper.
    """
    found: list[Region] = []
    for region in regions:
        inner = [line for line in lines if inside(line, [region.rect])]
        share = area(region.rect) / page
        if region.label != "figure":
            found.append(region)
        elif share < LARGEST and _is_table(inner):
            found.append(replace(region, label="table"))
        elif not (_holds_page(region.rect, page, lines) or _is_sum(rows_of(inner))):
            rest = _without_columns(region.rect, inner)
            if not _is_text([line for line in inner if inside(line, [rest])]):
                found.append(region)
    return found


def _holds_page(rect: Rect, page: float, lines: Sequence[OcrLine]) -> bool:
    """Whether a figure is so large a share of the page, with so many words, that it is none. One
    with its caption below it may have many."""
    words = sum(len(line.text.split()) for line in lines if inside(line, [rect]))
    return area(rect) > LARGE * page and words > PROSE_WORDS and not _is_captioned(rect, lines)


def _is_captioned(rect: Rect, lines: Sequence[OcrLine]) -> bool:
    return any(
        names_figure(line.text)
        and begins_caption(line.text)
        and shared_columns(line.rect, rect) > 0
        and abs(line.rect[1] - rect[3]) < CAPTION_GAP * line.height
        for line in lines
    )


def inside(line: OcrLine, rects: Sequence[Rect]) -> bool:
    return any(overlap(line.rect, rect) > 0.6 * area(line.rect) for rect in rects)


def _images(pictures: Sequence[Rect], page: float) -> list[Rect]:
    """The images that may be figures, those that touch each other being one: backgrounds are often
    cut in strips. A larger one is the page's background."""
    joined: list[Rect] = []
    for picture in pictures:
        touching = [one for one in joined if apart(one, picture) <= TOUCHING]
        joined = [one for one in joined if one not in touching]
        joined.append(hull((picture, *touching)))
    return [rect for rect in joined if SMALLEST * page <= area(rect) < LARGEST * page]


def _merge(rects: Sequence[Rect]) -> list[Rect]:
    """Rectangles none of which lies by half in another: what does is one with it."""
    merged: list[Rect] = []
    for rect in sorted(rects, key=area, reverse=True):
        for k, other in enumerate(merged):
            if overlap(rect, other) > 0.5 * min(area(rect), area(other)):
                merged[k] = hull((rect, other))
                break
        else:
            merged.append(rect)
    return merged


def _words(row: Sequence[OcrLine]) -> int:
    return sum(map(words_in, row))


def _is_text(inner: Sequence[OcrLine]) -> bool:
    """Whether lines close below each other, with one left edge, are all that a region has."""
    rows = rows_of(with_joined_marks(inner))
    if len(rows) < 4 or sum(_words(row) > 0 for row in rows) < 0.7 * len(rows):
        return False
    height = statistics.median(line.height for line in inner)
    left = statistics.median(text_start(row[0]) for row in rows)
    aligned = sum(abs(text_start(row[0]) - left) < 0.6 * height for row in rows)
    tall = rows[-1][0].rect[3] - rows[0][0].rect[1]
    return aligned >= 0.8 * len(rows) and tall < 2.2 * height * len(rows)


def _is_sum(rows: Sequence[Sequence[OcrLine]]) -> bool:
    """Whether two rows or three are labels with their values, as below a bill."""
    if len(rows) not in (2, 3) or any(len(row) != 2 or not _words(row[:1]) for row in rows):
        return False
    height = rows[0][0].height
    lefts, rights = [row[0].rect[0] for row in rows], [row[1].rect[2] for row in rows]
    tall = rows[-1][0].rect[3] - rows[0][0].rect[1]
    even = max(max(one) - min(one) for one in (lefts, rights)) < 0.6 * height
    return even and tall < 2.2 * height * len(rows)


def _is_table(inner: Sequence[OcrLine]) -> bool:
    """Whether most rows have several parts, of which most stand below those of another row."""
    rows = rows_of(inner)
    wide = [row for row in rows if len(row) >= 3]
    if len(wide) < 3 or len(wide) < 0.6 * len(rows):
        return False
    below = sum(_has_column(line, row) for row in wide for line in inner if line not in row)
    return below > 0.6 * sum(len(row) for row in wide) * (len(wide) - 1)


def _has_column(line: OcrLine, row: Sequence[OcrLine]) -> bool:
    return any(
        min(abs(line.rect[side] - other.rect[side]) for side in (0, 2)) < 0.7 * line.height
        or abs(line.rect[0] + line.rect[2] - other.rect[0] - other.rect[2]) < line.height
        for other in row
    )


def _without_prose(figure: Rect, inner: Sequence[OcrLine]) -> Rect:
    rows = rows_of(inner)
    below = _run(rows[::-1])
    above = _run(rows[: len(rows) - len(below)])
    x1, y1, x2, y2 = figure
    if below:
        y2 = min(y2, min(line.rect[1] for row in below for line in row) - 1)
    if above:
        y1 = max(y1, max(line.rect[3] for row in above for line in row) + 1)
    return x1, y1, x2, max(y1, y2)


def _without_columns(figure: Rect, inner: Sequence[OcrLine]) -> Rect:
    """A figure without the columns of text beside it; nothing, if hardly more is left."""
    x1, _, x2, _ = figure
    middle = (x1 + x2) / 2
    for part in close_together(inner, CLOSE):
        if len(part) < COLUMN_LINES or _words(part) < COLUMN_WORDS * len(part):
            continue
        left, _, right, _ = hull(line.rect for line in part)
        if right < middle:
            x1 = max(x1, right + 1)
        elif left > middle:
            x2 = min(x2, left - 1)
    if x2 - x1 < LEAST_WIDTH * (figure[2] - figure[0]):
        x2 = x1
    return x1, figure[1], x2, figure[3]


def _is_parted(row: Sequence[OcrLine]) -> bool:
    """Whether a row's parts stand far apart, or are many of a word each, as an axis's labels; a
    list's item may stand so far behind its number."""
    if len(row) >= LABELS and _words(row) < 2 * len(row):
        return True
    gaps = [right.rect[0] - left.rect[2] for left, right in pairwise(row)]
    marked = gaps[1:] if len(row[0].text) <= LONGEST_MARK else gaps
    return max(marked, default=0.0) > 2.5 * row[0].height


def _run(rows: Sequence[list[OcrLine]]) -> list[list[OcrLine]]:
    """The rows from the edge on that are prose or a caption, if there is enough of it."""
    run: list[list[OcrLine]] = []
    for row in rows:
        split = _is_parted(row)
        if split or (_words(row) < 2 and not (run and _words(row))):
            break
        run.append(row)
        if names_figure(row[0].text) or names_table(row[0].text):
            return run
    words = sum(_words(row) for row in run)
    return run if words >= CUT_WORDS and words >= CUT_MEAN * len(run) else []

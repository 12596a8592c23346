"""Which parts of a page are figures: what the detector says, the images of a PDF, what stands above
a figure's caption and is no text; and the text that lies in them."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

import cv2
import numpy as np

from llm_ocr.engines.embedded.geometry import (
    OcrLine,
    Rect,
    apart,
    area,
    hull,
    inside,
    is_aligned,
    lies_in,
    overlap,
    shared_columns,
    typical_height,
)
from llm_ocr.engines.embedded.regions.captions import begins_caption, names_figure, names_table
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.regions.text_columns import (
    CLOSE,
    close_together,
    gutters,
    with_joined_marks,
    words_in,
)
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
# What a PDF's images cover so much of consists of these.
IMAGE = 0.4
# Rows with so many words, in all and each, are prose; and so are so many lines of a column.
CUT_WORDS, CUT_MEAN, COLUMN_LINES = 9, 3.0, 4
# A row of so many parts, of hardly more words, is an axis's labels; a list's number or bullet has
# at most so many characters.
LABELS, LONGEST_MARK = 4, 3
# Of a table's rows so many have several parts, and of these so many stand below each other's.
CELLS = 0.6
# Less than this share of its height is left of a figure that was mostly prose.
REST = 0.34
# What is drawn differs from its ground by this (0..255), and is thicker than this share of the
# page's width: about two millimeters.
INKED, THICK = 24, 0.01
# The dark edge of a scan covers at most this share of a figure at the page's edge.
EDGE = 0.34
# A figure's labels are of so few words, and no wider than this share of its column.
FEW_WORDS, NARROW = 3, 0.6
# What is only known by its labels has so many of them, and is so high, in line heights.
FEWEST, LOWEST = 3, 3.0
# Nothing in a figure is further from the next label, or from the caption, in line heights.
FAR = 14.0


def with_figures(
    regions: Sequence[Region], pictures: Sequence[Rect], lines: Sequence[OcrLine], image: Image
) -> list[Region]:
    """Regions of an image (height x width x 3, BGR), its figures being what is drawn without the
    prose around it; `pictures` are images that the page is known to have.

    What the detector calls a figure but is rows of cells is a table, and what is lines of text, or
    holds what the page says, is none.
    """
    page = float(image.shape[0] * image.shape[1])
    found: list[Region] = []
    drawn: list[Rect] = []
    for region in regions:
        inner = [line for line in lines if inside(line, [region.rect])]
        if region.label != "figure":
            found.append(region)
        elif area(region.rect) < LARGEST * page and _is_table(inner):
            found.append(replace(region, label="table"))
        else:
            drawn.append(region.rect)
    # Backgrounds are often cut in strips; a larger image is the page's background.
    images = _merge(pictures, lambda one, other: apart(one, other) <= TOUCHING)
    images = [one for one in images if SMALLEST * page <= area(one) < LARGEST * page]
    for rect in _merge([*drawn, *images], partial(lies_in, share=0.5)):
        part = _drawn_part(rect, lines, images, page)
        if part is not None and _drawings(image, part, lines):
            # A line that is not said, because most of it is in the figure, is seen there whole.
            whole = hull((part, *(one.rect for one in lines if inside(one, [part]))))
            found.append(Region("figure", whole, 1.0))
    return found


def _drawn_part(
    figure: Rect, lines: Sequence[OcrLine], images: Sequence[Rect], page: float
) -> Rect | None:
    """A figure without its prose; None where it is no figure, but holds what the page says."""
    words = sum(len(line.text.split()) for line in lines if inside(line, [figure]))
    holds_page = area(figure) > LARGE * page and words > PROSE_WORDS
    rect = _without_columns(figure, [line for line in lines if inside(line, [figure])])
    inner = [line for line in lines if inside(line, [rect])]
    is_page = area(rect) > LARGEST * page and inner
    if is_page or _is_text(inner) or (holds_page and not _is_captioned(figure, lines)):
        return None
    known = [one for one in images if lies_in(rect, one, share=0.5)]
    is_image = sum(map(area, known)) > IMAGE * area(rect)
    part = _without_prose(rect, inner, hull(known) if is_image else rect)
    is_rest = part[3] - part[1] < REST * (figure[3] - figure[1])
    return None if is_rest or area(part) < SMALLEST * page else part


def _drawings(image: Image, rect: Rect, lines: Sequence[OcrLine]) -> list[Rect]:
    """What a figure shows on its page (height x width x 3, BGR) but its lines, rules and specks,
    and the dark edge of a scan."""
    x1, y1, x2, y2 = (max(0, int(value)) for value in rect)
    crop = image[y1:y2, x1:x2]
    if min(crop.shape[:2]) < 4:
        return []
    gray = cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY).astype(np.int16)
    inked = (np.abs(gray - np.median(gray)) > INKED).astype(np.uint8)
    for line in lines:
        left, top, right, bottom = (int(value) for value in line.rect)
        inked[max(0, top - y1) : max(0, bottom - y1), max(0, left - x1) : max(0, right - x1)] = 0
    thick = max(4.0, THICK * image.shape[1])
    stats: Any = cv2.connectedComponentsWithStats(inked)[2][1:]
    return [
        (x1 + x, y1 + y, x1 + x + width, y1 + y + height)
        for x, y, width, height, size in stats.tolist()
        if min(width, height) > thick
        and (size > EDGE * inked.size or not _is_at_edge(x1 + x, y1 + y, width, height, image))
    ]


def _is_at_edge(x: int, y: int, width: int, height: int, image: Image) -> bool:
    return min(x, y) <= 0 or x + width >= image.shape[1] or y + height >= image.shape[0]


def _is_table(inner: Sequence[OcrLine]) -> bool:
    """Whether most rows have several parts, of which most stand below those of another row."""
    rows = rows_of(inner)
    wide = [row for row in rows if len(row) >= 3]
    below = sum(
        any(is_aligned(line.rect, other.rect, 0.7 * line.height) for other in row)
        for row in wide
        for line in inner
        if line not in row
    )
    most = CELLS * sum(map(len, wide)) * (len(wide) - 1)
    return len(wide) >= max(3, CELLS * len(rows)) and below > most


def _is_captioned(rect: Rect, lines: Sequence[OcrLine]) -> bool:
    return any(
        _is_caption(line.text)
        and shared_columns(line.rect, rect) > 0
        and abs(line.rect[1] - rect[3]) < CAPTION_GAP * line.height
        for line in lines
    )


def _merge(rects: Sequence[Rect], are_one: Callable[[Rect, Rect], bool]) -> list[Rect]:
    merged: list[Rect] = []
    for rect in sorted(rects, key=area, reverse=True):
        same = [one for one in merged if are_one(one, rect)]
        merged = [*(one for one in merged if one not in same), hull((rect, *same))]
    return merged


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


def _words(row: Sequence[OcrLine]) -> int:
    return sum(map(words_in, row))


def _without_columns(figure: Rect, inner: Sequence[OcrLine]) -> Rect:
    """A figure without the columns of prose beside what is drawn."""
    x1, top, x2, bottom = figure
    middle = (x1 + x2) / 2
    for part in close_together(inner, CLOSE):
        if len(part) >= COLUMN_LINES and _words(part) >= CUT_MEAN * len(part):
            left, _, right, _ = hull(line.rect for line in part)
            x1 = max(x1, right + 1) if right < middle else x1
            x2 = min(x2, left - 1) if left > middle else x2
    return x1, top, x2, bottom


def _without_prose(figure: Rect, inner: Sequence[OcrLine], image: Rect) -> Rect:
    """A figure without the rows of prose or captions that it begins and ends with, or rows of words
    beyond the image in it."""
    rows = rows_of(inner)
    below = _prose(rows[::-1]) or _from_edge(rows[::-1], lambda line: line.middle > image[3])
    rest = rows[: len(rows) - len(below)]
    above = _prose(rest) or _from_edge(rest, lambda line: line.middle < image[1])
    left, top, right, bottom = figure
    top = max([top, *(line.rect[3] + 1 for row in above for line in row)])
    bottom = min([bottom, *(line.rect[1] - 1 for row in below for line in row)])
    return left, top, right, bottom


def _prose(rows: Sequence[list[OcrLine]]) -> list[list[OcrLine]]:
    """The rows from the edge on that are prose or a caption, if there is enough of it."""
    run: list[list[OcrLine]] = []
    for row in rows:
        if _is_parted(row) or _words(row) < (1 if run else 2):
            break
        run.append(row)
        if names_figure(row[0].text) or names_table(row[0].text):
            return run
    words = sum(map(_words, run))
    return run if words >= max(CUT_WORDS, CUT_MEAN * len(run)) else []


def _from_edge(
    rows: Sequence[list[OcrLine]], is_beyond: Callable[[OcrLine], bool]
) -> list[list[OcrLine]]:
    """The rows of words from the edge on that are beyond an image."""
    return list(
        takewhile(lambda row: _words(row) > 1 and not _is_parted(row) and is_beyond(row[0]), rows)
    )


def _is_parted(row: Sequence[OcrLine]) -> bool:
    """Whether a row's parts stand far apart, or are many of a word each, as an axis's labels; a
    list's item may stand so far behind its number."""
    if len(row) >= LABELS and _words(row) < 2 * len(row):
        return True
    gaps = [right.rect[0] - left.rect[2] for left, right in pairwise(row)]
    marked = gaps[1:] if len(row[0].text) <= LONGEST_MARK else gaps
    return max(marked, default=0.0) > 2.5 * row[0].height


def with_captioned_figures(
    regions: Sequence[Region], lines: Sequence[OcrLine], image: Image
) -> list[Region]:
    """Regions of an image, figures reaching down to their captions, with those that only a caption,
    and labels or a drawing above it, tell of."""
    found = list(regions)
    height = typical_height(lines) if lines else 0.0
    for caption in (line for line in lines if _is_caption(line.text)):
        figures = [one.rect for one in found if one.label == "figure"]
        labels = _labels(caption, _column(caption, lines), lines, figures, height)
        if not labels:
            drawing = _drawing_above(caption, lines, image)
            is_new = all(overlap(drawing, one) == 0 for one in figures)
            if is_new and drawing[3] - drawing[1] > LOWEST * height:
                found.append(Region("figure", drawing, 1.0))
            continue
        rect = hull(line.rect for line in labels)
        rect = min(rect[0], caption.rect[0]), rect[1], max(rect[2], caption.rect[2]), rect[3]
        above = [one for one in figures if _stands_on(one, rect, height)]
        is_figure = len(labels) >= FEWEST and rect[3] - rect[1] > LOWEST * height
        if above or (is_figure and _drawings(image, rect, lines)):
            found = [one for one in found if one.rect not in above]
            found.append(Region("figure", hull((rect, *above)), 1.0))
    return found


def _is_caption(text: str) -> bool:
    return names_figure(text) and begins_caption(text)


def _column(caption: OcrLine, lines: Sequence[OcrLine]) -> Rect:
    """The column of text that a caption stands in, up to it."""
    left, _, right, _ = hull(line.rect for line in lines)
    at = (caption.rect[0] + caption.rect[2]) / 2
    beside = [one.x for one in gutters(lines) if one.top <= caption.middle <= one.bottom]
    if not any(caption.rect[0] < x < caption.rect[2] for x in beside):
        left = max((x for x in beside if x < at), default=left)
        right = min((x for x in beside if x > at), default=right)
    return left, 0.0, right, caption.rect[1]


def _labels(
    caption: OcrLine, column: Rect, lines: Sequence[OcrLine], figures: Sequence[Rect], height: float
) -> list[OcrLine]:
    """The short lines right above a caption, up to text or to a figure."""
    left, _, right, bottom = column
    above = [
        line
        for line in lines
        if line.rect[2] > left and line.rect[0] < right and line.rect[3] < bottom + 0.4 * height
    ]
    found: list[OcrLine] = []
    top = bottom
    for line in sorted(above, key=lambda line: -line.rect[3]):
        in_figure = any(overlap(line.rect, one) > 0 for one in figures)
        wide = line.width > NARROW * (right - left)
        wordy = words_in(line) > (0 if wide else FEW_WORDS)
        if in_figure or wordy or top - line.rect[3] > FAR * height:
            break
        found.append(line)
        top = min(top, line.rect[1])
    while found and words_in(found[-1]) > 1 and found[-1].rect[0] < left + 2 * height:
        found.pop()
    return found


def _drawing_above(caption: OcrLine, lines: Sequence[OcrLine], image: Image) -> Rect:
    """What is drawn right above a caption, where no line reaches in; an empty rectangle where
    nothing is."""
    x1, bottom, x2, _ = caption.rect
    over = [
        line
        for line in lines
        if line.middle < bottom and words_in(line) and shared_columns(line.rect, caption.rect) > 0
    ]
    top = max((line.rect[3] for line in over), default=0.0)
    beside = [line for line in lines if top < line.middle < bottom]
    left, _, right, _ = hull(line.rect for line in lines)
    left = max([left, *(line.rect[2] for line in beside if line.rect[2] <= x1)])
    right = min([right, *(line.rect[0] for line in beside if line.rect[0] >= x2)])
    drawings = _drawings(image, (left, top, right, bottom), lines)
    return hull(drawings) if drawings else (left, bottom, right, bottom)


def _stands_on(figure: Rect, labels: Rect, height: float) -> bool:
    """Whether labels begin where a figure ends."""
    return shared_columns(figure, labels) > 0 and abs(labels[1] - figure[3]) < 2 * height

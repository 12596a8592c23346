"""Detect rows of text in a page's image by their even spacing.

Photographs, drawings and charts have as much ink, but none that is spaced so evenly. That tells,
without reading a word, whether a page has much text, and whether an answer has left it out.
"""

import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from PIL import Image

from llm_ocr.records import Box

# Longest side of the thumbnail that is searched, and the width of the vertical strips in which its
# rows are found, both in pixels. A strip holds some 3 to 8 letters of ordinary print.
THUMBNAIL_SIDE, STRIP_WIDTH = 1000, 32
# The fewest evenly spaced rows in a strip, how uneven their spacing may be (largest by smallest),
# and the smallest and largest spacing, in pixels of the thumbnail.
MIN_ROWS, MAX_SPACING_RATIO = 4, 1.35
MIN_SPACING, MAX_SPACING = 5, 40
# How much darker a row must be than the gap below it: in levels of 255, and as a share of it.
MIN_CONTRAST, MIN_RELATIVE_CONTRAST = 10, 0.35
# How much higher or lower a row may be in the next strip, in pixels of the thumbnail.
MAX_SLOPE = 2


@dataclass(frozen=True)
class TextRows:
    """Points on the rows of text in a page's image, in pixels of the stored image of `width` x
    `height` pixels. There is one point for about 5 to 70 letters."""

    width: int
    height: int
    points: tuple[tuple[float, float], ...]

    def count_outside(self, boxes: Sequence[Box]) -> int:
        """How many points lie in none of `boxes`."""
        return sum(
            not any(box.x1 <= x <= box.x2 and box.y1 <= y <= box.y2 for box in boxes)
            for x, y in self.points
        )


def detect_text_rows(jpeg: bytes) -> TextRows:
    """The rows of text in a page's image; takes about 20 ms of CPU. Raises OSError for a damaged
    image."""
    with Image.open(io.BytesIO(jpeg)) as image:
        full = image.size
        image.draft("L", (THUMBNAIL_SIDE, THUMBNAIL_SIDE))
        gray = image.convert("L")
    gray.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    counts = gray.histogram()
    paper = counts.index(max(counts))
    ink = gray.point([min(255, abs(level - paper)) for level in range(256)])
    strips = max(1, gray.width // STRIP_WIDTH)
    levels = ink.resize((strips, gray.height), Image.Resampling.BOX).tobytes()
    x_step, y_step = full[0] / strips, full[1] / gray.height
    rows = [set(_evenly_spaced(list(_dark_rows(levels[strip::strips])))) for strip in range(strips)]
    return TextRows(
        *full,
        tuple(
            ((strip + 0.5) * x_step, (row + 0.5) * y_step)
            for strip in range(strips)
            for row in sorted(rows[strip])
            if any(
                _has_row_near(rows[neighbor], row)
                for neighbor in (strip - 1, strip + 1)
                if 0 <= neighbor < strips
            )
        ),
    )


def _has_row_near(rows: Collection[int], row: int) -> bool:
    """Whether a row of text continues in a neighboring strip with these rows."""
    return any(row + step in rows for step in range(-MAX_SLOPE, MAX_SLOPE + 1))


def _dark_rows(levels: bytes) -> Iterator[int]:
    """The rows of a strip that are darker than those around them."""
    darkest, lightest, darkest_row, is_rising = 0, 0, 0, True
    for row, level in enumerate(levels):
        if is_rising and level > darkest:
            darkest, darkest_row = level, row
        elif is_rising and darkest - level >= max(MIN_CONTRAST, MIN_RELATIVE_CONTRAST * darkest):
            yield darkest_row
            lightest, is_rising = level, False
        elif not is_rising and level < lightest:
            lightest = level
        elif not is_rising and level - lightest >= max(MIN_CONTRAST, MIN_RELATIVE_CONTRAST * level):
            darkest, darkest_row, is_rising = level, row, True


def _evenly_spaced(rows: Sequence[int]) -> list[int]:
    """The rows in runs of evenly spaced ones."""
    found: list[int] = []
    run = list(rows[:1])
    for above, below in pairwise(rows):
        spacings = [b - a for a, b in pairwise([*run, below])]
        is_near = MIN_SPACING <= below - above <= MAX_SPACING
        if not (is_near and max(spacings) <= MAX_SPACING_RATIO * min(spacings)):
            found += run if len(run) >= MIN_ROWS else []
            run = [above] if is_near else []
        run.append(below)
    return found + (run if len(run) >= MIN_ROWS else [])

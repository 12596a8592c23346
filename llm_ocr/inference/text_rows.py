"""Where the ink of a page lies as lines of text do: at even distances, one below the other.

Photographs, drawings and charts have as much ink, but none that is so even. So it can be told,
without reading a word, whether a page has much text, and whether an answer has left it out.
"""

import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from PIL import Image

from llm_ocr.records import Box

# Longest side of the picture that is looked at, and how wide the strips are in which its rows are
# followed, both in pixels. A strip holds some 3 to 8 letters of ordinary print.
SIDE, STRIP = 1000, 32
# Rows that a strip must have at even distances, how uneven those may be (longest by shortest), and
# how near and how far they may be, in pixels of the picture.
FEWEST_ROWS, UNEVEN = 4, 1.35
NEAREST, FARTHEST = 5, 40
# How much darker a row must be than the gap below it: in levels of 255, and as a share of it.
CONTRAST, DEPTH = 10, 0.35
# How much higher or lower a row may be in the next strip, in pixels of the picture.
ASIDE = 2


@dataclass(frozen=True)
class TextRows:
    """Pieces of lines of text that a page's image seems to hold, as points of the stored image of
    `width` x `height` pixels. About 5 to 70 letters of a page stand for each of them."""

    width: int
    height: int
    pieces: tuple[tuple[float, float], ...]

    def outside(self, boxes: Sequence[Box]) -> int:
        """How many of them lie in none of `boxes`."""
        return sum(
            not any(box.x1 <= x <= box.x2 and box.y1 <= y <= box.y2 for box in boxes)
            for x, y in self.pieces
        )


def text_rows(jpeg: bytes) -> TextRows:
    """The lines of text on a page's image: about 20 ms of CPU. Raises OSError for a damaged one."""
    with Image.open(io.BytesIO(jpeg)) as picture:
        full = picture.size
        picture.draft("L", (SIDE, SIDE))
        gray = picture.convert("L")
    gray.thumbnail((SIDE, SIDE))
    counts = gray.histogram()
    paper = counts.index(max(counts))
    ink = gray.point([min(255, abs(level - paper)) for level in range(256)])
    strips = max(1, gray.width // STRIP)
    levels = ink.resize((strips, gray.height), Image.Resampling.BOX).tobytes()
    across, down = full[0] / strips, full[1] / gray.height
    rows = [set(_even(list(_dark_rows(levels[strip::strips])))) for strip in range(strips)]
    return TextRows(
        *full,
        tuple(
            ((strip + 0.5) * across, (row + 0.5) * down)
            for strip in range(strips)
            for row in sorted(rows[strip])
            if any(
                _has_near(rows[beside], row)
                for beside in (strip - 1, strip + 1)
                if 0 <= beside < strips
            )
        ),
    )


def _has_near(rows: Collection[int], row: int) -> bool:
    """Whether a strip goes on with a row, as lines of text do."""
    return any(row + step in rows for step in range(-ASIDE, ASIDE + 1))


def _dark_rows(levels: bytes) -> Iterator[int]:
    """The rows of a strip that are darker than those around them."""
    darkest, lightest, at, rises = 0, 0, 0, True
    for row, level in enumerate(levels):
        if rises and level > darkest:
            darkest, at = level, row
        elif rises and darkest - level >= max(CONTRAST, DEPTH * darkest):
            yield at
            lightest, rises = level, False
        elif not rises and level < lightest:
            lightest = level
        elif not rises and level - lightest >= max(CONTRAST, DEPTH * level):
            darkest, at, rises = level, row, True


def _even(rows: Sequence[int]) -> list[int]:
    """Those rows that follow each other at even distances."""
    found: list[int] = []
    run = list(rows[:1])
    for above, below in pairwise(rows):
        steps = [b - a for a, b in pairwise([*run, below])]
        if not (NEAREST <= below - above <= FARTHEST and max(steps) <= UNEVEN * min(steps)):
            found += run if len(run) >= FEWEST_ROWS else []
            run = [above] if NEAREST <= below - above <= FARTHEST else []
        run.append(below)
    return found + (run if len(run) >= FEWEST_ROWS else [])

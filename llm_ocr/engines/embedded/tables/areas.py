"""Where a page has tables by its rules alone: closed grids with text in their cells."""

from collections import Counter
from collections.abc import Sequence

from llm_ocr.engines.embedded.geometry import OcrLine, Rect, Word, typical_height
from llm_ocr.engines.embedded.tables.rules import Rules, RulingLine, rules_in
from llm_ocr.engines.embedded.tables.separators import NEAR, Separators, closed_grid
from llm_ocr.engines.embedded.words.recognize import Image

# A table has so many cells with text and such a share of cells with text: forms and frames have
# fewer, and a chart's grid has none.
FEWEST_CELLS, FULL = 4, 0.4
# A cell of more words is a frame around text.
MOST_WORDS = 80
# Rules beyond this are a drawing's, of which nothing is to be had.
MOST_RULES = 2000


def ruled_areas(image: Image, lines: Sequence[OcrLine]) -> list[Rect]:
    """The rectangles of a page's fully ruled tables, in the image's pixels."""
    if not lines:
        return []
    height = typical_height(lines)
    words = [word for line in lines for word in line.words]
    boxes = [word.rect for word in words]
    is_exact = all(line.is_exact for line in lines)
    page = (0.0, 0.0, float(image.shape[1]), float(image.shape[0]))
    rules = rules_in(image, page, boxes, height, is_exact=is_exact)
    if not rules.down or len(rules.across) + len(rules.down) > MOST_RULES:
        return []
    return [
        grid.frame
        for part in _components(rules, NEAR * height)
        if (grid := closed_grid(part, height)) is not None and _is_table(grid, words)
    ]


def _components(rules: Rules, near: float) -> list[Rules]:
    """Rules that touch each other, directly or by others, together."""
    left = list(rules.across)
    free = list(rules.down)
    parts: list[Rules] = []
    while free:
        down, across, reached = [free.pop()], list[RulingLine](), True
        while reached:
            new = [one for one in left if any(_touch(one, other, near) for other in down)]
            left = [one for one in left if one not in new]
            across += new
            more = [one for one in free if any(_touch(other, one, near) for other in new)]
            free = [one for one in free if one not in more]
            down += more
            reached = bool(more)
        if len(across) > 1 and len(down) > 1:
            parts.append(Rules(tuple(across), tuple(down)))
    return parts


def _touch(across: RulingLine, down: RulingLine, near: float) -> bool:
    return (
        across.start - near <= down.at <= across.end + near
        and down.start - near <= across.at <= down.end + near
    )


def _is_table(grid: Separators, words: Sequence[Word]) -> bool:
    rows, columns = len(grid.rows) - 1, len(grid.columns) - 1
    if rows < 2 or columns < 2:
        return False
    held = Counter(
        (sum(one.at < word.y for one in grid.rows), sum(one.at < word.x for one in grid.columns))
        for word in words
        if grid.holds(word)
    )
    return (
        len(held) >= max(FEWEST_CELLS, FULL * rows * columns) and max(held.values()) <= MOST_WORDS
    )

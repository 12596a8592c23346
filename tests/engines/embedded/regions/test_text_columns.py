"""Columns of running text side by side, and what stands across them."""

import pytest

from llm_ocr.engines.embedded.geometry import OcrLine, hull
from llm_ocr.engines.embedded.regions.layout import Region
from llm_ocr.engines.embedded.regions.text_columns import CLOSE, Gutter, close_together, gutters
from tests.engines.embedded.written import (
    FLOOD,
    HEIGHT,
    PITCH,
    RECORDS,
    column,
    labeled_blocks,
    line,
    rows,
)

LEFT, WIDE = 100.0, 372.0
# Words of one line stand as far from each other.
NARROW = 10.0
RIGHT = LEFT + WIDE + NARROW
TOP = 300.0


def columns(y: float, lines: int = 5) -> tuple[list[OcrLine], list[OcrLine]]:
    return column([FLOOD] * lines, LEFT, y), column([RECORDS] * lines, RIGHT, y)


def test_columns_with_a_gutter_narrower_than_a_gap_in_a_line_stay_apart() -> None:
    left, right = columns(TOP)
    assert close_together([*left, *right], CLOSE) == [left, right]
    # Where they are less than running text, the parts of each row are one line's.
    assert len(close_together([*left[:3], *right[:3]], CLOSE)) == 1


def test_what_stands_across_columns_is_of_none_of_them() -> None:
    above, below = columns(TOP), columns(TOP + 7 * PITCH)
    headline = column([f"How {FLOOD} {RECORDS}"], LEFT, TOP - PITCH)
    caption = column([f"Here {RECORDS} {FLOOD}"] * 2, LEFT, TOP + 5 * PITCH)
    page = [*headline, *above[0], *above[1], *caption, *below[0], *below[1]]
    assert close_together(page, CLOSE) == [headline, *above, caption, *below]


@pytest.mark.parametrize(("sticks_out", "divided"), [(1.5, False), (2.5, True)])
def test_a_line_is_across_a_gutter_from_two_heights_on(sticks_out: float, divided: bool) -> None:
    gutter = Gutter(LEFT + WIDE - sticks_out * HEIGHT, TOP, TOP + 100)
    above, below = line(FLOOD, LEFT, TOP - PITCH), line("the flood of", LEFT, TOP)
    assert gutter.divides(above, below) is divided


def test_gaps_between_marks_and_numbers_are_no_gutters() -> None:
    left, right = columns(TOP)
    (gutter,) = gutters([*left, *right])
    assert LEFT + WIDE < gutter.x < RIGHT
    assert (gutter.top, gutter.bottom) == (TOP, left[-1].rect[3])
    marks = rows([(f"{k}.", FLOOD) for k in range(1, 7)], (LEFT, LEFT + 30), TOP)
    numbers = rows([(FLOOD, "12.5 94.1 70.3")] * 6, (LEFT, RIGHT), TOP)
    assert gutters(marks) == gutters(numbers) == []


def test_columns_of_prose_that_the_detector_calls_a_table_are_text() -> None:
    left, right = columns(TOP, 8)
    lines = [*left, *right]
    table = Region("table", hull(one.rect for one in lines), 0.9)
    blocks = labeled_blocks(lines, [table], 1000, 1300)
    assert [(one.label, list(one.lines)) for one in blocks] == [("text", left), ("text", right)]


def test_the_parts_of_a_justified_line_are_of_its_column() -> None:
    parts, x = [], LEFT
    for word in ("look", "at", "the", "experimental"):
        # Without ascenders the top is lower, so that this part comes last.
        parts.append(line(word, x, TOP + 3 * PITCH + (word == "at")))
        x = parts[-1].rect[2] + 1.5 * HEIGHT
    text = [*column([FLOOD] * 3, LEFT, TOP), *parts, *column([FLOOD] * 2, LEFT, TOP + 4 * PITCH)]
    (found,) = close_together(text, CLOSE)
    assert {id(one) for one in found} == {id(one) for one in text}

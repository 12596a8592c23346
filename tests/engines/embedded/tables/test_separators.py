"""What parts rows and columns: a closed grid by its rules, some of which are not as long as they
should be, and rules that go through most of a table."""

import pytest

from llm_ocr.engines.embedded.tables.rules import Rules, RulingLine
from llm_ocr.engines.embedded.tables.separators import (
    Separator,
    closed_grid,
    drawn_separators,
    through_table,
)

HEIGHT = 20.0
ROWS, COLUMNS = (100.0, 140.0, 180.0), (0.0, 200.0, 400.0)


@pytest.mark.parametrize(
    ("starts", "is_side"),
    [
        (100.0, True),
        (100.0 - 0.8 * HEIGHT, True),
        (100.0 - 1.5 * HEIGHT, False),
        (100.0 + 0.2 * HEIGHT, True),
        (100.0 + 0.4 * HEIGHT, False),
    ],
    ids=["at the frame", "a little above it", "far above it", "nearly at it", "within a row"],
)
def test_a_rule_down_may_stand_out_a_little_above_the_grid(starts: float, is_side: bool) -> None:
    """As it does where a letter stands right above it."""
    across = tuple(RulingLine(y, 0, 400) for y in ROWS)
    first, middle, last = COLUMNS
    down = (
        RulingLine(first, 100, 180),
        RulingLine(middle, starts, 180),
        RulingLine(last, 100, 180),
    )
    grid = closed_grid(Rules(across, down), HEIGHT)
    assert grid is not None
    assert [one.at for one in grid.columns] == [x for x in COLUMNS if is_side or x != middle]


def test_what_no_rule_down_reaches_is_none_of_the_grid() -> None:
    """A caption's letters right above a frame look like a rule from one line to another."""
    caption = RulingLine(ROWS[0] - 0.7 * HEIGHT, 200, 400)
    across = (caption, *(RulingLine(y, 0, 400) for y in ROWS))
    grid = closed_grid(Rules(across, tuple(RulingLine(x, 100, 180) for x in COLUMNS)), HEIGHT)
    assert grid is not None
    assert [one.at for one in grid.rows] == list(ROWS)


def test_a_grid_without_a_side_of_its_frame_is_not_closed() -> None:
    across = tuple(RulingLine(y, 0, 400) for y in ROWS)
    down = [RulingLine(x, 100, 180) for x in COLUMNS]
    assert closed_grid(Rules(across, tuple(down)), HEIGHT) is not None
    half = RulingLine(COLUMNS[-1], 100, 140)
    assert closed_grid(Rules(across, (*down[:-1], half)), HEIGHT) is None


def test_rules_close_to_each_other_are_one_separator_that_parts_where_it_is_drawn() -> None:
    upper, lower, far = RulingLine(200, 0, 40), RulingLine(201, 60, 100), RulingLine(300, 0, 9)
    one, _ = drawn_separators([far, upper, lower], HEIGHT)
    assert (one.at, one.start, one.end, one.share(0, 100)) == (200.5, 0, 100, 0.8)
    assert one.parts(0, 40)
    assert not one.parts(30, 70)
    assert Separator(200.5).parts(30, 70), "a gap has no lines that could end"


def test_rules_through_most_of_a_table_part_it_though_it_is_open() -> None:
    around = (0.0, 100.0, 400.0, 180.0)
    across = (RulingLine(120, 0, 400), RulingLine(140, 0, 200), RulingLine(100, 0, 400))
    edges = (RulingLine(160, 10, 390),)
    down = (RulingLine(200, 100, 170), RulingLine(300, 100, 130), RulingLine(2, 100, 180))
    found = through_table(Rules(across, down, edges), around, HEIGHT)
    assert [one.at for one in found.rows] == [120, 160]
    assert [one.at for one in found.columns] == [200]

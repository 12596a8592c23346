"""A closed grid by its rules, some of which are not as long as they should be."""

import pytest

from llm_ocr.engines.embedded.tables.lattice import Lattice
from llm_ocr.engines.embedded.tables.rules import Rules, RulingLine

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
    lattice = Lattice(Rules(across, down), HEIGHT)
    assert lattice.x == [x for x in COLUMNS if is_side or x != middle]
    assert lattice.is_closed


def test_what_no_rule_down_reaches_is_none_of_the_grid() -> None:
    """A caption's letters right above a frame look like a rule from one line to another."""
    caption = RulingLine(ROWS[0] - 0.7 * HEIGHT, 200, 400)
    across = (caption, *(RulingLine(y, 0, 400) for y in ROWS))
    lattice = Lattice(Rules(across, tuple(RulingLine(x, 100, 180) for x in COLUMNS)), HEIGHT)
    assert lattice.y == list(ROWS)
    assert lattice.is_closed

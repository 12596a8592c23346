"""Rules across that words' rectangles hide, as on a scan with little room in its rows."""

from llm_ocr.engines.embedded.tables.occluded_rules import occluded_rules
from llm_ocr.engines.embedded.tables.rules import Rules, RulingLine

HEIGHT = 20.0
# One of another table, further down the page, comes first.
DOWN = (RulingLine(112, 300, 500), RulingLine(100, 0, 200), RulingLine(500, 0, 200))


def across(pieces: list[RulingLine], words: list[tuple[float, float]]) -> tuple[RulingLine, ...]:
    """What becomes of pieces of a rule at 100 with words on it, from one place to another."""
    boxes = [(start, 85.0, end, 105.0) for start, end in words]
    return occluded_rules(Rules(tuple(pieces), DOWN, tuple(boxes)), HEIGHT).across


def test_a_rule_goes_on_behind_words_to_its_next_piece_and_to_the_rules_down() -> None:
    pieces = [RulingLine(100, 180, 300), RulingLine(101, 380, 440)]
    words = [(104.0, 182.0), (298.0, 384.0), (438.0, 496.0)]
    assert across(pieces, words) == (RulingLine(100, 100, 500),)


def test_a_rule_ends_where_nothing_hides_it() -> None:
    pieces = [RulingLine(100, 180, 300), RulingLine(100, 380, 440)]
    assert across(pieces, []) == tuple(pieces[::-1])
    # Behind a word too short for the gap as much of it would be seen.
    assert across(pieces, [(320.0, 350.0)]) == tuple(pieces[::-1])


def test_strokes_of_words_are_no_rules_to_go_on() -> None:
    strokes = [RulingLine(100, 180, 215), RulingLine(100, 320, 350)]
    assert set(across(strokes, [(104.0, 496.0)])) == set(strokes)

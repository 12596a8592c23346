import random
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_ocr.engines.embedded.geometry import Rect
from llm_ocr.engines.embedded.structure.reading_order import MAX_BLOCKS, reading_order


def read(blocks: Mapping[str, Rect]) -> str:
    """The names of blocks in reading order, whichever order they are found in."""
    answers = set()
    for seed in range(5):
        names = list(blocks)
        random.Random(seed).shuffle(names)
        order = reading_order([blocks[name] for name in names])
        answers.add(" ".join(names[k] for k in order))
    assert len(answers) == 1, answers
    return answers.pop()


def test_one_column_is_read_from_top_to_bottom() -> None:
    blocks = {"a": (50, 50, 900, 90), "b": (50, 120, 900, 300), "c": (50, 330, 500, 360)}
    assert read(blocks) == "a b c"


def test_nothing_and_a_single_block() -> None:
    assert reading_order([]) == []
    assert reading_order([(1, 2, 3, 4)]) == [0]


def test_two_columns_are_read_one_after_the_other() -> None:
    blocks = {
        "l1": (50, 100, 480, 300),
        "l2": (50, 320, 480, 800),
        "r1": (520, 90, 950, 500),
        "r2": (520, 520, 950, 820),
    }
    assert read(blocks) == "l1 l2 r1 r2"


def test_columns_of_unequal_length_are_read_one_after_the_other() -> None:
    """What stands below the end of the other column is no evidence against columns."""
    blocks = {
        "l1": (50, 100, 480, 220),
        "l2": (50, 240, 480, 300),
        "l3": (50, 300, 460, 560),
        "l4": (50, 700, 200, 712),
        "l5": (50, 730, 470, 760),
        "r1": (520, 100, 950, 430),
    }
    assert read(blocks) == "l1 l2 l3 l4 l5 r1"


def test_fields_side_by_side_below_an_address_are_no_columns() -> None:
    blocks = {
        "sender": (700, 60, 900, 120),
        "recipient": (50, 140, 250, 200),
        "reference": (50, 240, 160, 270),
        "number": (360, 240, 460, 270),
        "date": (700, 240, 800, 270),
        "subject": (50, 310, 300, 330),
        "dear": (50, 340, 250, 360),
        "text": (50, 380, 900, 900),
    }
    assert read(blocks) == "sender recipient reference number date subject dear text"


def test_a_full_width_heading_between_columns_ends_them() -> None:
    blocks = {
        "title": (50, 20, 950, 60),
        "l1": (50, 100, 480, 300),
        "l2": (50, 310, 480, 400),
        "r1": (520, 100, 950, 405),
        "heading": (50, 430, 950, 470),
        "l3": (50, 500, 480, 900),
        "r3": (520, 500, 950, 700),
        "r4": (520, 710, 950, 900),
        "foot": (50, 930, 950, 960),
    }
    assert read(blocks) == "title l1 l2 r1 heading l3 r3 r4 foot"


def test_three_columns() -> None:
    blocks = {
        f"{name}{row}": (x, 100 + 210 * row + lower, x + 280, 290 + 210 * row + lower)
        for name, x, lower in (("a", 40, 0), ("b", 350, 25), ("c", 660, 50))
        for row in range(3)
    }
    assert read(blocks) == "a0 a1 a2 b0 b1 b2 c0 c1 c2"


def test_a_heading_over_the_columns_that_is_narrow_is_read_before_them() -> None:
    blocks = {
        "heading": (400, 20, 600, 60),
        "l": (50, 100, 480, 800),
        "r": (520, 100, 950, 800),
    }
    assert read(blocks) == "heading l r"


def test_a_narrow_block_across_the_gutter_divides_the_columns() -> None:
    blocks = {
        "l1": (50, 100, 480, 300),
        "r1": (520, 100, 950, 300),
        "across": (300, 330, 700, 400),
        "l2": (50, 430, 480, 800),
        "r2": (520, 430, 950, 800),
    }
    assert read(blocks) == "l1 r1 across l2 r2"


def test_what_continues_the_row_of_a_wide_block_is_read_with_it() -> None:
    """Names of authors in a row above two columns, the last of them apart."""
    blocks = {
        "title": (300, 50, 700, 80),
        "authors": (100, 100, 720, 120),
        "last": (740, 100, 880, 120),
        "l": (50, 150, 480, 800),
        "r": (520, 150, 950, 800),
    }
    assert read(blocks) == "title authors last l r"


def test_short_lines_and_their_numbers_are_read_row_by_row() -> None:
    blocks = {"contents": (50, 20, 300, 60)}
    for k in range(4):
        blocks[f"chapter{k}"] = (50, 100 + 40 * k, 400, 120 + 40 * k)
        blocks[f"page{k}"] = (900, 102 + 40 * k, 920, 122 + 40 * k)
    in_rows = " ".join(f"chapter{k} page{k}" for k in range(4))
    assert read(blocks) == f"contents {in_rows}"


def test_the_order_does_not_depend_on_the_resolution() -> None:
    rects: list[Rect] = [(50, 100, 480, 220), (520, 103, 950, 430), (50, 224, 480, 400)]
    small = [(x1 / 5, y1 / 5, x2 / 5, y2 / 5) for x1, y1, x2, y2 in rects]
    assert reading_order(rects, height=20) == reading_order(small, height=4) == [0, 2, 1]


def test_a_page_with_very_many_blocks_is_read_by_rows() -> None:
    rects: list[Rect] = [
        (100.0 * column, 20.0 * row, 100.0 * column + 60, 20.0 * row + 12)
        for row in range(MAX_BLOCKS // 5)
        for column in range(6)
    ]
    assert reading_order(rects) == list(range(len(rects)))


SIDES = st.tuples(*[st.floats(0, 1000)] * 4)
RECTS = SIDES.map(lambda s: (min(s[0], s[2]), min(s[1], s[3]), max(s[0], s[2]), max(s[1], s[3])))


@settings(deadline=None)
@given(st.lists(RECTS, max_size=40))
def test_every_block_is_read_once(rects: list[Rect]) -> None:
    assert sorted(reading_order(rects)) == list(range(len(rects)))


@settings(max_examples=10, deadline=None)
@given(st.integers(MAX_BLOCKS - 1, MAX_BLOCKS + 200), st.integers(0, 1000))
def test_every_one_of_many_blocks_is_read_once(count: int, step: int) -> None:
    rects: list[Rect] = [
        (k * step % 997, k * 7 % 1300, k * step % 997 + 40, k * 7 % 1300 + 12) for k in range(count)
    ]
    assert sorted(reading_order(rects)) == list(range(count))

"""Estimates of where words stand."""

import pytest

from llm_ocr.export.estimation import estimate_block, estimate_line, runs_right_to_left
from llm_ocr.records import Block, Box
from tests.export.pages import HEBREW


def test_words_of_a_line_take_room_by_their_lengths() -> None:
    short, long = estimate_line("to understand", Box(0, 10, 130, 30))
    assert short.box.x1 == 0
    assert long.box.x2 == pytest.approx(130)
    assert long.box.x2 - long.box.x1 == pytest.approx(5 * (short.box.x2 - short.box.x1))
    assert long.box.x1 - short.box.x2 == pytest.approx(10), "a space between them"
    assert estimate_line("  ", Box(0, 0, 9, 9)) == ()


def test_right_to_left_text_begins_at_the_right() -> None:
    first, second = estimate_line(" ".join(HEBREW), Box(0, 0, 100, 20))
    assert first.box.x2 == pytest.approx(100)
    assert second.box.x2 < first.box.x1
    assert runs_right_to_left("السلام 12")
    assert not runs_right_to_left("12 + 3")


def test_wide_letters_take_twice_the_room() -> None:
    han, latin = estimate_line("漢字 ab", Box(0, 0, 70, 20))
    assert han.box.x2 - han.box.x1 == pytest.approx(2 * (latin.box.x2 - latin.box.x1))


def test_lines_of_a_block_are_kept_and_wrapped() -> None:
    poem = estimate_block(Block("text", "Roses are red\nviolets are blue", Box(0, 0, 400, 40)))
    assert [" ".join(word.text for word in line) for line in poem] == [
        "Roses are red",
        "violets are blue",
    ]
    # 200 letters fill a box of 100 x 100 pixels with about nine lines.
    wrapped = estimate_block(Block("text", "abcd " * 40, Box(0, 0, 100, 100)))
    assert 8 <= len(wrapped) <= 14
    assert sum(map(len, wrapped)) == 40

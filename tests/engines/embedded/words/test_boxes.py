"""Characters of a strip held against its ink."""

import numpy as np
import pytest

from llm_ocr.engines.embedded.words.boxes import (
    CharPrediction,
    decode_steps,
    ink_mask,
    is_covered,
    spans,
)

HEIGHT, WIDTH = 48, 400


def inked(*stretches: tuple[int, int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    columns = np.zeros(WIDTH, bool)
    for begin, end in stretches:
        columns[begin:end] = True
    return columns


def read(**places: int) -> list[CharPrediction]:
    return [CharPrediction(text.replace("_", " "), 0.99, at / WIDTH) for text, at in places.items()]


def test_words_end_at_the_widest_white_between_them() -> None:
    ink = inked((20, 30), (33, 45), (70, 80), (82, 95))
    found = spans(read(a=25, b=39, _=55, c=75, d=88), ink, HEIGHT)
    assert [(one.text, one.begin * WIDTH, one.end * WIDTH) for one in found] == [
        ("ab", 20, 45),
        ("cd", 70, 95),
    ]


def test_a_space_that_was_not_read_is_seen() -> None:
    ink = inked((20, 30), (33, 45), (70, 80), (82, 95))
    assert [one.text for one in spans(read(a=25, b=39, c=75, d=88), ink, HEIGHT)] == ["ab", "cd"]
    # Letters far apart, as in a wide title, or Chinese ones, are one word.
    wide = inked((20, 30), (60, 70), (100, 110), (140, 150))
    assert [one.text for one in spans(read(a=25, b=65, c=105, d=145), wide, HEIGHT)] == ["abcd"]


def test_ink_without_characters_is_not_explained() -> None:
    ink = inked(*((k, k + 10) for k in range(20, 380, 14)))
    assert is_covered(read(a=30), ink, HEIGHT) < 0.2
    assert is_covered(read(a=40, b=80, c=120, d=160, e=200, f=240), ink, HEIGHT) < 0.75
    everywhere = [CharPrediction("x", 0.9, (k + 5) / WIDTH) for k in range(20, 380, 14)]
    assert is_covered(everywhere, ink, HEIGHT) == 1
    assert is_covered(read(_=100), ink, HEIGHT) == 0
    assert is_covered([], inked(), HEIGHT) == 1


@pytest.mark.parametrize(("ink", "paper"), [(10, 240), (240, 20)])
def test_ink_is_what_differs_from_the_paper_and_is_no_rule(ink: int, paper: int) -> None:
    crop = np.full((HEIGHT, WIDTH, 3), paper, np.uint8)
    crop[12:36, 100:112] = ink
    crop[44:46] = ink
    columns = np.flatnonzero(ink_mask(crop).columns)
    assert (columns.min(), columns.max()) == (100, 111)


def test_letters_on_a_ground_of_their_own_are_its_ink() -> None:
    crop = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    crop[4:44] = (190, 70, 150)
    for begin in (100, 124):
        crop[12:36, begin : begin + 12] = 10
    columns = ink_mask(crop).columns
    assert np.flatnonzero(np.diff(columns.astype(int))).tolist() == [99, 111, 123, 135]


@pytest.mark.parametrize("thick", [3, 6])
def test_strokes_are_as_thick_as_they_are_drawn(thick: int) -> None:
    crop = np.full((HEIGHT, WIDTH, 3), 240, np.uint8)
    for left in range(40, 360, 40):
        crop[10:38, left : left + thick] = 10
    assert ink_mask(crop).thickness == pytest.approx(thick, abs=1.6)
    assert ink_mask(crop).thickness > thick - 1


def test_steps_that_agree_are_one_character() -> None:
    steps = np.full((8, 3), 0.1, np.float32)
    for step, (one, score) in enumerate(
        [(0, 0.9), (1, 0.6), (1, 0.8), (0, 0.9), (1, 0.7), (2, 0.9), (2, 0.5), (0, 0.9)]
    ):
        steps[step, one] = score
    found = decode_steps(steps, ["", "l", "o"])
    assert "".join(one.text for one in found) == "llo"
    assert [one.score for one in found] == pytest.approx([0.8, 0.7, 0.9])
    assert [one.place for one in found] == pytest.approx([2 / 8, 4.5 / 8, 6 / 8])


def test_two_characters_far_apart_are_two_words() -> None:
    ink = inked((20, 30), (55, 67))
    assert [one.text for one in spans(read(a=25, b=61), ink, HEIGHT)] == ["a", "b"]
    assert [one.text for one in spans(read(a=25, b=46), inked((20, 30), (40, 52)), HEIGHT)] == [
        "ab"
    ]

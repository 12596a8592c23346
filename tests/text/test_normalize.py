"""Normalized words."""

import pytest

from llm_ocr.text.normalize import normalize, normalized_words, same_digits, words_in


@pytest.mark.parametrize(
    ("text", "normalized"),
    [("Invoice", "invoice"), ("Gerberstraße", "gerberstrasse"), ("ŁÓDŹ", "lodz"), ("ﬁn", "fin")],
)
def test_case_accents_and_ligatures_are_removed(text: str, normalized: str) -> None:
    assert normalize(text) == normalized


def test_words_have_their_positions_in_the_original_text() -> None:
    text = "N° 12-b: Größe_X"
    words = list(words_in(text))
    assert [word.text for word in words] == ["n", "12", "b", "grosse", "x"]
    assert [text[word.start : word.end] for word in words] == ["N", "12", "b", "Größe", "X"]
    assert normalized_words(text) == tuple(word.text for word in words)


@pytest.mark.parametrize(
    ("text", "other", "same"),
    [
        ("AB 17", "AB 17", True),
        ("17", "l7", True),
        ("170", "17o", True),
        ("17", "18", False),
        ("no digits", "at all", True),
    ],
)
def test_digits_match_apart_from_letters_that_look_like_them(
    text: str, other: str, same: bool
) -> None:
    assert same_digits(text, other) is same

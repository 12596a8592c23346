import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_ocr.evaluation.text_similarity import (
    bag_of_characters,
    bag_of_words,
    character_accuracy,
    edit_distance,
    normalize_text,
    strip_markup,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\n\n two\tthree", "one two three"),
        ("**bold** and *it* and __b__ and _i_", "bold and it and b and i"),
        ("<b>bold</b> a<br>b<br/>c", "bold a b c"),
        ("“quoted” – ‘it’s’ − 2", "\"quoted\" - 'it's' - 2"),
        (unicodedata.normalize("NFD", "café"), "café"),
        ("5 µm", "5 \u03bcm"),
        ("Case Stays", "Case Stays"),
        ("", ""),
    ],
)
def test_normalization_follows_olmocr_bench(text: str, expected: str) -> None:
    assert normalize_text(text) == expected


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("# A *title*\n\n- one\n- two", "A title one two"),
        ("![alt](figures/a.jpg) See [the page](http://x/y)", "See the page"),
        ("| a | b |\n|---|:-:|\n| 1 | 2 \\| 3 |", "a b 1 2 | 3"),
        ("<table><tr><td>R&amp;D</td><td>2</td></tr></table>", "R&D 2"),
        ("<!-- page 2 failed --><a id='page-2'></a>text", "text"),
        ("snake_case stays, 2 * 3 * 4 too", "snake_case stays, 2 * 3 * 4 too"),
        ("a < b and c > d", "a < b and c > d"),
        ("1\\. no list \\*", "1. no list *"),
    ],
)
def test_markup_is_no_text(markdown: str, expected: str) -> None:
    assert strip_markup(markdown) == expected


def test_edit_distance_is_relative_to_the_longer_text() -> None:
    assert edit_distance("kitten", "sitting") == pytest.approx(3 / 7)
    assert edit_distance("", "") == 0.0
    assert edit_distance("", "abc") == 1.0


def test_accuracy_is_relative_to_the_truth() -> None:
    assert character_accuracy("abcd", "abxd") == 0.75
    assert character_accuracy("abcd", "abcd" * 9) == 0.0
    assert character_accuracy("", "") == 1.0
    assert character_accuracy("", "words") == 0.0
    assert character_accuracy("words", "") == 0.0


def test_bag_of_words_ignores_order() -> None:
    truth, said = "left column right column", "right column left column"
    assert character_accuracy(truth, said) < 0.7
    assert bag_of_characters(truth, said) == 1.0
    assert bag_of_words(truth, said) == 1.0
    assert bag_of_words("a b c d", "a b c") == 0.75
    assert bag_of_words("a b c d", "a b c d e e") == 0.5


@given(st.text("abc", max_size=30), st.text("abc", max_size=30))
def test_a_bag_is_never_stricter_than_the_order(truth: str, said: str) -> None:
    assert bag_of_characters(truth, said) >= character_accuracy(truth, said) - 1e-9
    assert 0.0 <= edit_distance(truth, said) <= 1.0


def test_escaped_signs_are_text() -> None:
    assert strip_markup(r"27\. Mai, \*not\* *but* \<b> \&amp; a\_b \# \$5") == (
        "27. Mai, *not* but <b> &amp; a_b # $5"
    )

from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from llm_ocr.evaluation.olmocr_bench.fuzzy_search import (
    FuzzyMatch,
    count_trailing_repeats,
    find_near_matches,
)


def test_places_of_a_text_that_is_misread() -> None:
    text = "the report of the commission, and the rep0rt of tbe commission"
    found = find_near_matches("report of the commission", text, 2)
    assert [match.start for match in found] == [4, 38]
    assert [match.distance for match in found] == [0, 2]
    assert find_near_matches("report of the commission", text, 0) == [FuzzyMatch(4, 28, 0)]
    assert find_near_matches("nothing like it at all", text, 3) == []


def test_letters_that_are_missing_or_too_many() -> None:
    (found,) = find_near_matches("according to plan", "it went acording  to plan", 2)
    assert (found.start, found.end, found.distance) == (8, 25, 2)


def test_letters_too_many_at_the_very_end() -> None:
    (found,) = find_near_matches(
        "according to the plan of", "it went according to the plan xof it", 1
    )
    assert (found.start, found.end, found.distance) == (8, 33, 1)


@given(st.text("abcd", min_size=4, max_size=12), st.text("abcd", max_size=60), st.integers(1, 3))
def test_nearest_match_is_found(wanted: str, text: str, most: int) -> None:
    found = find_near_matches(wanted, text, most)
    for match in found:
        assert Levenshtein.distance(wanted, text[match.start : match.end]) == match.distance <= most
    nearest = min(
        Levenshtein.distance(wanted, text[start:end])
        for start in range(len(text) + 1)
        for end in range(start, len(text) + 1)
    )
    assert bool(found) == (nearest <= most)
    if found:
        assert min(match.distance for match in found) == nearest


def test_repeats_at_the_end() -> None:
    assert dict(count_trailing_repeats("no abcabcabc", 4)) == {1: 1, 2: 1, 3: 3, 4: 1}
    assert dict(count_trailing_repeats("a\n\na  a", 2)) == {1: 1, 2: 2}
    assert dict(count_trailing_repeats("", 5)) == {}

import pytest

from benchmarks.reading.scores import (
    DocumentScore,
    estimate,
    estimate_difference,
    is_check,
    measures_of,
)


def score(name: str, part: float, whole: float = 1.0) -> DocumentScore:
    return DocumentScore(name, False, {"words": (part, whole)})


def test_halves_are_of_about_the_same_size_and_never_change() -> None:
    names = [f"document-{k}" for k in range(400)]
    assert 160 < sum(map(is_check, names)) < 240
    assert [is_check(name) for name in ("d", "e", "f", "g")] == [False, True, True, True]


def test_estimate_is_of_sums_and_its_interval_widens_with_the_spread_of_documents() -> None:
    alike = [score(str(k), 8, 10) for k in range(20)]
    apart = [score(str(k), 10 * (k % 5 > 0), 10) for k in range(20)]
    same, wide = estimate(alike, "words"), estimate(apart, "words")
    assert same is not None
    assert wide is not None
    assert (same.value, same.low, same.high) == pytest.approx((0.8, 0.8, 0.8))
    assert wide.value == pytest.approx(0.8)
    assert 0.5 < wide.low < 0.7
    assert 0.9 < wide.high <= 1.0
    # A document with ten tests counts ten times as much as one with a single test.
    uneven = estimate([score("a", 10, 10), score("b", 0, 1)], "words")
    assert uneven is not None
    assert uneven.value == pytest.approx(10 / 11)


def test_measure_without_anything_to_measure_has_no_estimate() -> None:
    assert estimate([score("a", 0, 0)], "words") is None
    assert estimate([score("a", 1)], "order") is None
    assert estimate([], "words") is None


def test_difference_is_paired_so_that_easy_and_hard_documents_dont_blur_it() -> None:
    before = [score(str(k), k % 2) for k in range(20)]
    after = [score(str(k), k % 2 - 0.1) for k in range(20)]
    change = estimate_difference(before, after, "words")
    assert change is not None
    assert (change.value, change.low, change.high) == pytest.approx((-0.1, -0.1, -0.1))
    only_one_has_it = estimate_difference(before, [score("new", 1)], "words")
    assert only_one_has_it is None


def test_mean_of_a_document_is_over_its_measures() -> None:
    measures = {"words": (1.0, 2.0), "TEDS": (3.0, 3.0), "order": (0.0, 0.0)}
    assert DocumentScore("a", True, measures).mean == pytest.approx(0.75)
    assert DocumentScore("a", True, {}).mean == 1.0


def test_measures_keep_the_order_in_which_they_are_given() -> None:
    scores = [score("a", 1), DocumentScore("b", True, {"TEDS": (1, 1), "words": (1, 1)})]
    assert measures_of(scores) == ["words", "TEDS"]

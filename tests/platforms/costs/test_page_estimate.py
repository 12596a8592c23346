"""The estimate of pages is exact if all were counted, and else as often right as it says."""

import random

import pytest

from llm_ocr.platforms.costs.page_estimate import Stratum, total_pages


def test_a_full_count_is_exact() -> None:
    pages = total_pages([Stratum(3, [1, 40, 2]), Stratum(2, [1, 1]), Stratum(0, [])])
    assert (pages.low, pages.expected, pages.high) == (45, 45, 45)


def test_a_sample_is_scaled_up_and_never_below_what_was_counted() -> None:
    pages = total_pages([Stratum(100, [1, 1, 1, 500]), Stratum(1, [7])])
    assert pages.expected == pytest.approx(100 * 503 / 4 + 7)
    assert pages.low == 503 + 7
    assert pages.high > 2 * pages.expected


def test_equal_documents_have_no_interval_and_a_single_one_a_wide_one() -> None:
    alike = total_pages([Stratum(1000, [8] * 20)])
    assert (alike.low, alike.expected, alike.high) == (8000, 8000, 8000)
    alone = total_pages([Stratum(1000, [8])])
    assert alone.low == 8
    assert alone.high > 5 * alone.expected


def test_the_interval_contains_the_truth_about_as_often_as_it_says() -> None:
    chance = random.Random(5)
    documents = [max(1, round(chance.lognormvariate(2, 0.6))) for _ in range(2000)]
    right = 0
    for _ in range(400):
        pages = total_pages([Stratum(len(documents), chance.sample(documents, 60))])
        right += pages.low <= sum(documents) <= pages.high
    assert 0.90 <= right / 400 <= 0.99


def test_a_larger_share_of_counted_documents_narrows_the_interval() -> None:
    counted = [1, 2, 3, 4, 5, 6, 7, 8, 9] * 10
    most, few = total_pages([Stratum(100, counted)]), total_pages([Stratum(10_000, counted)])
    margins = [(one.high - one.expected) / one.expected for one in (most, few)]
    assert margins[0] / margins[1] == pytest.approx((0.1 / 0.991) ** 0.5)

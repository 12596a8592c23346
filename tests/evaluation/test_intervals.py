import math
from itertools import product

import pytest

from llm_ocr.evaluation.intervals import estimate_mean, estimate_proportion, sign_test


def test_wilson_interval() -> None:
    # 8 of 10: 0.490 to 0.943 in the literature (Brown, Cai and DasGupta, 2001).
    found = estimate_proportion({f"d{k}": [float(k < 8)] for k in range(10)})
    assert (round(found.low, 3), round(found.high, 3)) == (0.490, 0.943)
    assert (found.passed, found.total, found.value) == (8, 10, 0.8)


def test_all_passed_has_an_interval_below_one() -> None:
    found = estimate_proportion({"d": [1.0] * 10})
    assert found.high == 1.0
    assert 0.65 < found.low < 0.75
    assert estimate_proportion({"d": [0.0] * 10}).low == 0.0
    assert estimate_proportion({}).value is None


def test_clustered_tests_widen_the_interval() -> None:
    together = estimate_proportion({f"d{k}": [float(k < 5)] * 10 for k in range(10)})
    apart = estimate_proportion({f"d{k}": [float(k % 2)] for k in range(100)})
    assert together.value == apart.value == 0.5
    assert together.high - together.low > 2 * (apart.high - apart.low)
    # Ten documents of one mind are ten tests.
    alone = estimate_proportion({f"d{k}": [float(k < 5)] for k in range(10)})
    assert together.low == pytest.approx(alone.low, abs=0.02)


def test_a_mean_and_its_bootstrap() -> None:
    found = estimate_mean({f"d{k}": [k / 99] for k in range(100)})
    assert found is not None
    assert found.value == pytest.approx(0.5)
    # The standard error of the mean of a uniform distribution.
    half = 1.96 / math.sqrt(12 * 100)
    assert found.low == pytest.approx(0.5 - half, abs=0.01)
    assert found.high == pytest.approx(0.5 + half, abs=0.01)
    assert found == estimate_mean({f"d{k}": [k / 99] for k in range(100)})
    assert estimate_mean({"d": []}) is None


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (3, 3), (5, 0), (8, 2), (1, 9)])
def test_the_sign_test_counts_all_ways(wins: int, losses: int) -> None:
    uneven = abs(wins - losses)
    ways = [sum(one) for one in product((-1, 1), repeat=wins + losses)]
    expected = sum(abs(way) >= uneven for way in ways) / len(ways)
    assert sign_test(wins, losses) == pytest.approx(expected)


def test_the_sign_test_of_many_pages() -> None:
    exact, rough = sign_test(530, 470), sign_test(531, 471)
    assert exact == pytest.approx(rough, rel=0.02)
    assert sign_test(60_000, 40_000) < 1e-9

"""The p-values, folds and thresholds of a classifier."""

import numpy as np
import pytest

from llm_ocr.classification.calibration import (
    Calibration,
    ThresholdPoint,
    choose_threshold,
    measure,
)
from llm_ocr.classification.neighbors import Described, Labels, Neighbors


def blobs(counts: list[int], seed: int, spread: tuple[float, ...] = (0.2, 0.8)) -> Described:
    """Points around one place for each class, in as many dimensions as needed."""
    chance = np.random.default_rng(seed)
    rows = []
    for label, count in enumerate(counts):
        around = np.zeros(24)
        around[label] = 4
        rows.append(around + chance.normal(0, spread[label % len(spread)], (count, 24)))
    vectors = np.concatenate(rows)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Described(vectors.astype(np.float32), np.zeros((len(vectors), 16), np.bool_))


def labels_of(counts: list[int]) -> Labels:
    return np.repeat(np.arange(len(counts)), counts)


@pytest.mark.parametrize("count", [12, 40])
def test_as_many_known_pages_are_refused_as_the_significance_says(count: int) -> None:
    counts = [count] * 4
    examples, labels = blobs(counts, 1), labels_of(counts)
    groups = [str(k) for k in range(len(labels))]
    calibration = measure(examples, labels, groups, 4, 0.05).calibration
    assert calibration.is_pooled(0) == (count < 20)
    fresh = [500] * 4
    strangeness = Neighbors(examples, labels, 4).compare(blobs(fresh, 2)).strangeness
    p_values = calibration.p_values(strangeness)
    own = p_values[np.arange(2000), labels_of(fresh)]
    for significance in (0.05, 0.2):
        assert np.mean(own < significance) == pytest.approx(significance, abs=0.05)


def test_pages_of_one_file_do_not_vouch_for_each_other() -> None:
    """Each page is there twice, as the pages of one file might be."""
    counts = [20, 20]
    once = blobs(counts, 3, spread=(0.8,))
    twice = Described(np.repeat(once.vectors, 2, axis=0), np.repeat(once.words, 2, axis=0))
    labels = np.repeat(labels_of(counts), 2)
    apart = [f"{k}" for k in range(80)]
    together = [f"{k // 2}" for k in range(80)]
    naive = measure(twice, labels, apart, 2, 0.05).calibration
    grouped = measure(twice, labels, together, 2, 0.05).calibration
    fresh = Neighbors(twice, labels, 2).compare(blobs([200, 200], 4, spread=(0.8,))).strangeness
    own = labels_of([200, 200])
    refused = [
        float(np.mean(one.p_values(fresh)[np.arange(400), own] < 0.05)) for one in (naive, grouped)
    ]
    assert refused[1] < 0.12
    assert refused[0] > 2 * refused[1]


def test_a_class_of_unlike_pages_does_not_accept_what_is_unknown() -> None:
    """Six kinds, each with its own place and words, and a class of pages that share neither."""
    chance = np.random.default_rng(5)
    counts = [20] * 6
    tight = blobs(counts, 6, spread=(0.2,))
    words = np.zeros((120, 64), np.bool_)
    words[np.arange(120), np.repeat(np.arange(6), 20)] = True
    words[:, 6:12] = chance.random((120, 6)) < 0.3

    def unlike(count: int) -> Described:
        vectors = chance.normal(0, 1, (count, 24)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Described(vectors, chance.random((count, 64)) < 0.15)

    mixed = unlike(20)
    examples = Described(
        np.concatenate([tight.vectors, mixed.vectors]), np.concatenate([words, mixed.words])
    )
    labels = labels_of([*counts, 20])
    groups = [str(k) for k in range(len(labels))]
    calibration = measure(examples, labels, groups, 7, 0.05).calibration
    assert set(calibration.loose) == {6}
    assert calibration.is_pooled(6)
    strangeness = Neighbors(examples, labels, 7).compare(unlike(100)).strangeness
    assert np.mean(calibration.p_values(strangeness)[:, 6] >= 0.05) <= 0.1


def test_p_values_count_the_examples_that_are_as_strange() -> None:
    scores = np.arange(1, 20, dtype=np.float32)
    pooled = Calibration((scores, scores[:3] + 100))
    assert pooled.is_pooled(0)
    own = Calibration((np.arange(1, 40, dtype=np.float32), scores[:3]))
    assert not own.is_pooled(0)
    found = own.p_values(np.array([[0, 0], [39, 0], [40, 0], [np.inf, 0]], np.float32))[:, 0]
    assert found.tolist() == pytest.approx([1, 2 / 40, 1 / 40, 1 / 40])


def test_the_threshold_has_the_least_fallback_within_the_target() -> None:
    curve = [
        ThresholdPoint(0.5, 0.04, 0.05),
        ThresholdPoint(0.7, 0.01, 0.06),
        ThresholdPoint(0.8, 0.0, 0.06),
        ThresholdPoint(0.9, 0.0, 0.3),
    ]
    assert choose_threshold(curve, 0.05).vote == 0.5
    assert choose_threshold(curve, 0.01).vote == 0.8
    # None is good enough: the best that there is.
    assert choose_threshold(curve[:2], 0.001).vote == 0.7

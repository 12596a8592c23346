"""Statistics: 95% confidence intervals of proportions and means, and the sign test."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)
RESAMPLES = 2_000
# Draws of a bootstrap in total: with many documents, fewer resamples are enough.
MAX_DRAWS = 2_000_000


@dataclass(frozen=True)
class Proportion:
    """`passed` of `total`, with a 95% interval (0..1). `passed` is fractional if pages have several
    predictions."""

    passed: float
    total: int
    low: float
    high: float

    @property
    def value(self) -> float | None:
        return self.passed / self.total if self.total else None


def estimate_proportion(by_document: Mapping[str, Sequence[float]]) -> Proportion:
    """The proportion of tests passed, with Wilson's interval.

    Results of one document are correlated, so that a hundred of them say less than a hundred
    documents: their number is divided by the design effect, which is the variance between documents
    over that of as many independent tests (Kish, "Survey Sampling", 1965; Korn and Graubard, 1998).
    It can't be estimated from one document, or if all tests passed or all failed.
    """
    scores = [score for document in by_document.values() for score in document]
    total, passed = len(scores), sum(scores)
    if not total:
        return Proportion(0.0, 0, 0.0, 1.0)
    rate = passed / total
    effective = total / max(1.0, _design_effect(by_document, rate, total))
    return Proportion(passed, total, *_wilson(rate, effective))


def _design_effect(by_document: Mapping[str, Sequence[float]], rate: float, total: int) -> float:
    count = sum(1 for scores in by_document.values() if scores)
    expected = rate * (1 - rate) / max(1, total - 1)
    if count < 2 or not expected:
        return 1.0
    between = sum((sum(scores) - rate * len(scores)) ** 2 for scores in by_document.values())
    return count / (count - 1) * between / total**2 / expected


def _wilson(rate: float, total: float) -> tuple[float, float]:
    """Wilson's score interval, which stays within 0..1 and has a width even if all passed."""
    spread = Z * Z / total
    middle = (rate + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt(rate * (1 - rate) / total + spread / (4 * total))
    return (max(0.0, middle - half) if rate else 0.0), (
        min(1.0, middle + half) if rate < 1 else 1.0
    )


@dataclass(frozen=True)
class Mean:
    """The mean of a measure over pages, with a 95% interval."""

    value: float
    count: int
    low: float
    high: float


def estimate_mean(by_document: Mapping[str, Sequence[float]], seed: int = 0) -> Mean | None:
    """The mean over all pages, with a bootstrap interval: whole documents are resampled. None if
    there are no pages."""
    sums = [(sum(values), len(values)) for values in by_document.values() if values]
    if not sums:
        return None
    value = sum(total for total, _ in sums) / sum(count for _, count in sums)
    if len(sums) == 1:
        sums = [(value, 1) for value in next(filter(None, by_document.values()))]
    low, high = _bootstrap(sums, seed)
    return Mean(value, sum(map(len, by_document.values())), low, high)


def _bootstrap(sums: Sequence[tuple[float, int]], seed: int) -> tuple[float, float]:
    generator = random.Random(seed)
    resamples = max(200, min(RESAMPLES, MAX_DRAWS // len(sums)))
    means = []
    for _ in range(resamples):
        drawn = generator.choices(sums, k=len(sums))
        means.append(sum(total for total, _ in drawn) / sum(count for _, count in drawn))
    means.sort()
    return means[round(0.025 * (resamples - 1))], means[round(0.975 * (resamples - 1))]


def sign_test(wins: int, losses: int) -> float:
    """The two-sided p-value of the sign test, without ties: exact up to 1,000 pairs, then by the
    normal approximation."""
    count, least = wins + losses, min(wins, losses)
    if not count or wins == losses:
        return 1.0
    if count <= 1_000:
        return min(1.0, float(2 * sum(math.comb(count, k) for k in range(least + 1)) / 2**count))
    return min(1.0, 2 * NormalDist(count / 2, math.sqrt(count) / 2).cdf(least + 0.5))

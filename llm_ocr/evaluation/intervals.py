"""How sure a score is: intervals of 95%, and whether one of two is better by more than chance."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)
RESAMPLES = 2_000
# Draws of a bootstrap in all: with many documents fewer resamples are enough.
MOST_DRAWS = 2_000_000


@dataclass(frozen=True)
class Share:
    """`passed` of `total`, which may be parts where a page was read several times, and the interval
    of 95% (0..1)."""

    passed: float
    total: int
    low: float
    high: float

    @property
    def value(self) -> float | None:
        return self.passed / self.total if self.total else None


def share(by_document: Mapping[str, Sequence[float]]) -> Share:
    """The share of tests passed, with Wilson's interval.

    Tests of one document pass or fail together, so that a hundred of them say less than a hundred
    documents: their number is divided by the design effect, which is the variance between documents
    over that of as many independent tests (Kish, "Survey Sampling", 1965; Korn and Graubard, 1998).
    It can't be told from one document, and where all passed or all failed.
    """
    scores = [score for some in by_document.values() for score in some]
    total, passed = len(scores), sum(scores)
    if not total:
        return Share(0.0, 0, 0.0, 1.0)
    rate = passed / total
    effective = total / max(1.0, _design_effect(by_document, rate, total))
    return Share(passed, total, *_wilson(rate, effective))


def _design_effect(by_document: Mapping[str, Sequence[float]], rate: float, total: int) -> float:
    count = sum(1 for scores in by_document.values() if scores)
    expected = rate * (1 - rate) / max(1, total - 1)
    if count < 2 or not expected:
        return 1.0
    between = sum((sum(some) - rate * len(some)) ** 2 for some in by_document.values())
    return count / (count - 1) * between / total**2 / expected


def _wilson(rate: float, total: float) -> tuple[float, float]:
    """Wilson's score interval, which stays within 0..1 and is no point where all passed."""
    spread = Z * Z / total
    middle = (rate + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt(rate * (1 - rate) / total + spread / (4 * total))
    return (max(0.0, middle - half) if rate else 0.0), (
        min(1.0, middle + half) if rate < 1 else 1.0
    )


@dataclass(frozen=True)
class Mean:
    """A mean of measures of pages, and the interval of 95%."""

    value: float
    count: int
    low: float
    high: float


def mean(by_document: Mapping[str, Sequence[float]], seed: int = 0) -> Mean | None:
    """The mean over all pages, with a bootstrap interval: documents are drawn, with all their
    pages. None without any."""
    sums = [(sum(some), len(some)) for some in by_document.values() if some]
    if not sums:
        return None
    value = sum(one for one, _ in sums) / sum(count for _, count in sums)
    if len(sums) == 1:
        sums = [(one, 1) for one in next(some for some in by_document.values() if some)]
    low, high = _bootstrap(sums, seed)
    return Mean(value, sum(len(some) for some in by_document.values()), low, high)


def _bootstrap(sums: Sequence[tuple[float, int]], seed: int) -> tuple[float, float]:
    chance = random.Random(seed)
    resamples = max(200, min(RESAMPLES, MOST_DRAWS // len(sums)))
    means = []
    for _ in range(resamples):
        drawn = chance.choices(sums, k=len(sums))
        means.append(sum(one for one, _ in drawn) / sum(count for _, count in drawn))
    means.sort()
    return means[round(0.025 * (resamples - 1))], means[round(0.975 * (resamples - 1))]


def sign_test(wins: int, losses: int) -> float:
    """How likely (0..1) wins and losses at least so uneven are, if both were equally likely; ties
    say nothing. Exact up to 1,000 of them, else by the normal distribution."""
    count, least = wins + losses, min(wins, losses)
    if not count or wins == losses:
        return 1.0
    if count <= 1_000:
        return min(1.0, float(2 * sum(math.comb(count, k) for k in range(least + 1)) / 2**count))
    return min(1.0, 2 * NormalDist(count / 2, math.sqrt(count) / 2).cdf(least + 0.5))

"""Scores of documents, their split into two halves, and 95% intervals by bootstrap."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

RESAMPLES = 2_000
# A sum, and what it is out of: 3 of 4 tests, 17.5 of 20 tables. Over documents both are summed.
Ratio = tuple[float, float]


@dataclass(frozen=True)
class DocumentScore:
    """A document's measures by name (all are better the higher they are), and what failed in it.

    `is_check`: it belongs to the half that is scored but never looked at during development.
    """

    name: str
    is_check: bool
    measures: Mapping[str, Ratio]
    failures: Sequence[str] = field(default=())

    @property
    def mean(self) -> float:
        """The mean of its measures, 0..1."""
        values = [part / whole for part, whole in self.measures.values() if whole]
        return sum(values) / len(values) if values else 1.0


# The scored documents of each set.
Results = Mapping[str, Sequence[DocumentScore]]


@dataclass(frozen=True)
class Estimate:
    """A measure over documents, or a difference of two, with a 95% interval."""

    value: float
    low: float
    high: float


def is_check(key: str) -> bool:
    """Whether documents with this key belong to the half *check* and not to *develop*."""
    return hashlib.sha256(key.encode()).digest()[0] % 2 == 1


def measures_of(scores: Sequence[DocumentScore]) -> list[str]:
    """The names of all measures, in the order in which they first occur."""
    return list(dict.fromkeys(name for score in scores for name in score.measures))


def estimate(scores: Sequence[DocumentScore], measure: str) -> Estimate | None:
    """A measure over documents; None if none has it."""
    ratios = _ratios(scores, measure)
    if not ratios[:, 1].sum():
        return None
    drawn = _resampled(ratios)
    return Estimate(_value(ratios), *_interval(drawn[:, 0] / drawn[:, 1]))


def estimate_difference(
    before: Sequence[DocumentScore], after: Sequence[DocumentScore], measure: str
) -> Estimate | None:
    """How much a measure changed over the documents that both have; None if there are none."""
    old = {score.name: score for score in before if measure in score.measures}
    new = {score.name: score for score in after if measure in score.measures}
    names = sorted(old.keys() & new.keys())
    pairs = np.hstack([_ratios([side[name] for name in names], measure) for side in (old, new)])
    if not pairs[:, 1].sum() or not pairs[:, 3].sum():
        return None
    drawn = _resampled(pairs)
    change = drawn[:, 2] / drawn[:, 3] - drawn[:, 0] / drawn[:, 1]
    return Estimate(_value(pairs[:, 2:]) - _value(pairs[:, :2]), *_interval(change))


def _ratios(scores: Sequence[DocumentScore], measure: str) -> npt.NDArray[np.float64]:
    found = [score.measures[measure] for score in scores if measure in score.measures]
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def _value(ratios: npt.NDArray[np.float64]) -> float:
    part, whole = ratios.sum(axis=0)
    return float(part / whole)


def _resampled(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Sums over as many rows, drawn with replacement (resamples x columns)."""
    counts = np.random.default_rng(0).multinomial(
        len(rows), [1 / len(rows)] * len(rows), size=RESAMPLES
    )
    sums: npt.NDArray[np.float64] = counts @ rows
    # A resample may consist of documents that have nothing to measure.
    return sums[(sums[:, 1::2] > 0).all(axis=1)]


def _interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)

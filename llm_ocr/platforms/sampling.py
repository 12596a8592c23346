"""How many pages there are, from those of some documents: an estimate, and how sure it is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from llm_ocr.platforms.prices import Interval

# Student's t for 95%, by degrees of freedom.
_STUDENT = {
    1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23,
    12: 2.18, 15: 2.13, 20: 2.09, 30: 2.04, 60: 2.00, 120: 1.98, 1000: 1.96,
}  # fmt: skip


@dataclass(frozen=True)
class Stratum:
    """Documents of one kind: how many, and the pages of those that were counted, by chance."""

    documents: int
    counted: Sequence[int]

    @property
    def is_sampled(self) -> bool:
        return len(self.counted) < self.documents

    @property
    def total(self) -> float:
        """All of its pages, as its counted documents have them."""
        return self.documents * fmean(self.counted) if self.counted else 0.0

    @property
    def variance(self) -> float:
        """Of the total, from which documents were taken. Counted as a whole, it has none."""
        if not self.is_sampled:
            return 0.0
        count = len(self.counted)
        # Of one document nothing is known of how they differ: as much as they are long.
        each = variance(self.counted) if count > 1 else fmean(self.counted) ** 2
        return self.documents**2 * (1 - count / self.documents) * each / count


def total_pages(strata: Sequence[Stratum]) -> Interval:
    """The pages of all strata with their 95% confidence interval; at least what was counted."""
    sampled = [one for one in strata if one.is_sampled]
    expected = sum(one.total for one in strata)
    freedom = max(1, sum(len(one.counted) - 1 for one in sampled))
    student = _STUDENT[max(key for key in _STUDENT if key <= freedom)]
    margin = student * math.sqrt(sum(one.variance for one in sampled))
    counted = sum(sum(one.counted) for one in strata)
    return Interval(max(counted, expected - margin), expected, expected + margin)

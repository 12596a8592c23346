"""Scores of pages put together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from statistics import fmean

from benchmarks.page_scores import PageScore
from llm_ocr.evaluation.headings import HeadingScore

NONE = HeadingScore(0, 0, 0, 0)


@dataclass(frozen=True)
class Totals:
    """Means over pages (of tables, over tables); headings are counted over all pages."""

    pages: int
    characters: float
    words: float
    in_order: float
    neighbors: float | None
    clean: float | None
    headings: HeadingScore
    ruled: float | None
    unruled: float | None
    inner_out: float | None


def totals(scores: Sequence[PageScore]) -> Totals:
    """Of at least one page."""
    return Totals(
        len(scores),
        fmean(one.characters for one in scores),
        fmean(one.words for one in scores),
        fmean(one.in_order for one in scores),
        _mean(one.neighbors for one in scores),
        _mean(one.is_clean for one in scores),
        reduce(add, (one.headings for one in scores), NONE),
        _mean(value for one in scores for value in one.ruled),
        _mean(value for one in scores for value in one.unruled),
        _mean(one.inner_out for one in scores),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None

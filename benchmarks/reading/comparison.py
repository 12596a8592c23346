"""Two results compared: every measure before and after, *develop* beside *check*."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.reading.report import format_estimate, format_table, half
from benchmarks.reading.scores import (
    Estimate,
    Results,
    estimate,
    estimate_difference,
    measures_of,
)

# Larger sums of rounding errors than this are differences.
LEAST = 1e-6


@dataclass(frozen=True)
class Change:
    """A measure of one set before and after, on one half of its documents."""

    set_name: str
    measure: str
    is_check: bool
    before: Estimate | None
    after: Estimate | None
    difference: Estimate | None

    @property
    def is_changed(self) -> bool:
        return self.difference is not None and abs(self.difference.value) > LEAST

    @property
    def falls(self) -> bool:
        """Whether it falls by more than resampling the documents explains."""
        return self.difference is not None and self.difference.high < -LEAST

    @property
    def rises(self) -> bool:
        return self.difference is not None and self.difference.low > LEAST


def compare(before: Results, after: Results) -> list[Change]:
    """All measures of the sets that both have."""
    return [
        Change(
            name,
            measure,
            is_check,
            estimate(old, measure),
            estimate(new, measure),
            estimate_difference(old, new, measure),
        )
        for name in before
        if name in after
        for measure in measures_of(before[name])
        for is_check in (False, True)
        for old, new in [(half(before[name], is_check), half(after[name], is_check))]
    ]


def falls_on_check(changes: Sequence[Change]) -> list[Change]:
    return [change for change in changes if change.is_check and change.falls]


def format_comparison(
    changes: Sequence[Change], wanted: Callable[[Change], bool] = lambda change: True
) -> str:
    """One row for each measure of which either half is wanted."""
    rows: list[Sequence[str]] = [
        ("set", "measure", "develop", "", "difference", "check", "", "difference", "")
    ]
    for develop, check in zip(changes[::2], changes[1::2], strict=True):
        if wanted(develop) or wanted(check):
            verdict = "falls" if check.falls else "rises" if check.rises else ""
            cells = (*_cells(develop), *_cells(check))
            rows.append((develop.set_name, develop.measure, *cells, verdict))
    return format_table(rows)


def _cells(change: Change) -> Iterator[str]:
    for value in (change.before, change.after):
        yield "-" if value is None else f"{value.value:.3f}"
    yield format_estimate(change.difference, "+") if change.is_changed else "="

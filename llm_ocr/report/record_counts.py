"""Count the records of a run by status, and their errors by field."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from llm_ocr.messages import pluralize
from llm_ocr.records import Disagreement, FieldError

# Models invent any number of field names that the schema doesn't have.
MAX_FIELDS = 200
OTHER_FIELDS = "(others)"
WHOLE_RECORD = "the whole record"
MAX_FIELDS_SHOWN = 5


@dataclass(frozen=True)
class RecordCounts:
    """Records by status, and errors by field, in which `*` replaces the index in a list.

    Of the check by a second model: the records that it `checked`, those `disagreeing` in any value,
    those that it could not check, and disagreements by field.
    """

    by_status: Mapping[str, int] = field(default_factory=dict)
    errors_by_field: Mapping[str, int] = field(default_factory=dict)
    checked: int = 0
    disagreeing: int = 0
    not_checked: int = 0
    disagreements_by_field: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.by_status.values())

    def summary_rows(self) -> Iterator[tuple[str, str]]:
        """Labels and texts of the printed summary; none without records."""
        if self.by_status:
            statuses = (f"{count:,} {status}" for status, count in self.by_status.items())
            yield "Records", f"{self.total:,}  {'  '.join(statuses)}"
        if self.errors_by_field:
            yield "Errors in", _most_frequent(self.errors_by_field)
        if self.checked or self.not_checked:
            failed = f"  {self.not_checked:,} not checked" if self.not_checked else ""
            yield "Checked", f"{self.checked:,}  {self.disagreeing:,} disagree{failed}"
        if self.disagreements_by_field:
            yield "Disagree in", _most_frequent(self.disagreements_by_field)


def _most_frequent(by_field: Mapping[str, int]) -> str:
    fields = (f"{name or WHOLE_RECORD} {n:,}" for name, n in by_field.items())
    more = len(by_field) - MAX_FIELDS_SHOWN
    others = [pluralize(more, "more field")] if more > 0 else []
    return ", ".join([*islice(fields, MAX_FIELDS_SHOWN), *others])


class RecordCounter:
    """Call `add(status, errors)` for each record, and `add_check` for each that was to be checked,
    then read `counts`."""

    def __init__(self) -> None:
        self._statuses: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._disagreements: Counter[str] = Counter()
        self._checked = self._disagreeing = self._not_checked = 0

    def add(self, status: str, errors: Iterable[FieldError]) -> None:
        self._statuses[status] += 1
        for error in errors:
            _count_field(self._errors, error.path)

    def add_check(self, disagreements: Sequence[Disagreement] | None) -> None:
        """Count a check; None for one that failed."""
        self._checked += disagreements is not None
        self._not_checked += disagreements is None
        self._disagreeing += bool(disagreements)
        for one in disagreements or ():
            _count_field(self._disagreements, one.path)

    @property
    def counts(self) -> RecordCounts:
        return RecordCounts(
            dict(sorted(self._statuses.items())),
            dict(self._errors.most_common()),
            self._checked,
            self._disagreeing,
            self._not_checked,
            dict(self._disagreements.most_common()),
        )


def _count_field(counter: Counter[str], path: str) -> None:
    name = ".".join("*" if step.isdigit() else step for step in path.split("."))
    is_one_more = name not in counter and len(counter) >= MAX_FIELDS
    counter[OTHER_FIELDS if is_one_more else name] += 1

"""Count the records of a run by status, and their errors by field."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from llm_ocr.messages import pluralize
from llm_ocr.records import FieldError

# Models invent any number of field names that the schema doesn't have.
MAX_FIELDS = 200
OTHER_FIELDS = "(others)"
WHOLE_RECORD = "the whole record"
MAX_FIELDS_SHOWN = 5


@dataclass(frozen=True)
class RecordCounts:
    """Records by status, and errors by field, in which `*` replaces the index in a list."""

    by_status: Mapping[str, int] = field(default_factory=dict)
    errors_by_field: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.by_status.values())

    def summary_rows(self) -> Iterator[tuple[str, str]]:
        """Labels and texts of the printed summary; none without records."""
        if self.by_status:
            statuses = (f"{count:,} {status}" for status, count in self.by_status.items())
            yield "Records", f"{self.total:,}  {'  '.join(statuses)}"
        if self.errors_by_field:
            fields = (f"{name or WHOLE_RECORD} {n:,}" for name, n in self.errors_by_field.items())
            more = len(self.errors_by_field) - MAX_FIELDS_SHOWN
            others = [pluralize(more, "more field")] if more > 0 else []
            yield "Errors in", ", ".join([*islice(fields, MAX_FIELDS_SHOWN), *others])


class RecordCounter:
    """Call `add(status, errors)` for each record, then read `counts`."""

    def __init__(self) -> None:
        self._statuses: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def add(self, status: str, errors: Iterable[FieldError]) -> None:
        self._statuses[status] += 1
        for error in errors:
            steps = error.path.split(".")
            name = ".".join("*" if step.isdigit() else step for step in steps)
            is_one_more = name not in self._errors and len(self._errors) >= MAX_FIELDS
            self._errors[OTHER_FIELDS if is_one_more else name] += 1

    @property
    def counts(self) -> RecordCounts:
        return RecordCounts(dict(sorted(self._statuses.items())), dict(self._errors.most_common()))

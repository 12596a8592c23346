"""What became of a run's records, counted while they are read."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from llm_ocr.messages import counted
from llm_ocr.parsing.schema import FieldError

# Names of fields that a schema doesn't have are made up by models, without end.
MOST_FIELDS = 200
OTHERS = "(others)"
WHOLE = "the whole record"
FIELDS_SAID = 5


@dataclass(frozen=True)
class RecordCounts:
    """Records by status, and errors by field: a place in a list stands as `*`."""

    by_status: Mapping[str, int] = field(default_factory=dict)
    errors_by_field: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.by_status.values())

    def said(self) -> Iterator[tuple[str, str]]:
        """The account in words, with what each line is about; nothing where there is no record."""
        if self.by_status:
            statuses = (f"{count:,} {status}" for status, count in self.by_status.items())
            yield "Records", f"{self.total:,}  {'  '.join(statuses)}"
        if self.errors_by_field:
            fields = (f"{name or WHOLE} {n:,}" for name, n in self.errors_by_field.items())
            more = len(self.errors_by_field) - FIELDS_SAID
            others = [counted(more, "more field")] if more > 0 else []
            yield "Errors in", ", ".join([*islice(fields, FIELDS_SAID), *others])


class RecordTally:
    """`tally.add(status, errors)` for each record, then `tally.counts`."""

    def __init__(self) -> None:
        self._statuses: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def add(self, status: str, errors: Iterable[FieldError]) -> None:
        self._statuses[status] += 1
        for error in errors:
            steps = error.path.split(".")
            name = ".".join("*" if step.isdigit() else step for step in steps)
            is_one_more = name not in self._errors and len(self._errors) >= MOST_FIELDS
            self._errors[OTHERS if is_one_more else name] += 1

    @property
    def counts(self) -> RecordCounts:
        return RecordCounts(dict(sorted(self._statuses.items())), dict(self._errors.most_common()))

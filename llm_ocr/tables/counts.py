"""Results of items, and their counts, summed over parts, shards and runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llm_ocr.records import PageStatus
from llm_ocr.tables.schema import Row


class CountMismatchError(Exception):
    """The items that went in and the rows that came out differ: nothing may be published."""


@dataclass(frozen=True)
class ItemResult:
    """The result of one item: its rows by table, its status, and its usage.

    `task` names the task in a stage that has several. `doubt` is a quality issue of an item that is
    `ok` nevertheless. `is_routed`: the embedded engine read it instead of the model.
    `is_unimproved`: it was redone without a better result, so its earlier rows
    and status remain.
    """

    item_id: str
    status: str
    rows: Mapping[str, Sequence[Row]]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 0
    error_code: str | None = None
    is_unimproved: bool = False
    task: str | None = None
    doubt: str | None = None
    is_routed: bool = False


def doubt_reason(row: Row) -> str | None:
    """The quality issue of a row that is `ok` nevertheless; None without one."""
    return row.get("flaw") if row["status"] == PageStatus.OK else None


@dataclass
class Counts:
    """Counts of items by status, error, attempts, task and quality issue, and their usage.

    `tasks` has keys of task and status, as `data ok`; `doubts` counts the items that are `ok`
    despite a quality issue, by that issue. `routed` are the items that the embedded engine read
    instead of the model, `routed_tokens` the tokens of their text, which are also among
    `completion_tokens`.
    """

    items: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)
    doubts: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    routed: int = 0
    routed_tokens: int = 0

    def count(self, result: ItemResult) -> None:
        self.items += 1
        _increment(self.statuses, result.status, 1)
        if result.error_code is not None:
            _increment(self.errors, result.error_code, 1)
        if result.task is not None:
            _increment(self.tasks, f"{result.task} {result.status}", 1)
        if result.doubt is not None:
            _increment(self.doubts, result.doubt, 1)
        _increment(self.attempts, str(result.attempts), 1)
        for table, rows in result.rows.items():
            _increment(self.rows, table, len(rows))
        self.prompt_tokens += result.prompt_tokens
        self.completion_tokens += result.completion_tokens
        if result.is_routed:
            self.routed += 1
            self.routed_tokens += result.completion_tokens

    def add(self, other: "Counts") -> None:
        self.items += other.items
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.routed += other.routed
        self.routed_tokens += other.routed_tokens
        for name in ("statuses", "errors", "attempts", "rows", "tasks", "doubts"):
            for key, value in getattr(other, name).items():
                _increment(getattr(self, name), key, value)

    @property
    def by_task(self) -> dict[str, dict[str, int]]:
        """Task -> status -> items."""
        by_task: dict[str, dict[str, int]] = {}
        for key, count in sorted(self.tasks.items()):
            task, _, status = key.partition(" ")
            by_task.setdefault(task, {})[status] = count
        return by_task


def _increment(counts: dict[str, int], key: str, value: int) -> None:
    counts[key] = counts.get(key, 0) + value


def total(counts: Iterable[Counts]) -> Counts:
    """The sum of counts."""
    result = Counts()
    for part in counts:
        result.add(part)
    return result

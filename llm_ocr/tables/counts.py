"""What became of items, added up over parts, shards and runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llm_ocr.records import PageStatus
from llm_ocr.tables.schema import Row


class BalanceError(Exception):
    """Items that went in and rows that came out differ: nothing may be published."""


@dataclass(frozen=True)
class ItemResult:
    """What became of one item: its rows by table, its status, and what it cost.

    `task` is what was asked, where several things may be. `doubt` is what speaks against one that
    is `ok` all the same. `stands`: it was done again and got no better, so that its earlier rows
    and status stand.
    """

    item_id: str
    status: str
    rows: Mapping[str, Sequence[Row]]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 0
    error_code: str | None = None
    stands: bool = False
    task: str | None = None
    doubt: str | None = None


def doubt_of(row: Row) -> str | None:
    """What a row that is `ok` is doubted for all the same; None where it isn't."""
    return row.get("flaw") if row["status"] == PageStatus.OK else None


@dataclass
class Counts:
    """Items by status and what they cost; adds up over parts, shards and runs.

    `tasks` counts them by task and status, as `data ok`, where they have a task; `doubts` those
    that are `ok` and doubted, by what they are doubted for.
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

    def count(self, result: ItemResult) -> None:
        self.items += 1
        _tally(self.statuses, result.status, 1)
        if result.error_code is not None:
            _tally(self.errors, result.error_code, 1)
        if result.task is not None:
            _tally(self.tasks, f"{result.task} {result.status}", 1)
        if result.doubt is not None:
            _tally(self.doubts, result.doubt, 1)
        _tally(self.attempts, str(result.attempts), 1)
        for table, rows in result.rows.items():
            _tally(self.rows, table, len(rows))
        self.prompt_tokens += result.prompt_tokens
        self.completion_tokens += result.completion_tokens

    def add(self, other: "Counts") -> None:
        self.items += other.items
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        for name in ("statuses", "errors", "attempts", "rows", "tasks", "doubts"):
            for key, value in getattr(other, name).items():
                _tally(getattr(self, name), key, value)

    @property
    def by_task(self) -> dict[str, dict[str, int]]:
        """Task -> status -> items."""
        found: dict[str, dict[str, int]] = {}
        for key, count in sorted(self.tasks.items()):
            task, _, status = key.partition(" ")
            found.setdefault(task, {})[status] = count
        return found


def _tally(into: dict[str, int], key: str, value: int) -> None:
    into[key] = into.get(key, 0) + value


def total(counts: Iterable[Counts]) -> Counts:
    """The sum of counts."""
    whole = Counts()
    for one in counts:
        whole.add(one)
    return whole

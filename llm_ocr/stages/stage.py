"""What every stage is: for each item, build a request, judge the answer, make rows.

The loop over items, the window, the retries and the counting are not here: see `pipeline.py`.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Protocol

from llm_ocr.inference.client import Answer, ChatRequest
from llm_ocr.records import PageError, PageStatus
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.schema import Row
from llm_ocr.tables.shards import ItemResult

# How a stage reads what earlier stages made: (table, shard, columns or None for all) -> rows;
# none where the earlier stage was not run.
ReadShard = Callable[[str, str, Sequence[str] | None], Iterator[Row]]


class Item(Protocol):
    """One thing to be asked about: a page, a figure, a document. Ends in exactly one result."""

    @property
    def item_id(self) -> str: ...

    async def request(self) -> ChatRequest | None:
        """What to ask, or None if no question is needed. Raises PageError."""
        ...

    async def result(self, answer: Answer | None) -> ItemResult:
        """The rows that come of the answer (None: nothing was asked). Raises PageError."""
        ...

    def failure(self, error: PageError) -> ItemResult:
        """The row that says why there is no better one."""
        ...


class Stage(Protocol):
    """A name, the tables it writes, and its items for a shard."""

    @property
    def name(self) -> str: ...

    @property
    def tables(self) -> Sequence[str]: ...

    def items(self, shard: Shard) -> AsyncIterator[Item]: ...


def outcome(
    status: PageStatus,
    answer: Answer | None,
    error: PageError | None = None,
    *,
    model: str,
    profile: str,
    prompt_hash: str,
) -> dict[str, object]:
    """The columns that say what became of an item and what it cost."""
    return {
        "status": status.value,
        "error_code": error.code.value if error else None,
        "error": error.message if error else None,
        "attempts": answer.attempts if answer else error.attempts if error else 0,
        "finish_reason": answer.finish_reason if answer else None,
        "prompt_tokens": answer.prompt_tokens if answer else 0,
        "completion_tokens": answer.completion_tokens if answer else 0,
        "seconds": answer.seconds if answer else 0.0,
        "model": model,
        "profile": profile,
        "prompt_hash": prompt_hash,
    }


def item_result(item_id: str, row: Row, rows: dict[str, Sequence[Row]]) -> ItemResult:
    """The result whose status and costs stand in `row`, the item's own row."""
    return ItemResult(
        item_id=item_id,
        status=row["status"],
        rows=rows,
        prompt_tokens=row.get("prompt_tokens", 0),
        completion_tokens=row.get("completion_tokens", 0),
        attempts=row.get("attempts", 0),
        error_code=row["error_code"],
    )

"""Reprocess pages of committed shards: what a retry and a reparse have in common."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from llm_ocr.batch.events import Note
from llm_ocr.batch.partition import WorkerPartition
from llm_ocr.batch.stage_runner import RunContext, ShardTask
from llm_ocr.document.items import Item
from llm_ocr.messages import pluralize
from llm_ocr.storage.store import Store
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.plan import Plan, Shard
from llm_ocr.tables.read import read_shard_rows
from llm_ocr.tables.schema import Row

Chosen = TypeVar("Chosen")


class ReworkStage(ABC, Generic[Chosen]):
    """Extract for the chosen pages of committed shards; the others are kept.

    `command` is the command that does this, with its own options. `attempt_key` as in `ShardTask`.
    `columns` are those by which pages are chosen. `unchanged_pages` counts pages that can't be
    done, by the reason.
    """

    name = "extract"
    asks_model = True
    columns: Sequence[str]

    def __init__(self, context: RunContext, command: str, attempt_key: str) -> None:
        self.command = command
        self.unchanged_pages: Counter[str] = Counter()
        self._store, self._commit_index = context.store, context.commit_index
        self._attempt_key = attempt_key
        self._chosen: dict[str, Sequence[Chosen]] = {}

    def tasks(self, plan: Plan) -> list[ShardTask]:
        """The shards of the plan that are to be done."""
        found = self.pending_generations()
        return [
            ShardTask(
                shard,
                found[shard.name] + 1,
                {},
                partial(self._choose_pages, shard.name, found[shard.name], plan),
                self._attempt_key,
            )
            for shard in plan.shards
            if shard.name in found
        ]

    def notes(self) -> Iterator[Note]:
        """The pages that could not be done, for people."""
        for why, pages in self.unchanged_pages.items():
            yield Note(f"{pluralize(pages, 'page')} unchanged: {why}")

    @abstractmethod
    def pending_generations(self) -> Mapping[str, int]:
        """The shards that are to be done, each with the generation whose pages are looked at."""

    @abstractmethod
    def choose(self, row: Row, plan: Plan) -> Chosen | None:
        """What is to be done about a page; None if it is kept."""

    @abstractmethod
    def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator[Item[ItemResult]]:
        """As `Stage.items`."""

    @abstractmethod
    def factory(self) -> "ReworkFactory":
        """Creates the same in another process, from the run as seen there."""

    def _choose_pages(
        self, shard: str, generation: int, plan: Plan, store: Store
    ) -> frozenset[str] | None:
        """Choose the shard's pages; returns those that are kept."""
        unchanged: set[str] = set()
        chosen: list[Chosen] = []
        for row in read_shard_rows(store, "pages", shard, generation, self.columns):
            page = self.choose(row, plan)
            if page is None:
                unchanged.add(row["page_id"])
            else:
                chosen.append(page)
        self._chosen[shard] = chosen
        return frozenset(unchanged)


# Sent to other processes.
ReworkFactory = Callable[[RunContext], ReworkStage[Any]]

# Selects what to reprocess, from an index that was just read; None where there is nothing.
ReworkPlanner = Callable[[RunContext, Plan, WorkerPartition], ReworkStage[Any] | None]

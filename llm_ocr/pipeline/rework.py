"""Redo committed shards: what a retry and a reparse are to the worker that runs them."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from llm_ocr.pipeline.partition import WorkerPartition
from llm_ocr.pipeline.stage_runner import ShardTask
from llm_ocr.stages.extract import ExtractStage
from llm_ocr.stages.stage import Stage
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.plan import Plan


class Rework(Protocol):
    """Which pages of committed shards are extracted again."""

    @property
    def command(self) -> str:
        """The command that does this, with its own options."""
        ...

    @property
    def asks(self) -> bool:
        """Whether a model is asked."""
        ...

    def work(self, plan: Plan) -> list[ShardTask]: ...

    def expected(self, work: ShardTask) -> int:
        """How many items a shard will have, as far as it is known."""
        ...

    def stage(self, extract: ExtractStage) -> Stage[Any]: ...

    def factory(self) -> "ReworkFactory":
        """What makes the same in another process, from the run's store as it sees that."""
        ...

    def mark_done(self, shards: Collection[str]) -> None:
        """Take note that other processes have done these shards."""
        ...

    @property
    def unchanged_pages(self) -> Mapping[str, int]:
        """Pages that stayed as they are, counted by the reason."""
        ...


# Goes to other processes.
ReworkFactory = Callable[[Store, CommitIndex], Rework]

# Finds it, from a commit_index that was just read; None where there is nothing to do again.
ReworkPlanner = Callable[[Store, CommitIndex, Plan, WorkerPartition], Rework | None]

"""Events of a run, for progress bars and logs."""

from collections.abc import Callable
from dataclasses import dataclass

from llm_ocr.tables.counts import Counts


@dataclass(frozen=True)
class StageStarted:
    """A stage (or `plan`, the counting of pages) begins, with the items it is expected to have."""

    stage: str
    expected: int


@dataclass(frozen=True)
class ItemsDone:
    """Items of the stage ended with this status; `fresh` ones in this session."""

    stage: str
    status: str
    count: int
    fresh: bool


@dataclass(frozen=True)
class ShardDone:
    """A shard was committed and published; its items were reported before."""

    stage: str
    shard: str
    counts: Counts


@dataclass(frozen=True)
class StageEnded:
    """All items of the stage are committed; `items` of them in all."""

    stage: str
    items: int


@dataclass(frozen=True)
class Note:
    """A message for people: an engine starts, a report was written."""

    text: str


Event = StageStarted | ItemsDone | ShardDone | StageEnded | Note
Notify = Callable[[Event], None]


def discard(event: Event) -> None:
    """A listener that discards events."""

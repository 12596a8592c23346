"""What became of shards that someone else was to do."""

from collections.abc import Sequence

from llm_ocr.pipeline.loop import Work
from llm_ocr.stages.stage import AnyItem, Stage
from llm_ocr.storage.store import Store
from llm_ocr.tables.commits import committed, read_commit
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.shards import publish


def standing(store: Store, stage: Stage[AnyItem], work: Work) -> Counts | None:
    """What the shard's commit counts, published if who wrote it did not; None if there is none."""
    shard = work.shard
    if committed(store, stage.name).get(shard.name, -1) < work.generation:
        return None
    commit = read_commit(store, stage.name, shard.name, work.generation)
    publish(store, commit, stage.tables, shard.order())
    return commit.counts


def not_committed(store: Store, stage: str, work: Sequence[Work]) -> list[str]:
    """The names of those shards whose commits are not there."""
    there = committed(store, stage)
    return [one.shard.name for one in work if there.get(one.shard.name, -1) < one.generation]

"""What of a plan a stage still has to do, from the store alone."""

from collections.abc import Sequence

from llm_ocr.pipeline.loop import Work
from llm_ocr.stages.stage import AnyItem, Stage
from llm_ocr.storage.store import Store
from llm_ocr.tables.plan import Plan, Shard
from llm_ocr.tables.read import published
from llm_ocr.tables.shards import Counts, committed, publish, read_commit

# Stages in the order in which they run, each with those that it is made from.
INPUTS = {"extract": (), "describe": ("extract",), "assemble": ("extract", "describe")}
STAGES = tuple(INPUTS)


def due(store: Store, stage: Stage[AnyItem], plan: Plan) -> tuple[list[Work], Counts]:
    """The shards that are not committed from what their inputs are now; the others' counts.

    Commits that a dead worker did not publish are published.
    """
    generations = committed(store, stage.name)
    inputs = {name: committed(store, name) for name in INPUTS[stage.name]}
    staged = {thing.path.split("/")[2] for thing in store.list(f"_staging/{stage.name}")}
    public = [published(store, table) for table in stage.tables]
    work, done = [], Counts()
    for shard in plan.shards:
        made_of = {name: found[shard.name] for name, found in inputs.items() if shard.name in found}
        if "extract" in INPUTS[stage.name] and "extract" not in made_of:
            continue
        generation = generations.get(shard.name, -1)
        if generation >= 0:
            commit = read_commit(store, stage.name, shard.name, generation)
            if shard.name in staged or any(shard.name not in table for table in public):
                publish(store, commit, stage.tables, shard.order())
            if commit.inputs == made_of:
                done.add(commit.counts)
                continue
        work.append(Work(shard, generation + 1, made_of))
    return work, done


def expected_items(store: Store, stage: str, work: Work) -> int:
    """How many items the stage will have of that shard, as far as it is known."""
    if stage == "extract":
        return work.shard.expected_pages
    if stage == "assemble":
        return work.shard.document_count or work.shard.expected_pages
    commit = read_commit(store, "extract", work.shard.name, work.inputs["extract"])
    return commit.counts.rows.get("figures", 0)


def left(store: Store, plan: Plan, stages: Sequence[str]) -> list[Shard]:
    """Shards that are not committed in all of `stages`."""
    done = [committed(store, name) for name in stages]
    return [shard for shard in plan.shards if any(shard.name not in one for one in done)]

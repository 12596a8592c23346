"""Find the shards of a plan that a stage still has to do, from the store alone."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from llm_ocr.parsing.schema import RecordScope
from llm_ocr.pipeline.figure_tasks import TaskVersions, committed_tasks, is_still_valid, with_tasks
from llm_ocr.pipeline.stage_runner import ShardTask, nothing_unchanged
from llm_ocr.stages.describe import DescribeStage
from llm_ocr.stages.parse import ParseStage
from llm_ocr.stages.stage import AnyItem, Stage
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex, CommitSummary
from llm_ocr.tables.commits import latest_generations, read_commit, unchanged_since
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.data_files import find_rows, latest_ranges, list_data_files, published_ranges
from llm_ocr.tables.plan import Plan, Shard
from llm_ocr.tables.read import read_range, read_shard_rows
from llm_ocr.tables.schema import Row
from llm_ocr.tables.shards import delete_staging, publish

INPUTS = {
    "extract": (),
    "describe": ("extract",),
    "assemble": ("extract", "describe"),
    "parse": ("extract",),
}
STAGES = tuple(INPUTS)
# Those of `run`.
DEFAULT_STAGES = ("extract", "describe", "assemble")
# What the shards of stages are wanted to be asked, by stage.
RequestedTasks = Mapping[str, TaskVersions]
NO_TASKS: RequestedTasks = MappingProxyType({})
# Table -> the stage that makes it.
TABLE_STAGE = {
    "pages": "extract",
    "figures": "extract",
    "descriptions": "describe",
    "documents": "assemble",
    "records": "parse",
}


def pending_shards(
    store: Store,
    commit_index: CommitIndex,
    stage: Stage[AnyItem],
    plan: Plan,
    again: Collection[str] = (),
) -> tuple[list[ShardTask], Counts]:
    """The shards that are not committed from what their inputs are now, or were not asked all that
    is wanted; the others' counts. Records whose status is in `again` are due too.

    Commits that a dead worker did not publish are published.
    """
    publish_unpublished_commits(store, commit_index, stage.name, stage.tables, plan)
    entries, done = commit_index.entries(stage.name), Counts()
    work: list[ShardTask] = []
    for shard, made_of in _ready_shards(commit_index, plan, stage.name):
        entry = entries.get(shard.name)
        asked: dict[str, str] = {}
        if isinstance(stage, DescribeStage | ParseStage):
            asked = dict(stage.asked(shard.name))
        if entry is None:
            work.append(ShardTask(shard, 0, made_of, task_versions=asked))
            continue
        is_current = entry.inputs == made_of and (not asked or asked == committed_tasks(entry))
        is_again = stage.name == "parse" and not entry.counts.statuses.keys().isdisjoint(again)
        if is_current and not is_again:
            done.add(entry.counts)
            continue
        kept, purpose = nothing_unchanged, ""
        if stage.name == "describe":
            kept = partial(_unchanged_descriptions, shard.name, entry, made_of, asked)
        elif stage.name == "parse" and entry.task_versions == asked:
            kept = partial(_unchanged_records, shard.name, entry, made_of, frozenset(again))
            purpose = ",".join(sorted(again))
        work.append(ShardTask(shard, entry.generation + 1, made_of, kept, purpose, asked))
    return work, done


def publish_unpublished_commits(
    store: Store, commit_index: CommitIndex, stage: str, tables: Sequence[str], plan: Plan
) -> None:
    """Publish commits that a dead worker did not, and sweep what it staged for them."""
    staged = {thing.path.split("/")[2] for thing in store.list(f"_staging/{stage}")}
    orders = {shard.name: shard for shard in plan.shards}
    generations = {name: at for name, at in commit_index.committed(stage).items() if name in orders}
    doubtful = {name for name in generations if not commit_index.is_published(stage, name)}
    files = [list_data_files(store, table) for table in tables] if doubtful else []
    public = [latest_ranges(some) for some in files]
    for name in sorted(doubtful | (staged & generations.keys())):
        commit = read_commit(store, stage, name, generations[name]) if name in staged else None
        pieces = [found.get(name) for found in public]
        is_public = all(one is not None and one.generation == generations[name] for one in pieces)
        if name in doubtful and not is_public:
            commit = commit or read_commit(store, stage, name, generations[name])
            publish(store, commit, tables, orders[name].document_order())
        elif commit is not None:
            delete_staging(store, commit)
        if name in doubtful:
            commit_index.mark_published(stage, name)
    own = (file.ranges[0] for some in files for file in some if len(file.ranges) == 1)
    store.delete(one.path for one in own if one.generation < generations.get(one.shard, 0))


def delete_orphaned_staging(store: Store, commit_index: CommitIndex) -> None:
    """Drop parts that came too late for their shard's commit, of workers that died since."""
    orphans: list[str] = []
    for thing in store.list("_staging"):
        _, stage, shard, attempt, _ = thing.path.split("/")
        generation = int(attempt.partition("-")[0])
        if (
            commit_index.is_published(stage, shard)
            and generation <= commit_index.committed(stage)[shard]
        ):
            orphans.append(thing.path)
    store.delete(orphans)


def _ready_shards(
    commit_index: CommitIndex, plan: Plan, stage: str
) -> Iterator[tuple[Shard, dict[str, int]]]:
    """The shards that the stage has something to be made from, and what from."""
    inputs = {name: commit_index.committed(name) for name in INPUTS[stage]}
    for shard in plan.shards:
        made_of = {name: found[shard.name] for name, found in inputs.items() if shard.name in found}
        if "extract" not in INPUTS[stage] or "extract" in made_of:
            yield shard, made_of


def _unchanged_descriptions(
    name: str, entry: CommitSummary, made_of: dict[str, int], asked: TaskVersions, store: Store
) -> frozenset[str]:
    """Descriptions that answer what is asked, of pages that have not changed since."""
    was, now = entry.inputs["extract"], made_of["extract"]
    pages = None if was == now else unchanged_since(store, "extract", name, was, now)
    before = committed_tasks(entry)
    columns = ["description_id", "page_id", "task", "status"]
    rows = read_shard_rows(store, "descriptions", name, entry.generation, columns)
    return frozenset(
        row["description_id"]
        for row in rows
        # Runs from before there were tasks have no such column.
        if row.get("description_id") is not None
        and (pages is None or row["page_id"] in pages)
        and is_still_valid(row, before, asked)
    )


def _unchanged_records(
    name: str, entry: CommitSummary, made_of: dict[str, int], again: Collection[str], store: Store
) -> frozenset[str]:
    """Records to keep, of pages that have not changed since."""
    was, now = entry.inputs["extract"], made_of["extract"]
    changed: set[str] = set()
    if was != now:
        same = unchanged_since(store, "extract", name, was, now)
        for row in read_shard_rows(store, "pages", name, now, ["page_id", "doc_id"]):
            if row["page_id"] not in same:
                changed |= {row["page_id"], row["doc_id"]}
    rows = read_shard_rows(store, "records", name, entry.generation, ["record_id", "status"])
    return frozenset(
        row["record_id"]
        for row in rows
        if row["record_id"] not in changed and row["status"] not in again
    )


def read_shard(
    store: Store, commit_index: CommitIndex, table: str, shard: str, columns: Sequence[str] | None
) -> Iterator[Row]:
    """The rows of a shard in the generation that is known here, or else the newest.

    Descriptions of figures whose page was read again since are left out.
    """
    stage = TABLE_STAGE[table]
    generation = commit_index.committed(stage).get(shard)
    if generation is None:
        return
    try:
        piece = find_rows(store, table, shard, generation)
    except FileNotFoundError:
        piece = published_ranges(store, table)[shard]
    rows = read_range(store, piece, columns)
    made_of = commit_index.entries(stage)[shard].inputs.get("extract")
    now = commit_index.committed("extract").get(shard)
    if table != "descriptions" or made_of is None or now is None or made_of == now:
        yield from rows
        return
    pages = unchanged_since(store, "extract", shard, made_of, now)
    yield from (row for row in rows if row["figure_id"].rpartition("/")[0] in pages)


def expected_items(commit_index: CommitIndex, stage: str, work: ShardTask) -> int:
    """How many items the stage will have of that shard, as far as it is known."""
    if stage == "extract":
        return work.shard.expected_pages
    if stage == "parse" and work.task_versions["parse"].startswith(f"{RecordScope.PAGE}-"):
        return commit_index.entries("extract")[work.shard.name].counts.items
    if stage in ("assemble", "parse"):
        return work.shard.document_count or work.shard.expected_pages
    figures = commit_index.entries("extract")[work.shard.name].counts.rows.get("figures", 0)
    return figures * len(work.task_versions)


def stale_shard_count(commit_index: CommitIndex, plan: Plan, stage: str) -> int:
    """How many shards the stage has done from what their inputs are no more."""
    entries = commit_index.entries(stage)
    made = ((entries.get(shard.name), of) for shard, of in _ready_shards(commit_index, plan, stage))
    return sum(entry is not None and entry.inputs != of for entry, of in made)


def unfinished_shards(
    commit_index: CommitIndex, plan: Plan, stages: Sequence[str], wanted: RequestedTasks = NO_TASKS
) -> list[Shard]:
    """Shards that one of `stages` could do now and has not done from what its inputs are now, or
    not asked what is `wanted`."""
    found: dict[int, Shard] = {}
    for stage in stages:
        entries = commit_index.entries(stage)
        for shard, made_of in _ready_shards(commit_index, plan, stage):
            if not _is_current(entries.get(shard.name), made_of, stage, wanted):
                found[shard.number] = shard
    return list(found.values())


def _is_current(
    entry: CommitSummary | None, made_of: dict[str, int], stage: str, wanted: RequestedTasks
) -> bool:
    if entry is None or entry.inputs != made_of:
        return False
    asked = wanted.get(stage)
    if asked is None:
        return True
    return entry.task_versions == asked if stage == "parse" else not _is_more(entry, asked)


def _is_more(entry: CommitSummary, asked: TaskVersions) -> bool:
    """Whether figures are to be asked what they were not."""
    return with_tasks(committed_tasks(entry), asked) != committed_tasks(entry)


def unfinished_counts(
    commit_index: CommitIndex, plan: Plan, stages: Sequence[str], wanted: RequestedTasks = NO_TASKS
) -> dict[str, int]:
    """Stage -> how many shards it has not done, where there are such; `wanted` as in `undone`."""
    counts: dict[str, int] = {}
    for stage in stages:
        entries = commit_index.entries(stage)
        current = {
            shard.name
            for shard, made_of in _ready_shards(commit_index, plan, stage)
            if _is_current(entries.get(shard.name), made_of, stage, wanted)
        }
        if len(current) < len(plan.shards):
            counts[stage] = len(plan.shards) - len(current)
    return counts


def publish_committed(store: Store, stage: Stage[AnyItem], work: ShardTask) -> Counts | None:
    """What the shard's commit counts, published if who wrote it did not; None if there is none."""
    shard = work.shard
    if latest_generations(store, stage.name).get(shard.name, -1) < work.generation:
        return None
    commit = read_commit(store, stage.name, shard.name, work.generation)
    publish(store, commit, stage.tables, shard.document_order())
    return commit.counts


def uncommitted_shards(store: Store, stage: str, work: Sequence[ShardTask]) -> list[str]:
    """The names of those shards whose commits are not there."""
    there = latest_generations(store, stage)
    return [one.shard.name for one in work if there.get(one.shard.name, -1) < one.generation]

"""Find the shards of a plan that a stage still has to do, from the store alone."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from llm_ocr.batch.requests import TaskVersions, committed_tasks, is_still_valid, with_tasks
from llm_ocr.batch.stage_runner import ShardTask, nothing_unchanged
from llm_ocr.batch.stages import AnyItem, Stage, StepStage
from llm_ocr.document.steps import Assemble, Describe, Extract, Parse
from llm_ocr.parsing.schema import RecordScope
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex, CommitSummary
from llm_ocr.tables.commits import latest_generations, read_commit, unchanged_since
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.data_files import find_rows, latest_ranges, list_data_files, published_ranges
from llm_ocr.tables.plan import Plan, Shard
from llm_ocr.tables.read import read_range, read_shard_rows
from llm_ocr.tables.schema import STAGE_TABLES, Row
from llm_ocr.tables.shards import delete_staging, publish

# Stage -> the stages whose results it reads.
INPUTS = {step.name: step.needs for step in (Extract, Describe, Assemble, Parse)}
# Those of `run`.
DEFAULT_STAGES = ("extract", "describe", "assemble")
# What the settings want to be asked of each stage's shards.
RequestedTasks = Mapping[str, TaskVersions]
NO_TASKS: RequestedTasks = MappingProxyType({})
TABLE_STAGE = {table: stage for stage, tables in STAGE_TABLES.items() for table in tables}


def pending_shards(
    commit_index: CommitIndex,
    stage: Stage[AnyItem],
    plan: Plan,
    redo: Collection[str] = (),
) -> tuple[list[ShardTask], Counts]:
    """The shards without a commit of their current inputs and of all that is to be asked; the
    counts of the others. Records whose status is in `redo` are pending too.

    Reads only what `commit_index` knows, and writes nothing. A worker that is about to do the
    shards calls `publish_unpublished_commits` first.
    """
    entries, extracted = commit_index.entries(stage.name), commit_index.entries("extract")
    work: list[ShardTask] = []
    done = Counts()
    for shard, made_of in _ready_shards(commit_index, plan, stage.name):
        entry = entries.get(shard.name)
        asked: TaskVersions = {}
        if isinstance(stage, StepStage):
            asked = stage.task_versions(shard.name)
        generation, kept, purpose = 0, nothing_unchanged, ""
        if entry is not None:
            is_current = entry.inputs == made_of and (not asked or asked == committed_tasks(entry))
            is_redone = stage.name == "parse" and not entry.counts.statuses.keys().isdisjoint(redo)
            if is_current and not is_redone:
                done.add(entry.counts)
                continue
            generation = entry.generation + 1
            if stage.name == "describe":
                kept = partial(_unchanged_descriptions, shard.name, entry, made_of, asked)
            elif stage.name == "parse" and entry.task_versions == asked:
                kept = partial(_unchanged_records, shard.name, entry, made_of, frozenset(redo))
                purpose = ",".join(sorted(redo))
        expected = _expected_items(stage.name, shard, asked, extracted)
        work.append(ShardTask(shard, generation, made_of, kept, purpose, asked, expected))
    return work, done


def _expected_items(
    stage: str, shard: Shard, asked: TaskVersions, extracted: Mapping[str, CommitSummary]
) -> int:
    """How many items the stage will have for the shard, as far as is known."""
    if stage == "extract":
        return shard.expected_pages
    if stage == "parse" and asked["parse"].startswith(f"{RecordScope.PAGE}-"):
        return extracted[shard.name].counts.items
    if stage in ("assemble", "parse"):
        return shard.document_count or shard.expected_pages
    return extracted[shard.name].counts.rows.get("figures", 0) * len(asked)


def publish_unpublished_commits(
    store: Store, commit_index: CommitIndex, stage: str, plan: Plan
) -> None:
    """Publish the commits of a stage that a dead worker did not, and delete what it staged for
    them."""
    tables = STAGE_TABLES[stage]
    staged = {part.path.split("/")[2] for part in store.list(f"_staging/{stage}")}
    orders = {shard.name: shard for shard in plan.shards}
    generations = {
        name: at for name, at in commit_index.committed_generations(stage).items() if name in orders
    }
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
    """Delete parts that were staged after their shard's commit, by workers that died."""
    orphans: list[str] = []
    for part in store.list("_staging"):
        _, stage, shard, attempt, _ = part.path.split("/")
        generation = int(attempt.partition("-")[0])
        if (
            commit_index.is_published(stage, shard)
            and generation <= commit_index.committed_generations(stage)[shard]
        ):
            orphans.append(part.path)
    store.delete(orphans)


def _ready_shards(
    commit_index: CommitIndex, plan: Plan, stage: str
) -> Iterator[tuple[Shard, dict[str, int]]]:
    """The shards whose inputs are committed, each with the generations of its inputs."""
    inputs = {name: commit_index.committed_generations(name) for name in INPUTS[stage]}
    for shard in plan.shards:
        made_of = {name: found[shard.name] for name, found in inputs.items() if shard.name in found}
        if "extract" not in INPUTS[stage] or "extract" in made_of:
            yield shard, made_of


def _unchanged_descriptions(
    name: str, entry: CommitSummary, made_of: dict[str, int], asked: TaskVersions, store: Store
) -> frozenset[str]:
    """The ids of descriptions to keep: they answer what is asked, and their pages are unchanged."""
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
    name: str, entry: CommitSummary, made_of: dict[str, int], redo: Collection[str], store: Store
) -> frozenset[str]:
    """The ids of records to keep: their pages are unchanged."""
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
        if row["record_id"] not in changed and row["status"] not in redo
    )


def read_shard(
    store: Store, commit_index: CommitIndex, table: str, shard: str, columns: Sequence[str] | None
) -> Iterator[Row]:
    """The rows of a shard in the generation that the index has, or else the newest.

    Descriptions of figures whose page has been read again are left out.
    """
    stage = TABLE_STAGE[table]
    generation = commit_index.committed_generations(stage).get(shard)
    if generation is None:
        return
    try:
        piece = find_rows(store, table, shard, generation)
    except FileNotFoundError:
        piece = published_ranges(store, table)[shard]
    rows = read_range(store, piece, columns)
    made_of = commit_index.entries(stage)[shard].inputs.get("extract")
    now = commit_index.committed_generations("extract").get(shard)
    if table != "descriptions" or made_of is None or now is None or made_of == now:
        yield from rows
        return
    pages = unchanged_since(store, "extract", shard, made_of, now)
    yield from (row for row in rows if row["figure_id"].rpartition("/")[0] in pages)


def stale_shard_count(commit_index: CommitIndex, plan: Plan, stage: str) -> int:
    """How many shards the stage has done from inputs that have changed since."""
    entries = commit_index.entries(stage)
    made = ((entries.get(shard.name), of) for shard, of in _ready_shards(commit_index, plan, stage))
    return sum(entry is not None and entry.inputs != of for entry, of in made)


def unfinished_shards(
    commit_index: CommitIndex, plan: Plan, stages: Sequence[str], wanted: RequestedTasks = NO_TASKS
) -> list[Shard]:
    """Shards that one of `stages` could do now: not done from their current inputs, or not asked
    what is `wanted`."""
    found = {
        shard.number: shard
        for stage in stages
        for shard, is_current in _ready_and_current(commit_index, plan, stage, wanted)
        if not is_current
    }
    return list(found.values())


def _ready_and_current(
    commit_index: CommitIndex, plan: Plan, stage: str, wanted: RequestedTasks
) -> Iterator[tuple[Shard, bool]]:
    """The shards that the stage could do, each with whether it has done it."""
    entries, asked = commit_index.entries(stage), wanted.get(stage)
    for shard, made_of in _ready_shards(commit_index, plan, stage):
        entry = entries.get(shard.name)
        if entry is None or entry.inputs != made_of:
            yield shard, False
        else:
            yield shard, asked is None or _has_answered(entry, stage, asked)


def _has_answered(entry: CommitSummary, stage: str, asked: TaskVersions) -> bool:
    if stage == "parse":
        return entry.task_versions == asked
    return with_tasks(committed_tasks(entry), asked) == committed_tasks(entry)


def unfinished_counts(
    commit_index: CommitIndex, plan: Plan, stages: Sequence[str], wanted: RequestedTasks = NO_TASKS
) -> dict[str, int]:
    """Stage -> how many shards it has not done, where there are any; `wanted` as in
    `unfinished_shards`."""
    counts: dict[str, int] = {}
    for stage in stages:
        ready = _ready_and_current(commit_index, plan, stage, wanted)
        left = len(plan.shards) - sum(is_current for _, is_current in ready)
        if left:
            counts[stage] = left
    return counts


def publish_committed(store: Store, stage: str, work: ShardTask) -> Counts | None:
    """The counts of the shard's commit, published if its writer did not; None without a commit."""
    shard = work.shard
    if latest_generations(store, stage).get(shard.name, -1) < work.generation:
        return None
    commit = read_commit(store, stage, shard.name, work.generation)
    publish(store, commit, STAGE_TABLES[stage], shard.document_order())
    return commit.counts


def uncommitted_shards(store: Store, stage: str, work: Sequence[ShardTask]) -> list[str]:
    """The names of the shards that have no commit yet."""
    there = latest_generations(store, stage)
    return [task.shard.name for task in work if there.get(task.shard.name, -1) < task.generation]

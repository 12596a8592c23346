"""Select what the stages of a run ask: tasks about figures, and records of a schema.

    tasks/NAME-QUESTION.json     what a task is that is not as it comes: its prompt, schema, classes

A commit says by task what its shard was asked, as `QUESTION@SMALLEST`: which question, and below
which share of the page figures were skipped. A run may be described again with other tasks; what
it was asked stays.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from llm_ocr.batch.stages import ReadShard, StepStage
from llm_ocr.document.configure import parse_spec
from llm_ocr.document.figure_tasks import (
    FigureTask,
    TaskConfig,
    config_from_json,
    select_tasks,
    task_of,
)
from llm_ocr.document.steps import Describe, SizedTask
from llm_ocr.models.profile import ModelProfile, Prompt, Task
from llm_ocr.parsing.loading import LoadedSchema, SchemaError
from llm_ocr.records import Description, ErrorCode, PageError, PageStatus
from llm_ocr.settings import Settings
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex, CommitSummary
from llm_ocr.tables.rows import description_item
from llm_ocr.tables.schema import Row
from llm_ocr.tables.user_schemas import save_user_schema

RECORD_STATUSES = (PageStatus.OK, PageStatus.TRUNCATED, PageStatus.FALLBACK, PageStatus.FAILED)


def requested_tasks(settings: Settings, stages: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Stage -> what its shards are to be asked, as their commits say it.

    Raises UnknownTaskError or SchemaError.
    """
    wanted: dict[str, Mapping[str, str]] = {}
    if "describe" in stages:
        wanted["describe"] = requested_figure_tasks(settings)
    if "parse" in stages:
        requested_statuses(settings)
        wanted["parse"] = {"parse": parse_spec(settings).asked}
    return wanted


def requested_statuses(settings: Settings) -> frozenset[str]:
    """Those of records that are to be made again. Raises SchemaError for one that they can't be."""
    given = [one.strip() for one in (settings.redo or "").split(",") if one.strip()]
    for one in given:
        if one not in RECORD_STATUSES:
            raise SchemaError(
                f"`redo` {one}: unknown status; choose from {', '.join(RECORD_STATUSES)}"
            )
    return frozenset(given)


def save_requests(store: Store, settings: Settings, stage: str) -> None:
    """Store in the run what the stage is asked: figures' tasks, the schema of records' columns."""
    if stage == "describe":
        for choice in select_tasks(settings).values():
            if choice.question:
                store.create(_path(choice.name, choice.question), choice.as_json().encode())
    if stage == "parse":
        schema = parse_spec(settings).schema
        save_user_schema(store, schema.schema_hash, schema.name, _author_schema(schema))


def _author_schema(schema: LoadedSchema) -> Mapping[str, object]:
    """The schema as its author wrote it: what guides an engine has no amounts, only numbers."""
    model = getattr(schema.validate, "model", None)
    if model is not None:
        found: Mapping[str, object] = model.model_json_schema(by_alias=False)
        return found
    plain: Mapping[str, object] = json.loads(schema.source)
    return plain


FOLDER = "tasks"
# What a shard was asked whose commit is from before there were tasks: nothing was skipped.
BEFORE: Mapping[str, str] = {Task.DESCRIBE.value: "@0"}

TaskVersions = Mapping[str, str]


def requested_figure_tasks(settings: Settings) -> dict[str, str]:
    """What the settings want to be asked, as commits say it. Raises as `select_tasks`."""
    smallest = settings.min_figure_area
    found = select_tasks(settings)
    return {name: f"{choice.question}@{smallest:g}" for name, choice in found.items()}


def committed_tasks(entry: CommitSummary) -> TaskVersions:
    """What a shard was asked."""
    return entry.task_versions or BEFORE


def with_tasks(before: TaskVersions, wanted: TaskVersions) -> dict[str, str]:
    """What a shard has to be asked now; equal to `before` if nothing is new.

    The same question is new only if smaller figures are wanted than before.
    """
    asked = dict(before)
    for name, one in wanted.items():
        question, smallest = _parts(one)
        was, smallest_was = _parts(before.get(name, ""))
        if name not in before or question != was or smallest < smallest_was:
            asked[name] = one
    return asked


def _parts(asked: str) -> tuple[str, float]:
    question, _, smallest = asked.partition("@")
    return question, float(smallest or 0)


def is_still_valid(row: Row, before: TaskVersions, asked: TaskVersions) -> bool:
    """Whether a description is what would be made of its figure now."""
    task = row["task"]
    was, now = before.get(task, ""), asked.get(task, "")
    is_same_question = _parts(was)[0] == _parts(now)[0]
    return was == now or (is_same_question and row["status"] != PageStatus.SKIPPED)


def describe_stage(
    store: Store, commit_index: CommitIndex, settings: Settings, read_rows: ReadShard
) -> StepStage[Description]:
    """The figures that Extract cut out of a shard's pages, each once for each task that the
    settings want, or that the run was asked before."""
    tasks_of = _task_reader(store, select_tasks(settings))
    wanted, before = requested_figure_tasks(settings), commit_index.entries("describe")
    of_run = _together(before.values())

    def task_versions(shard: str) -> TaskVersions:
        if shard in before:
            return with_tasks(committed_tasks(before[shard]), wanted)
        return wanted or of_run

    def step(shard: str) -> Describe:
        return Describe(tasks_of(task_versions(shard)))

    return StepStage("describe", read_rows, step, description_item, task_versions)


def _together(entries: Iterable[CommitSummary]) -> TaskVersions:
    """All that any shard was asked."""
    asked: dict[str, str] = {}
    for entry in entries:
        asked |= committed_tasks(entry)
    return asked or BEFORE


def _path(name: str, question: str) -> str:
    return f"{FOLDER}/{name}-{question}.json"


def _task_reader(
    store: Store, choices: Mapping[str, TaskConfig]
) -> Callable[[TaskVersions], Sequence[SizedTask]]:
    """Makes the tasks that are asked: those of `choices`, and those that the run was asked before,
    each read once."""

    @cache
    def task(name: str, question: str) -> FigureTask:
        choice = choices.get(name)
        if choice is not None and choice.question == question:
            return task_of(choice)
        return _load_task(store, name, question)

    def tasks_of(asked: TaskVersions) -> Sequence[SizedTask]:
        parts = {name: _parts(version) for name, version in sorted(asked.items())}
        return [SizedTask(task(name, question), size) for name, (question, size) in parts.items()]

    return tasks_of


def _load_task(store: Store, name: str, question: str) -> FigureTask:
    """A task that the run was asked before; one that can't be asked again says why."""
    if not question:
        return task_of(TaskConfig(name))
    try:
        return task_of(config_from_json(store.get(_path(name, question))))
    except (ValueError, OSError, ImportError) as error:
        why = f"the task {name!r} can't be run again: {error}"

    def unavailable(profile: ModelProfile) -> Prompt:
        raise PageError(ErrorCode.READ_ERROR, why)

    return FigureTask(name, unavailable)

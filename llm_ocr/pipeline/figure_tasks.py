"""Select the tasks of Describe: those of the settings, and those that the run had before.

    tasks/NAME-QUESTION.json     what a task is that is not as it comes: its prompt, schema, classes

A commit says by task what its shard was asked, as `QUESTION@SMALLEST`: which question, and below
which share of the page figures were skipped. A run may be described again with other tasks; what
it was asked stays.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from llm_ocr.models.profile import ModelProfile, Prompt, Task
from llm_ocr.records import ErrorCode, PageError, PageStatus
from llm_ocr.settings import Settings
from llm_ocr.stages.describe import DescribeStage, SizedTask
from llm_ocr.stages.stage import ReadShard
from llm_ocr.stages.tasks import (
    NAMES,
    FigureTask,
    TaskConfig,
    config_from_json,
    task_of,
)
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex, CommitSummary
from llm_ocr.tables.schema import Row

if TYPE_CHECKING:
    from llm_ocr.parsing.loading import LoadedSchema

FOLDER = "tasks"
# What a shard was asked whose commit is from before there were tasks: nothing was skipped.
BEFORE: Mapping[str, str] = {Task.DESCRIBE.value: "@0"}
OWN = "own"
# Names are part of ids and file names, and sort as words.
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")

TaskVersions = Mapping[str, str]


class UnknownTaskError(ValueError):
    """The settings name a task that there is none of, or one that says nothing."""


def select_tasks(settings: Settings) -> Mapping[str, TaskConfig]:
    """The tasks in the settings; none for the tasks of the run only. Raises UnknownTaskError."""
    prompt, schema = settings.task_prompt, settings.task_schema
    has_own = prompt is not None or schema is not None
    if settings.describe_task is None:
        names = [] if has_own else [Task.DESCRIBE.value]
    else:
        names = [one.strip() for one in settings.describe_task.split(",") if one.strip()]
    foreign = [one for one in names if one not in NAMES]
    if foreign and (len(foreign) > 1 or not has_own):
        raise UnknownTaskError(
            f"--task {', '.join(foreign)}: unknown task; choose from {', '.join(NAMES)}, or define "
            "one of your own with --task-prompt or --task-schema"
        )
    loaded = None if schema is None else _loaded(schema)
    choices = {name: _choice(name, settings) for name in names if name in NAMES}
    if has_own:
        name = foreign[0] if foreign else _task_name(loaded.name if loaded else OWN)
        if not _NAME.fullmatch(name) or name in NAMES:
            raise UnknownTaskError(
                f"--task {name}: the name of your own task must start with a letter, contain at "
                f"most 40 of a-z, 0-9, - and _, and not be one of {', '.join(NAMES)}"
            )
        choices[name] = TaskConfig(name, prompt, schema, loaded.schema_hash if loaded else None)
    if settings.classes is not None and Task.CLASSIFY.value not in choices:
        raise UnknownTaskError(
            "--classes only applies to --task classify: add it, or remove --classes"
        )
    return choices


def _choice(name: str, settings: Settings) -> TaskConfig:
    if name != Task.CLASSIFY or settings.classes is None:
        return TaskConfig(name)
    classes = dict.fromkeys(one.strip() for one in settings.classes.split(",") if one.strip())
    if len(classes) < 2:
        raise UnknownTaskError(
            f"--classes {settings.classes}: give at least two, separated by commas"
        )
    return TaskConfig(name, classes=tuple(classes))


def _loaded(schema: str) -> "LoadedSchema":
    # Takes jsonschema, which most runs don't need.
    from llm_ocr.parsing.loading import SchemaError, load_schema

    try:
        return load_schema(schema)
    except SchemaError as error:
        raise UnknownTaskError(f"--task-schema: {error}") from error


def _task_name(schema: str) -> str:
    """A schema's name as a task's: `BarChart` becomes `barchart`."""
    return re.sub(r"[^a-z0-9_-]+", "-", schema.lower()).strip("-")[:40] or OWN


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
) -> DescribeStage:
    """The stage as the settings want it, on top of what the run was asked so far."""
    choices = select_tasks(settings)
    for choice in choices.values():
        if choice.question:
            store.create(_path(choice.name, choice.question), choice.as_json().encode())
    wanted, before = requested_figure_tasks(settings), commit_index.entries("describe")
    of_run: list[TaskVersions] = []

    def asked(shard: str) -> dict[str, str]:
        if shard in before:
            return with_tasks(committed_tasks(before[shard]), wanted)
        if wanted:
            return dict(wanted)
        if not of_run:
            of_run.append(_together(before.values()))
        return dict(of_run[0])

    return DescribeStage(read_rows, asked, _task_reader(store, choices))


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
    """Reads what the run was asked before, each task once."""
    known: dict[tuple[str, str], FigureTask] = {
        (one.name, one.question): task_of(one) for one in choices.values()
    }

    def tasks_of(asked: TaskVersions) -> Sequence[SizedTask]:
        found: list[SizedTask] = []
        for name, one in sorted(asked.items()):
            question, smallest = _parts(one)
            if (name, question) not in known:
                known[name, question] = _load_task(store, name, question)
            found.append(SizedTask(known[name, question], smallest))
        return found

    return tasks_of


def _load_task(store: Store, name: str, question: str) -> FigureTask:
    """A task that the run was asked before; one that can't be asked again says why."""
    if not question:
        return task_of(TaskConfig(name))
    try:
        return task_of(config_from_json(store.get(_path(name, question))))
    except (ValueError, OSError, ImportError) as error:
        return FigureTask(
            name, _UnavailablePrompt(f"the task {name!r} can't be run again: {error}")
        )


class _UnavailablePrompt:
    """In place of a prompt that can't be made any more."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __call__(self, profile: ModelProfile) -> Prompt:
        raise PageError(ErrorCode.READ_ERROR, self._why)

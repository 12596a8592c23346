"""Define the tasks for figures: the prompt of each, and how its answer is read."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from llm_ocr.inference.responses import Answer
from llm_ocr.models.profile import FIGURE_TASKS, ModelProfile, Prompt, Task
from llm_ocr.parsing import figure_data
from llm_ocr.parsing.figure_data import NoDataError, figure_csv
from llm_ocr.parsing.json_answers import extract_json
from llm_ocr.parsing.schema import Schema
from llm_ocr.records import FieldError
from llm_ocr.settings import Settings
from llm_ocr.text.normalize import fold_case

if TYPE_CHECKING:
    from llm_ocr.parsing.loading import LoadedSchema

DEFAULT_CLASSES = ("chart", "table", "diagram", "photo", "logo", "other")
NAMES = tuple(task.value for task in FIGURE_TASKS)
OWN_TOKENS = 2048
OWN = "own"
# Names are part of ids and file names, and sort as words.
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
FILL_IN = (
    "Read this figure from a document and fill in the fields. Give null for what it doesn't show."
)


@dataclass(frozen=True)
class TaskConfig:
    """A task as its user chose it. `schema` is what `load_schema` takes; `schema_hash` says what
    was in it."""

    name: str
    prompt: str | None = None
    schema: str | None = None
    schema_hash: str | None = None
    classes: tuple[str, ...] = ()

    @property
    def question(self) -> str:
        """12 hex digits that change with what is asked; empty for a built-in task as it is."""
        asked = [self.prompt, self.schema_hash, list(self.classes)]
        if not any(asked):
            return ""
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def config_from_json(text: str | bytes) -> TaskConfig:
    """What `TaskConfig.as_json` wrote."""
    raw = json.loads(text)
    return TaskConfig(**{**raw, "classes": tuple(raw["classes"])})


@dataclass(frozen=True)
class FigureAnswer:
    """What an answer says: columns of its row. `unreadable` is why it can't be read as the task
    wants it; `is_blank`: there is nothing in the figure that was asked for."""

    text: str | None = None
    data: str | None = None
    confidence: float | None = None
    errors: tuple[FieldError, ...] = ()
    unreadable: str = ""
    is_blank: bool = False


@dataclass(frozen=True)
class FigureTask:
    """One task. `structured_output` goes into the request to constrain the answer's format;
    `format_instructions` describe the format in the prompt where the server can't. Without `read`
    the answer is plain text. `version` is that of its `TaskConfig`."""

    name: str
    prompt: Callable[[ModelProfile], Prompt]
    read: Callable[[Answer], FigureAnswer] | None = None
    structured_output: Mapping[str, object] = field(default_factory=dict)
    format_instructions: str = ""
    version: str = ""

    @property
    def kind(self) -> Task:
        """The built-in task; a user's own one is a description."""
        return Task(self.name) if self.name in NAMES else Task.DESCRIBE


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
            f"`describe_task` {', '.join(foreign)}: unknown task; choose from {', '.join(NAMES)}, "
            "or define one of your own with `task_prompt` or `task_schema`"
        )
    loaded = None if schema is None else _load_task_schema(schema)
    choices = {name: _choice(name, settings) for name in names if name in NAMES}
    if has_own:
        name = foreign[0] if foreign else _task_name(loaded.name if loaded else OWN)
        if not _NAME.fullmatch(name) or name in NAMES:
            raise UnknownTaskError(
                f"`describe_task` {name}: the name of your own task must start with a letter, "
                f"contain at most 40 of a-z, 0-9, - and _, and not be one of {', '.join(NAMES)}"
            )
        choices[name] = TaskConfig(name, prompt, schema, loaded.schema_hash if loaded else None)
    if settings.classes is not None and Task.CLASSIFY.value not in choices:
        raise UnknownTaskError(
            "`classes` only applies to `describe_task` classify: add it, or remove `classes`"
        )
    return choices


def _choice(name: str, settings: Settings) -> TaskConfig:
    if name != Task.CLASSIFY or settings.classes is None:
        return TaskConfig(name)
    classes = dict.fromkeys(one.strip() for one in settings.classes.split(",") if one.strip())
    if len(classes) < 2:
        raise UnknownTaskError(
            f"`classes` {settings.classes}: give at least two, separated by commas"
        )
    return TaskConfig(name, classes=tuple(classes))


def _load_task_schema(schema: str) -> "LoadedSchema":
    # Takes jsonschema, which most runs don't need.
    from llm_ocr.parsing.loading import SchemaError, load_schema

    try:
        return load_schema(schema)
    except SchemaError as error:
        raise UnknownTaskError(f"`task_schema`: {error}") from error


def _task_name(schema: str) -> str:
    """A schema's name as a task's: `BarChart` becomes `barchart`."""
    return re.sub(r"[^a-z0-9_-]+", "-", schema.lower()).strip("-")[:40] or OWN


def task_of(choice: TaskConfig) -> FigureTask:
    """The task that was chosen. What `load_schema` raises comes when an own one is first used."""
    return replace(_task(choice), version=choice.question)


def _task(choice: TaskConfig) -> FigureTask:
    if choice.name == Task.CLASSIFY:
        return _classify(choice.classes or DEFAULT_CLASSES)
    if choice.name == Task.DATA:
        return _data()
    if choice.name in NAMES:
        built_in = Task(choice.name)
        return FigureTask(choice.name, lambda profile: profile.prompt(built_in))
    return _own(choice)


def _data() -> FigureTask:
    return FigureTask(
        Task.DATA.value,
        lambda profile: profile.prompt(Task.DATA),
        _read_data,
        _guided_by(figure_data.SCHEMA_NAME, figure_data.SCHEMA),
        _json_form(figure_data.SCHEMA),
    )


def _read_data(answer: Answer) -> FigureAnswer:
    try:
        data, notes = figure_data.parse_figure_answer(answer.text)
    except NoDataError as error:
        return FigureAnswer(unreadable=str(error))
    if data.kind == figure_data.NONE:
        return FigureAnswer(is_blank=True)
    if data.is_empty:
        return FigureAnswer(
            unreadable=f"the answer speaks of a {data.kind}, but has no values of it"
        )
    return FigureAnswer(figure_csv(data), data.as_json(), errors=_noted(notes))


def _noted(notes: Sequence[str]) -> tuple[FieldError, ...]:
    """The repairs of an answer, as errors of the whole."""
    return tuple(FieldError("", None, note) for note in notes)


def _classify(classes: Sequence[str]) -> FigureTask:
    listed = ", ".join(classes)

    def prompt(profile: ModelProfile) -> Prompt:
        asked = profile.prompt(Task.CLASSIFY)
        text = asked.text.replace("{classes}", listed)
        # A user's own may not say where they go.
        text = text if text != asked.text else f"{text}\nThe classes: {listed}."
        return Prompt(text, asked.max_tokens, asked.guided)

    structured_output = {"structured_outputs": {"choice": list(classes)}, "logprobs": True}
    return FigureTask(
        Task.CLASSIFY.value,
        prompt,
        lambda answer: read_class(answer, classes),
        structured_output,
        f"Answer with one of these, and nothing else: {listed}.",
    )


def read_class(answer: Answer, classes: Sequence[str]) -> FigureAnswer:
    """The class that the answer is, or else the only one that it names."""
    said = _words(answer.text)
    known = {_words(one): one for one in classes}
    named = known.get(said)
    if named is None:
        found = [one for key, one in known.items() if f" {key} " in f" {said} "]
        if len(found) != 1:
            return FigureAnswer(
                unreadable=f"{answer.text.strip()[:80]!r} is not one of the classes"
            )
        return FigureAnswer(found[0])
    return FigureAnswer(named, confidence=_confidence(answer))


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", fold_case(re.sub(r"<[^>]*>", " ", text))))


def _confidence(answer: Answer) -> float | None:
    """How likely the model found its words: the product of their tokens' probabilities. What
    ends the answer is left out."""
    likely = [logprob for token, logprob in answer.logprobs if _words(token)]
    return math.exp(min(0.0, sum(likely))) if likely else None


def _own(choice: TaskConfig) -> FigureTask:
    if choice.schema is None:
        text = choice.prompt or ""
        return FigureTask(choice.name, lambda profile: profile.custom_prompt(text, OWN_TOKENS))
    # Takes jsonschema, which most runs don't need.
    from llm_ocr.parsing.loading import load_schema

    schema = load_schema(choice.schema)
    if choice.schema_hash not in (None, schema.schema_hash):
        raise ValueError(f"the schema {choice.schema} is another one by now")
    return schema_task(choice.name, choice.prompt or FILL_IN, schema)


def schema_task(name: str, text: str, schema: Schema) -> FigureTask:
    """The task to fill in a schema, with `text` as its prompt."""
    return FigureTask(
        name,
        lambda profile: profile.custom_prompt(text, OWN_TOKENS),
        lambda answer: _read_fields(answer, schema),
        _guided_by(schema.name, schema.json_schema),
        _json_form(schema.json_schema),
    )


def _read_fields(answer: Answer, schema: Schema) -> FigureAnswer:
    properties = schema.json_schema.get("properties")
    read = extract_json(answer.text, list(properties) if isinstance(properties, dict) else ())
    if read.value is None:
        return FigureAnswer(unreadable=f"the answer can't be read as JSON: {'; '.join(read.notes)}")
    validated = schema.validate(read.value)
    data = json.dumps(dict(validated.fields), ensure_ascii=False)
    return FigureAnswer(data=data, errors=(*_noted(read.notes), *validated.errors))


def _guided_by(name: str, schema: Mapping[str, object]) -> Mapping[str, object]:
    json_schema = {"name": name, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def _json_form(schema: Mapping[str, object]) -> str:
    return f"Answer with JSON of this schema, and nothing else:\n{json.dumps(schema)}"

"""Pipelines: YAML files that define the steps for documents of a type, validated when loaded.

    name: bill
    types: [bill, invoice]
    targets:
      large: {model: qwen3-vl-8b, base_url: http://10.0.0.5:8000/v1}
    steps:
      - step: extract
        retries: {limit: 3, backoff: 10}
      - step: assemble
      - step: parse
        record_schema: invoice
        target: large

The options of a step are settings of `llm_ocr.settings`, with the same names. A step without a
target uses the engine of the worker's settings. The revision of a pipeline is a hash of its
content; the database keeps each revision that a document was queued with.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files as package_files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator
from sqlalchemy import select

from llm_ocr.auxiliary.options import AuxiliaryOptions, BackEnd
from llm_ocr.classification.options import OTHER, ClassifyOptions
from llm_ocr.messages import CodedError
from llm_ocr.models.catalog import profile_named
from llm_ocr.service.database import Database, now
from llm_ocr.service.review_policy import ReviewPolicy
from llm_ocr.service.schema import pipelines
from llm_ocr.settings import (
    DescribeSettings,
    EngineChoice,
    PageSettings,
    ParseSettings,
    Settings,
    SettingsGroup,
)
from llm_ocr.yaml_files import InvalidYamlError, parse_yaml

if TYPE_CHECKING:
    from llm_ocr.parsing.loading import LoadedSchema

BUILT_IN_FOLDER = "pipelines"
DEFAULT_PIPELINE = "markdown"
SUFFIXES = (".yaml", ".yml")
# The settings that each step accepts as options.
STEP_OPTIONS: Mapping[str, tuple[type[BaseModel], tuple[str, ...]]] = {
    "extract": (PageSettings, ("pages", "text_layer", "min_agreement")),
    "classify": (ClassifyOptions, tuple(ClassifyOptions.model_fields)),
    "auxiliary": (AuxiliaryOptions, tuple(AuxiliaryOptions.model_fields)),
    "describe": (
        DescribeSettings,
        ("describe_task", "task_prompt", "task_schema", "classes", "min_figure_area"),
    ),
    "assemble": (SettingsGroup, ()),
    "parse": (
        ParseSettings,
        (
            *("record_schema", "record_per", "input_mode", "drop_unverified"),
            *("second_pass", "check_model"),
        ),
    ),
}
# A record schema: its name, or the JSON Schema itself.
SchemaSource = str | dict[str, Any]
# The steps of a document before its pages become documents of their own.
STEPS_BEFORE_SPLIT = ("extract", "classify")
# Options that are lists.
LIST_OPTIONS = frozenset({"describe_task", "classes"})
_ClassName = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_-]{0,62}$")]


class InvalidPipelineError(CodedError):
    """A pipeline's file is invalid. Each line of the message names the file and line, what is wrong
    and what is allowed."""


class UnknownPipelineError(CodedError):
    """There is no pipeline with this name, or none for this type of documents."""


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Retries(_StrictModel):
    """Retries of a step whose items failed with retryable errors: at most `limit`, the first after
    `backoff` seconds; the delay doubles each time."""

    limit: Annotated[int, Field(ge=0, le=100)] = 2
    backoff: Annotated[float, Field(ge=0, le=86_400)] = 5.0


class Target(_StrictModel):
    """A model and the server that runs it; without `base_url` the worker starts an engine."""

    model: str
    base_url: str | None = None
    served_model: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "Target":
        from llm_ocr.inference.address import split_credentials
        from llm_ocr.models.catalog import profile_named

        profile_named(self.model)
        if self.base_url is None and self.served_model is not None:
            raise ValueError("served_model is the model's name on a server: add base_url")
        if self.base_url is not None and split_credentials(self.base_url)[1] is not None:
            raise ValueError(
                "base_url contains a user name or password; set keys on the worker instead"
            )
        return self


class PipelineStep(_StrictModel):
    """One step: its options, the target whose engine it uses, and its limits.

    `time_limit` is in seconds and starts with the step's first request. `concurrency` is the number
    of items (pages, figures or records) that a worker has in progress at the same time.
    """

    step: str
    target: str | None = None
    retries: Retries = Retries()
    time_limit: Annotated[float, Field(gt=0)] | None = None
    concurrency: Annotated[int, Field(ge=1)] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The settings that this step sets."""
        values = self.model_dump(exclude_unset=True, mode="json")
        return {name: values[name] for name in STEP_OPTIONS[self.step][1] if name in values}

    @property
    def schemas_by_class(self) -> Mapping[str, SchemaSource]:
        """The record schemas by class of pages, if the step has such."""
        found: Mapping[str, SchemaSource] | None = getattr(self, "schemas", None)
        return found or {}

    @property
    def record_schemas(self) -> Mapping[str | None, SchemaSource]:
        """All record schemas by class of pages; that of None is for whole documents, or pages of
        any class."""
        schema = self.options.get("record_schema")
        found: dict[str | None, SchemaSource] = {} if schema is None else {None: schema}
        found.update(self.schemas_by_class)
        return found


def _step_model(step: str) -> type[PipelineStep]:
    """The pydantic model of a step, with its options declared as in the settings."""
    group, names = STEP_OPTIONS[step]
    options: dict[str, Any] = {}
    for name in names:
        declared = group.model_fields[name]
        options[name] = (declared.annotation, declared)
    for name in LIST_OPTIONS.intersection(names):
        options[name] = (str | list[str] | None, None)
    if step == "parse":
        # The file may contain the JSON Schema itself.
        options["record_schema"] = (SchemaSource | None, None)
        by_class = Annotated[dict[_ClassName, SchemaSource], Field(min_length=1)]
        options["schemas"] = (by_class | None, None)
    tag: Any = Literal[step]
    title = f"{step.capitalize()}Step"
    return create_model(title, __base__=PipelineStep, step=(tag, step), **options)


_STEP_MODELS = {step: _step_model(step) for step in STEP_OPTIONS}


def _any_step() -> Any:  # noqa: ANN401
    union: Any = None
    for model in _STEP_MODELS.values():
        union = model if union is None else union | model
    return Annotated[union, Field(discriminator="step")]


class _Definition(_StrictModel):
    """The content of a pipeline's file."""

    name: Name
    description: str = ""
    types: list[Name] | None = None
    targets: dict[Name, Target] = {}
    steps: list[_any_step()]  # type: ignore[valid-type]
    review: ReviewPolicy = ReviewPolicy()


@dataclass(frozen=True)
class Pipeline:
    """One revision of a pipeline: its steps in order, the targets that they name, and when results
    are reviewed. `content` is the whole definition as JSON. `children` are the pipelines of the
    documents that it splits scans into, by class; one that is loaded from the database has none,
    only their names and revisions in its options."""

    name: str
    description: str
    types: tuple[str, ...]
    steps: tuple[PipelineStep, ...]
    targets: Mapping[str, Target]
    review: ReviewPolicy
    content: str
    children: Mapping[str, "Pipeline"] = field(default_factory=dict)

    @property
    def revision(self) -> str:
        """16 hex digits: a hash of the content, without comments and formatting."""
        ordered = json.dumps(json.loads(self.content), sort_keys=True)
        return hashlib.sha256(ordered.encode()).hexdigest()[:16]

    @property
    def step_names(self) -> list[str]:
        """The names of its steps, in order."""
        return [step.step for step in self.steps]

    @property
    def classification(self) -> ClassifyOptions | None:
        """The options of the step classify, if there is one."""
        options = (step.options for step in self.steps if step.step == "classify")
        return next((ClassifyOptions(**found) for found in options), None)

    @property
    def splits(self) -> bool:
        """Whether it makes several documents of a scan."""
        return self.classification is not None and self.classification.split

    def steps_of(self, *, is_child: bool) -> list[str]:
        """The names of the steps that a document runs. One that will be split runs those that are
        needed for it, and its children run the rest."""
        if is_child:
            return [name for name in self.step_names if name not in STEPS_BEFORE_SPLIT]
        return list(STEPS_BEFORE_SPLIT) if self.splits else self.step_names

    def child_pipeline(self, class_name: str | None) -> tuple[str, str]:
        """The name and revision of the pipeline for a child of a class: its own, if it has none."""
        known = {} if self.classification is None else self.classification.pipelines
        if class_name is None or class_name not in known:
            return self.name, self.revision
        name, _, revision = known[class_name].partition("@")
        return name, revision

    def with_children(self, children: Mapping[str, "Pipeline"]) -> "Pipeline":
        """This pipeline with the pipelines of its children, whose revisions become part of its
        own."""
        content = self.as_dict()
        for step in content["steps"]:
            if step["step"] == "classify":
                step["pipelines"] = {
                    name: f"{child.name}@{child.revision}"
                    for name, child in sorted(children.items())
                }
        return replace(_to_pipeline(_Definition.model_validate(content)), children=children)

    def as_dict(self) -> dict[str, Any]:
        """The content as a dictionary, as in its file: the pipelines of children without their
        revisions."""
        content: dict[str, Any] = json.loads(self.content)
        for step in content["steps"]:
            if "pipelines" in step:
                named = step["pipelines"].items()
                step["pipelines"] = {key: name.partition("@")[0] for key, name in named}
        return content


class PipelineCatalog:
    """The available pipelines, by name and by type of documents."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        """Raises InvalidPipelineError if one names a pipeline for a class that can't have it."""
        resolved = [_find_children(pipeline, pipelines) for pipeline in pipelines]
        self._by_name = {pipeline.name: pipeline for pipeline in resolved}
        self._by_type = {type_: pipeline for pipeline in resolved for type_ in pipeline.types}

    @classmethod
    def load(cls, folder: Path | None = None) -> "PipelineCatalog":
        """Load the built-in pipelines and the YAML files of a folder, which replace built-in
        pipelines of the same name. Raises InvalidPipelineError."""
        found = {pipeline.name: pipeline for pipeline in _load_built_in()}
        if folder is None:
            return cls(list(found.values()))
        own: dict[str, Path] = {}
        types: dict[str, Path] = {}
        for path in pipeline_files(folder):
            pipeline = load_pipeline_file(path)
            for kind, paths, names in (
                ("pipeline", own, [pipeline.name]),
                ("type", types, pipeline.types),
            ):
                for name in names:
                    if name in paths:
                        raise InvalidPipelineError(
                            f"{path}: {paths[name].name} already defines the {kind} {name}; choose "
                            "another name"
                        )
                    paths[name] = path
            # After the built-in ones, so that its types replace theirs.
            found.pop(pipeline.name, None)
            found[pipeline.name] = pipeline
        return cls(list(found.values()))

    def __iter__(self) -> Iterator[Pipeline]:
        return iter(self._by_name.values())

    def names(self) -> list[str]:
        return sorted(self._by_name)

    def by_name(self, name: str) -> Pipeline:
        """Raises UnknownPipelineError."""
        if name not in self._by_name:
            known = ", ".join(self.names())
            raise UnknownPipelineError(f"there is no pipeline {name!r}; use one of {known}")
        return self._by_name[name]

    def for_type(self, type_: str | None) -> Pipeline:
        """The pipeline for documents of a type; `markdown` for documents without a type.

        Raises UnknownPipelineError.
        """
        if type_ is None:
            return self.by_name(DEFAULT_PIPELINE)
        if type_ not in self._by_type:
            known = ", ".join(sorted(self._by_type))
            raise UnknownPipelineError(
                f"there is no pipeline for the type {type_!r}; use one of {known}"
            )
        return self._by_type[type_]


def pipeline_files(folder: Path) -> list[Path]:
    """The YAML files of a folder, sorted. Raises InvalidPipelineError if there is no folder."""
    if not folder.is_dir():
        raise InvalidPipelineError(f"{folder}: the folder of pipelines doesn't exist")
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)


def load_pipeline_file(path: Path) -> Pipeline:
    """Load a pipeline from a YAML file. JSON Schema files that it names become part of it.

    Raises InvalidPipelineError, with the line of each problem.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidPipelineError(f"{path} can't be read: {error}") from error
    return parse_pipeline(text, str(path), path.parent)


def parse_pipeline(text: str, name: str, folder: Path | None = None) -> Pipeline:
    """Parse a pipeline from YAML text. Error messages call it `name`; schema files are relative to
    `folder`, and aren't loaded without one. Raises InvalidPipelineError."""
    try:
        data, lines = parse_yaml(text, name)
    except InvalidYamlError as error:
        raise InvalidPipelineError(str(error)) from error
    if not isinstance(data, dict):
        raise InvalidPipelineError(f"{name}:1: a pipeline must be a mapping with name and steps")
    try:
        definition = _Definition.model_validate(data)
    except ValidationError as error:
        problems = [
            f"{name}:{lines.line_of(problem['loc'])}: {_explain_problem(problem)}"
            for problem in error.errors()
        ]
        raise InvalidPipelineError("\n".join(dict.fromkeys(problems))) from error
    problems = [
        f"{name}:{lines.line_of(where)}: {what}" for where, what in _find_conflicts(definition)
    ]
    if problems:
        raise InvalidPipelineError("\n".join(problems))
    if folder is not None:
        for k, step in enumerate(data["steps"]):
            where = f"{name}:{lines.line_of(('steps', k, 'record_schema'))}"
            _inline_schema(step, "record_schema", folder, where)
            schemas = step.get("schemas") or {}
            for class_name in schemas:
                where = f"{name}:{lines.line_of(('steps', k, 'schemas', class_name))}"
                _inline_schema(schemas, class_name, folder, where)
    return _to_pipeline(_Definition.model_validate(data))


def check_schemas(pipeline: Pipeline, name: str) -> None:
    """Load the schemas that a pipeline names, as a worker would. Raises InvalidPipelineError."""
    from llm_ocr.parsing.loading import SchemaError, load_schema

    for step in pipeline.steps:
        for schema in (*step.record_schemas.values(), step.options.get("task_schema")):
            try:
                # One that is written out was checked when the file was loaded.
                if isinstance(schema, str):
                    load_schema(schema)
            except SchemaError as error:
                raise InvalidPipelineError(f"{name}: {step.step}: {error}") from error


def load_record_schemas(pipeline: Pipeline) -> Mapping[str | None, "LoadedSchema"]:
    """The record schemas of a pipeline by class of pages, as in `PipelineStep.record_schemas`.
    Raises SchemaError."""
    from llm_ocr.parsing.loading import load_schema, schema_from_json

    return {
        class_name: load_schema(source)
        if isinstance(source, str)
        else schema_from_json(source, name=class_name or pipeline.name)
        for step in pipeline.steps
        for class_name, source in step.record_schemas.items()
    }


def save_pipeline(database: Database, pipeline: Pipeline) -> None:
    """Save a revision of a pipeline, and those of its children, for the documents that are queued
    with it."""
    for child in pipeline.children.values():
        save_pipeline(database, child)
    key = {"name": pipeline.name, "revision": pipeline.revision}
    query = select(pipelines.c.revision).filter_by(**key)
    with database.begin() as connection:
        if connection.execute(query).one_or_none() is None:
            # Another gateway may save it at the same moment.
            insert = _insert_if_absent(database)
            values = {**key, "content": pipeline.content, "created_at": now()}
            connection.execute(insert.values(**values).on_conflict_do_nothing())


def load_pipeline(database: Database, name: str, revision: str) -> Pipeline:
    """Load the revision of a pipeline that a document was queued with. Raises
    UnknownPipelineError."""
    query = select(pipelines.c.content).filter_by(name=name, revision=revision)
    with database.read() as connection:
        content = connection.execute(query).scalar_one_or_none()
    if content is None:
        raise UnknownPipelineError(f"the pipeline {name} has no revision {revision}")
    return _to_pipeline(_Definition.model_validate(json.loads(content)))


def _find_children(pipeline: Pipeline, all_pipelines: Sequence[Pipeline]) -> Pipeline:
    """A pipeline with the pipelines of its children: those that it names for a class, and those
    whose types are classes. Children aren't split again."""
    if pipeline.classification is None or not pipeline.splits:
        return pipeline
    found = {other.name: other for other in all_pipelines if not other.splits}
    children = {type_: other for other in found.values() for type_ in other.types}
    for class_name, name in pipeline.classification.pipelines.items():
        if name not in found:
            known = ", ".join(sorted(found))
            raise InvalidPipelineError(
                f"pipeline {pipeline.name}: the class {class_name} can't have the pipeline {name}; "
                f"use one that exists and doesn't split: {known}"
            )
        children[class_name] = found[name]
    return pipeline.with_children(children)


def _insert_if_absent(database: Database) -> Any:  # noqa: ANN401
    from sqlalchemy.dialects import postgresql, sqlite

    dialect: Any = sqlite if database.is_sqlite else postgresql
    return dialect.insert(pipelines)


def _load_built_in() -> Iterator[Pipeline]:
    for entry in sorted(
        package_files("llm_ocr.service").joinpath(BUILT_IN_FOLDER).iterdir(),
        key=lambda entry: entry.name,
    ):
        if entry.name.endswith(SUFFIXES):
            yield parse_pipeline(entry.read_text("utf-8"), entry.name)


def _to_pipeline(definition: _Definition) -> Pipeline:
    content = definition.model_dump(mode="json", exclude_unset=True)
    return Pipeline(
        definition.name,
        definition.description,
        tuple([definition.name] if definition.types is None else definition.types),
        tuple(definition.steps),
        definition.targets,
        definition.review,
        json.dumps(content, ensure_ascii=False),
    )


def _find_conflicts(definition: _Definition) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The conflicts between parts of a definition: location, and what is wrong."""
    seen: list[str] = []
    order = list(STEP_OPTIONS)
    if not definition.steps or definition.steps[0].step != "extract":
        yield ("steps",), "the first step must be extract, which reads the pages"
    for k, step in enumerate(definition.steps):
        where = ("steps", k)
        if step.step in seen:
            yield where, f"duplicate step {step.step}; a pipeline has each step at most once"
        elif seen and order.index(step.step) < order.index(seen[-1]):
            yield (
                where,
                f"{step.step} can't follow {seen[-1]}; the order is {', '.join(order)}",
            )
        seen.append(step.step)
        if step.target is not None and step.step == "assemble":
            yield (*where, "target"), "assemble uses no model: remove the target"
        elif step.target is not None and step.target not in definition.targets:
            known = ", ".join(definition.targets) or "none"
            problem = f"there is no target {step.target!r}; this file's targets: {known}"
            yield (*where, "target"), problem
        if step.step == "auxiliary" and all(value is None for value in step.options.values()):
            kinds = ", ".join(AuxiliaryOptions.model_fields)
            example = "such as barcode: {expect: [{symbology: QR Code}]}"
            yield where, f"auxiliary searches for nothing: add one of {kinds}, {example}"
        if step.step == "auxiliary":
            asks = bool(AuxiliaryOptions(**step.options).of(BackEnd.VLM))
            if asks and step.target is None:
                yield where, "back_end: vlm needs a target: name one of a vision model"
            if step.target is not None and not asks:
                yield (*where, "target"), "no kind has back_end: vlm: remove the target"
        if step.step == "classify" and step.target is None and "classifier" not in step.options:
            yield where, "classify has neither a classifier nor a model: add one, or a target"
        if step.step == "parse":
            for place, problem in _find_schema_conflicts(step, definition.steps[:k]):
                yield (*where, *place), problem
        for option, problem in _find_invalid_options(step):
            yield (*where, option), problem
    if definition.review.needs_record and "parse" not in seen:
        yield ("review",), "these conditions are about a record's values: add the step parse"
    if definition.review.unknown_class and "classify" not in seen:
        yield ("review",), "unknown_class needs the step classify: add it"
    if definition.review.unmet_expectations and not _has_expectations(definition):
        yield ("review",), "unmet_expectations needs the step auxiliary with a kind that has expect"


def _has_expectations(definition: _Definition) -> bool:
    return any(
        AuxiliaryOptions(**step.options).has_expectations
        for step in definition.steps
        if step.step == "auxiliary"
    )


def _find_schema_conflicts(
    parse: PipelineStep, before: Sequence[PipelineStep]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The problems with the schemas of a step parse: location within the step, what is wrong."""
    from llm_ocr.parsing.loading import BUILT_IN as SCHEMAS

    if not parse.record_schemas:
        yield (), "'record_schema' is missing: add it, or schemas with a schema for each class"
    for class_name, schema in parse.record_schemas.items():
        place = ("record_schema",) if class_name is None else ("schemas", class_name)
        is_name = isinstance(schema, str) and ":" not in schema
        if is_name and not str(schema).endswith((".py", ".json")) and schema not in SCHEMAS:
            forms = ", ".join(SCHEMAS)
            forms += ", a .json file, module:Class, a .py file, or a JSON Schema"
            yield place, f"there is no schema {schema!r}; use one of {forms}"
    if not parse.schemas_by_class:
        return
    if None in parse.record_schemas:
        yield ("schemas",), "record_schema and schemas are alternatives: remove one of them"
    classify = next((step for step in before if step.step == "classify"), None)
    if classify is None:
        yield ("schemas",), "schemas are chosen by the class of a page: add the step classify"
    if OTHER in parse.schemas_by_class:
        problem = f"pages of class {OTHER!r} are left to people: no schema can be for them"
        yield ("schemas", OTHER), problem
    elif classify is not None and "classifier" not in classify.options:
        # With a classifier, its classes are known when a document begins.
        for class_name in unknown_classes(parse, classify.options.get("page_classes") or ()):
            known = ", ".join(classify.options.get("page_classes") or ())
            problem = f"there is no class {class_name!r}; the step classify has {known}"
            yield ("schemas", class_name), problem


def unknown_classes(parse: PipelineStep, known: Iterable[str]) -> list[str]:
    """The classes that a step parse has schemas for, and that a step classify doesn't know."""
    return sorted(parse.schemas_by_class.keys() - set(known))


def _find_invalid_options(step: PipelineStep) -> Iterator[tuple[str, str]]:
    """The options whose values have the right type but are invalid."""
    from llm_ocr.document.figure_tasks import UnknownTaskError, select_tasks
    from llm_ocr.sources.inputs import parse_pages

    options = step.options
    if step.step == "classify":
        try:
            ClassifyOptions(**options)
        except ValidationError as error:
            for found in error.errors():
                yield "page_classes", str(found["msg"]).removeprefix("Value error, ")
        for name in ("first_page_classes", "pipelines"):
            if options.get(name) and not options.get("split"):
                yield name, f"{name} needs split: true"
        if any("@" in name for name in options.get("pipelines", {}).values()):
            yield "pipelines", "a pipeline has no revision here: remove it from the name"
    if options.get("pages") is not None:
        try:
            parse_pages(options["pages"])
        except ValueError as error:
            yield "pages", str(error)
    if options.get("check_model") not in (None, EngineChoice.EMBEDDED):
        try:
            profile_named(options["check_model"])
        except ValueError as error:
            yield "check_model", str(error)
    if str(options.get("task_prompt") or "").startswith("@"):
        yield "task_prompt", "@FILE is not supported here; write the prompt into this file"
    elif step.step == "describe" and options.get("task_schema") is None:
        joined = {
            name: ",".join(options[name]) for name in LIST_OPTIONS if _is_list(options.get(name))
        }
        try:
            # model_construct: the environment must not be read.
            select_tasks(Settings.model_construct(**{**options, **joined}))
        except UnknownTaskError as error:
            yield "classes" if "`classes`" in str(error) else "describe_task", str(error)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _inline_schema(parent: dict[str, Any], key: str, folder: Path, where: str) -> None:
    """Replace the name of a JSON Schema file with its content, so that the revision covers it."""
    from llm_ocr.parsing.loading import SchemaError, schema_from_json

    schema = parent.get(key)
    if schema is None:
        return
    if isinstance(schema, str) and schema.endswith(".json") and "://" not in schema:
        path = folder / schema
        try:
            schema = parent[key] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidPipelineError(f"{where}: {path} can't be read ({error})") from error
    if isinstance(schema, dict):
        try:
            schema_from_json(schema)
        except SchemaError as error:
            raise InvalidPipelineError(f"{where}: {error}") from error


def _explain_problem(problem: Any) -> str:  # noqa: ANN401
    """What is wrong, and what is allowed."""
    where, kind = problem["loc"], problem["type"]
    key = str(where[-1]) if where else "the pipeline"
    if kind == "extra_forbidden":
        return f"unknown key {key!r}; use {', '.join(_allowed_fields(where))}"
    if kind == "missing":
        return f"{key!r} is missing"
    if kind == "union_tag_not_found":
        return f"a step must be a mapping with the key 'step', one of {', '.join(STEP_OPTIONS)}"
    if kind == "union_tag_invalid":
        return f"there is no such step; use one of {', '.join(STEP_OPTIONS)}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if kind == "string_pattern_mismatch":
        message = "a name starts with a letter and has at most 63 of a-z, 0-9, - and _"
    return f"{key}: {message[0].lower()}{message[1:]}"


def _allowed_fields(where: Sequence[str | int]) -> list[str]:
    """The fields that are allowed where a problem is."""
    model: type[BaseModel] = _Definition
    if where[0] == "targets":
        model = Target
    elif where[0] == "review":
        return ReviewPolicy.conditions()
    elif where[0] == "steps" and len(where) > 3:
        model = _STEP_MODELS[str(where[2])]
        for key in where[3:-1]:
            model = _nested_model(model, key)
    return list(model.model_fields)


def _nested_model(model: type[BaseModel], key: str | int) -> type[BaseModel]:
    """The model of the value of a field, or of its items; `model` itself if there is none."""
    annotation = model.model_fields[key].annotation if key in model.model_fields else None
    found: list[Any] = [annotation]
    while found:
        one = found.pop()
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
        found += get_args(one)
    return model

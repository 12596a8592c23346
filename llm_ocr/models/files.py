"""Read a user's profile file (TOML or YAML) as changes to a built-in profile.

A key other than `id` and `model` that is left out has the `base` profile's value.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from llm_ocr.models import (
    datalab_html,
    deepseek_ocr,
    dots_ocr,
    elements,
    infinity_parser,
    lighton_ocr,
    lighton_ocr_3,
    markdown_blocks,
    olmocr,
    ovis_ocr,
    paddleocr_vl,
    qwen_vl,
    unlimited_ocr,
)
from llm_ocr.models.generic import GENERIC
from llm_ocr.models.geometry import BoxUnit
from llm_ocr.models.profile import (
    TRUST_REMOTE_CODE,
    Argument,
    Card,
    Gives,
    ModelProfile,
    Parser,
    Prompt,
    Rung,
    Serving,
    Task,
)
from llm_ocr.models.version_issues import VersionIssue

# The built-in parsers by the names that profile files use.
PARSERS: Mapping[str, Parser] = {
    "datalab-html": datalab_html.parse,
    "deepseek-grounded": deepseek_ocr.parse,
    "dots-json": dots_ocr.parse,
    "elements": elements.parse,
    "infinity-json": infinity_parser.parse,
    "lighton": lighton_ocr.parse,
    "lighton-grounded": lighton_ocr_3.parse,
    "markdown": markdown_blocks.parse,
    "olmocr": olmocr.parse,
    "ovis": ovis_ocr.parse,
    "paddleocr": paddleocr_vl.parse,
    "qwen2.5-html": qwen_vl.parse_qwen2_5,
    "qwen3-html": qwen_vl.parse_qwen3,
    "unlimited-grounded": unlimited_ocr.parse,
}

NonEmpty = Annotated[str, Field(min_length=1)]
# Tables are read strictly: a string "12" is not a number. Names of enums are converted.
TaskName = Annotated[Task, Field(strict=False)]
GivesName = Annotated[Gives, Field(strict=False)]
Sampling = dict[str, object]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PromptTable(_Table):
    text: str
    max_tokens: PositiveInt
    guided: bool = True


class ImageTable(_Table):
    longest_side: Annotated[int, Field(ge=64, le=16384)] | None = None
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] | None = None
    smallest_side: Annotated[int, Field(ge=0, le=16384)] | None = None
    max_pixels: Annotated[int, Field(ge=0)] | None = None
    min_pixels: Annotated[int, Field(ge=0)] | None = None
    multiple_of: Annotated[int, Field(ge=1, le=64)] | None = None


class RungTable(_Table):
    name: NonEmpty
    task: TaskName = Task.DOCUMENT
    sampling: Sampling = Field(default_factory=dict)
    scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    bands: Annotated[int, Field(ge=1, le=8)] = 1


class ArgumentTable(_Table):
    flag: Annotated[str, Field(pattern="^--[a-z]")]
    value: str | int | float | None = None
    why: str = ""


class IssueTable(_Table):
    problem: NonEmpty
    source: NonEmpty
    first: Annotated[str, Field(pattern=r"^\d")] = "0"
    before: Annotated[str, Field(pattern=r"^\d")] | None = None
    package: NonEmpty = "vllm"
    stops: bool = False


class ServingTable(_Table):
    weights_gib: PositiveFloat | None = None
    max_model_len: PositiveInt | None = None
    page_tokens: PositiveInt | None = None
    kv_kib: PositiveFloat | None = None
    revision: NonEmpty | None = None
    arguments: list[ArgumentTable] | None = None
    issues: list[IssueTable] | None = None


class CardTable(_Table):
    parameters: str | None = None
    license: str | None = None
    license_note: str | None = None
    gives: Annotated[frozenset[GivesName], Field(strict=False)] | None = None
    sources: list[str] | None = None


class ProfileTable(_Table):
    id: NonEmpty
    model: NonEmpty
    base: str = GENERIC.id
    prompts: dict[TaskName, PromptTable] = Field(default_factory=dict)
    sampling: Sampling | None = None
    image: ImageTable = Field(default_factory=ImageTable)
    parser: str | None = None
    box_unit: Annotated[BoxUnit, Field(strict=False)] | None = None
    ladder: list[RungTable] | None = None
    serving: ServingTable = Field(default_factory=ServingTable)
    card: CardTable = Field(default_factory=CardTable)


def profile_from_file(path: Path, built_in: Mapping[str, ModelProfile]) -> ModelProfile:
    """The profile in the file. ValueError names the file and the problem."""
    try:
        table = ProfileTable.model_validate(_read(path))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'the file'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise ValueError(f"{path}: {problems}") from error
    if table.base not in built_in:
        raise _unknown(path, "base", table.base, built_in)
    if table.parser is not None and table.parser not in PARSERS:
        raise _unknown(path, "parser", table.parser, PARSERS)
    parsing = _select_parser(built_in[table.base], table.parser, built_in)
    profile = _merge(built_in[table.base], table, parsing)
    _check(path, profile)
    return profile


def _read(path: Path) -> object:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: can't be read as a profile file: {error}") from error
    if path.suffix.lower() == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: not TOML: {error}") from error
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: not YAML: {error}") from error


def _merge(base: ModelProfile, table: ProfileTable, parsing: tuple[Parser, int]) -> ModelProfile:
    prompts = {
        task: Prompt(given.text, given.max_tokens, given.guided)
        for task, given in table.prompts.items()
    }
    ladder = None if table.ladder is None else tuple(_rung(rung) for rung in table.ladder)
    return replace(
        base,
        id=table.id,
        model=table.model,
        prompts={**base.prompts, **prompts},
        sampling=base.sampling if table.sampling is None else table.sampling,
        image=replace(base.image, **table.image.model_dump(exclude_none=True)),
        parse=parsing[0],
        parser_version=parsing[1],
        # Another parser doesn't take what is composed of elements.
        two_step=base.two_step if table.parser is None else None,
        box_unit=base.box_unit if table.box_unit is None else table.box_unit,
        ladder=base.ladder if ladder is None else ladder,
        serving=_serving(base, table),
        card=_card(base, table.card),
    )


def _rung(table: RungTable) -> Rung:
    return Rung(table.name, table.task, table.sampling, table.scale, table.bands)


def _select_parser(
    base: ModelProfile, parser: str | None, built_in: Mapping[str, ModelProfile]
) -> tuple[Parser, int]:
    """The parser, and its version in the built-in profile that uses it."""
    if parser is None:
        return base.parse, base.parser_version
    parse = PARSERS[parser]
    versions = (known.parser_version for known in built_in.values() if known.parse is parse)
    return parse, next(versions, 1)


def _serving(base: ModelProfile, table: ProfileTable) -> Serving:
    """The base's serving with the file's changes. For other weights than the base's it lacks what
    is true of those alone: their commit, and the trust in their code."""
    pin = base.serving.revision
    changes = table.serving.model_dump(exclude_none=True, exclude={"arguments", "issues"})
    if table.serving.issues is not None:
        changes["issues"] = tuple(VersionIssue(**vars(given)) for given in table.serving.issues)
    if table.model != base.model:
        changes = {"revision": None, **changes}
    if table.serving.arguments is not None:
        changes["arguments"] = tuple(
            Argument(given.flag, None if given.value is None else str(given.value), given.why)
            for given in table.serving.arguments
        )
    elif (table.model, changes.get("revision", pin)) != (base.model, pin):
        changes["arguments"] = tuple(
            argument
            for argument in base.serving.arguments
            if argument.flag != TRUST_REMOTE_CODE.flag
        )
    return replace(base.serving, **changes)


def _card(base: ModelProfile, table: CardTable) -> Card:
    given = table.model_dump(exclude_none=True, exclude={"sources"})
    if table.sources is not None:
        given["sources"] = tuple(table.sources)
    return replace(base.card, verified=False, **given)


def _check(path: Path, profile: ModelProfile) -> None:
    """Check what depends on both the file and its base. Raises ValueError."""
    for rung in profile.ladder:
        if rung.task not in profile.prompts:
            raise ValueError(f"{path}: ladder: {rung.name!r} has no prompt {rung.task.value!r}")
    for task, prompt in profile.prompts.items():
        if prompt.max_tokens >= profile.serving.max_model_len:
            raise ValueError(
                f"{path}: prompts.{task.value}.max_tokens: {prompt.max_tokens} leaves nothing for "
                f"the image in serving.max_model_len {profile.serving.max_model_len}"
            )
    if profile.image.smallest_side > profile.image.longest_side:
        raise ValueError(f"{path}: image.smallest_side: more than image.longest_side")
    if 0 < profile.image.max_pixels < profile.image.min_pixels:
        raise ValueError(f"{path}: image.min_pixels: more than image.max_pixels")
    try:
        samplings = [dict(profile.sampling), *(dict(rung.sampling) for rung in profile.ladder)]
        json.dumps(samplings, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: sampling: can't be sent as JSON: {error}") from error


def _unknown(path: Path, field: str, name: str, known: Iterable[str]) -> ValueError:
    return ValueError(f"{path}: {field}: unknown {name!r}, known are {', '.join(known)}")

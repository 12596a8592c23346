"""`run-batch-job`: records of the images under a prefix of a bucket, told what to do by variables.

The variables are those by which such jobs are known, and stand in the environment, as the job's
definition has it; `LLM_OCR_…` sets everything else.
"""

import atexit
import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, StringConstraints, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from llm_ocr.models.catalog import PROFILES, profile_named
from llm_ocr.models.profile import Task
from llm_ocr.settings import Settings

Prefix = Annotated[
    str,
    BeforeValidator(lambda value: value.strip("/") if isinstance(value, str) else value),
    StringConstraints(min_length=1),
]
Positive = Annotated[int, Field(gt=0)]


class BatchJobError(Exception):
    """A variable that is missing, wrong, or can't be honored; the message has a line for each."""


class Variables(BaseSettings):
    """What a job is told. Fields without a default are required."""

    model_config = SettingsConfigDict(extra="ignore", frozen=True)

    s3_bucket: Annotated[str, StringConstraints(pattern="^[^/:]+$")]
    s3_preprocessed_images_dir_prefix: Prefix
    s3_processed_dataset_prefix: Prefix
    model_name: str = "Qwen/Qwen2.5-VL-3B-Instruct"
    record_schema: Annotated[str, Field(validation_alias="SCHEMA", min_length=1)] = "invoice"
    record_per: Literal["document", "page"] = "document"
    drop_unverified: bool = False
    batch_size: Positive | None = None
    gpu_memory_utilization: Annotated[
        float | None,
        Field(
            gt=0,
            le=1,
            validation_alias=AliasChoices("GPU_MEMORY_UTILIZATION", "GPU_MEMORY_UTILISATION"),
        ),
    ] = None
    max_num_seqs: Positive | None = None
    max_model_len: Positive | None = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    max_tokens: Positive | None = None


@dataclass(frozen=True)
class BatchJob:
    """A job as `parse` takes it; `given` are fields of `Settings`."""

    inputs: str
    out: str
    schema: str
    record_per: str = "document"
    drop_unverified: bool = False
    given: dict[str, Any] = field(default_factory=dict)


def read_job() -> BatchJob:
    """The job that the environment tells of. Raises BatchJobError."""
    try:
        told = Variables()  # type: ignore[call-arg]
    except ValidationError as error:
        raise BatchJobError("\n".join(_said(one) for one in error.errors())) from error
    inputs = f"s3://{told.s3_bucket}/{told.s3_preprocessed_images_dir_prefix}"
    out = f"s3://{told.s3_bucket}/{told.s3_processed_dataset_prefix}"
    _check(told, inputs, out)
    given: dict[str, Any] = {"model": _with_limits(_profile(told.model_name), told)}
    if told.batch_size is not None:
        given["concurrency"] = told.batch_size
    if arguments := _vllm_args(told):
        # vLLM takes the last of those given twice.
        given["vllm_args"] = f"{arguments} {Settings().vllm_args}".strip()
    return BatchJob(inputs, out, told.record_schema, told.record_per, told.drop_unverified, given)


def _said(problem: Any) -> str:  # noqa: ANN401
    name = str(problem["loc"][0]).upper()
    if problem["type"] == "missing":
        return f"{name} is not set: set it in the job's environment"
    return f"{name}={problem['input']}: {problem['msg']}"


def _check(told: Variables, inputs: str, out: str) -> None:
    problems: list[str] = []
    if f"{out}/".startswith(f"{inputs}/"):
        problems.append(
            f"S3_PROCESSED_DATASET_PREFIX={told.s3_processed_dataset_prefix} lies within "
            f"S3_PREPROCESSED_IMAGES_DIR_PREFIX={told.s3_preprocessed_images_dir_prefix}: the next "
            "job would read what this one writes; choose another"
        )
    if problems:
        raise BatchJobError("\n".join(problems))


def _profile(model_name: str) -> str:
    """The profile of that name, or of the model that is called so on the Hub."""
    for profile in PROFILES.values():
        if model_name == profile.model:
            return profile.id
    try:
        profile_named(model_name)
    except ValueError as error:
        models = ", ".join(one.model for one in PROFILES.values() if "/" in one.model)
        raise BatchJobError(
            f"MODEL_NAME={model_name}: {error}; known models are {models}"
        ) from error
    return model_name


def _with_limits(name: str, told: Variables) -> str:
    """The profile, or a file with the same one that has the job's own temperature and limits.

    Raises BatchJobError for limits that leave no room, and where the profile is a file already.
    """
    profile = profile_named(name)
    limits = {"TEMPERATURE": told.temperature, "MAX_TOKENS": told.max_tokens}
    limits |= {"MAX_MODEL_LEN": told.max_model_len}
    given = {variable: value for variable, value in limits.items() if value is not None}
    if not given:
        return name
    if name not in PROFILES:
        raise BatchJobError(
            f"{', '.join(given)}: MODEL_NAME={name} is a profile of your own, which says these "
            "itself; leave them out, or name a model"
        )
    context = told.max_model_len or profile.serving.max_model_len
    prompts = {task: profile.prompt(task) for task in {*profile.prompts, Task.PARSE}}
    # Of a shorter context than usual, an image takes its room beside the answer.
    most = context // 2 if context < profile.serving.max_model_len else context
    longest = {task: min(one.max_tokens, most) for task, one in prompts.items()}
    longest[Task.PARSE] = told.max_tokens or longest[Task.PARSE]
    table = {
        "id": profile.id,
        "base": profile.id,
        "model": profile.model,
        "prompts": {
            task.value: {"text": one.text, "max_tokens": longest[task], "guided": one.guided}
            for task, one in prompts.items()
        },
        "sampling": dict(profile.sampling),
        "serving": {"max_model_len": context},
    }
    if told.temperature is not None:
        table["sampling"] = {**profile.sampling, "temperature": told.temperature}
    with NamedTemporaryFile("w", prefix="llm-ocr-", suffix=".yaml", delete=False) as file:
        # YAML is a superset of JSON.
        json.dump(table, file)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    try:
        profile_named(file.name)
    except ValueError as error:
        said = ", ".join(f"{variable}={value}" for variable, value in given.items())
        raise BatchJobError(f"{said}: {str(error).removeprefix(f'{file.name}: ')}") from error
    return file.name


def _vllm_args(told: Variables) -> str:
    named = {
        "--gpu-memory-utilization": told.gpu_memory_utilization,
        "--max-num-seqs": told.max_num_seqs,
    }
    return " ".join(f"{flag} {value}" for flag, value in named.items() if value is not None)

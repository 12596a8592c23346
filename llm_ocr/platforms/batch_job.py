"""`run-batch-job`: parse the images under a prefix of a bucket, configured by the environment.

The environment variables have the names that such jobs commonly use, and come from the job's
definition; `LLM_OCR_…` sets everything else.
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
    """A variable is missing, invalid or not supported; the message has a line for each of them."""


class Variables(BaseSettings):
    """The environment variables of a job. Fields without a default are required."""

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
    """The arguments of `parse` for a job; `settings` are fields of `Settings`."""

    inputs: str
    out: str
    schema: str
    record_per: str = "document"
    drop_unverified: bool = False
    settings: dict[str, Any] = field(default_factory=dict)


def read_job() -> BatchJob:
    """Read the job from the environment. Raises BatchJobError."""
    try:
        variables = Variables()  # type: ignore[call-arg]
    except ValidationError as error:
        message = "\n".join(_error_message(problem) for problem in error.errors())
        raise BatchJobError(message) from error
    inputs = f"s3://{variables.s3_bucket}/{variables.s3_preprocessed_images_dir_prefix}"
    out = f"s3://{variables.s3_bucket}/{variables.s3_processed_dataset_prefix}"
    _check_prefixes(variables, inputs, out)
    settings: dict[str, Any] = {"model": _with_limits(_profile(variables.model_name), variables)}
    if variables.batch_size is not None:
        settings["concurrency"] = variables.batch_size
    if arguments := _vllm_args(variables):
        # Of repeated arguments vLLM uses the last one.
        settings["vllm_args"] = f"{arguments} {Settings().vllm_args}".strip()
    return BatchJob(
        inputs,
        out,
        variables.record_schema,
        variables.record_per,
        variables.drop_unverified,
        settings,
    )


def _error_message(problem: Any) -> str:  # noqa: ANN401
    name = str(problem["loc"][0]).upper()
    if problem["type"] == "missing":
        return f"{name} is not set: set it in the job's environment"
    return f"{name}={problem['input']}: {problem['msg']}"


def _check_prefixes(variables: Variables, inputs: str, out: str) -> None:
    if f"{out}/".startswith(f"{inputs}/"):
        raise BatchJobError(
            f"S3_PROCESSED_DATASET_PREFIX={variables.s3_processed_dataset_prefix} lies within "
            "S3_PREPROCESSED_IMAGES_DIR_PREFIX="
            f"{variables.s3_preprocessed_images_dir_prefix}: the next job would read what this "
            "one writes; choose another"
        )


def _profile(model_name: str) -> str:
    """The id of the profile with this name, or of the profile for this model on the Hub."""
    for profile in PROFILES.values():
        if model_name == profile.model:
            return profile.id
    try:
        profile_named(model_name)
    except ValueError as error:
        models = ", ".join(profile.model for profile in PROFILES.values() if "/" in profile.model)
        raise BatchJobError(
            f"MODEL_NAME={model_name}: {error}; known models are {models}"
        ) from error
    return model_name


def _with_limits(name: str, variables: Variables) -> str:
    """The profile's name, or the path of a copy of it with the job's temperature and limits.

    Raises BatchJobError for limits that leave no room, and where the profile is a file already.
    """
    profile = profile_named(name)
    limits = {
        "TEMPERATURE": variables.temperature,
        "MAX_TOKENS": variables.max_tokens,
        "MAX_MODEL_LEN": variables.max_model_len,
    }
    set_limits = {variable: value for variable, value in limits.items() if value is not None}
    if not set_limits:
        return name
    if name not in PROFILES:
        raise BatchJobError(
            f"{', '.join(set_limits)}: MODEL_NAME={name} is a profile of your own, which says "
            "these itself; leave them out, or name a model"
        )
    context = variables.max_model_len or profile.serving.max_model_len
    prompts = {task: profile.prompt(task) for task in {*profile.prompts, Task.PARSE}}
    # In a context shorter than the profile's, half is left for the image.
    limit = context // 2 if context < profile.serving.max_model_len else context
    max_tokens = {task: min(prompt.max_tokens, limit) for task, prompt in prompts.items()}
    max_tokens[Task.PARSE] = variables.max_tokens or max_tokens[Task.PARSE]
    table = {
        "id": profile.id,
        "base": profile.id,
        "model": profile.model,
        "prompts": {
            task.value: {
                "text": prompt.text,
                "max_tokens": max_tokens[task],
                "guided": prompt.guided,
            }
            for task, prompt in prompts.items()
        },
        "sampling": dict(profile.sampling),
        "serving": {"max_model_len": context},
    }
    if variables.temperature is not None:
        table["sampling"] = {**profile.sampling, "temperature": variables.temperature}
    with NamedTemporaryFile("w", prefix="llm-ocr-", suffix=".yaml", delete=False) as file:
        # YAML is a superset of JSON.
        json.dump(table, file)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    try:
        profile_named(file.name)
    except ValueError as error:
        listed = ", ".join(f"{variable}={value}" for variable, value in set_limits.items())
        raise BatchJobError(f"{listed}: {str(error).removeprefix(f'{file.name}: ')}") from error
    return file.name


def _vllm_args(variables: Variables) -> str:
    flags = {
        "--gpu-memory-utilization": variables.gpu_memory_utilization,
        "--max-num-seqs": variables.max_num_seqs,
    }
    return " ".join(f"{flag} {value}" for flag, value in flags.items() if value is not None)

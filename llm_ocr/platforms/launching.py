"""Build the job that runs an llm-ocr command on a platform."""

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from llm_ocr.batch.command import has_secrets, without_secrets
from llm_ocr.batch.interruption import BudgetExceededError
from llm_ocr.batch.retry import wanted_pages
from llm_ocr.env_file import variable_name
from llm_ocr.platforms.base import (
    GpuType,
    InvalidStageError,
    InvalidTargetError,
    JobSpec,
    Platform,
)
from llm_ocr.platforms.costs.estimates import price_per_hour
from llm_ocr.platforms.costs.prices import UnknownPriceError
from llm_ocr.platforms.uploads import UploadedFile, plan_uploads
from llm_ocr.report.sessions import read_sessions, total_cost
from llm_ocr.settings import SERVER_KEYS, Settings, gather_settings
from llm_ocr.storage.hub_address import run_uri
from llm_ocr.storage.store import StorageError, open_store

# Secrets of stores and the Hub that are passed from this machine's environment to tasks.
TOKENS = ("HF_TOKEN",)
# Stages that can be launched: those that read documents, and those that continue an earlier run.
PARSE, RETRY = "parse", "retry"
DOCUMENT_STAGES = ("run", "extract")
STAGES = (*DOCUMENT_STAGES, "describe", PARSE, "assemble", RETRY, "reparse")
# Settings that apply to this machine only, and not to tasks.
LOCAL_SETTINGS = frozenset({"log_dir", "prices", "throughput", "shard_index", "shard_count"})
LOOPBACK = ("localhost", "::1", "0.0.0.0", "::")
REMOTE_SCHEMES = ("s3://", "gs://", "hf://")


@dataclass(frozen=True)
class LaunchRequest:
    """The stage to launch, and its options. If `out` is None, `inputs` is only the run."""

    stage: str
    inputs: Sequence[str]
    out: str | None = None
    schema: str | None = None
    update: bool = False
    statuses: Sequence[str] = ()
    errors: Sequence[str] = ()

    @property
    def run(self) -> str:
        """The location of the run."""
        return self.out or self.inputs[-1]


def check_launch(request: LaunchRequest) -> None:
    """Raise InvalidStageError for an unknown stage, or for options that it doesn't take."""
    stage = request.stage
    if stage not in STAGES:
        raise InvalidStageError(f"`stage` {stage}: unknown stage; choose from {', '.join(STAGES)}")
    if stage in (*DOCUMENT_STAGES, PARSE) and request.out is not None:
        pass
    elif stage in DOCUMENT_STAGES:
        raise InvalidStageError(
            f"`stage` {stage} reads documents: name them, and give the run's location with `out`"
        )
    elif request.out is not None or len(request.inputs) != 1:
        raise InvalidStageError(
            f"`stage` {stage} takes one existing run: give it as the only input, without `out`"
        )
    options = (
        ("schema", bool(request.schema), PARSE),
        ("update", request.update, "run"),
        ("statuses", bool(request.statuses), RETRY),
        ("errors", bool(request.errors), RETRY),
    )
    for option, is_given, valid_stage in options:
        if is_given and stage != valid_stage:
            raise InvalidStageError(
                f"`{option}` is only valid with `stage` {valid_stage}, not with `stage` {stage}"
            )
    if stage == PARSE and request.schema is None:
        raise InvalidStageError(
            f"`stage` {PARSE} needs `schema`: a built-in (`llm-ocr schemas`), schema.py, "
            "schema.json, or module:Class of the image"
        )
    if stage == RETRY:
        wanted_pages(request.statuses or ("failed",), request.errors, {})


def create_job(
    request: LaunchRequest,
    settings: Mapping[str, Any],
    *,
    gpu: GpuType | None,
    tasks: int,
    timeout: int,
    image: str | None = None,
) -> tuple[JobSpec, list[UploadedFile]]:
    """The job for the request, and the files to upload to the run before it is submitted.

    Settings come from `settings`, the environment and the env file, as in a run. Raises
    InvalidStageError, SchemaError, and InvalidTargetError if the tasks could not reach what they
    read or write.
    """
    check_launch(request)
    given = gather_settings(settings)
    # `parse` takes it as an argument.
    given.pop("record_schema", None)
    chosen = Settings(**given, record_schema=request.schema)
    changes, files = plan_uploads(chosen, run_uri(request.run, chosen.staging).rstrip("/"))
    extra: list[str] = []
    if request.schema is not None:
        extra += ["--schema", changes.pop("record_schema", request.schema)]
    if request.update:
        extra.append("--update")
    for option, values in (("--status", request.statuses), ("--error", request.errors)):
        extra += [word for value in values for word in (option, value)]
    spec = job_spec(
        *(request.stage, request.inputs if request.out else [], request.run),
        given,
        gpu=gpu,
        tasks=tasks,
        timeout=timeout,
        image=image,
        extra=extra,
        changes=changes,
    )
    return spec, files


def job_spec(
    command: str,
    inputs: Sequence[str],
    out: str,
    settings: Mapping[str, Any],
    *,
    gpu: GpuType | None,
    tasks: int,
    timeout: int,
    image: str | None = None,
    environment: Mapping[str, str] | None = None,
    extra: Sequence[str] = (),
    changes: Mapping[str, str] = MappingProxyType({}),
) -> JobSpec:
    """The job that runs `llm-ocr COMMAND` on a platform with these settings (fields of `Settings`),
    completed by the environment and the env file; `extra` are more arguments, and `changes` are
    settings with another value there than here (a file's path).

    Raises InvalidTargetError if its tasks could not reach what they read or write.
    """
    for uri in (*inputs, out):
        _check_reachable(uri)
    given = gather_settings(settings)
    chosen = Settings(**given).model_copy(update=dict(changes))
    # Settings turns a password within an address into a key.
    names = dict.fromkeys([*given, *SERVER_KEYS.values()])
    plain, secret = _split_secrets(chosen, [name for name in names if name not in LOCAL_SETTINGS])
    tokens = {name: os.environ[name] for name in TOKENS if os.environ.get(name)}
    arguments = (command, *inputs, "--out", out) if inputs else (command, out)
    # A task that finishes early takes over unfinished shards of others.
    last = ("--steal-work",) if inputs and tasks > 1 else ()
    return JobSpec(
        name=f"llm-ocr-{command}-{uuid.uuid4().hex[:8]}",
        command=(*arguments, *extra, *last),
        tasks=tasks,
        gpu=gpu,
        timeout=timeout,
        image=image,
        environment={**(environment or {}), **plain},
        secrets={**tokens, **secret},
    )


def with_price_per_hour(
    settings: Mapping[str, Any], platform: Platform, gpu: GpuType | None, prices: Path | None = None
) -> dict[str, Any]:
    """The settings, completed by the environment and the env file, with the price of the platform's
    machine if they have none and it is known.

    `prices` is a user's file. Raises TomlFileError, and UnknownPriceError if a budget needs the
    price.
    """
    settings = gather_settings(settings)
    if settings.get("price_per_hour") is not None:
        return dict(settings)
    prices = prices or (Path(settings["prices"]) if settings.get("prices") else None)
    try:
        price = price_per_hour(platform.name, platform.machine(gpu), prices)
    except UnknownPriceError as error:
        if settings.get("max_cost") is None:
            return dict(settings)
        raise UnknownPriceError(f"`max_cost` needs `price_per_hour`: {error}") from error
    return {**settings, "price_per_hour": price}


def check_budget(out: str, settings: Mapping[str, Any]) -> None:
    """Raises BudgetExceededError if the run at `out` has used up its budget, as far as this
    machine can see; the workers check it themselves."""
    chosen = Settings(**gather_settings(settings))
    limit = chosen.max_cost
    if limit is None:
        return
    try:
        sessions = read_sessions(open_store(run_uri(out, chosen.staging)))
    except StorageError:
        # The first task has not created it yet, or this machine can't read it.
        return
    spent = total_cost(sessions) or 0.0
    if spent >= limit:
        raise BudgetExceededError(
            f"{out} has cost ${spent:.2f} so far, and its budget (`max_cost`) is ${limit:g}: "
            "nothing was submitted"
        )


def _check_reachable(uri: str) -> None:
    if not uri.startswith(REMOTE_SCHEMES):
        raise InvalidTargetError(
            f"{uri}: a job on a platform can't reach it; give s3://, gs:// or hf:// (copy a folder "
            "there with the cloud's own tool, or `hf upload`)"
        )


def _split_secrets(chosen: Settings, names: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The named settings as environment variables: plain ones and secrets."""
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for name in names:
        value = getattr(chosen, name)
        key = variable_name(name)
        if isinstance(value, SecretStr):
            # An empty secret is none: platforms have no empty secrets.
            if value.get_secret_value():
                secret[key] = value.get_secret_value()
        elif isinstance(value, Path):
            raise InvalidTargetError(
                f"`{name}` {value}: this file is not in the container; leave the option out (or "
                f"unset {key})"
            )
        elif value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if name in SERVER_KEYS:
                _check_address(key, text)
            # An address or argument that has a key in it is a secret, too.
            (secret if has_secrets(text) else plain)[key] = text
    return plain, secret


def _check_address(variable: str, url: str) -> None:
    host = (urlsplit(url).hostname or "").lower()
    if host in LOOPBACK or host.startswith("127."):
        raise InvalidTargetError(
            f"{variable}={without_secrets(url)}: in a task, this address is the task itself, not "
            f"this machine; unset {variable} to have each task start its engine, or give an "
            "address that the tasks can reach"
        )

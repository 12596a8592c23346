"""From what a user wants done in a cloud to the job that does it."""

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from llm_ocr.env_file import variable_of
from llm_ocr.pipeline.command import has_secrets, without_secrets
from llm_ocr.pipeline.interruption import BudgetExceededError
from llm_ocr.pipeline.retrying import wanted_pages
from llm_ocr.platforms.base import Gpu, JobSpec, Platform
from llm_ocr.platforms.carrying import CarriedFile, carried
from llm_ocr.platforms.cluster import NoSuchPlaceError, NoSuchStageError
from llm_ocr.platforms.costs.estimates import price_per_hour
from llm_ocr.platforms.costs.prices import UnknownPriceError
from llm_ocr.report.sessions import read_sessions, total_cost
from llm_ocr.settings import Settings, gathered
from llm_ocr.storage.hub_address import run_uri
from llm_ocr.storage.store import StorageError, open_store

# Secrets of the stores and the model hub that a task needs where its platform has no identity of
# its own for them, taken from the environment of whoever launches.
TOKENS = ("HF_TOKEN",)
# Stages of a launch: those that read documents, and those that take an earlier run.
PARSE, RETRY = "parse", "retry"
OF_DOCUMENTS = ("run", "extract")
STAGES = (*OF_DOCUMENTS, "describe", PARSE, "assemble", RETRY, "reparse")
# Settings that say something of the machine that launches, and nothing of a task.
OF_THIS_MACHINE = frozenset({"log_dir", "prices", "throughput", "shard_index", "shard_count"})
ADDRESSES = ("base_url", "fallback_base_url")
LOOPBACK = ("localhost", "::1", "0.0.0.0", "::")
_REMOTE = ("s3://", "gs://", "hf://")


@dataclass(frozen=True)
class Order:
    """What a launch is to do: `--stage`, and what belongs to it. `inputs` is the run alone where
    `out` is None."""

    stage: str
    inputs: Sequence[str]
    out: str | None = None
    schema: str | None = None
    update: bool = False
    statuses: Sequence[str] = ()
    errors: Sequence[str] = ()

    @property
    def place(self) -> str:
        """Where the run is."""
        return self.out or self.inputs[-1]


def check_order(order: Order) -> None:
    """Raises NoSuchStageError for a stage that there is none of, or that would not begin so."""
    stage = order.stage
    if stage not in STAGES:
        raise NoSuchStageError(f"--stage {stage}: give {', '.join(STAGES)}")
    if stage in (*OF_DOCUMENTS, PARSE) and order.out is not None:
        pass
    elif stage in OF_DOCUMENTS:
        raise NoSuchStageError(
            f"--stage {stage} reads documents: name them, and give --out, where the run goes"
        )
    elif order.out is not None or len(order.inputs) != 1:
        raise NoSuchStageError(
            f"--stage {stage} takes an earlier run, alone: llm-ocr launch PLATFORM RUN --stage "
            f"{stage}, without --out"
        )
    options = (
        ("--schema", bool(order.schema), PARSE),
        ("--update", order.update, "run"),
        ("--status", bool(order.statuses), RETRY),
        ("--error", bool(order.errors), RETRY),
    )
    for option, is_given, its in options:
        if is_given and stage != its:
            raise NoSuchStageError(f"{option} is for --stage {its}, and this is --stage {stage}")
    if stage == PARSE and order.schema is None:
        raise NoSuchStageError(
            f"--stage {PARSE} needs --schema: a built-in (`llm-ocr schemas`), schema.py, "
            "schema.json, or module:Class of the image"
        )
    if stage == RETRY:
        wanted_pages(order.statuses or ("failed",), order.errors, {})


def job_of(
    order: Order,
    settings: Mapping[str, Any],
    *,
    gpu: Gpu | None,
    tasks: int,
    timeout: int,
    image: str | None = None,
) -> tuple[JobSpec, list[CarriedFile]]:
    """The job that does the order, and the files that are to be put in the run's place before.

    Settings come from `settings`, the environment and the env file, as in a run. Raises
    NoSuchStageError, SchemaError, and NoSuchPlaceError where tasks could not reach what they read
    or write.
    """
    check_order(order)
    given = gathered(settings)
    # Of `parse` it is an argument.
    given.pop("record_schema", None)
    chosen = Settings(**given, record_schema=order.schema)
    changes, files = carried(chosen, run_uri(order.place, chosen.staging).rstrip("/"))
    extra: list[str] = []
    if order.schema is not None:
        extra += ["--schema", changes.pop("record_schema", order.schema)]
    if order.update:
        extra.append("--update")
    for option, values in (("--status", order.statuses), ("--error", order.errors)):
        extra += [word for value in values for word in (option, value)]
    spec = job_spec(
        *(order.stage, order.inputs if order.out else [], order.place),
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
    gpu: Gpu | None,
    tasks: int,
    timeout: int,
    image: str | None = None,
    environment: Mapping[str, str] | None = None,
    extra: Sequence[str] = (),
    changes: Mapping[str, str] = MappingProxyType({}),
) -> JobSpec:
    """The job that does `llm-ocr COMMAND` in a cloud with these settings (fields of `Settings`) and
    what the environment and the env file say beside them; `extra` are more arguments, and
    `changes` what settings are there that are something else here (a file's path).

    Raises NoSuchPlaceError where its tasks could not reach what they read or write.
    """
    for place in (*inputs, out):
        _check_reachable(place)
    given = gathered(settings)
    chosen = Settings(**given).model_copy(update=dict(changes))
    # A password within an address has become a key.
    names = dict.fromkeys([*given, "api_key", "fallback_api_key"])
    plain, secret = _split(chosen, [name for name in names if name not in OF_THIS_MACHINE])
    tokens = {name: os.environ[name] for name in TOKENS if os.environ.get(name)}
    arguments = (command, *inputs, "--out", out) if inputs else (command, out)
    # A task that is done takes over what others have not done.
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


def priced(
    settings: Mapping[str, Any], platform: Platform, gpu: Gpu | None, prices: Path | None = None
) -> dict[str, Any]:
    """The settings, and those of the environment and the env file, with the price of the platform's
    machine, if they have none and it is known.

    `prices` is a user's file. Raises TomlFileError, and UnknownPriceError where a budget needs the
    price.
    """
    settings = gathered(settings)
    if settings.get("price_per_hour") is not None:
        return dict(settings)
    prices = prices or (Path(settings["prices"]) if settings.get("prices") else None)
    try:
        price = price_per_hour(platform.name, platform.machine(gpu), prices)
    except UnknownPriceError as error:
        if settings.get("max_cost") is None:
            return dict(settings)
        raise UnknownPriceError(f"--max-cost needs --price-per-hour: {error}") from error
    return {**settings, "price_per_hour": price}


def check_budget(out: str, settings: Mapping[str, Any]) -> None:
    """Raises BudgetExceededError if the run at `out` has used its budget, as far as can be seen
    from here; the workers check it themselves."""
    chosen = Settings(**gathered(settings))
    limit = chosen.max_cost
    if limit is None:
        return
    try:
        sessions = read_sessions(open_store(run_uri(out, chosen.staging)))
    except StorageError:
        # Not there before the first task has made it, or not for whoever launches.
        return
    spent = total_cost(sessions) or 0.0
    if spent >= limit:
        raise BudgetExceededError(
            f"{out} has cost ${spent:.2f} so far, and may cost ${limit:g}: nothing was submitted; "
            "a larger --max-cost goes on with it"
        )


def _check_reachable(place: str) -> None:
    if not place.startswith(_REMOTE):
        raise NoSuchPlaceError(
            f"{place}: a job in a cloud can't reach it; give s3://, gs:// or hf:// (copy a folder "
            "there with the cloud's own tool, or `hf upload`)"
        )


def _split(chosen: Settings, names: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings that were given, as environment variables: those to be seen, and secret ones."""
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for name in names:
        value = getattr(chosen, name)
        key = variable_of(name)
        if isinstance(value, SecretStr):
            # An empty one is none, and platforms have no empty secrets.
            if value.get_secret_value():
                secret[key] = value.get_secret_value()
        elif isinstance(value, Path):
            raise NoSuchPlaceError(
                f"--{name.replace('_', '-')} {value}: it is not in the container; leave it out (or "
                f"unset {key})"
            )
        elif value is not None:
            said = str(value).lower() if isinstance(value, bool) else str(value)
            if name in ADDRESSES:
                _check_address(key, said)
            # A key within an address or an argument is one, too.
            (secret if has_secrets(said) else plain)[key] = said
    return plain, secret


def _check_address(variable: str, url: str) -> None:
    host = (urlsplit(url).hostname or "").lower()
    if host in LOOPBACK or host.startswith("127."):
        raise NoSuchPlaceError(
            f"{variable}={without_secrets(url)}: there, a task would ask itself, and not this "
            f"machine; unset {variable} to have each task start its engine, or give an address "
            "that the tasks reach"
        )

"""From what a user wants done in a cloud to the job that does it."""

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from llm_ocr.pipeline.interruption import BudgetSpentError
from llm_ocr.platforms.base import Gpu, JobSpec, Platform
from llm_ocr.platforms.cluster import NoSuchPlaceError
from llm_ocr.platforms.planning import price_per_hour
from llm_ocr.platforms.prices import NoSuchPriceError
from llm_ocr.report.sessions import read_sessions, total_cost
from llm_ocr.settings import Settings
from llm_ocr.storage.hub_address import run_place
from llm_ocr.storage.store import StorageError, open_store

# Secrets of the stores and the model hub that a task needs where its platform has no identity of
# its own for them, taken from the environment of whoever launches.
TOKENS = ("HF_TOKEN",)
_REMOTE = ("s3://", "gs://", "hf://")


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
) -> JobSpec:
    """The job that does `llm-ocr COMMAND` with these settings (fields of `Settings`) in a cloud.

    Raises NoSuchPlaceError where its tasks could not reach what they read or write.
    """
    for place in (*inputs, out):
        _check_reachable(place)
    chosen = Settings(**settings)
    plain, secret = _split(chosen, settings)
    tokens = {name: os.environ[name] for name in TOKENS if os.environ.get(name)}
    arguments = (command, *inputs, "--out", out) if inputs else (command, out)
    # A task that is done takes over what others have not done.
    return JobSpec(
        name=f"llm-ocr-{command}-{uuid.uuid4().hex[:8]}",
        command=(*arguments, *(("--until-complete",) if inputs and tasks > 1 else ())),
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
    """The settings with the price of the platform's machine, if they have none and it is known.

    `prices` is a user's file. Raises TableFileError, and NoSuchPriceError where a budget needs the
    price.
    """
    if settings.get("price_per_hour") is not None:
        return dict(settings)
    try:
        price = price_per_hour(platform.name, platform.machine(gpu), prices)
    except NoSuchPriceError as error:
        if settings.get("max_cost") is None:
            return dict(settings)
        raise NoSuchPriceError(f"--max-cost needs --price-per-hour: {error}") from error
    return {**settings, "price_per_hour": price}


def check_budget(out: str, settings: Mapping[str, Any]) -> None:
    """Raises BudgetSpentError if the run at `out` has cost what it may, as far as can be seen from
    here; the workers look themselves."""
    limit = settings.get("max_cost")
    if limit is None:
        return
    try:
        sessions = read_sessions(open_store(run_place(out, settings.get("staging"))))
    except StorageError:
        # Not there before the first task has made it, or not for whoever launches.
        return
    spent = total_cost(sessions) or 0.0
    if spent >= limit:
        raise BudgetSpentError(
            f"{out} has cost ${spent:.2f} so far, and may cost ${limit:g}: nothing was submitted; "
            "a larger --max-cost goes on with it"
        )


def _check_reachable(place: str) -> None:
    if not place.startswith(_REMOTE):
        raise NoSuchPlaceError(
            f"{place}: a job in a cloud can't reach it; give s3://, gs:// or hf:// (copy a folder "
            "there with the cloud's own tool, or `hf upload`)"
        )


def _split(chosen: Settings, given: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings that were given, as environment variables: those to be seen, and secret ones."""
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for name in given:
        value = getattr(chosen, name)
        key = f"LLM_OCR_{name.upper()}"
        if isinstance(value, SecretStr):
            secret[key] = value.get_secret_value()
        elif isinstance(value, Path):
            raise NoSuchPlaceError(
                f"--{name.replace('_', '-')} {value}: it is not in the container"
            )
        elif value is not None:
            plain[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return plain, secret

"""A run as tasks of a cloud's job: what is asked for, and what each platform does with it."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from llm_ocr.messages import MissingExtraError

# Stands in a request for what only the platform is told.
SECRET = "…"


class Gpu(StrEnum):
    """The GPUs that platforms rent, each for one engine."""

    A100 = "a100"
    L40S = "l40s"
    L4 = "l4"


class State(StrEnum):
    """What becomes of a job, or of one of its tasks."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self not in (State.WAITING, State.RUNNING)


class PlatformError(Exception):
    """A platform that can't do what was asked; the message names it and says what to do."""


class PlatformNotInstalledError(MissingExtraError, PlatformError):
    """The platform's SDK isn't installed."""


class NoSuchJobError(PlatformError):
    """The platform knows no such job."""


@dataclass(frozen=True)
class JobSpec:
    """`tasks` containers that do one command together: each takes its part of the run's shards.

    `command` is llm-ocr's, without the word itself; settings travel as `LLM_OCR_…` in
    `environment`, those that are secret in `secrets`, as does HF_TOKEN. `gpu` None asks for CPUs.
    A task may take `timeout` seconds and is tried up to `attempts` times.
    """

    name: str
    command: tuple[str, ...]
    tasks: int
    gpu: Gpu | None
    timeout: int
    attempts: int = 3
    image: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Request:
    """What a platform is asked, by its own name for it; secrets stand as `SECRET`. `shell` asks the
    same with the platform's own command, where it has one."""

    operation: str
    body: Mapping[str, Any]
    shell: str = ""


@dataclass(frozen=True)
class Task:
    """One of a job's containers; `message` says why it failed, where the platform knows."""

    index: int
    state: State
    message: str = ""


@dataclass(frozen=True)
class Job:
    """A job as it is now. `url` shows it in the platform's own pages."""

    id: str
    name: str
    state: State
    tasks: tuple[Task, ...]
    message: str = ""
    url: str = ""


class Platform(Protocol):
    """A cloud that runs jobs. All methods block, and raise PlatformError with what to do."""

    @property
    def name(self) -> str: ...

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Those that it rents, the usual one first."""
        ...

    def machine(self, gpu: Gpu | None) -> str:
        """What a task with that GPU runs on, as price lists call it."""
        ...

    @property
    def placeholders(self) -> Mapping[str, str]:
        """What stands in `requests` for what is not known here, and how to say it."""
        ...

    def requests(self, spec: JobSpec) -> list[Request]:
        """What `submit` asks, in order, for a look before anything is paid for. Asks nobody, and
        needs no account."""
        ...

    def submit(self, spec: JobSpec) -> str:
        """Start the job; its id."""
        ...

    def job(self, job_id: str) -> Job:
        """Raises NoSuchJobError."""
        ...

    def jobs(self) -> list[Job]:
        """The jobs that llm_ocr submitted, newest first."""
        ...

    def logs(self, job_id: str, task: int, *, follow: bool) -> Iterator[str]:
        """The lines that a task printed; with `follow`, until it ends."""
        ...

    def cancel(self, job_id: str) -> None: ...


def wait(
    platform: Platform,
    job_id: str,
    tell: Callable[[Job], object],
    *,
    poll_seconds: float = 5.0,
) -> Job:
    """The job once it is over; `tell` sees it whenever it changed. Raises what `job` raises."""
    seen: Job | None = None
    while True:
        now = platform.job(job_id)
        if now != seen:
            tell(now)
            seen = now
        if now.state.is_over:
            return now
        time.sleep(poll_seconds)


def overall(tasks: tuple[Task, ...]) -> State:
    """The state of a job from those of its tasks."""
    states = {task.state for task in tasks}
    if states <= {State.SUCCEEDED}:
        return State.SUCCEEDED
    if State.RUNNING in states or (State.WAITING in states and len(states) > 1):
        return State.RUNNING
    if State.WAITING in states:
        return State.WAITING
    return State.FAILED if State.FAILED in states else State.CANCELLED

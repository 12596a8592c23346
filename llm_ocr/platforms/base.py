"""The platforms' interface: a run is submitted as a job of several tasks, and watched."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from llm_ocr.messages import MissingExtraError

# Shown in place of a secret's value.
SECRET = "…"


class GpuType(StrEnum):
    """A kind of GPU that platforms rent, one for each engine."""

    A100 = "a100"
    L40S = "l40s"
    L4 = "l4"


class JobState(StrEnum):
    """The state of a job, or of one of its tasks."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self not in (JobState.WAITING, JobState.RUNNING)


class InvalidTargetError(ValueError):
    """A run can't be sent where it was to go, or can't reach its files from there."""


class InvalidStageError(ValueError):
    """The stage to launch is unknown, or lacks something that it needs."""


class PlatformError(Exception):
    """A platform that can't do what was asked; the message names it and says what to do."""


class PlatformNotInstalledError(MissingExtraError, PlatformError):
    """The platform's SDK isn't installed."""


class JobNotFoundError(PlatformError):
    """The platform knows no such job."""


@dataclass(frozen=True)
class JobSpec:
    """`tasks` containers that run one command; each takes its part of the run's shards.

    `command` are llm-ocr's arguments; settings travel as `LLM_OCR_…` in `environment`, secret ones
    and HF_TOKEN in `secrets`. `gpu` None asks for CPUs. A task may take `timeout` seconds and is
    tried up to `attempts` times.
    """

    name: str
    command: tuple[str, ...]
    tasks: int
    gpu: GpuType | None
    timeout: int
    attempts: int = 3
    image: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class PlatformRequest:
    """A request to a platform, named as in its API; secrets are shown as `SECRET`. `shell` is the
    equivalent command of the platform's own CLI, if it has one."""

    operation: str
    body: Mapping[str, Any]
    shell: str = ""


@dataclass(frozen=True)
class JobTask:
    """One of a job's containers; `message` says why it failed, if the platform knows."""

    index: int
    state: JobState
    message: str = ""


@dataclass(frozen=True)
class Job:
    """A job as it is now; `url` is its page in the platform's console."""

    id: str
    name: str
    state: JobState
    tasks: tuple[JobTask, ...]
    message: str = ""
    url: str = ""


class Platform(Protocol):
    """A cloud that runs jobs. All methods block, and raise PlatformError with what to do."""

    @property
    def name(self) -> str: ...

    @property
    def gpus(self) -> tuple[GpuType, ...]:
        """The GPUs that it rents, the default first."""
        ...

    def machine(self, gpu: GpuType | None) -> str:
        """The machine of a task with that GPU, by its name in price lists."""
        ...

    @property
    def placeholders(self) -> Mapping[str, str]:
        """The placeholders in `requests` for values not known here, and the option for each."""
        ...

    def requests(self, spec: JobSpec) -> list[PlatformRequest]:
        """The requests that `submit` sends, in order, to check before anything is paid for. Needs
        no network and no account."""
        ...

    def submit(self, spec: JobSpec) -> str:
        """Start the job and return its id."""
        ...

    def get_job(self, job_id: str) -> Job:
        """Raises JobNotFoundError."""
        ...

    def list_jobs(self) -> list[Job]:
        """The jobs submitted by llm_ocr, newest first."""
        ...

    def logs(self, job_id: str, task: int, *, follow: bool) -> Iterator[str]:
        """The lines of a task's log; with `follow`, until it ends."""
        ...

    def cancel(self, job_id: str) -> None: ...


def wait(
    platform: Platform,
    job_id: str,
    tell: Callable[[Job], object],
    *,
    poll_seconds: float = 5.0,
) -> Job:
    """The job once it is over; `tell` gets it whenever it changes. Raises what `get_job` raises."""
    seen: Job | None = None
    while True:
        now = platform.get_job(job_id)
        if now != seen:
            tell(now)
            seen = now
        if now.state.is_over:
            return now
        time.sleep(poll_seconds)


def job_state(tasks: tuple[JobTask, ...]) -> JobState:
    """The state of a job with these tasks."""
    states = {task.state for task in tasks}
    if states <= {JobState.SUCCEEDED}:
        return JobState.SUCCEEDED
    if JobState.RUNNING in states or (JobState.WAITING in states and len(states) > 1):
        return JobState.RUNNING
    if JobState.WAITING in states:
        return JobState.WAITING
    return JobState.FAILED if JobState.FAILED in states else JobState.CANCELLED

"""The interface of platforms: a run is submitted as a job with several tasks."""

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
    """The platform is unknown, or its tasks could not reach the run's files."""


class InvalidStageError(ValueError):
    """The stage to launch is unknown, or lacks something that it needs."""


class PlatformError(Exception):
    """A platform can't do what was requested; the message names it and says what to do."""


class PlatformNotInstalledError(MissingExtraError, PlatformError):
    """The platform's SDK isn't installed."""


class JobNotFoundError(PlatformError):
    """The platform knows no such job."""


@dataclass(frozen=True)
class JobSpec:
    """A job: `tasks` containers that run the same command, each on its part of the run's shards.

    `command` contains llm-ocr's arguments; settings are passed as `LLM_OCR_…` in `environment`,
    secret ones and HF_TOKEN in `secrets`. Without a `gpu` tasks run on CPUs. A task may take
    `timeout` seconds and is tried up to `attempts` times.
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
    """A request to a platform, with the names of its API and `SECRET` in place of secrets. `shell`
    is the equivalent command of the platform's CLI, if it has one."""

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
    """The current state of a job; `url` is its page in the platform's console."""

    id: str
    name: str
    state: JobState
    tasks: tuple[JobTask, ...]
    message: str = ""
    url: str = ""


class Platform(Protocol):
    """A cloud that runs jobs. All methods block, and raise PlatformError, which says what to do."""

    @property
    def name(self) -> str: ...

    @property
    def gpus(self) -> tuple[GpuType, ...]:
        """The GPUs that it offers, the default first."""
        ...

    def machine(self, gpu: GpuType | None) -> str:
        """The machine of a task with that GPU, by its name in price lists."""
        ...

    @property
    def placeholders(self) -> Mapping[str, str]:
        """The placeholders in `requests` for values not known here, and what sets each."""
        ...

    def requests(self, spec: JobSpec) -> list[PlatformRequest]:
        """The requests that `submit` sends, in order, for a dry run. Needs no network and no
        account."""
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
    on_change: Callable[[Job], object],
    *,
    poll_seconds: float = 5.0,
) -> Job:
    """Wait until a job has ended; returns its last state. `on_change` is called with each new
    state. Raises the errors of `get_job`."""
    last: Job | None = None
    while True:
        job = platform.get_job(job_id)
        if job != last:
            on_change(job)
            last = job
        if job.state.is_over:
            return job
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

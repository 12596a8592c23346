"""Hugging Face Jobs: each task is a job there, and labels group the tasks of a launch.

The token and the endpoint come from where Hugging Face's tools look: HF_TOKEN or `hf auth login`,
HF_ENDPOINT. Secrets are sent in the `secrets` field of a request, which the Hub encrypts and never
shows: https://huggingface.co/docs/huggingface_hub/guides/jobs.
"""

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub import HfApi, JobInfo, Volume, get_token
from huggingface_hub.errors import (  # type: ignore[attr-defined]
    HfHubHTTPError,
    HTTPError,  # of httpx or httpx2, whichever huggingface_hub has
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
)

from llm_ocr import __version__
from llm_ocr.platforms.base import (
    SECRET,
    GpuType,
    Job,
    JobNotFoundError,
    JobSpec,
    JobState,
    JobTask,
    PlatformError,
    PlatformRequest,
    job_state,
)
from llm_ocr.platforms.hf_errors import SIGN_IN, explain_end, explain_response
from llm_ocr.platforms.hf_task import (
    APP,
    BUCKET,
    FLAVORS,
    FOLDER,
    JOB,
    RANK,
    WORLD_SIZE,
    Wheel,
    run_job_arguments,
    shell_command,
)
from llm_ocr.platforms.registry import PlatformConfig
from llm_ocr.retry import RETRYABLE_STATUS, Backoff, retry_call
from llm_ocr.storage.store import StorageError, create_repository, open_store

Answer = TypeVar("Answer")

STATES: Mapping[str, JobState] = {
    "SCHEDULING": JobState.WAITING,
    "RUNNING": JobState.RUNNING,
    "COMPLETED": JobState.SUCCEEDED,
    "ERROR": JobState.FAILED,
    "CANCELED": JobState.CANCELLED,
    "DELETED": JobState.CANCELLED,
}
# A placeholder in requests of a dry run if the owner of the bucket is not known.
NAMESPACE = "NAMESPACE"
# How long a request without a response is retried, and the delays between attempts.
RETRY_SECONDS, BACKOFF = 60.0, Backoff(first_delay=2.0)
RETRYABLE: frozenset[int | None] = RETRYABLE_STATUS | {None}


def open_platform(config: PlatformConfig) -> "HfJobs":
    """Hugging Face Jobs, billed to `config.namespace` or else to the token's user."""
    return HfJobs(config)


class HfJobs:
    """`Platform` on Hugging Face Jobs. A job's id is the value of its tasks' `JOB` label."""

    name = "hf-jobs"
    gpus = (GpuType.A100, GpuType.L40S, GpuType.L4)

    def __init__(self, config: PlatformConfig) -> None:
        self._config = config
        self._api = HfApi(os.environ.get("HF_ENDPOINT"), library_name="llm_ocr")

    def machine(self, gpu: GpuType | None) -> str:
        return self._config.instance or FLAVORS[gpu]

    @property
    def placeholders(self) -> Mapping[str, str]:
        # Without a wheel the namespace can be left out: then it is the token's user.
        is_unknown = self._config.namespace is None and self._config.wheel is not None
        return {NAMESPACE: "`namespace`"} if is_unknown else {}

    def requests(self, spec: JobSpec) -> list[PlatformRequest]:
        self._check_installable(spec)
        wheel = self._wheel(self._config.namespace or NAMESPACE)
        requests = self._upload_requests(wheel) if wheel else []
        namespace = self._config.namespace or (NAMESPACE if wheel else None)
        with_token = replace(spec, secrets={"HF_TOKEN": SECRET, **spec.secrets})
        for keywords in self._tasks(with_token, namespace, wheel, is_dry_run=True):
            body = {**keywords, "secrets": dict.fromkeys(keywords["secrets"], SECRET)}
            requests.append(PlatformRequest("run_job", body, shell_command(keywords)))
        return requests

    def submit(self, spec: JobSpec) -> str:
        self._check_installable(spec)
        token = get_token()
        if token is None:
            raise PlatformError(f"hf-jobs: no token was found; {SIGN_IN}")
        wheel = None if self._config.wheel is None else self._wheel(self._namespace)
        # After `hf auth login` the token is not in the environment.
        with_token = replace(spec, secrets={"HF_TOKEN": token, **spec.secrets})
        tasks = self._tasks(with_token, self._namespace, wheel)
        if wheel:
            self._upload(wheel)
        started: list[str] = []
        try:
            for keywords in tasks:
                started.append(self._start(keywords))
        except PlatformError as error:
            consequence = self._cancel_started(started)
            rank = len(started)
            raise PlatformError(f"task {rank} was not submitted{consequence}: {error}") from error
        except KeyboardInterrupt:
            self._cancel_started(started)
            raise
        return spec.name

    def get_job(self, job_id: str) -> Job:
        return _job(job_id, self._parts(job_id))

    def list_jobs(self) -> list[Job]:
        by_job: dict[str, dict[int, JobInfo]] = {}
        for info in sorted(self._list_jobs(APP), key=_creation_time):
            if info.labels and JOB in info.labels:
                # Removed and inserted again, so that jobs are in the order of their last task.
                parts = by_job.pop(info.labels[JOB], {})
                by_job[info.labels[JOB]] = {**parts, _rank(info): info}
        return [_job(name, parts) for name, parts in reversed(by_job.items())]

    def logs(self, job_id: str, task: int, *, follow: bool) -> Iterator[str]:
        info = self._parts(job_id).get(task)
        if info is None:
            raise JobNotFoundError(f"{job_id} has no task {task}")
        lines = self._api.fetch_job_logs(job_id=info.id, namespace=self._namespace, follow=follow)
        try:
            yield from lines
        except HTTPError as error:
            raise PlatformError(f"{job_id}, task {task}: {self._advice(error)}") from error

    def cancel(self, job_id: str) -> None:
        for info in self._parts(job_id).values():
            if not _state(info).is_over:
                self._cancel(info.id)

    def _tasks(
        self, spec: JobSpec, namespace: str | None, wheel: Wheel | None, *, is_dry_run: bool = False
    ) -> list[dict[str, Any]]:
        instance = self._config.instance
        return [
            run_job_arguments(spec, rank, namespace, instance, wheel, is_dry_run=is_dry_run)
            for rank in range(spec.tasks)
        ]

    def _start(self, keywords: Mapping[str, Any]) -> str:
        volumes = [Volume(**volume) for volume in keywords.get("volumes", ())] or None
        # Retried only if rejected: after a lost response the job may have started.
        info: JobInfo = self._ask(
            lambda: self._api.run_job(**{**keywords, "volumes": volumes}),
            retryable=frozenset({429}),
            flavor=keywords["flavor"],
        )
        return str(info.id)

    def _cancel_started(self, started: Sequence[str]) -> str:
        """Cancel the tasks of a job that can't be started completely; returns what to tell the
        user about them."""
        running = []
        for hub_id in started:
            try:
                self._cancel(hub_id)
            except PlatformError:
                running.append(hub_id)
        if running:
            commands = "; ".join(f"hf jobs cancel {self._namespace}/{hub_id}" for hub_id in running)
            return f", and some before it still run (stop them: {commands})"
        return f", and the {len(started)} before it were cancelled" if started else ""

    def _cancel(self, hub_id: str) -> None:
        self._ask(lambda: self._api.cancel_job(job_id=hub_id, namespace=self._namespace))

    def _parts(self, job_id: str) -> dict[int, JobInfo]:
        """A job's tasks by rank; the later one if a task was restarted by hand."""
        infos = sorted(self._list_jobs({JOB: job_id}), key=_creation_time)
        if not infos:
            raise JobNotFoundError(
                f"{job_id}: {self._namespace} has no such job; `llm-ocr jobs list hf-jobs` lists "
                "its jobs, with `namespace` those of others"
            )
        return {_rank(info): info for info in infos}

    def _list_jobs(self, labels: Mapping[str, str]) -> list[JobInfo]:
        return self._ask(
            lambda: list(self._api.list_jobs(labels=dict(labels), namespace=self._namespace))
        )

    @cached_property
    def _namespace(self) -> str:
        return self._config.namespace or self._ask(lambda: str(self._api.whoami()["name"]))

    def _check_installable(self, spec: JobSpec) -> None:
        """Raise PlatformError if the tasks could not install this version from PyPI."""
        if self._config.wheel is not None or spec.image is not None:
            return
        # The file is present if the package was not installed from an index.
        origin = distribution("llm_ocr").read_text("direct_url.json")
        if origin is not None:
            raise PlatformError(
                f"hf-jobs: llm_ocr {__version__} was installed from {json.loads(origin)['url']} "
                "here, so the job's tasks can't install it from PyPI: build a wheel (`uv build "
                "--wheel` in a clone) and give it as `wheel` dist/llm_ocr-….whl, or an image that "
                "has llm_ocr as `image`"
            )

    def _wheel(self, namespace: str) -> Wheel | None:
        """The configured wheel, with a folder in the bucket that is named by its content."""
        if self._config.wheel is None:
            return None
        path = Path(self._config.wheel)
        if not path.is_file() or not path.match("llm_ocr-*.whl"):
            raise PlatformError(
                f"`wheel` {path}: not a wheel of llm_ocr; `uv build --wheel` in a clone builds "
                "one, dist/llm_ocr-….whl"
            )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        return Wheel(path, f"{namespace}/{BUCKET}", f"{FOLDER}/{digest}")

    def _upload_requests(self, wheel: Wheel) -> list[PlatformRequest]:
        bucket = {"bucket_id": wheel.bucket, "private": True, "exist_ok": True}
        create = ["hf", "buckets", "create", wheel.bucket, "--private", "--exist-ok"]
        files = {"bucket_id": wheel.bucket, "add": [[str(wheel.file), wheel.path]]}
        copy = ["hf", "buckets", "cp", str(wheel.file), f"{wheel.uri}/{wheel.file.name}"]
        return [
            PlatformRequest("create_bucket", bucket, shlex.join(create)),
            PlatformRequest("batch_bucket_files", files, shlex.join(copy)),
        ]

    def _upload(self, wheel: Wheel) -> None:
        try:
            create_repository(wheel.uri, private=True)
            open_store(wheel.uri).put(wheel.file.name, wheel.file)
        except StorageError as error:
            raise PlatformError(f"the wheel was not uploaded: {error}") from error

    def _ask(
        self,
        call: Callable[[], Answer],
        *,
        retryable: frozenset[int | None] = RETRYABLE,
        flavor: str = "",
    ) -> Answer:
        """The result of `call`, retried for a minute if the status (None: no response) is in
        `retryable`."""

        def is_retryable(error: Exception) -> bool:
            return isinstance(error, HTTPError) and _status(error) in retryable

        try:
            return retry_call(call, is_retryable, seconds=RETRY_SECONDS, backoff=BACKOFF)
        except (HTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled) as error:
            raise PlatformError(f"hf-jobs: {self._advice(error, flavor)}") from error

    def _advice(self, error: Exception, flavor: str = "") -> str:
        if isinstance(error, OfflineModeIsEnabled):
            return "HF_HUB_OFFLINE is set; unset it to use the Hub"
        if isinstance(error, LocalTokenNotFoundError):
            return f"no token was found; {SIGN_IN}"
        message = error.server_message if isinstance(error, HfHubHTTPError) else None
        message = message or str(error).strip().splitlines()[0]
        # Not `self._namespace`: its request may be the one that failed.
        namespace = self._config.namespace or self.__dict__.get("_namespace", "this token")
        return explain_response(_status(error), message, namespace, flavor)


def _job(name: str, parts: Mapping[int, JobInfo]) -> Job:
    first = next(iter(parts.values()))
    count = int((first.labels or {}).get(WORLD_SIZE, len(parts)))
    tasks = tuple(
        _task(rank, parts[rank])
        if rank in parts
        else JobTask(rank, JobState.CANCELLED, "it was not submitted")
        for rank in range(count)
    )
    url = first.url if count == 1 else first.url.rpartition("/")[0]
    return Job(name, name, job_state(tasks), tasks, url=url)


def _task(rank: int, info: JobInfo) -> JobTask:
    message = explain_end(info.status.message or "", info.docker_image or str(info.space_id))
    return JobTask(rank, _state(info), message)


def _state(info: JobInfo) -> JobState:
    return STATES.get(info.status.stage, JobState.RUNNING)


def _rank(info: JobInfo) -> int:
    return int((info.labels or {}).get(RANK, 0))


def _creation_time(info: JobInfo) -> datetime:
    return info.created_at or datetime.min.replace(tzinfo=UTC)


def _status(error: Exception) -> int | None:
    return error.response.status_code if isinstance(error, HfHubHTTPError) else None

"""Google Cloud Run: a run is a job with several tasks, each with an L4 GPU.

Endpoints come from the variables that gcloud reads (CLOUDSDK_API_ENDPOINT_OVERRIDES_RUN and
_LOGGING, STORAGE_EMULATOR_HOST), credentials from where Google's libraries look.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import google.auth
import requests
from google.api_core.client_options import ClientOptions
from google.api_core.exceptions import Forbidden, GoogleAPIError, NotFound
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from google.cloud import run_v2
from google.cloud.storage import Client as StorageClient

from llm_ocr.platforms.base import (
    GpuType,
    Job,
    JobNotFoundError,
    JobSpec,
    JobState,
    JobTask,
    PlatformError,
    PlatformRequest,
)
from llm_ocr.platforms.cloud_logging import LoggingError, TaskLog
from llm_ocr.platforms.cloud_run_errors import SIGN_IN, explain_error, explain_failure
from llm_ocr.platforms.cloud_run_job import (
    CPU_MACHINE,
    LABEL,
    create_command,
    execute_command,
    image_for,
    job_body,
)
from llm_ocr.platforms.registry import PlatformConfig

# Placeholders in requests of a dry run for values that are not known.
REGION, PROJECT = "REGION", "PROJECT"
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
CONSOLE = "https://console.cloud.google.com/run/jobs/executions/details"
# Cloud Logging allows 60 reads a minute in a project.
LOG_SECONDS = 3.0
# A job is created within seconds; its image and its secrets are looked up.
CREATE_SECONDS = 300.0


def open_platform(config: PlatformConfig) -> "CloudRun":
    """Cloud Run in the region and project of `config` or of the environment, which are resolved by
    the first request."""
    return CloudRun(config)


def _default_credentials() -> tuple[Any, str | None]:
    """The credentials, and the project that they name."""
    try:
        credentials: tuple[Any, str | None] = google.auth.default(scopes=SCOPES)
    except GoogleAuthError as error:
        raise PlatformError(f"cloud-run: {error} {SIGN_IN}") from error
    return credentials


class CloudRun:
    """`Platform` on Cloud Run: a job for each launch, named as in its `JobSpec`. The state of a job
    is the state of its newest execution."""

    name = "cloud-run"
    gpus: tuple[GpuType, ...] = (GpuType.L4,)

    def __init__(self, config: PlatformConfig) -> None:
        self._config = config

    @cached_property
    def _region(self) -> str:
        region = self._config.region or os.environ.get("CLOUDSDK_RUN_REGION")
        if not region:
            raise PlatformError(
                "cloud-run: give `region`, such as us-central1, or set CLOUDSDK_RUN_REGION"
            )
        return region

    @cached_property
    def _project(self) -> str:
        project = self._named_project or _default_credentials()[1]
        if not project:
            raise PlatformError("cloud-run: give `project`, or set GOOGLE_CLOUD_PROJECT")
        return project

    @property
    def _named_project(self) -> str | None:
        named = (os.environ.get(name) for name in ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"))
        return self._config.project or next(filter(None, named), None)

    @property
    def _parent(self) -> str:
        return f"projects/{self._project}/locations/{self._region}"

    def machine(self, gpu: GpuType | None) -> str:
        return self._config.instance or (gpu.value if gpu else CPU_MACHINE)

    @property
    def placeholders(self) -> Mapping[str, str]:
        unknown: dict[str, str] = {}
        if not (self._config.region or os.environ.get("CLOUDSDK_RUN_REGION")):
            unknown[REGION] = "`region`, or CLOUDSDK_RUN_REGION"
        if not self._named_project:
            unknown[PROJECT] = "`project`, or GOOGLE_CLOUD_PROJECT"
        return unknown

    def requests(self, spec: JobSpec) -> list[PlatformRequest]:
        unknown = self.placeholders
        region = REGION if REGION in unknown else self._region
        # Not from credentials, which may name a project: a dry run needs no account.
        project = self._named_project or PROJECT
        parent = f"projects/{project}/locations/{region}"
        body = self._body(spec, region, project)
        create = create_command(spec.name, body, region, project)
        execute = execute_command(spec.name, region, project)
        return [
            PlatformRequest(f"POST v2/{parent}/jobs?jobId={spec.name}", body, create),
            PlatformRequest(f"POST v2/{parent}/jobs/{spec.name}:run", {}, execute),
        ]

    def submit(self, spec: JobSpec) -> str:
        body = self._body(spec, self._region, self._project)
        job = run_v2.Job.from_json(json.dumps(body))
        name = f"{self._parent}/jobs/{spec.name}"
        with self._errors():
            self._check_buckets(spec.command)
            created = self._jobs.create_job(parent=self._parent, job=job, job_id=spec.name)
            try:
                created.result(timeout=CREATE_SECONDS)
                self._jobs.run_job(name=name)
            except (GoogleAPIError, TimeoutError):
                # Nothing is left of what can't run.
                with suppress(GoogleAPIError):
                    self._jobs.delete_job(name=name)
                raise
        return spec.name

    def get_job(self, job_id: str) -> Job:
        with self._errors():
            execution = self._execution(job_id)
            if execution is None:
                return Job(job_id, job_id, JobState.WAITING, ())
            tasks = [_task(task) for task in self._tasks.list_tasks(parent=execution.name)]
        unlisted = set(range(execution.task_count)) - {task.index for task in tasks}
        tasks += [JobTask(index, JobState.WAITING) for index in unlisted]
        last = execution.name.rpartition("/")[2]
        return Job(
            id=job_id,
            name=job_id,
            state=_state_of(execution),
            tasks=tuple(sorted(tasks, key=lambda task: task.index)),
            message=_completion_condition(execution.conditions).message
            if execution.failed_count
            else "",
            url=f"{CONSOLE}/{self._region}/{last}/tasks?project={self._project}",
        )

    def list_jobs(self) -> list[Job]:
        """The jobs without their tasks, which would take a request per job."""
        with self._errors():
            ours = [job for job in self._jobs.list_jobs(parent=self._parent) if LABEL in job.labels]
        newest = sorted(ours, key=lambda job: job.create_time, reverse=True)
        return [_to_job(job) for job in newest]

    def logs(self, job_id: str, task: int, *, follow: bool) -> Iterator[str]:
        with self._errors():
            execution = self._execution(job_id)
            if execution is None or task >= execution.task_count:
                raise JobNotFoundError(f"{job_id} has no task {task}")
            log = self._log(job_id, execution, task)
            is_over = not follow
            while True:
                yield from log.read_new_lines()
                if is_over:
                    return
                time.sleep(LOG_SECONDS)
                listed = self._tasks.list_tasks(parent=execution.name)
                # Read once more after the end: the last lines may arrive later.
                is_over = all(_task(item).state.is_over for item in listed if item.index == task)

    def cancel(self, job_id: str) -> None:
        with self._errors():
            execution = self._execution(job_id)
            if execution is not None and not _state_of(execution).is_over:
                self._executions.cancel_execution(name=execution.name)

    def _body(self, spec: JobSpec, region: str, project: str) -> dict[str, Any]:
        return job_body(
            spec,
            image=image_for(spec, region, project),
            instance=self._config.instance,
            service_account=self._config.service_account,
        )

    def _execution(self, job_id: str) -> "run_v2.Execution | None":
        try:
            job = self._jobs.get_job(name=f"{self._parent}/jobs/{job_id}")
        except NotFound as error:
            raise JobNotFoundError(
                f"cloud-run has no job {job_id} in {self._region} of {self._project}: "
                "see `llm-ocr jobs list cloud-run`, and check `region` and `project`"
            ) from error
        latest = job.latest_created_execution.name
        if not latest:
            return None
        name = latest if "/" in latest else f"{job.name}/executions/{latest}"
        return self._executions.get_execution(name=name)

    def _log(self, job_id: str, execution: "run_v2.Execution", task: int) -> TaskLog:
        name = execution.name.rpartition("/")[2]
        since = execution.create_time.rfc3339()
        session = AuthorizedSession(self._credentials)
        return TaskLog(session, self._project, job_id, name, task, since)

    def _check_buckets(self, command: Sequence[str]) -> None:
        """Raise PlatformError for a missing bucket, or for one in another region."""
        names = {word.split("/")[2] for word in command if word.startswith("gs://")}
        client = StorageClient(
            project=self._project,
            credentials=self._credentials,
            client_options=ClientOptions(universe_domain=self._credentials.universe_domain),
        )
        for name in sorted(names):
            try:
                location = client.get_bucket(name).location.lower()
            except Forbidden:
                # The tasks' account needs access, not the account that launches.
                continue
            except NotFound as error:
                raise PlatformError(f"gs://{name}: there is no such bucket; create it") from error
            # A location without a hyphen is a multi-region, such as "us".
            if "-" in location and location != self._region:
                raise PlatformError(
                    f"gs://{name} is in {location}, the job would be in {self._region}: each page "
                    f"would cross regions, which is slow and billed; give `region` {location}, or "
                    f"copy to a bucket in {self._region} with `gcloud storage cp -r`"
                )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (
            GoogleAPIError,
            GoogleAuthError,
            LoggingError,
            TimeoutError,
            requests.exceptions.RequestException,
        ) as error:
            raise PlatformError(f"cloud-run: {explain_error(error, self._project)}") from error

    @cached_property
    def _credentials(self) -> Any:  # noqa: ANN401 - google.auth has no types
        return _default_credentials()[0]

    @cached_property
    def _jobs(self) -> "run_v2.JobsClient":
        return run_v2.JobsClient(**self._client())

    @cached_property
    def _executions(self) -> "run_v2.ExecutionsClient":
        return run_v2.ExecutionsClient(**self._client())

    @cached_property
    def _tasks(self) -> "run_v2.TasksClient":
        return run_v2.TasksClient(**self._client())

    def _client(self) -> dict[str, Any]:
        endpoint = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_RUN", "").rstrip("/")
        options = ClientOptions(
            api_endpoint=endpoint or None, universe_domain=self._credentials.universe_domain
        )
        return {"credentials": self._credentials, "transport": "rest", "client_options": options}


def _completion_condition(conditions: "Sequence[run_v2.Condition]") -> "run_v2.Condition":
    completed = (condition for condition in conditions if condition.type_ == "Completed")
    return next(completed, run_v2.Condition())


def _state_of(execution: "run_v2.Execution") -> JobState:
    if not execution.completion_time:
        has_started = execution.running_count or execution.succeeded_count or execution.failed_count
        return JobState.RUNNING if has_started else JobState.WAITING
    return _final_state(_completion_condition(execution.conditions))


def _final_state(condition: "run_v2.Condition") -> JobState:
    if condition.state == run_v2.Condition.State.CONDITION_SUCCEEDED:
        return JobState.SUCCEEDED
    is_cancelled = condition.execution_reason == run_v2.Condition.ExecutionReason.CANCELLED
    return JobState.CANCELLED if is_cancelled else JobState.FAILED


def _task(task: "run_v2.Task") -> JobTask:
    if not task.completion_time:
        return JobTask(task.index, JobState.RUNNING if task.start_time else JobState.WAITING)
    state = _final_state(_completion_condition(task.conditions))
    if state is not JobState.FAILED:
        return JobTask(task.index, state)
    last = task.last_attempt_result
    message = last.status.message or _completion_condition(task.conditions).message
    return JobTask(task.index, state, explain_failure(last.exit_code, last.term_signal, message))


def _to_job(job: "run_v2.Job") -> Job:
    statuses = run_v2.ExecutionReference.CompletionStatus
    states = {
        statuses.EXECUTION_SUCCEEDED: JobState.SUCCEEDED,
        statuses.EXECUTION_FAILED: JobState.FAILED,
        statuses.EXECUTION_RUNNING: JobState.RUNNING,
        statuses.EXECUTION_CANCELLED: JobState.CANCELLED,
    }
    name = job.name.rpartition("/")[2]
    last = job.latest_created_execution
    return Job(name, name, states.get(last.completion_status, JobState.WAITING), ())

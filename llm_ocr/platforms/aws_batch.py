"""AWS Batch: a run is an array job on spot machines of a queue that the Terraform module creates.

There is a queue and a job definition for each kind of machine, such as `llm-ocr-l4` and
`llm-ocr-cpu`. The job definition sets the image, roles, memory and secrets; a job sets only the
command and plain variables.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from llm_ocr.exit_codes import PERMANENT, describe_exit
from llm_ocr.platforms import aws
from llm_ocr.platforms.base import (
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
from llm_ocr.platforms.registry import PlatformConfig

NAME_PREFIX = "llm-ocr-"
MAX_LISTED = 50
LOG_GROUP = "/aws/batch/job"
MAX_TASKS = 10_000
MIN_SECONDS = 60
# The most jobs in a request of DescribeJobs.
DESCRIBE_BATCH = 100
CANCELLED = "cancelled with llm-ocr"
# Failures that match none of these are retried: exit codes 3, 4, 137 and 143, and an image that
# can't be pulled. AWS Batch allows five entries.
EVALUATE_ON_EXIT = (
    {"onStatusReason": "Host EC2*", "action": "RETRY"},
    {"onReason": "OutOfMemoryError*", "action": "EXIT"},
    *({"onExitCode": str(code.value), "action": "EXIT"} for code in PERMANENT),
)

_STATES: Mapping[str, JobState] = {
    "SUBMITTED": JobState.WAITING,
    "PENDING": JobState.WAITING,
    "RUNNABLE": JobState.WAITING,
    "STARTING": JobState.WAITING,
    "RUNNING": JobState.RUNNING,
    "SUCCEEDED": JobState.SUCCEEDED,
    "FAILED": JobState.FAILED,
}
# Patterns of AWS's message why a task failed or waits, and what to do about it.
_REASONS: Mapping[str, str] = {
    r"OutOfMemoryError": "the container needs more memory than the job definition has; raise "
    "`memory` in the module's `machines`, or lower `render_workers`",
    r"CannotPullContainer": "push the image first (`make deploy`), or correct `image_tag` of "
    "the module",
    r"exceeded timeout": "it took longer than `timeout`; launch the same job again to resume",
    r"Host EC2": "the spot instance was reclaimed on every attempt; launch the same job again to "
    "resume, or let the module use on-demand machines (`spot = false`)",
    r"(ResourceInitializationError|Fetching secret data).*secret": "the execution role can't read "
    "a secret of the job definition; check `secrets` of the module, and that each of them exists",
    r"INSUFFICIENT_INSTANCE_CAPACITY": "no such machine is available now; wait, or give the module "
    "more `instance_types` or subnets",
    r"COMPUTE_ENVIRONMENT_MAX_RESOURCE|VcpuLimitExceeded": "`max_vcpus` of the module, or the "
    "account's quota 'All G and VT Spot Instance Requests' (Service Quotas, Amazon EC2), is lower "
    "than the vCPUs of one machine; raise it",
    r"JOB_RESOURCE_REQUIREMENT": "no machine of the queue is large enough; lower `vcpus` or "
    "`memory` in the module, or give it larger `instance_types`",
}


class AwsBatch:
    """`Platform` on AWS Batch."""

    name = "aws-batch"
    gpus = (GpuType.L4, GpuType.L40S)

    def __init__(self, config: PlatformConfig) -> None:
        self._config = config
        self._queue, self._definition = config.queue, config.definition
        if config.instance is not None:
            raise PlatformError(
                f"`instance` {config.instance}: the queue determines the machines; change "
                "`instance_types` of the Terraform module, or give another `queue`"
            )

    @cached_property
    def _session(self) -> Any:  # noqa: ANN401 - boto3 has no types
        return aws.sign_in(self._config.region)

    @property
    def _region(self) -> str:
        return str(self._session.region_name)

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401
        return self._session.client("batch")

    def machine(self, gpu: GpuType | None) -> str:
        # The machine that a job gets from its queue is not known before it runs.
        return gpu.value if gpu else "cpu"

    @property
    def placeholders(self) -> Mapping[str, str]:
        known = aws.resolve_region(self._config.region)
        return {} if known else {aws.REGION: "`region`, or AWS_REGION"}

    def requests(self, spec: JobSpec) -> list[PlatformRequest]:
        region = aws.resolve_region(self._config.region) or aws.REGION
        body = self._body(spec, region)
        return [
            PlatformRequest("SubmitJob", body, aws.cli_command("batch", "submit-job", region, body))
        ]

    def submit(self, spec: JobSpec) -> str:
        body = self._body(spec, self._region)
        aws.check_buckets(self._session, spec.command)
        self._check_queue(body["jobQueue"])
        self._check_definition(body["jobDefinition"], spec)
        with aws.translate_errors(spec.name):
            return str(self._client.submit_job(**body)["jobId"])

    def get_job(self, job_id: str) -> Job:
        described = self._describe_jobs([job_id])
        if not described:
            raise JobNotFoundError(
                f"{job_id}: AWS Batch has no such job in {self._region} (it deletes jobs a week "
                "after their end); `llm-ocr jobs list aws-batch` lists those that exist"
            )
        parent = described[0]
        size = parent.get("arrayProperties", {}).get("size")
        ids = [f"{job_id}:{index}" for index in range(size or 0)]
        tasks = tuple(
            _task(index, child) for index, child in enumerate(self._describe_jobs(ids) or described)
        )
        message = next((task.message for task in tasks if task.state is JobState.WAITING), "")
        return self._job(parent, job_state(tasks), tasks, message)

    def list_jobs(self) -> list[Job]:
        jobs: list[Mapping[str, Any]] = []
        filters = [{"name": "JOB_NAME", "values": [f"{NAME_PREFIX}*"]}]
        for queue in self._queues():
            with aws.translate_errors(f"the jobs of {queue}"):
                page = self._client.list_jobs(
                    jobQueue=queue, filters=filters, maxResults=MAX_LISTED
                )
            jobs += page["jobSummaryList"]
        jobs.sort(key=lambda job: int(job.get("createdAt", 0)), reverse=True)
        return [self._job(job, _state(job), (), "") for job in jobs[:MAX_LISTED]]

    def logs(self, job_id: str, task: int, *, follow: bool) -> Iterator[str]:
        job = self.get_job(job_id)
        aws.check_task(job, task)
        task_id = f"{job_id}:{task}" if len(job.tasks) > 1 else job_id
        container = self._describe_jobs([task_id])[0].get("container", {})
        options = container.get("logConfiguration", {}).get("options", {})
        group = str(options.get("awslogs-group", LOG_GROUP))

        def streams() -> list[str]:
            described = self._describe_jobs([task_id])[0]
            attempts = [attempt.get("container", {}) for attempt in described.get("attempts", [])]
            containers = [*attempts, described.get("container", {})]
            names = [container.get("logStreamName") for container in containers]
            return list(dict.fromkeys(str(name) for name in names if name))

        def is_over() -> bool:
            return _state(self._describe_jobs([task_id])[0]).is_over

        return aws.read_log(self._session, group, streams, is_over, follow=follow)

    def cancel(self, job_id: str) -> None:
        aws.check_running(self.get_job(job_id))
        with aws.translate_errors(job_id):
            self._client.terminate_job(jobId=job_id, reason=CANCELLED)

    def _body(self, spec: JobSpec, region: str) -> dict[str, Any]:
        if spec.tasks > MAX_TASKS:
            raise PlatformError(f"`tasks` {spec.tasks}: an array job has at most {MAX_TASKS:,}")
        if spec.image is not None:
            raise PlatformError(
                f"`image` {spec.image}: the image is the job definition's; set `image_tag` of the "
                "Terraform module, or give another `definition`"
            )
        kind = spec.gpu.value if spec.gpu else "cpu"
        environment = {"AWS_REGION": region, **spec.environment}
        body: dict[str, Any] = {
            "jobName": spec.name,
            "jobQueue": self._queue or f"{NAME_PREFIX}{kind}",
            "jobDefinition": self._definition or f"{NAME_PREFIX}{kind}",
            "containerOverrides": {
                "command": list(spec.command),
                "environment": [
                    {"name": name, "value": value} for name, value in environment.items()
                ],
            },
            "retryStrategy": {
                "attempts": spec.attempts,
                "evaluateOnExit": [dict(rule) for rule in EVALUATE_ON_EXIT],
            },
            "timeout": {"attemptDurationSeconds": max(MIN_SECONDS, spec.timeout)},
        }
        # An array job needs at least two tasks.
        return body | ({"arrayProperties": {"size": spec.tasks}} if spec.tasks > 1 else {})

    def _queues(self) -> list[str]:
        if self._queue is not None:
            return [self._queue]
        with aws.translate_errors("DescribeJobQueues"):
            pages = self._client.get_paginator("describe_job_queues").paginate()
            names = [str(queue["jobQueueName"]) for page in pages for queue in page["jobQueues"]]
        return [name for name in names if name.startswith(NAME_PREFIX)]

    def _check_queue(self, queue: str) -> None:
        with aws.translate_errors(queue):
            described = self._client.describe_job_queues(jobQueues=[queue])["jobQueues"]
        if not described:
            kind = queue.removeprefix(NAME_PREFIX)
            raise PlatformError(
                f"{queue}: there is no such queue in {self._region}; run `make aws-batch-apply` "
                f"with {kind!r} in the module's `machines`, or give `queue`"
            )
        state, reason = described[0]["state"], described[0].get("statusReason", "")
        if state != "ENABLED" or described[0].get("status") == "INVALID":
            raise PlatformError(
                f"{queue} accepts no jobs: {state}, {reason}; check its compute environment in "
                "the console"
            )

    def _check_definition(self, definition: str, spec: JobSpec) -> None:
        name: dict[str, Any] = {"jobDefinitionName": definition, "status": "ACTIVE"}
        if ":" in definition:
            name = {"jobDefinitions": [definition]}
        with aws.translate_errors(definition):
            definitions = self._client.describe_job_definitions(**name)["jobDefinitions"]
        if not definitions:
            raise PlatformError(
                f"{definition}: there is no such job definition in {self._region}; run "
                "`make aws-batch-apply`, or give `definition`"
            )
        newest = max(definitions, key=lambda revision: int(revision["revision"]))
        secrets = newest.get("containerProperties", {}).get("secrets", [])
        for secret in sorted(set(spec.secrets) - {entry["name"] for entry in secrets}):
            raise PlatformError(
                f"the job needs {secret}, which is in your environment, and {definition} has no "
                f"secret of that name. Put it into AWS Secrets Manager, and its ARN into `secrets` "
                f"of the Terraform module (or unset {secret})"
            )

    def _describe_jobs(self, ids: list[str]) -> list[Mapping[str, Any]]:
        """The jobs in the order of `ids`, without those that don't exist."""
        by_id: dict[str, Mapping[str, Any]] = {}
        for first in range(0, len(ids), DESCRIBE_BATCH):
            with aws.translate_errors(ids[first]):
                page = self._client.describe_jobs(jobs=ids[first : first + DESCRIBE_BATCH])
            by_id |= {str(job["jobId"]): job for job in page["jobs"]}
        return [by_id[job_id] for job_id in ids if job_id in by_id]

    def _job(
        self, job: Mapping[str, Any], state: JobState, tasks: tuple[JobTask, ...], message: str
    ) -> Job:
        console = f"https://{self._region}.console.aws.amazon.com/batch/home?region={self._region}"
        kind = "array-job" if "arrayProperties" in job else "detail"
        url = f"{console}#jobs/{kind}/{job['jobId']}"
        return Job(str(job["jobId"]), str(job["jobName"]), state, tasks, message, url)


def open_platform(config: PlatformConfig) -> AwsBatch:
    """AWS Batch with these settings. Raises PlatformError for one that it doesn't support."""
    return AwsBatch(config)


def _state(job: Mapping[str, Any]) -> JobState:
    is_stopped = job.get("isTerminated") or job.get("isCancelled")
    reason = job.get("statusReason", "")
    # Batch also terminates jobs that exceed their timeout.
    if job["status"] == "FAILED" and (is_stopped or CANCELLED in reason):
        return JobState.FAILED if "exceeded timeout" in reason else JobState.CANCELLED
    if "arrayProperties" in job and job["status"] == "PENDING":
        # An array is pending until its last child has ended.
        counts = job["arrayProperties"].get("statusSummary", {})
        return JobState.RUNNING if counts.get("RUNNING") else JobState.WAITING
    return _STATES[job["status"]]


def _task(index: int, job: Mapping[str, Any]) -> JobTask:
    state = _state(job)
    container = job.get("container", {})
    messages = (job.get("statusReason", ""), container.get("reason", ""))
    reasons = [str(message) for message in messages if message]
    explanations = [aws.explain_reason(reason, _REASONS) for reason in reasons]
    known = [text for text, reason in zip(explanations, reasons, strict=True) if text != reason]
    if state is JobState.WAITING:
        return JobTask(index, state, "; ".join(known))
    if state is not JobState.FAILED:
        return JobTask(index, state)
    code = container.get("exitCode")
    if not known and code is not None:
        return JobTask(index, state, describe_exit(int(code)))
    return JobTask(index, state, "; ".join(known or explanations))

"""AWS Batch: a run is an array job on spot machines of a queue that the Terraform module creates.

There is a queue and a job definition for each kind of machine, `llm-ocr-l4` and `llm-ocr-cpu`. The
job definition has the image, roles, memory and secrets; a job has only the command.
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

NAMES = "llm-ocr-"
LISTED = 50
LOG_GROUP = "/aws/batch/job"
MOST_TASKS = 10_000
LEAST_SECONDS = 60
DESCRIBED_AT_ONCE = 100
CANCELLED = "cancelled with llm-ocr"
# What matches none of these is retried: exit codes 3, 4, 137 and 143, an image that can't be
# pulled. The list may have five entries.
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
# Why a task failed or waits (a pattern of AWS's message), and what to do about it.
_REASONS: Mapping[str, str] = {
    r"OutOfMemoryError": "the container needs more memory than the job definition has; raise "
    "`memory` in the module's `machines`, or lower --render-workers",
    r"CannotPullContainer": "push the image first (`make deploy`), or correct `image_tag` of "
    "the module",
    r"exceeded timeout": "it took longer than --timeout; launch the same job again to resume",
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
                f"--instance {config.instance}: the queue determines the machines; change "
                "`instance_types` of the Terraform module, or give another --queue"
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
        # Which of the queue's machines a job gets is only known when it runs.
        return gpu.value if gpu else "cpu"

    @property
    def placeholders(self) -> Mapping[str, str]:
        known = aws.resolve_region(self._config.region)
        return {} if known else {aws.REGION: "--region, or AWS_REGION"}

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
        found = self._described([job_id])
        if not found:
            raise JobNotFoundError(
                f"{job_id}: AWS Batch has no such job in {self._region} (it deletes jobs a week "
                "after their end); `llm-ocr jobs list aws-batch` lists those that exist"
            )
        parent = found[0]
        size = parent.get("arrayProperties", {}).get("size")
        ids = [f"{job_id}:{index}" for index in range(size or 0)]
        tasks = tuple(_task(index, one) for index, one in enumerate(self._described(ids) or found))
        waits = next((task.message for task in tasks if task.state is JobState.WAITING), "")
        return self._job(parent, job_state(tasks), tasks, waits)

    def list_jobs(self) -> list[Job]:
        found: list[Mapping[str, Any]] = []
        names = [{"name": "JOB_NAME", "values": [f"{NAMES}*"]}]
        for queue in self._queues():
            with aws.translate_errors(f"the jobs of {queue}"):
                page = self._client.list_jobs(jobQueue=queue, filters=names, maxResults=LISTED)
            found += page["jobSummaryList"]
        newest = sorted(found, key=lambda one: int(one.get("createdAt", 0)), reverse=True)
        return [self._job(one, _state(one), (), "") for one in newest[:LISTED]]

    def logs(self, job_id: str, task: int, *, follow: bool) -> Iterator[str]:
        job = self.get_job(job_id)
        aws.check_task(job, task)
        own = f"{job_id}:{task}" if len(job.tasks) > 1 else job_id
        container = self._described([own])[0].get("container", {})
        options = container.get("logConfiguration", {}).get("options", {})
        group = str(options.get("awslogs-group", LOG_GROUP))

        def streams() -> list[str]:
            found = self._described([own])[0]
            tries = [one.get("container", {}) for one in found.get("attempts", [])]
            names = [one.get("logStreamName") for one in (*tries, found.get("container", {}))]
            return list(dict.fromkeys(str(one) for one in names if one))

        def is_over() -> bool:
            return _state(self._described([own])[0]).is_over

        return aws.read_log(self._session, group, streams, is_over, follow=follow)

    def cancel(self, job_id: str) -> None:
        aws.check_running(self.get_job(job_id))
        with aws.translate_errors(job_id):
            self._client.terminate_job(jobId=job_id, reason=CANCELLED)

    def _body(self, spec: JobSpec, region: str) -> dict[str, Any]:
        if spec.tasks > MOST_TASKS:
            raise PlatformError(f"--tasks {spec.tasks}: an array job has at most {MOST_TASKS:,}")
        if spec.image is not None:
            raise PlatformError(
                f"--image {spec.image}: the image is the job definition's; set `image_tag` of the "
                "Terraform module, or give another --definition"
            )
        kind = spec.gpu.value if spec.gpu else "cpu"
        environment = {"AWS_REGION": region, **spec.environment}
        body: dict[str, Any] = {
            "jobName": spec.name,
            "jobQueue": self._queue or f"{NAMES}{kind}",
            "jobDefinition": self._definition or f"{NAMES}{kind}",
            "containerOverrides": {
                "command": list(spec.command),
                "environment": [
                    {"name": name, "value": value} for name, value in environment.items()
                ],
            },
            "retryStrategy": {
                "attempts": spec.attempts,
                "evaluateOnExit": [dict(one) for one in EVALUATE_ON_EXIT],
            },
            "timeout": {"attemptDurationSeconds": max(LEAST_SECONDS, spec.timeout)},
        }
        # An array job needs at least two tasks.
        return body | ({"arrayProperties": {"size": spec.tasks}} if spec.tasks > 1 else {})

    def _queues(self) -> list[str]:
        if self._queue is not None:
            return [self._queue]
        with aws.translate_errors("DescribeJobQueues"):
            pages = self._client.get_paginator("describe_job_queues").paginate()
            names = [str(one["jobQueueName"]) for page in pages for one in page["jobQueues"]]
        return [name for name in names if name.startswith(NAMES)]

    def _check_queue(self, queue: str) -> None:
        with aws.translate_errors(queue):
            found = self._client.describe_job_queues(jobQueues=[queue])["jobQueues"]
        if not found:
            kind = queue.removeprefix(NAMES)
            raise PlatformError(
                f"{queue}: there is no such queue in {self._region}; run `make aws-batch-apply` "
                f"with {kind!r} in the module's `machines`, or give --queue"
            )
        if found[0]["state"] != "ENABLED" or found[0].get("status") == "INVALID":
            raise PlatformError(
                f"{queue} accepts no jobs: {found[0]['state']}, "
                f"{found[0].get('statusReason', '')}; check its compute environment in the console"
            )

    def _check_definition(self, definition: str, spec: JobSpec) -> None:
        name: dict[str, Any] = {"jobDefinitionName": definition, "status": "ACTIVE"}
        if ":" in definition:
            name = {"jobDefinitions": [definition]}
        with aws.translate_errors(definition):
            found = self._client.describe_job_definitions(**name)["jobDefinitions"]
        if not found:
            raise PlatformError(
                f"{definition}: there is no such job definition in {self._region}; run "
                "`make aws-batch-apply`, or give --definition"
            )
        newest = max(found, key=lambda one: int(one["revision"]))
        there = {one["name"] for one in newest.get("containerProperties", {}).get("secrets", [])}
        for secret in sorted(set(spec.secrets) - there):
            raise PlatformError(
                f"the job needs {secret}, which is in your environment, and {definition} has no "
                f"secret of that name. Put it into AWS Secrets Manager, and its ARN into `secrets` "
                f"of the Terraform module (or unset {secret})"
            )

    def _described(self, ids: list[str]) -> list[Mapping[str, Any]]:
        """The jobs in the order of `ids`, without those that don't exist."""
        found: dict[str, Mapping[str, Any]] = {}
        for first in range(0, len(ids), DESCRIBED_AT_ONCE):
            with aws.translate_errors(ids[first]):
                page = self._client.describe_jobs(jobs=ids[first : first + DESCRIBED_AT_ONCE])
            found |= {str(one["jobId"]): one for one in page["jobs"]}
        return [found[one] for one in ids if one in found]

    def _job(
        self, found: Mapping[str, Any], state: JobState, tasks: tuple[JobTask, ...], message: str
    ) -> Job:
        where = f"https://{self._region}.console.aws.amazon.com/batch/home?region={self._region}"
        kind = "array-job" if "arrayProperties" in found else "detail"
        url = f"{where}#jobs/{kind}/{found['jobId']}"
        return Job(str(found["jobId"]), str(found["jobName"]), state, tasks, message, url)


def open_platform(config: PlatformConfig) -> AwsBatch:
    """Raises PlatformError for a setting that AWS Batch doesn't support."""
    return AwsBatch(config)


def _state(found: Mapping[str, Any]) -> JobState:
    wanted = found.get("isTerminated") or found.get("isCancelled")
    reason = found.get("statusReason", "")
    # Batch itself also terminates a job that takes too long.
    if found["status"] == "FAILED" and (wanted or CANCELLED in reason):
        return JobState.FAILED if "exceeded timeout" in reason else JobState.CANCELLED
    if "arrayProperties" in found and found["status"] == "PENDING":
        # An array is pending until its last child is over.
        counts = found["arrayProperties"].get("statusSummary", {})
        return JobState.RUNNING if counts.get("RUNNING") else JobState.WAITING
    return _STATES[found["status"]]


def _task(index: int, found: Mapping[str, Any]) -> JobTask:
    state = _state(found)
    container = found.get("container", {})
    reasons = [str(found.get("statusReason", "")), str(container.get("reason", ""))]
    explained = [aws.explain_reason(reason, _REASONS) for reason in reasons if reason]
    given = filter(None, reasons)
    known = [text for text, reason in zip(explained, given, strict=True) if text != reason]
    if state is JobState.WAITING:
        return JobTask(index, state, "; ".join(known))
    if state is not JobState.FAILED:
        return JobTask(index, state)
    code = container.get("exitCode")
    if not known and code is not None:
        return JobTask(index, state, describe_exit(int(code)))
    return JobTask(index, state, "; ".join(known or explained))

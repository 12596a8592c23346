"""Jobs of the tests' AWS Batch: what they are, and how they are described."""

import fnmatch
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.servers.aws import Body
from tests.servers.containers import Container

RECLAIMED = "Host EC2 (instance i-0123456789abcdef0) terminated."
OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
EXITED = "Essential container in task exited"
TIMED_OUT = "Job attempt duration exceeded timeout"
STATUSES = (
    "SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED",
)  # fmt: skip


@dataclass
class BatchJob:
    """One container's job: a job of its own, or an array's child."""

    id: str
    index: int | None
    status: str = "RUNNABLE"
    status_reason: str = ""
    attempts: list[Body] = field(default_factory=list)
    container: Container | None = None
    # Of the attempt that runs; set by what ends it.
    host_reason: str = ""
    reason: str = ""
    stream: str = ""
    exit_code: int | None = None
    terminated: bool = False

    @property
    def is_over(self) -> bool:
        return self.status in ("SUCCEEDED", "FAILED")


@dataclass
class Submission:
    """What was submitted, and the jobs that it is."""

    id: str
    request: Body
    definition: Body
    jobs: list[BatchJob]
    created: int = field(default_factory=lambda: int(time.time() * 1000))

    @property
    def is_array(self) -> bool:
        return "arrayProperties" in self.request

    @property
    def status(self) -> str:
        if not self.is_array:
            return self.jobs[0].status
        if not all(job.is_over for job in self.jobs):
            return "PENDING"
        return "FAILED" if any(job.status == "FAILED" for job in self.jobs) else "SUCCEEDED"

    @property
    def environment(self) -> dict[str, str]:
        given = self.definition["containerProperties"].get("environment", [])
        over = self.request.get("containerOverrides", {}).get("environment", [])
        return {one["name"]: one["value"] for one in (*given, *over)}

    def about(self) -> Body:
        return {
            "jobName": self.request["jobName"],
            "jobQueue": self.request["jobQueue"],
            "jobDefinition": self.definition["jobDefinitionArn"],
            "createdAt": self.created,
            "startedAt": self.created,
        }


def array(made: Submission) -> Body:
    """An array, by how its children stand."""
    counts = {one: sum(job.status == one for job in made.jobs) for one in STATUSES}
    size = {"size": len(made.jobs), "statusSummary": counts}
    said = {"jobId": made.id, "status": made.status, "arrayProperties": size}
    return {**made.about(), **said, "isTerminated": any(j.terminated for j in made.jobs)}


def described(made: Submission, job: BatchJob, blocked: str) -> Body:
    """A container's job; `blocked` is why those wait that do."""
    given = made.definition["containerProperties"]
    container = {"image": given["image"], "logStreamName": job.stream, "reason": job.reason}
    container["logConfiguration"] = given.get("logConfiguration", {"logDriver": "awslogs"})
    if job.exit_code is not None:
        container["exitCode"] = job.exit_code
    waits = blocked if job.status == "RUNNABLE" else ""
    said: Body = {
        "jobId": job.id,
        "status": job.status,
        "statusReason": waits or job.status_reason,
        "attempts": job.attempts,
        "container": container,
        "isTerminated": job.terminated,
    }
    if job.index is not None:
        said["arrayProperties"] = {"index": job.index}
    return {**made.about(), **said}


def batch_environment(made: Submission, job: BatchJob, attempt: int) -> dict[str, str]:
    """The environment of Batch itself."""
    variables = {
        "AWS_BATCH_JOB_ID": job.id,
        "AWS_BATCH_JOB_ATTEMPT": str(attempt),
        "AWS_BATCH_JQ_NAME": made.request["jobQueue"],
        "AWS_BATCH_CE_NAME": made.request["jobQueue"],
    }
    if job.index is not None:
        variables["AWS_BATCH_JOB_ARRAY_INDEX"] = str(job.index)
        variables["AWS_BATCH_JOB_ARRAY_SIZE"] = str(len(made.jobs))
    return variables


def action(conditions: list[Mapping[str, str]], job: BatchJob) -> str:
    """RETRY or EXIT: the first condition that holds, or else RETRY."""
    seen = {
        "onStatusReason": job.host_reason or EXITED,
        "onReason": job.reason,
        "onExitCode": "" if job.exit_code is None else str(job.exit_code),
    }
    for one in conditions:
        wanted = [name for name in seen if name in one]
        if all(re.fullmatch(fnmatch.translate(one[name]), seen[name]) for name in wanted):
            return one["action"].upper()
    return "RETRY"

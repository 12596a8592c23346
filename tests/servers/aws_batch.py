"""AWS Batch: queues, job definitions, and jobs whose containers are processes.

https://docs.aws.amazon.com/batch/latest/userguide/. Array jobs, retries with evaluateOnExit, time
limits (SIGTERM, and SIGKILL 30 seconds later), termination, secrets and logs. A container's command
goes behind its image's entry point, as Docker has it.
"""

import asyncio
import fnmatch
import secrets
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.servers.aws import (
    ACCOUNT,
    REGION,
    Account,
    Body,
    RefusedError,
    Running,
    Services,
    check,
    model_of,
    serving,
)
from tests.servers.aws_batch_jobs import (
    EXITED,
    TIMED_OUT,
    BatchJob,
    Submission,
    action,
    array,
    batch_environment,
    described,
)
from tests.servers.containers import Container

GRACE = 30
NOT_STARTED = "Task failed to start"


class Batch:
    """The operations on queues, job definitions and jobs."""

    def __init__(self, account: Account, running: Running) -> None:
        self.account, self._running = account, running
        self.queues: dict[str, Body] = {}
        self.definitions: dict[str, list[Body]] = {}
        self.submissions: dict[str, Submission] = {}
        # Said of all jobs that wait, while it is set.
        self.blocked = ""

    def add_to(self, services: Services) -> None:
        services.add("batch", "DescribeJobQueues", self._describe_queues)
        services.add("batch", "DescribeJobDefinitions", self._describe_definitions)
        services.add("batch", "SubmitJob", self._submit)
        services.add("batch", "DescribeJobs", self._describe)
        services.add("batch", "ListJobs", self._list)
        services.add("batch", "TerminateJob", self._terminate)

    def make_queue(self, name: str) -> None:
        arn = f"arn:aws:batch:{REGION}:{ACCOUNT}:job-queue/{name}"
        queue = {"jobQueueName": name, "jobQueueArn": arn, "state": "ENABLED", "status": "VALID"}
        self.queues[name] = {**queue, "priority": 1, "computeEnvironmentOrder": []}

    def register(self, definition: Body) -> None:
        """As RegisterJobDefinition does; raises RefusedError."""
        check(model_of("batch").operation_model("RegisterJobDefinition"), definition)
        name = definition["jobDefinitionName"]
        known = self.definitions.setdefault(name, [])
        revision = len(known) + 1
        arn = f"arn:aws:batch:{REGION}:{ACCOUNT}:job-definition/{name}:{revision}"
        said = {"jobDefinitionArn": arn, "revision": revision, "status": "ACTIVE"}
        known.append({**definition, **said})

    def end(self, job: BatchJob, *, host_reason: str = "", reason: str = "") -> None:
        """Kill its container, as a reclaimed machine does, or the want of memory."""
        job.host_reason, job.reason = host_reason, reason
        assert job.container is not None
        job.container.send(signal.SIGKILL)

    def _describe_queues(self, body: Body) -> Body:
        names = body.get("jobQueues") or list(self.queues)
        return {"jobQueues": [self.queues[one] for one in names if one in self.queues]}

    def _describe_definitions(self, body: Body) -> Body:
        name = body.get("jobDefinitionName", "")
        given = [one.split("/")[-1] for one in body.get("jobDefinitions", [])]
        found = [
            one
            for known in self.definitions.values()
            for one in known
            if one["jobDefinitionName"] == name
            or f"{one['jobDefinitionName']}:{one['revision']}" in given
        ]
        return {"jobDefinitions": found}

    def _submit(self, body: Body) -> Body:
        if body["jobQueue"] not in self.queues:
            raise RefusedError("ClientException", f"JobQueue {body['jobQueue']} not found.", 404)
        size = body.get("arrayProperties", {}).get("size")
        if size is not None and not 2 <= size <= 10_000:
            raise RefusedError("ClientException", "Array size must be between 2 and 10000.")
        if body.get("timeout", {}).get("attemptDurationSeconds", 60) < 60:
            raise RefusedError("ClientException", "Timeout must be at least 60 seconds.")
        if len(body.get("retryStrategy", {}).get("evaluateOnExit", [])) > 5:
            raise RefusedError("ClientException", "At most 5 conditions may be evaluated.")
        name, _, revision = body["jobDefinition"].split("/")[-1].partition(":")
        definition = self.definitions[name][int(revision or 0) - 1]
        job_id = secrets.token_hex(16)
        jobs = [BatchJob(f"{job_id}:{index}", index) for index in range(size or 0)]
        made = Submission(job_id, body, definition, jobs or [BatchJob(job_id, None)])
        self.submissions[job_id] = made
        for job in made.jobs:
            self._running.start(lambda job=job: self._run(made, job))  # type: ignore[misc]
        return {"jobId": job_id, "jobName": body["jobName"]}

    def _describe(self, body: Body) -> Body:
        found = []
        for job_id in body["jobs"]:
            parent, _, index = job_id.partition(":")
            made = self.submissions.get(parent)
            if made is None:
                continue
            if index:
                found.append(described(made, made.jobs[int(index)], self.blocked))
            elif made.is_array:
                found.append(array(made))
            else:
                found.append(described(made, made.jobs[0], self.blocked))
        return {"jobs": found}

    def _list(self, body: Body) -> Body:
        wanted = body["filters"][0]["values"][0] if body.get("filters") else "*"
        found = [
            (array(made) if made.is_array else described(made, made.jobs[0], self.blocked))
            for made in self.submissions.values()
            if made.request["jobQueue"] == body["jobQueue"]
            and fnmatch.fnmatch(made.request["jobName"], wanted)
        ]
        return {"jobSummaryList": found[::-1]}

    def _terminate(self, body: Body) -> Body:
        made = self.submissions[body["jobId"].partition(":")[0]]
        for job in made.jobs:
            if not job.is_over:
                job.terminated, job.host_reason = True, body["reason"]
                self._running.start(lambda job=job: self._halt(job))  # type: ignore[misc]
        return {}

    async def _halt(self, job: BatchJob) -> None:
        if job.container is not None:
            job.container.send(signal.SIGTERM)
            await asyncio.sleep(GRACE * self.account.second)
            job.container.send(signal.SIGKILL)

    async def _run(self, made: Submission, job: BatchJob) -> None:
        while self.blocked and not job.terminated:
            await asyncio.sleep(0.05)
        strategy = made.request.get("retryStrategy") or made.definition.get("retryStrategy", {})
        for attempt in range(1, strategy.get("attempts", 1) + 1):
            if job.terminated:
                break
            timed_out = await self._attempt(made, job, attempt)
            if job.exit_code == 0 or job.terminated or timed_out:
                break
            if action(strategy.get("evaluateOnExit", []), job) == "EXIT":
                break
        job.status_reason = job.host_reason or EXITED
        job.status = "SUCCEEDED" if job.exit_code == 0 else "FAILED"

    async def _attempt(self, made: Submission, job: BatchJob, attempt: int) -> bool:
        """One try of the container; whether it took too long."""
        given = made.definition["containerProperties"]
        job.host_reason = job.reason = ""
        job.exit_code = None
        try:
            entry = self._entry_point(given["image"])
            hidden = {one["name"]: self._secret(one) for one in given.get("secrets", [])}
        except RefusedError as error:
            job.host_reason, job.reason = NOT_STARTED, error.message
            container = {"reason": job.reason}
            job.attempts.append({"container": container, "statusReason": job.host_reason})
            return False
        job.stream = f"{made.definition['jobDefinitionName']}/default/{secrets.token_hex(16)}"
        file = self.account.folder / f"{job.stream.rpartition('/')[2]}.log"
        options = given.get("logConfiguration", {}).get("options", {})
        group = options.get("awslogs-group", "/aws/batch/job")
        self.account.logs.setdefault(group, {})[job.stream] = file
        command = made.request.get("containerOverrides", {}).get("command") or given["command"]
        environment = {
            **self.account.container_environment(),
            **made.environment,
            **hidden,
            **batch_environment(made, job, attempt),
        }
        job.container = Container([*entry, *command], environment, file)
        job.status = "RUNNING"
        timeout = made.request.get("timeout") or made.definition.get("timeout") or {}
        limit = asyncio.ensure_future(self._stop_in_time(job, timeout))
        job.exit_code = await job.container.run()
        limit.cancel()
        said: Body = {"exitCode": job.exit_code, "reason": job.reason}
        said["logStreamName"] = job.stream
        job.attempts.append({"container": said, "statusReason": job.host_reason or EXITED})
        job.status = "RUNNABLE"
        return job.host_reason == TIMED_OUT

    def _entry_point(self, image: str) -> tuple[str, ...]:
        if image not in self.account.images:
            raise RefusedError(
                "",
                f"CannotPullContainerError: Error response from daemon: manifest for {image} not "
                "found: manifest unknown: Requested image not found",
            )
        return self.account.images[image]

    def _secret(self, one: Mapping[str, Any]) -> str:
        try:
            return self.account.secret(one["valueFrom"])
        except RefusedError as error:
            raise RefusedError(
                "",
                "Fetching secret data from AWS Secrets Manager in region us-east-1: secret "
                f"{one['valueFrom']}: ResourceNotFoundException: {error.message}",
            ) from error

    async def _stop_in_time(self, job: BatchJob, timeout: Mapping[str, int]) -> None:
        if "attemptDurationSeconds" in timeout:
            await asyncio.sleep(timeout["attemptDurationSeconds"] * self.account.second)
            job.host_reason = TIMED_OUT
            await self._halt(job)


@contextmanager
def serving_batch(account: Account) -> Iterator[Batch]:
    """AWS Batch, gone afterwards."""
    running = Running()
    services, batch = Services(account), Batch(account, running)
    batch.add_to(services)
    with serving(services, running):
        yield batch

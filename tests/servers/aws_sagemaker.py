"""SageMaker's processing jobs: each instance a process with a folder in place of /opt/ml.

https://docs.aws.amazon.com/sagemaker/latest/dg/byoc-run-image.html. A process is told its folder by
SAGEMAKER_BASE_DIR, as SageMaker's own toolkits are where /opt/ml is not it; it finds
resourceconfig.json there, and its output/message becomes part of ExitMessage. What becomes of the
other containers of a job when one fails is not documented; here they are ended too, as a worker has
to bear that.
"""

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.servers.aws import (
    ACCOUNT,
    REGION,
    Account,
    Body,
    RefusedError,
    Running,
    Services,
    serving,
)
from tests.servers.containers import Container

ROLE = f"arn:aws:iam::{ACCOUNT}:role/llm-ocr-sagemaker"
GROUP = "/aws/sagemaker/ProcessingJobs"
# Of the platform's seconds, between SIGTERM and SIGKILL.
GRACE = 120
LOST = "InternalServerError: We encountered an internal error. Please try again."
SHOWN = 1024


@dataclass
class ProcessingJob:
    """A job; `containers` are in the order of their hosts."""

    request: Body
    status: str = "InProgress"
    containers: list[Container] = field(default_factory=list)
    created: float = field(default_factory=time.time)
    # In the platform's seconds, of which one may be shorter here.
    started: float | None = None
    took: float | None = None
    reason: str = ""
    message: str = ""
    selected: str = ""
    stopping: bool = False

    @property
    def name(self) -> str:
        return str(self.request["ProcessingJobName"])

    @property
    def cluster(self) -> Body:
        cluster: Body = self.request["ProcessingResources"]["ClusterConfig"]
        return cluster

    @property
    def arn(self) -> str:
        return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:processing-job/{self.name}"

    def described(self) -> Body:
        cluster = dict(self.cluster)
        if self.selected and "InstancePreferences" in cluster:
            cluster["SelectedInstanceType"] = self.selected
            cluster["SelectedInstanceCount"] = cluster["InstanceCount"]
        resources = {"ProcessingResources": {"ClusterConfig": cluster}}
        return {**self.request, **resources, **self.summary()}

    def summary(self) -> Body:
        said: Body = {
            "ProcessingJobName": self.name,
            "ProcessingJobArn": self.arn,
            "ProcessingJobStatus": self.status,
            "CreationTime": self.created,
        }
        if self.started is not None:
            said["ProcessingStartTime"] = self.started
            if self.took is not None:
                said["ProcessingEndTime"] = self.started + self.took
        said |= {"FailureReason": self.reason} if self.reason else {}
        return said | ({"ExitMessage": self.message[:SHOWN]} if self.message else {})


class Processing:
    """The operations on processing jobs."""

    def __init__(self, account: Account, running: Running) -> None:
        self.account, self._running = account, running
        self.jobs: dict[str, ProcessingJob] = {}

    def add_to(self, services: Services) -> None:
        services.add("sagemaker", "CreateProcessingJob", self._create)
        services.add("sagemaker", "DescribeProcessingJob", lambda body: self._job(body).described())
        services.add("sagemaker", "ListProcessingJobs", self._list)
        services.add("sagemaker", "StopProcessingJob", self._stop)

    def lose(self, name: str, host: int) -> None:
        """An instance breaks down."""
        job = self.jobs[name]
        job.reason = LOST
        job.containers[host].send(signal.SIGKILL)

    def _create(self, body: Body) -> Body:
        name, count = body["ProcessingJobName"], self._count(body)
        if name in self.jobs:
            raise RefusedError(
                "ResourceInUse",
                "Processing job names must be unique within an AWS account and region",
            )
        if body["RoleArn"] != ROLE:
            raise RefusedError(
                "ValidationException",
                f"Could not assume role {body['RoleArn']}. Please ensure that the role exists and "
                "allows principal 'sagemaker.amazonaws.com' to assume the role.",
            )
        for kind in self._types(body):
            quota = self.account.quotas.get(kind, count)
            if count > quota:
                raise RefusedError(
                    "ResourceLimitExceeded",
                    f"The account-level service limit '{kind} for processing job usage' is {quota} "
                    f"Instances, with current utilization of 0 Instances and a request delta of "
                    f"{count} Instances. Please use AWS Service Quotas to request an increase for "
                    "this quota.",
                )
        job = self.jobs[name] = ProcessingJob(body)
        self._running.start(lambda: self._run(job))
        return {"ProcessingJobArn": job.arn}

    def _count(self, body: Body) -> int:
        cluster = body["ProcessingResources"]["ClusterConfig"]
        if ("InstanceType" in cluster) == ("InstancePreferences" in cluster):
            raise RefusedError(
                "ValidationException", "Specify one of InstanceType and InstancePreferences."
            )
        return int(cluster.get("InstanceCount", 1))

    def _types(self, body: Body) -> list[str]:
        cluster = body["ProcessingResources"]["ClusterConfig"]
        if "InstanceType" in cluster:
            return [cluster["InstanceType"]]
        return [one["InstanceType"] for one in cluster["InstancePreferences"]]

    def _job(self, body: Body) -> ProcessingJob:
        job = self.jobs.get(body["ProcessingJobName"])
        if job is None:
            raise RefusedError("ValidationException", "Could not find requested job")
        return job

    def _list(self, body: Body) -> Body:
        found = [job for job in self.jobs.values() if body.get("NameContains", "") in job.name]
        newest = sorted(found, key=lambda job: job.created, reverse=True)
        return {"ProcessingJobSummaries": [job.summary() for job in newest[: body["MaxResults"]]]}

    def _stop(self, body: Body) -> Body:
        job = self._job(body)
        if job.status != "InProgress":
            raise RefusedError(
                "ValidationException",
                f"The request was rejected because the processing job is in status {job.status}.",
            )
        self._running.start(lambda: self._halt(job))
        return {}

    async def _halt(self, job: ProcessingJob) -> None:
        """SIGTERM, and SIGKILL to those that don't heed it."""
        job.stopping, job.status = True, "Stopping"
        for container in job.containers:
            container.send(signal.SIGTERM)
        await asyncio.sleep(GRACE * self.account.second)
        for container in job.containers:
            container.send(signal.SIGKILL)

    async def _run(self, job: ProcessingJob) -> None:
        job.started, begun = time.time(), time.monotonic()
        free = [one for one in self._types(job.request) if one not in self.account.sold_out]
        image = job.request["AppSpecification"]["ImageUri"]
        if not free:
            job.reason = (
                "CapacityError: Unable to provision requested ML compute capacity. Please retry "
                "using a different ML instance type."
            )
        elif image not in self.account.images:
            job.reason = (
                f"ClientError: API error (404): manifest for {image} not found: manifest unknown: "
                "Requested image not found"
            )
        if job.reason:
            job.status, job.took = "Failed", 0.0
            return
        job.selected = free[0]
        codes = await self._run_containers(job)
        job.took = (time.monotonic() - begun) / self.account.second
        failed = next((code for code in codes if code), 0)
        if job.stopping:
            job.status = "Stopped"
        elif failed:
            job.status = "Failed"
            said = f"AlgorithmError: See job logs for more information, exit code: {failed}"
            job.reason = job.reason or said
        else:
            job.status = "Completed"

    async def _run_containers(self, job: ProcessingJob) -> list[int]:
        hosts = [f"algo-{number + 1}" for number in range(job.cluster["InstanceCount"])]
        streams = self.account.logs.setdefault(GROUP, {})
        for host in hosts:
            folder = self.account.folder / job.name / host
            (folder / "config").mkdir(parents=True)
            config = {"current_host": host, "hosts": hosts, "current_instance_type": job.selected}
            (folder / "config" / "resourceconfig.json").write_text(json.dumps(config))
            streams[f"{job.name}/{host}-{int(time.time())}"] = folder / "log"
            application = job.request["AppSpecification"]
            command = [*application["ContainerEntrypoint"], *application["ContainerArguments"]]
            job.containers.append(
                Container(
                    self.account.in_image(command),
                    {
                        **self.account.container_environment(),
                        **job.request.get("Environment", {}),
                        "SAGEMAKER_BASE_DIR": str(folder),
                    },
                    folder / "log",
                )
            )
        limit = asyncio.ensure_future(self._stop_in_time(job))
        try:
            return await asyncio.gather(*(self._run_one(job, one) for one in job.containers))
        finally:
            limit.cancel()
            for container in job.containers:
                container.send(signal.SIGKILL)
            job.message = "".join(
                file.read_text()
                for file in (self.account.folder / job.name).glob("*/output/message")
            )

    async def _run_one(self, job: ProcessingJob, container: Container) -> int:
        code = await container.run()
        if code:
            for other in job.containers:
                other.send(signal.SIGTERM)
        return code

    async def _stop_in_time(self, job: ProcessingJob) -> None:
        with suppress(asyncio.CancelledError):
            seconds = job.request["StoppingCondition"]["MaxRuntimeInSeconds"]
            await asyncio.sleep(seconds * self.account.second)
            await self._halt(job)


@contextmanager
def serving_sagemaker(account: Account) -> Iterator[Processing]:
    """SageMaker, gone afterwards."""
    running = Running()
    services, processing = Services(account), Processing(account, running)
    processing.add_to(services)
    with serving(services, running):
        yield processing

"""Amazon SageMaker: a run is one processing job on several instances.

Each instance is a task. SageMaker doesn't retry a processing job; within its container a worker
that dies is restarted (`sagemaker_task`), and launching the same job again resumes one that failed
as a whole, for instance because an instance was lost.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

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
)
from llm_ocr.platforms.registry import PlatformConfig
from llm_ocr.platforms.sagemaker_task import SECRETS

LOG_GROUP = "/aws/sagemaker/ProcessingJobs"
NAME_PREFIX = "llm-ocr-"
MAX_LISTED = 50
# The default instance of each GPU, and alternatives if it is not available (at most five).
INSTANCES: Mapping[GpuType | None, tuple[str, ...]] = {
    GpuType.L40S: ("ml.g6e.2xlarge", "ml.g6e.4xlarge", "ml.g6e.xlarge", "ml.g6e.8xlarge"),
    GpuType.L4: ("ml.g6.2xlarge", "ml.g6.4xlarge", "ml.g6.xlarge", "ml.g6.8xlarge"),
    None: ("ml.m7i.2xlarge", "ml.m5.2xlarge", "ml.c7i.4xlarge", "ml.c5.4xlarge"),
}
# The volume can't be larger than the local disk, which has 250 GB on the smallest instances.
VOLUME_GB = 200
# The interpreter in both images; in the one for GPUs, `python3` is vLLM's.
PYTHON = "/opt/llm-ocr/bin/python"
MAX_INSTANCES = 100
# The placeholder in a request of a dry run without a role.
ROLE = "ROLE"

_STATES: Mapping[str, JobState] = {
    "InProgress": JobState.RUNNING,
    "Stopping": JobState.RUNNING,
    "Completed": JobState.SUCCEEDED,
    "Failed": JobState.FAILED,
    "Stopped": JobState.CANCELLED,
}
# Patterns of SageMaker's messages when it rejects a job, and what to do about each.
_REJECTIONS: Mapping[str, str] = {
    r"ResourceLimitExceeded.*limit '(\S+) for processing job usage' is (\d+)": (
        r"the account's quota is \2 instances \1 for processing jobs; request more under Service "
        r"Quotas, Amazon SageMaker, '\1 for processing job usage', or give another `instance` or "
        r"fewer `tasks`"
    ),
    r"Value '([^']+)' at '[^']*instanceType'": (
        r"\1 is not an instance type for processing jobs; give `instance`, such as ml.g6e.2xlarge"
    ),
    r"Could not assume role (\S+?)\. ": (
        r"SageMaker may not use the role \1; check `role`, and that it trusts "
        r"sagemaker.amazonaws.com"
    ),
}
# Patterns of SageMaker's message why a job failed, and what to do about it.
_FAILURES: Mapping[str, str] = {
    r"CapacityError|InsufficientCapacity|Unable to provision": (
        "no such instance is available now; launch again later, or give other types as "
        "`instance`, such as ml.g6e.2xlarge,ml.g6e.4xlarge"
    ),
    r"Requested image not found|manifest unknown|image does not exist|Cannot pull": (
        "push the image first (`make deploy`), or give another `image`; the role needs to "
        "read it from ECR"
    ),
    r"InternalServerError": "an instance was lost, or SageMaker failed; launch the same job again "
    "to resume",
    r"exit code:? 137": "the container was killed, usually because it ran out of memory; give a "
    "larger `instance`, or lower `render_workers`",
}


class SageMaker:
    """`Platform` on SageMaker's processing jobs."""

    name = "sagemaker"
    gpus = (GpuType.L40S, GpuType.L4)

    def __init__(self, config: PlatformConfig) -> None:
        self._config = config
        self._role, self._instance = config.role, config.instance

    @cached_property
    def _session(self) -> Any:  # noqa: ANN401 - boto3 has no types
        return aws.sign_in(self._config.region)

    @property
    def _region(self) -> str:
        return str(self._session.region_name)

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401
        return self._session.client("sagemaker")

    def machine(self, gpu: GpuType | None) -> str:
        return self._types(gpu)[0]

    @property
    def placeholders(self) -> Mapping[str, str]:
        unknown: dict[str, str] = {}
        if aws.resolve_region(self._config.region) is None:
            unknown[aws.REGION] = "`region`, or AWS_REGION"
        if self._role is None:
            unknown[aws.ACCOUNT] = "`role`, which names the account"
            unknown[ROLE] = "`role`, the ARN of the role that the job runs as"
        return unknown

    def requests(self, spec: JobSpec) -> list[PlatformRequest]:
        region = aws.resolve_region(self._config.region) or aws.REGION
        role = self._role or f"arn:aws:iam::{aws.ACCOUNT}:role/{ROLE}"
        body = self._body(spec, region, role)
        shell = aws.cli_command("sagemaker", "create-processing-job", region, body)
        return [PlatformRequest("CreateProcessingJob", body, shell)]

    def submit(self, spec: JobSpec) -> str:
        if self._role is None:
            raise PlatformError(
                "sagemaker needs `role`, the ARN of the role that the job runs as; "
                "sagemaker/README.md says how to make one"
            )
        body = self._body(spec, self._region, self._role)
        aws.check_buckets(self._session, spec.command)
        self._check_secrets(spec)
        with aws.translate_errors(spec.name, _REJECTIONS):
            self._client.create_processing_job(**body)
        return spec.name

    def get_job(self, job_id: str) -> Job:
        unknown = {"Could not find requested job|ResourceNotFound": "unknown"}
        try:
            with aws.translate_errors(job_id, unknown):
                described = self._client.describe_processing_job(ProcessingJobName=job_id)
        except PlatformError as error:
            if str(error) == f"{job_id}: unknown":
                raise JobNotFoundError(
                    f"{job_id}: SageMaker has no such processing job in {self._region}; "
                    "`llm-ocr jobs list sagemaker` lists those that exist"
                ) from error
            raise
        return self._job(described, _instance_count(described))

    def list_jobs(self) -> list[Job]:
        with aws.translate_errors("ListProcessingJobs"):
            page = self._client.list_processing_jobs(
                NameContains=NAME_PREFIX,
                SortBy="CreationTime",
                SortOrder="Descending",
                MaxResults=MAX_LISTED,
            )
        return [self._job(summary, 0) for summary in page["ProcessingJobSummaries"]]

    def logs(self, job_id: str, task: int, *, follow: bool) -> Iterator[str]:
        job = self.get_job(job_id)
        aws.check_task(job, task)
        client = self._session.client("logs")
        # Instances are algo-1, algo-2, …; the name of a stream ends with its start time.
        prefix = f"{job_id}/algo-{task + 1}-"

        def streams() -> list[str]:
            try:
                with aws.translate_errors(LOG_GROUP):
                    page = client.describe_log_streams(
                        logGroupName=LOG_GROUP, logStreamNamePrefix=prefix
                    )
            except PlatformError as error:
                # The log group is created with an account's first processing job.
                if isinstance(error.__cause__, client.exceptions.ResourceNotFoundException):
                    return []
                raise
            return [str(stream["logStreamName"]) for stream in page["logStreams"]]

        def is_over() -> bool:
            return self.get_job(job_id).state.is_over

        return aws.read_log(self._session, LOG_GROUP, streams, is_over, follow=follow)

    def cancel(self, job_id: str) -> None:
        aws.check_running(self.get_job(job_id))
        with aws.translate_errors(job_id):
            self._client.stop_processing_job(ProcessingJobName=job_id)

    def _body(self, spec: JobSpec, region: str, role: str) -> dict[str, Any]:
        if spec.tasks > MAX_INSTANCES:
            raise PlatformError(
                f"`tasks` {spec.tasks}: a processing job has at most {MAX_INSTANCES} instances"
            )
        arguments = ["--attempts", str(spec.attempts)]
        if spec.secrets:
            arguments += ["--secrets", ",".join(sorted(spec.secrets))]
        return {
            "ProcessingJobName": spec.name,
            "RoleArn": role,
            "AppSpecification": {
                "ImageUri": spec.image or _image(spec, region, role),
                "ContainerEntrypoint": [PYTHON, "-P", "-m", "llm_ocr.platforms.sagemaker_task"],
                "ContainerArguments": [*arguments, "--", *spec.command],
            },
            "ProcessingResources": {"ClusterConfig": self._cluster(spec)},
            "StoppingCondition": {"MaxRuntimeInSeconds": spec.timeout},
            "Environment": {"AWS_REGION": region, **spec.environment},
        }

    def _types(self, gpu: GpuType | None) -> list[str]:
        return self._instance.split(",") if self._instance else list(INSTANCES[gpu])

    def _cluster(self, spec: JobSpec) -> dict[str, Any]:
        types = self._types(spec.gpu)
        cluster: dict[str, Any] = {"InstanceCount": spec.tasks, "VolumeSizeInGB": VOLUME_GB}
        if len(types) == 1:
            return {**cluster, "InstanceType": types[0]}
        return {**cluster, "InstancePreferences": [{"InstanceType": name} for name in types]}

    def _check_secrets(self, spec: JobSpec) -> None:
        """Raise PlatformError for a secret that is not in Secrets Manager, from which tasks read
        them: SageMaker shows everything that is in a request."""
        client = self._session.client("secretsmanager")
        for name in sorted(spec.secrets):
            known = {
                r"^ResourceNotFoundException": f"the job needs {name} from your environment, and "
                "SageMaker shows everything that is in a request. Store it in AWS Secrets "
                f"Manager once: `aws secretsmanager create-secret --region {self._region} "
                f'--name {SECRETS}{name} --secret-string "${name}"` (or unset {name})'
            }
            with aws.translate_errors(f"{SECRETS}{name}", known):
                client.describe_secret(SecretId=f"{SECRETS}{name}")

    def _job(self, described: Mapping[str, Any], count: int) -> Job:
        state = _STATES[described["ProcessingJobStatus"]]
        message = aws.explain_reason(described.get("FailureReason", ""), _FAILURES)
        if state is JobState.CANCELLED and (limit := _exceeded_limit(described)):
            state = JobState.FAILED
            message = (
                f"it took longer than the {limit // 60} minutes of `timeout`; launch the same job "
                "again to resume"
            )
        messages = _parse_messages(described.get("ExitMessage", ""))
        tasks = tuple(JobTask(index, state, messages.get(index, "")) for index in range(count))
        name = described["ProcessingJobName"]
        page = f"{self._region}.console.aws.amazon.com/sagemaker/home?region={self._region}"
        url = f"https://{page}#/processing-jobs/{name}"
        return Job(name, name, state, tasks, message, url)


def open_platform(config: PlatformConfig) -> SageMaker:
    """SageMaker in the region of `config`, or of the environment."""
    return SageMaker(config)


def _image(spec: JobSpec, region: str, role: str) -> str:
    account = re.match(rf"arn:[\w-]+:iam::(\d{{12}}|{aws.ACCOUNT}):role/", role)
    if account is None:
        raise PlatformError(f"`role` {role}: not the ARN of a role, arn:aws:iam::…:role/…")
    kind = "gpu-root" if spec.gpu else "cpu-root"
    # The container writes to /opt/ml, which belongs to root.
    return aws.default_image(account[1], region, kind)


def _instance_count(described: Mapping[str, Any]) -> int:
    cluster = described["ProcessingResources"]["ClusterConfig"]
    return int(cluster.get("SelectedInstanceCount") or cluster.get("InstanceCount") or 1)


def _exceeded_limit(described: Mapping[str, Any]) -> int | None:
    """The job's time limit in seconds if it was exceeded, which SageMaker shows as stopped."""
    limit = described.get("StoppingCondition", {}).get("MaxRuntimeInSeconds")
    begin, end = described.get("ProcessingStartTime"), described.get("ProcessingEndTime")
    if limit is None or begin is None or end is None:
        return None
    return int(limit) if (end - begin).total_seconds() >= limit else None


def _parse_messages(text: str) -> dict[int, str]:
    """Task -> the message that `sagemaker_task` wrote in its container."""
    lines = re.findall(r"^task (\d+): (.*)$", text, re.MULTILINE)
    return {int(index): message for index, message in lines}

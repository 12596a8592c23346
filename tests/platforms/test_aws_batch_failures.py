"""What AWS Batch refuses, and why its jobs wait or fail: each with what to do."""

import sys
from collections.abc import Callable

import pytest

from llm_ocr.platforms.base import JobNotFoundError, JobState, Platform, PlatformError
from llm_ocr.platforms.registry import PlatformConfig, open_platform
from tests.platforms.aws_batch_image import IMAGE
from tests.platforms.aws_place import (
    PLANTED,
    ended,
    llm_ocr,
    printed,
    soon,
    spec,
)
from tests.servers.aws import EXPIRED
from tests.servers.aws_batch import Batch
from tests.servers.aws_batch_jobs import OUT_OF_MEMORY

pytestmark = pytest.mark.long


@pytest.fixture
def platform(batch: Batch) -> Platform:
    return open_platform("aws-batch", PlatformConfig(region="us-east-1"))


Change = Callable[[Batch], object]


def no_image(batch: Batch) -> None:
    batch.account.images.clear()


def no_secret(batch: Batch) -> None:
    batch.account.secrets.clear()


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (no_image, 0, "push the image first (`make deploy`)"),
        (no_secret, 0, "the execution role can't read a secret of the job definition"),
        (
            lambda batch: None,
            1,
            "exit code 1: more pages or records failed than `max_failed_ratio` allows",
        ),
        (lambda batch: None, 2, "exit code 2: wrong usage"),
        (lambda batch: None, 3, "exit code 3: the engine failed"),
        (lambda batch: None, 5, "exit code 5: budget"),
        (lambda batch: None, 137, "exit code 137: killed"),
    ],
)
def test_failure_reason_of_a_task_is_reported(
    batch: Batch, platform: Platform, change: Change, code: int, said: str
) -> None:
    change(batch)
    if batch.account.images:
        batch.account.images[IMAGE] = (sys.executable, "-c", f"import sys; sys.exit({code})")
    job = ended(platform, platform.submit(spec(tasks=2)))
    assert job.state is JobState.FAILED
    for task in job.tasks:
        assert said in task.message
    (made,) = batch.submissions.values()
    tries = 1 if code in (1, 2, 5) else 3
    assert {len(one.attempts) for one in made.jobs} == {tries}


def test_out_of_memory_is_reported_and_not_retried(batch: Batch, platform: Platform) -> None:
    waits = "import os, time; time.sleep(600 * (os.environ['AWS_BATCH_JOB_ATTEMPT'] == '1'))"
    batch.account.images[IMAGE] = (sys.executable, "-c", waits)
    job_id = platform.submit(spec())
    (made,) = batch.submissions.values()
    soon(lambda: made.jobs[0].status == "RUNNING" and made.jobs[0].container.process)  # type: ignore[union-attr]
    batch.end(made.jobs[0], reason=OUT_OF_MEMORY)
    job = ended(platform, job_id)
    assert "raise `memory` in the module's `machines`" in job.tasks[0].message
    assert len(made.jobs[0].attempts) == 1


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity "
            "requested for instance type [g6.2xlarge]",
            "give the module more `instance_types`",
        ),
        (
            "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - CE(s) associated with the job "
            "queue cannot meet the job requirements",
            "All G and VT Spot Instance Requests",
        ),
    ],
)
def test_reason_of_a_waiting_job_is_reported(
    batch: Batch, platform: Platform, reason: str, said: str
) -> None:
    batch.blocked = reason
    job_id = platform.submit(spec(tasks=2))
    job = platform.get_job(job_id)
    assert job.state is JobState.WAITING
    assert reason in job.message
    assert said in job.message
    platform.cancel(job_id)
    assert ended(platform, job_id).state is JobState.CANCELLED


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"AWS_ACCESS_KEY_ID": "wrong"}, "the key is not accepted"),
        ({"AWS_ACCESS_KEY_ID": EXPIRED}, "the credentials have expired; sign in again"),
        ({"AWS_ACCESS_KEY_ID": ""}, "no credentials were found; sign in"),
        ({"AWS_REGION": ""}, "no region is set; give --region"),
        ({"AWS_PROFILE": "nobody"}, "aws configure list-profiles"),
        ({"AWS_ENDPOINT_URL_BATCH": "http://127.0.0.1:9"}, "check the network"),
        ({"HF_TOKEN": PLANTED, "LLM_OCR_PASSWORD": "x"}, ""),
    ],
)
def test_missing_permissions_or_credentials_are_reported(
    batch: Batch, environment: dict[str, str], said: str
) -> None:
    done = llm_ocr("jobs", "list", "aws-batch", **environment)
    assert (done.returncode == 3) == bool(said)
    printed(done, [said])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gpu", "h100"], "--gpu h100: aws-batch has l4, l40s, or none"),
        (["--gpu", "l40s"], "llm-ocr-l40s: there is no such queue in us-east-1"),
        (["--queue", "other"], "other: there is no such queue"),
        (["--definition", "other"], "other: there is no such job definition"),
        (["--definition", "llm-ocr-l4:7"], "llm-ocr-l4:7: there is no such job definition"),
        (["--image", "other"], "--image other: the image is the job definition's"),
        (["--instance", "g6.xlarge"], "--instance g6.xlarge: the queue determines the machines"),
        (["--tasks", "10001"], "an array job has at most 10,000"),
        (["--password", "x"], "the job needs LLM_OCR_PASSWORD"),
    ],
)
def test_unavailable_resources_are_reported(batch: Batch, arguments: list[str], said: str) -> None:
    done = llm_ocr("launch", "aws-batch", "s3://bucket/in", "--out", "s3://bucket/out", *arguments)
    assert done.returncode in (2, 3)
    printed(done, [said])
    assert not batch.submissions


def test_bucket_in_another_region_or_missing_is_reported(
    batch: Batch, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch.account.regions["far"] = "eu-west-1"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", batch.account.url)
    with pytest.raises(PlatformError, match="s3://far is in eu-west-1, and the job would run in"):
        platform.submit(spec("run", "s3://far/in", "--out", "s3://far/out"))
    with pytest.raises(PlatformError, match="s3://none: there is no such bucket"):
        platform.submit(spec("run", "s3://none/in", "--out", "s3://far/out"))


def test_unknown_jobs_and_tasks(platform: Platform) -> None:
    with pytest.raises(JobNotFoundError, match="AWS Batch has no such job in us-east-1"):
        platform.get_job("none")
    job_id = platform.submit(spec(tasks=2))
    with pytest.raises(JobNotFoundError, match="has tasks 0 to 1, and no 5"):
        platform.logs(job_id, 5, follow=False)
    ended(platform, job_id)

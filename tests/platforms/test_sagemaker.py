"""SageMaker: runs as processing jobs on several instances."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_ocr.batch.partition import WorkerPartition
from llm_ocr.platforms import sagemaker_task
from llm_ocr.platforms.base import GpuType, JobNotFoundError, JobState, Platform, PlatformError
from llm_ocr.platforms.entrypoint import CommandResult
from llm_ocr.platforms.registry import PlatformConfig, open_platform
from tests.platforms.aws_place import (
    PLANTED,
    QUICK,
    SHARED,
    Trouble,
    assert_whole,
    ended,
    hangs,
    kill_worker,
    llm_ocr,
    new_run,
    printed,
    settle,
    soon,
    spec,
    upload,
    with_engine,
)
from tests.servers.aws import EXPIRED, Account
from tests.servers.aws_sagemaker import ROLE, Processing, serving_sagemaker
from tests.servers.chat import serving_beside

pytestmark = pytest.mark.long

IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/llm-ocr:0.1.0-gpu-root"
CPU_IMAGE = IMAGE.replace("gpu", "cpu")


@pytest.fixture
def processing(
    tmp_path: Path, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Processing]:
    account = Account(tmp_path / "sagemaker", {**s3, **QUICK}, {IMAGE: (), CPU_IMAGE: ()})
    with serving_sagemaker(account) as running:
        settle(monkeypatch, account.client_environment())
        yield running


@pytest.fixture
def platform(processing: Processing) -> Platform:
    return open_platform("sagemaker", PlatformConfig(role=ROLE))


def launch(*arguments: str, **environment: str) -> Any:  # noqa: ANN401
    return llm_ocr("launch", "sagemaker", *arguments, "--role", ROLE, **environment)


def test_run_of_three_tasks_completes_despite_a_killed_worker(
    processing: Processing, tmp_path: Path
) -> None:
    place, out = upload(tmp_path / "in", 8, pages=2), new_run()

    def kill() -> None:
        (job,) = processing.jobs.values()
        process = job.containers[1].process
        assert process is not None
        kill_worker(process.pid)

    with serving_beside(Trouble(6, kill).reply) as engine:
        with_engine(processing.account, engine.base_url)
        done = launch(place, "--out", out, "--tasks", "3", "--wait", *SHARED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_whole(out, 8, pages=2)
    (job,) = processing.jobs.values()
    printed(done, ["3 succeeded", f"llm-ocr jobs wait sagemaker {job.name}"])
    listed = llm_ocr("jobs", "list", "sagemaker")
    printed(listed, [f"{job.name} succeeded", "console.aws.amazon.com/sagemaker"])
    logs = llm_ocr("jobs", "logs", "sagemaker", job.name, "--task", "1")
    printed(logs, ["the worker exited with code 137; restarting it (attempt 2 of 3)", "extract:"])


def test_job_that_lost_an_instance_resumes_when_relaunched(
    processing: Processing, tmp_path: Path
) -> None:
    place, out = upload(tmp_path / "in", 6), new_run()

    def lose() -> None:
        (job,) = processing.jobs.values()
        processing.lose(job.name, 1)

    with serving_beside(Trouble(3, lose).reply) as engine:
        with_engine(processing.account, engine.base_url)
        command = (place, "--out", out, "--tasks", "3", "--wait", *SHARED)
        lost = launch(*command)
        assert lost.returncode == 3
        printed(lost, ["an instance was lost, or SageMaker failed; launch the same job again"])
        assert launch(*command).returncode == 0
    assert_whole(out, 6)


def test_a_job_is_cancelled(processing: Processing, tmp_path: Path) -> None:
    place, out = upload(tmp_path / "in", 4), new_run()
    with serving_beside(hangs) as engine:
        with_engine(processing.account, engine.base_url)
        launch(place, "--out", out, "--tasks", "2", *SHARED)
        (job,) = processing.jobs.values()
        soon(lambda: len(engine.requests) >= 2)
        assert llm_ocr("jobs", "cancel", "sagemaker", job.name).returncode == 0
        waited = llm_ocr("jobs", "wait", "sagemaker", job.name)
        again = llm_ocr("jobs", "cancel", "sagemaker", job.name)
    assert waited.returncode == 3
    printed(waited, [f"{job.name} cancelled 2 cancelled"])
    printed(again, [f"{job.name} has already ended: cancelled"])


def test_job_over_its_time_limit_is_ended_and_reported(
    processing: Processing, tmp_path: Path
) -> None:
    place, out = upload(tmp_path / "in", 2), new_run()
    processing.account.second = 0.05
    with serving_beside(hangs) as engine:
        with_engine(processing.account, engine.base_url)
        done = launch(place, "--out", out, "--timeout", "1", "--wait", *SHARED)
    assert done.returncode == 3
    printed(done, ["failed", "it took longer than the 1 minutes of --timeout; launch the same job"])


def test_dry_run_prints_the_request_and_sends_nothing(processing: Processing) -> None:
    done = launch(
        *("s3://bucket/in", "--out", "s3://bucket/out", "--tasks", "3", "--model", "olmocr-2"),
        "--dry-run",
        HF_TOKEN=PLANTED,
    )
    assert done.returncode == 0, done.stderr
    (request,) = json.loads(done.stdout)
    body = request["body"]
    assert request["operation"] == "CreateProcessingJob"
    assert body["AppSpecification"]["ImageUri"] == IMAGE
    cluster = body["ProcessingResources"]["ClusterConfig"]
    assert cluster["InstanceCount"] == 3
    assert cluster["InstancePreferences"][0] == {"InstanceType": "ml.g6e.2xlarge"}
    told = {"LLM_OCR_MODEL": "olmocr-2", "LLM_OCR_PRICE_PER_HOUR": "2.8"}
    # What the tests' own environment says goes too.
    assert body["Environment"] == {"AWS_REGION": "us-east-1", **QUICK, **told} | {
        "LLM_OCR_MIN_AGREEMENT": "0.0"
    }
    arguments = body["AppSpecification"]["ContainerArguments"]
    assert arguments[:5] == ["--attempts", "3", "--secrets", "HF_TOKEN", "--"]
    assert PLANTED not in done.stdout
    assert processing.account.asked == []


def test_secret_reaches_the_worker_only(
    processing: Processing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encrypted document opens with the password that only Secrets Manager has."""
    from llm_ocr import load_pages
    from llm_ocr.storage.store import open_store
    from tests import documents

    secret = "planted0password0in0the0tests"
    place, out = new_run(), new_run()
    path = documents.encrypted_pdf(tmp_path / "locked.pdf", secret)
    open_store(place).put("locked.pdf", path.read_bytes())
    monkeypatch.setenv("HF_TOKEN", PLANTED)
    command = (place, "--out", out, "--password", secret, "--wait", *SHARED)
    with serving_beside() as engine:
        with_engine(processing.account, engine.base_url)
        refused = launch(*command)
        assert refused.returncode == 3
        printed(refused, ["aws secretsmanager create-secret", "--name llm-ocr/HF_TOKEN"])
        assert not processing.jobs
        processing.account.secrets |= {"llm-ocr/HF_TOKEN": PLANTED}
        processing.account.secrets |= {"llm-ocr/LLM_OCR_PASSWORD": secret}
        done = launch(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["status"] for row in load_pages(out)] == ["ok"]
    (job,) = processing.jobs.values()
    logs = llm_ocr("jobs", "logs", "sagemaker", job.name)
    printed(logs, ["extract:"])
    said = [refused.stderr, done.stdout, done.stderr, logs.stdout, *processing.account.asked]
    assert not [one for one in said if PLANTED in one or secret in one]


def test_failure_reason_is_in_the_job_description(
    processing: Processing, platform: Platform
) -> None:
    job = ended(platform, platform.submit(spec("run", "s3://bucket/nothing", tasks=2)))
    assert job.state is JobState.FAILED
    # The other task may have been ended before it could say so too.
    assert any("Exit code 2" in task.message and "--out" in task.message for task in job.tasks)


def test_out_of_memory_is_reported_after_the_last_retry(
    processing: Processing, platform: Platform, tmp_path: Path
) -> None:
    place, out = upload(tmp_path / "in", 2), new_run()
    command = ("run", place, "--out", out)
    with serving_beside(hangs) as engine:
        with_engine(processing.account, engine.base_url)
        job_id = platform.submit(spec(*command, attempts=1))
        soon(lambda: engine.requests)
        process = processing.jobs[job_id].containers[0].process
        assert process is not None
        kill_worker(process.pid)
        job = ended(platform, job_id)
    assert "killed, usually because it ran out of memory; give it more" in job.tasks[0].message


@pytest.mark.parametrize(
    ("place", "fields", "said"),
    [
        ({"instance": "ml.nope"}, {}, "ml.nope is not an instance type for processing"),
        ({"role": ROLE + "x"}, {}, "SageMaker may not use the role"),
        ({"role": None}, {}, "sagemaker needs `role`"),
        ({"role": "me"}, {}, "`role` me: not the ARN of a role"),
        ({}, {"tasks": 101}, "at most 100 instances"),
        (
            {},
            {"gpu": GpuType.L4, "tasks": 2},
            "the account's quota is 0 instances ml.g6.2xlarge",
        ),
    ],
)
def test_refused_requests_are_reported(
    processing: Processing, place: dict[str, str], fields: dict[str, Any], said: str
) -> None:
    processing.account.quotas["ml.g6.2xlarge"] = 0
    asked = open_platform("sagemaker", PlatformConfig(**{"role": ROLE, **place}))
    with pytest.raises(PlatformError) as refused:
        asked.submit(spec(**fields))
    assert said in str(refused.value)


def test_next_instance_type_is_used_without_capacity(
    processing: Processing, platform: Platform
) -> None:
    processing.account.sold_out |= {"ml.g6e.2xlarge"}
    job_id = platform.submit(spec(gpu=GpuType.L40S, tasks=2))
    done = ended(platform, job_id)
    assert done.state is JobState.SUCCEEDED, done
    assert len(done.tasks) == 2
    assert processing.jobs[job_id].selected == "ml.g6e.4xlarge"


def test_start_failure_of_a_job_is_reported(processing: Processing, platform: Platform) -> None:
    missing = ended(platform, platform.submit(spec(image="none:1")))
    assert missing.state is JobState.FAILED
    assert "push the image first (`make deploy`)" in missing.message
    processing.account.sold_out |= {"ml.m5.large"}
    small = open_platform("sagemaker", PlatformConfig(role=ROLE, instance="ml.m5.large"))
    none = ended(small, small.submit(spec()))
    assert "no such instance is available now" in none.message


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"AWS_ACCESS_KEY_ID": "wrong"}, "the key is not accepted"),
        ({"AWS_ACCESS_KEY_ID": EXPIRED}, "the credentials have expired; sign in again"),
    ],
)
def test_missing_permissions_are_reported(
    processing: Processing, environment: dict[str, str], said: str
) -> None:
    done = llm_ocr("jobs", "list", "sagemaker", **environment)
    assert done.returncode == 3
    printed(done, [said])


def test_unknown_jobs_tasks_gpus_and_buckets(
    processing: Processing, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JobNotFoundError, match="SageMaker has no such processing job in us-east-1"):
        platform.get_job("llm-ocr-none")
    job_id = platform.submit(spec())
    with pytest.raises(JobNotFoundError, match="has tasks 0 to 0, and no 5"):
        platform.logs(job_id, 5, follow=False)
    ended(platform, job_id)
    done = launch("s3://bucket/in", "--out", "s3://bucket/out", "--gpu", "a100")
    assert done.returncode == 2
    printed(done, ["--gpu a100: sagemaker has l40s, l4"])
    processing.account.regions["far"] = "eu-west-1"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", processing.account.url)
    with pytest.raises(PlatformError, match="s3://far is in eu-west-1"):
        platform.submit(spec("run", "s3://far/in", "--out", "s3://far/out"))


def test_a_message_keeps_its_end_within_the_room_of_a_task() -> None:
    said = sagemaker_task.task_message(
        WorkerPartition(3, 5), CommandResult(3, "é" * 2000 + " the end")
    )
    assert said.startswith("task 3: ")
    assert said.endswith(" the end\n")
    assert len(said.encode()) <= 1024 // 5

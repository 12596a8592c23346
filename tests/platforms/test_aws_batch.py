"""AWS Batch: runs as array jobs, with the job definition of the Terraform module."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.platforms.aws_batch import EVALUATE_ON_EXIT
from llm_ocr.platforms.base import Job, NoSuchJobError, Platform, PlatformError, State, wait
from llm_ocr.platforms.clouds import Place, open_platform
from llm_ocr.storage.store import open_store
from tests.platforms import aws_module
from tests.platforms.aws_place import (
    PLANTED,
    QUICK,
    SHARED,
    Trouble,
    assert_whole,
    llm_ocr,
    new_run,
    printed,
    settle,
    soon,
    spec,
    upload,
)
from tests.servers.aws import EXPIRED, Account
from tests.servers.aws_batch import Batch, serving_batch
from tests.servers.aws_batch_jobs import OUT_OF_MEMORY, RECLAIMED
from tests.servers.chat import serving_beside

pytestmark = pytest.mark.platform

IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/llm-ocr:0.1.0-gpu"
SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:llm-ocr/HF_TOKEN"
ENTRY = (sys.executable, "-m", "llm_ocr.platforms.entry")


@pytest.fixture
def account(tmp_path: Path, s3: dict[str, str]) -> Account:
    environment = {**s3, **QUICK}
    secrets = {"llm-ocr/HF_TOKEN": PLANTED}
    return Account(tmp_path / "batch", environment, {IMAGE: ENTRY}, secrets)


@pytest.fixture
def batch(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Batch]:
    """With the queues and the job definitions that `make aws-batch-apply` makes."""
    account.folder.mkdir()
    with serving_batch(account) as running:
        settle(monkeypatch, account.client_environment())
        for kind in ("l4", "cpu"):
            running.make_queue(f"llm-ocr-{kind}")
            running.register(aws_module.definition(kind, IMAGE, {"HF_TOKEN": SECRET}))
        yield running


@pytest.fixture
def platform(batch: Batch) -> Platform:
    return open_platform("aws-batch", Place(region="us-east-1"))


def ended(platform: Platform, job_id: str) -> Job:
    return wait(platform, job_id, lambda job: None, poll_seconds=0.1)


def with_engine(batch: Batch, base_url: str) -> None:
    batch.account.environment = {**batch.account.environment, "LLM_OCR_BASE_URL": base_url}


def hangs(body: dict[str, Any]) -> Any:  # noqa: ANN401
    async def reply() -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return reply()


@pytest.mark.parametrize("host_reason", [RECLAIMED, ""], ids=["reclaimed", "killed"])
def test_a_run_of_three_tasks_is_whole_though_one_is_killed(
    batch: Batch, tmp_path: Path, host_reason: str
) -> None:
    place, out = upload(tmp_path / "in", 8, pages=2), new_run()

    def kill() -> None:
        (made,) = batch.submissions.values()
        running = next(job for job in made.jobs if job.status == "RUNNING")
        batch.end(running, host_reason=host_reason)

    with serving_beside(Trouble(5, kill).reply) as engine:
        with_engine(batch, engine.base_url)
        done = llm_ocr(
            *("launch", "aws-batch", place, "--out", out, "--tasks", "3", "--wait", *SHARED)
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_whole(out, 8, pages=2)
    (made,) = batch.submissions.values()
    assert sorted(len(job.attempts) for job in made.jobs) == [1, 1, 2]
    printed(done, ["3 succeeded", f"llm-ocr jobs wait aws-batch {made.id}"])
    listed = llm_ocr("jobs", "list", "aws-batch")
    printed(listed, [f"{made.id} succeeded", "console.aws.amazon.com/batch"])
    logs = llm_ocr("jobs", "logs", "aws-batch", made.id, "--task", "2")
    printed(logs, ["extract:"])


def test_a_job_that_is_waited_for_elsewhere_and_its_log_followed(
    batch: Batch, tmp_path: Path
) -> None:
    place, out = upload(tmp_path / "in", 2), new_run()
    with serving_beside() as engine:
        with_engine(batch, engine.base_url)
        launch = ("launch", "aws-batch", place, "--out", out, "--gpu", "none", *SHARED)
        printed(llm_ocr(*launch), ["is submitted"])
        (made,) = batch.submissions.values()
        followed = llm_ocr("jobs", "logs", "aws-batch", made.id, "--follow")
        assert llm_ocr("jobs", "wait", "aws-batch", made.id).returncode == 0
    printed(followed, ["extract:", "Documents"])
    assert made.request["jobQueue"] == "llm-ocr-cpu"
    assert not made.is_array, "one task is no array"
    assert_whole(out, 2)


def test_a_job_is_cancelled_and_what_was_finished_stays(batch: Batch, tmp_path: Path) -> None:
    place, out = upload(tmp_path / "in", 4), new_run()
    with serving_beside(hangs) as engine:
        with_engine(batch, engine.base_url)
        llm_ocr("launch", "aws-batch", place, "--out", out, "--tasks", "2", *SHARED)
        (made,) = batch.submissions.values()
        soon(lambda: len(engine.requests) >= 2)
        assert llm_ocr("jobs", "cancel", "aws-batch", made.id).returncode == 0
        waited = llm_ocr("jobs", "wait", "aws-batch", made.id)
        again = llm_ocr("jobs", "cancel", "aws-batch", made.id)
    assert waited.returncode == 3
    printed(waited, [f"{made.id} cancelled 2 cancelled"])
    assert again.returncode == 3
    printed(again, [f"{made.id} is over already: cancelled"])
    assert [len(job.attempts) for job in made.jobs] == [1, 1], "it is not tried again"
    assert open_store(out).exists("plan.parquet") or list(open_store(out).list("plans"))


def test_a_task_that_takes_too_long_is_ended_and_told(batch: Batch, tmp_path: Path) -> None:
    place, out = upload(tmp_path / "in", 2), new_run()
    batch.account.second = 0.05
    with serving_beside(hangs) as engine:
        with_engine(batch, engine.base_url)
        done = llm_ocr(
            *("launch", "aws-batch", place, "--out", out, "--timeout", "1", "--wait", *SHARED)
        )
    assert done.returncode == 3
    printed(done, ["task 0: Job attempt duration exceeded timeout: it took longer than --timeout"])
    (made,) = batch.submissions.values()
    assert len(made.jobs[0].attempts) == 1


def test_the_module_retries_as_launches_do() -> None:
    made = aws_module.definition("l4", IMAGE, {})
    assert made["retryStrategy"]["evaluateOnExit"] == [dict(one) for one in EVALUATE_ON_EXIT]


def test_a_dry_run_prints_the_request_and_asks_nobody(batch: Batch) -> None:
    done = llm_ocr(
        *("launch", "aws-batch", "s3://bucket/in", "--out", "s3://bucket/out", "--tasks", "3"),
        *("--model", "olmocr-2", "--dry-run"),
        HF_TOKEN=PLANTED,
        LLM_OCR_PASSWORD="",
    )
    assert done.returncode == 0, done.stderr
    (request,) = json.loads(done.stdout)
    body = request["body"]
    assert request["operation"] == "SubmitJob"
    assert body["arrayProperties"] == {"size": 3}
    assert body["containerOverrides"]["command"][:4] == [
        *("run", "s3://bucket/in", "--out", "s3://bucket/out"),
    ]
    there = {one["name"]: one["value"] for one in body["containerOverrides"]["environment"]}
    told = {"LLM_OCR_MODEL": "olmocr-2", "LLM_OCR_PRICE_PER_HOUR": "0.5772"}
    assert there == {"AWS_REGION": "us-east-1", **told}
    assert PLANTED not in done.stdout
    assert batch.account.asked == []


def test_a_secret_reaches_the_container_and_nobody_else(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    tells = "import os; print('it has', len(os.environ['HF_TOKEN']), 'letters')"
    batch.account.images[IMAGE] = (sys.executable, "-c", tells)
    monkeypatch.setenv("HF_TOKEN", PLANTED)
    out = new_run()
    done = llm_ocr("launch", "aws-batch", "s3://bucket/in", "--out", out, "--wait")
    assert done.returncode == 0, done.stderr
    (made,) = batch.submissions.values()
    logs = llm_ocr("jobs", "logs", "aws-batch", made.id)
    printed(logs, [f"it has {len(PLANTED)} letters"])
    said = [done.stdout, done.stderr, logs.stdout, *batch.account.asked]
    assert batch.account.asked
    assert not [one for one in said if PLANTED in one]


Change = Callable[[Batch], object]


def no_image(batch: Batch) -> None:
    batch.account.images.clear()


def no_secret(batch: Batch) -> None:
    batch.account.secrets.clear()


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (no_image, 0, "push the image first (`make push-images`)"),
        (no_secret, 0, "the execution role can't read a secret of the job definition"),
        (lambda batch: None, 1, "exit code 1: more pages failed than --max-failed-ratio allows"),
        (lambda batch: None, 2, "exit code 2: wrong usage"),
        (lambda batch: None, 3, "exit code 3: the engine failed"),
        (lambda batch: None, 5, "(--max-cost) is spent"),
        (lambda batch: None, 137, "exit code 137: it was killed"),
    ],
)
def test_why_a_task_failed(
    batch: Batch, platform: Platform, change: Change, code: int, said: str
) -> None:
    change(batch)
    if batch.account.images:
        batch.account.images[IMAGE] = (sys.executable, "-c", f"import sys; sys.exit({code})")
    job = ended(platform, platform.submit(spec(tasks=2)))
    assert job.state is State.FAILED
    for task in job.tasks:
        assert said in task.message
    (made,) = batch.submissions.values()
    tries = 1 if code in (1, 2, 5) else 3
    assert {len(one.attempts) for one in made.jobs} == {tries}


def test_want_of_memory_is_told_and_not_tried_again(batch: Batch, platform: Platform) -> None:
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
def test_why_a_job_waits(batch: Batch, platform: Platform, reason: str, said: str) -> None:
    batch.blocked = reason
    job_id = platform.submit(spec(tasks=2))
    job = platform.job(job_id)
    assert job.state is State.WAITING
    assert reason in job.message
    assert said in job.message
    platform.cancel(job_id)
    assert ended(platform, job_id).state is State.CANCELLED


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"AWS_ACCESS_KEY_ID": "wrong"}, "the key is not accepted"),
        ({"AWS_ACCESS_KEY_ID": EXPIRED}, "the credentials have expired; sign in again"),
        ({"AWS_ACCESS_KEY_ID": ""}, "no credentials were found; sign in"),
        ({"AWS_REGION": ""}, "no region is chosen; give --region"),
        ({"AWS_PROFILE": "nobody"}, "aws configure list-profiles"),
        ({"AWS_ENDPOINT_URL_BATCH": "http://127.0.0.1:9"}, "check the network"),
        ({"HF_TOKEN": PLANTED, "LLM_OCR_PASSWORD": "x"}, ""),
    ],
)
def test_who_may_not_or_cannot_ask_is_told(
    batch: Batch, environment: dict[str, str], said: str
) -> None:
    done = llm_ocr("jobs", "list", "aws-batch", **environment)
    assert (done.returncode == 3) == bool(said)
    printed(done, [said])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gpu", "h100"], "--gpu h100: aws-batch has l4, l40s; or give none"),
        (["--gpu", "l40s"], "llm-ocr-l40s: there is no such queue in us-east-1"),
        (["--queue", "other"], "other: there is no such queue"),
        (["--definition", "other"], "other: there is no such job definition"),
        (["--definition", "llm-ocr-l4:7"], "llm-ocr-l4:7: there is no such job definition"),
        (["--image", "other"], "--image other: the image is the job definition's"),
        (["--instance", "g6.xlarge"], "--instance g6.xlarge: the machines are those of the queue"),
        (["--tasks", "10001"], "an array job has at most 10,000"),
        (["--password", "x"], "the job needs LLM_OCR_PASSWORD"),
    ],
)
def test_what_the_platform_does_not_have_is_told(
    batch: Batch, arguments: list[str], said: str
) -> None:
    done = llm_ocr("launch", "aws-batch", "s3://bucket/in", "--out", "s3://bucket/out", *arguments)
    assert done.returncode in (2, 3)
    printed(done, [said])
    assert not batch.submissions


def test_a_bucket_elsewhere_or_nowhere_is_told(
    batch: Batch, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch.account.regions["far"] = "eu-west-1"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", batch.account.url)
    with pytest.raises(PlatformError, match="s3://far is in eu-west-1, and the job would run in"):
        platform.submit(spec("run", "s3://far/in", "--out", "s3://far/out"))
    with pytest.raises(PlatformError, match="s3://none: there is no such bucket"):
        platform.submit(spec("run", "s3://none/in", "--out", "s3://far/out"))


def test_jobs_and_tasks_that_there_are_none_of(platform: Platform) -> None:
    with pytest.raises(NoSuchJobError, match="AWS Batch has no such job in us-east-1"):
        platform.job("none")
    job_id = platform.submit(spec(tasks=2))
    with pytest.raises(NoSuchJobError, match="has tasks 0 to 1, and no 5"):
        platform.logs(job_id, 5, follow=False)
    ended(platform, job_id)

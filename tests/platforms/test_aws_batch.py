"""AWS Batch: runs as array jobs, with the job definition of the Terraform module."""

import json
import sys
from pathlib import Path

import boto3
import pytest

from llm_ocr.platforms.aws_batch import EVALUATE_ON_EXIT
from llm_ocr.storage.store import open_store
from tests.platforms import aws_module
from tests.platforms.aws_batch_image import IMAGE
from tests.platforms.aws_place import (
    PLANTED,
    QUICK,
    SHARED,
    Trouble,
    assert_whole,
    hangs,
    llm_ocr,
    new_run,
    printed,
    soon,
    upload,
    with_engine,
)
from tests.platforms.test_batch_job import ASKED, reads
from tests.servers.aws_batch import Batch
from tests.servers.aws_batch_jobs import RECLAIMED
from tests.servers.chat import prompt_of, serving_beside

pytestmark = pytest.mark.long


@pytest.mark.parametrize("host_reason", [RECLAIMED, ""], ids=["reclaimed", "killed"])
def test_run_of_three_tasks_completes_despite_a_kill(
    batch: Batch, tmp_path: Path, host_reason: str
) -> None:
    place, out = upload(tmp_path / "in", 8, pages=2), new_run()

    def kill() -> None:
        (made,) = batch.submissions.values()
        running = next(job for job in made.jobs if job.status == "RUNNING")
        batch.end(running, host_reason=host_reason)

    with serving_beside(Trouble(5, kill).reply) as engine:
        with_engine(batch.account, engine.base_url)
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


def test_job_is_awaited_and_followed_from_another_process(batch: Batch, tmp_path: Path) -> None:
    place, out = upload(tmp_path / "in", 2), new_run()
    with serving_beside() as engine:
        with_engine(batch.account, engine.base_url)
        launch = ("launch", "aws-batch", place, "--out", out, "--gpu", "none", *SHARED)
        printed(llm_ocr(*launch), ["submitted"])
        (made,) = batch.submissions.values()
        followed = llm_ocr("jobs", "logs", "aws-batch", made.id, "--follow")
        assert llm_ocr("jobs", "wait", "aws-batch", made.id).returncode == 0
    printed(followed, ["extract:", "Documents"])
    assert made.request["jobQueue"] == "llm-ocr-cpu"
    assert not made.is_array, "one task is no array"
    assert_whole(out, 2)


def test_cancelled_job_keeps_finished_pages(batch: Batch, tmp_path: Path) -> None:
    place, out = upload(tmp_path / "in", 4), new_run()
    with serving_beside(hangs) as engine:
        with_engine(batch.account, engine.base_url)
        llm_ocr("launch", "aws-batch", place, "--out", out, "--tasks", "2", *SHARED)
        (made,) = batch.submissions.values()
        soon(lambda: len(engine.requests) >= 2)
        assert llm_ocr("jobs", "cancel", "aws-batch", made.id).returncode == 0
        waited = llm_ocr("jobs", "wait", "aws-batch", made.id)
        again = llm_ocr("jobs", "cancel", "aws-batch", made.id)
    assert waited.returncode == 3
    printed(waited, [f"{made.id} cancelled 2 cancelled"])
    assert again.returncode == 3
    printed(again, [f"{made.id} has already ended: cancelled"])
    assert [len(job.attempts) for job in made.jobs] == [1, 1], "it is not tried again"
    assert list(open_store(out).list("plans"))


def test_task_over_its_time_limit_is_ended_and_reported(batch: Batch, tmp_path: Path) -> None:
    place, out = upload(tmp_path / "in", 2), new_run()
    batch.account.second = 0.05
    with serving_beside(hangs) as engine:
        with_engine(batch.account, engine.base_url)
        done = llm_ocr(
            *("launch", "aws-batch", place, "--out", out, "--timeout", "1", "--wait", *SHARED)
        )
    assert done.returncode == 3
    printed(done, ["task 0: Job attempt duration exceeded timeout: it took longer than --timeout"])
    (made,) = batch.submissions.values()
    assert len(made.jobs[0].attempts) == 1


def test_module_retries_like_launches() -> None:
    made = aws_module.definition("l4", IMAGE, {})
    assert made["retryStrategy"]["evaluateOnExit"] == [dict(one) for one in EVALUATE_ON_EXIT]


def test_dry_run_prints_the_request_and_sends_nothing(batch: Batch) -> None:
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
    # What the tests' own environment says goes too.
    assert there == {"AWS_REGION": "us-east-1", **QUICK, **told} | {"LLM_OCR_MIN_AGREEMENT": "0.0"}
    assert PLANTED not in done.stdout
    assert batch.account.asked == []


def test_job_definition_of_the_module_runs_alone(batch: Batch, tmp_path: Path) -> None:
    """As `aws batch submit-job` with a name, a queue and a definition submits it."""
    told = aws_module.job_environment()
    upload(tmp_path / "in", 2, place=f"s3://bucket/{told['S3_PREPROCESSED_IMAGES_DIR_PREFIX']}")
    out = f"s3://bucket/{told['S3_PROCESSED_DATASET_PREFIX']}"
    client = boto3.client("batch", region_name="us-east-1")
    with serving_beside(reads) as engine:
        with_engine(batch.account, engine.base_url)
        client.submit_job(jobName="mine", jobQueue="llm-ocr-l4", jobDefinition="llm-ocr-l4")
        (made,) = batch.submissions.values()
        soon(lambda: made.jobs[0].is_over, 120)
        asked = [body for body in engine.requests if ASKED in prompt_of(body)]
    assert made.jobs[0].exit_code == 0, made.jobs[0]
    records = open_store(out).get("records/records.jsonl").decode().splitlines()
    assert len(records) == len(asked) == 2
    assert str(asked[0]["max_tokens"]) == told["MAX_TOKENS"]


def test_secret_reaches_the_container_only(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
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

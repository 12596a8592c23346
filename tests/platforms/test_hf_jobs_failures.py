"""What goes wrong with jobs of Hugging Face, and what is said of it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from llm_ocr.platforms.base import JobState, PlatformError
from llm_ocr.platforms.hf_jobs import open_platform as open_hf_jobs
from llm_ocr.platforms.hf_task import GPU_IMAGE
from llm_ocr.platforms.registry import PlatformConfig, open_platform
from llm_ocr.retry import Backoff
from tests.platforms.hf import READ, SCANS, Cloud, ended, spec
from tests.servers.hub_images import script_image
from tests.servers.hub_state import EXPIRED, OWNER, READER

pytestmark = pytest.mark.long


def test_rejected_task_cancels_those_before_it(tmp_path: Path, cloud: Cloud) -> None:
    cloud.hub.credit = 2
    cloud.hub.images = {GPU_IMAGE: script_image(tmp_path / "image", "sleep 60")}
    with pytest.raises(PlatformError, match=r"task 2 was not submitted, and the 2 before it were"):
        open_hf_jobs(PlatformConfig()).submit(spec(tasks=3))
    assert [job.stage for job in cloud.hub.jobs.values()] == ["CANCELED", "CANCELED"]


@pytest.mark.parametrize(
    ("token", "place", "message"),
    [
        (
            EXPIRED,
            PlatformConfig(),
            "the token is not accepted: it is wrong or expired; sign in with",
        ),
        ("hf_wrong", PlatformConfig(namespace="user"), "the token is not accepted"),
        (READER, PlatformConfig(), r"may not run jobs for user; .* permissions"),
        (
            OWNER,
            PlatformConfig(namespace="nobody"),
            "no user or organization nobody; check `namespace`",
        ),
        (OWNER, PlatformConfig(instance="h900"), "no machine is called h900; `hf jobs hardware`"),
        (OWNER, PlatformConfig(wheel="other.whl"), "not a wheel of llm_ocr; `uv build --wheel`"),
    ],
)
def test_invalid_launches_are_refused(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, token: str, place: PlatformConfig, message: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(PlatformError, match=message):
        open_hf_jobs(place).submit(spec())
    assert cloud.hub.jobs == {}


def test_missing_credit_starts_nothing(cloud: Cloud) -> None:
    cloud.hub.credit = 0
    with pytest.raises(PlatformError, match=r"user has no credit .*billing.* balance is insuff"):
        open_hf_jobs(PlatformConfig()).submit(spec())


def test_missing_token_is_reported_with_login_advice(cloud: Cloud) -> None:
    done = cloud.llm_ocr("launch", "hf-jobs", SCANS, "--out", READ, HF_TOKEN="")
    assert done.returncode == 3
    assert "no token was found; sign in with `hf auth login`" in done.stderr


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -9 $$", r"exit code: 137: .* ran out of memory.* `hf jobs hardware`"),
        ("exit 2", r"exit code: 2: wrong usage, a missing dependency"),
        ("sleep 60", r"Job timeout: .* longer `timeout`"),
        (None, r"Failed to pull image .*: the image vllm/.* can't be pulled; check `image`"),
    ],
)
def test_failure_reason_of_a_task_is_reported(
    tmp_path: Path, cloud: Cloud, script: str | None, message: str
) -> None:
    cloud.hub.images = {}
    if script:
        cloud.hub.images[GPU_IMAGE] = script_image(tmp_path / "image", script)
    platform = open_hf_jobs(PlatformConfig())
    asked = spec(timeout=1 if script == "sleep 60" else 600)
    job = ended(platform, platform.submit(replace(asked, attempts=2)))
    (task,) = job.tasks
    assert (job.state, task.state) == (JobState.FAILED, JobState.FAILED)
    assert re.search(message, task.message)
    attempts = len(cloud.task_job(0).attempts)
    assert attempts == {None: 0, "sleep 60": 1}.get(script, 2)


def test_transient_hub_error_does_not_end_a_wait(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_ocr.platforms.hf_jobs.BACKOFF", Backoff(0.0, 0.0))
    platform = open_hf_jobs(PlatformConfig())
    job_id = platform.submit(spec(image="nothing"))
    cloud.hub.failures = [503, 500, 429]
    assert platform.get_job(job_id).id == job_id
    assert cloud.hub.failures == []


def test_cancellation_is_retried_after_a_hub_error(
    tmp_path: Path, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_ocr.platforms.hf_jobs.BACKOFF", Backoff(0.0, 0.0))
    cloud.hub.images["slow"] = script_image(tmp_path / "image", "sleep 60")
    platform = open_hf_jobs(PlatformConfig())
    job_id = platform.submit(spec(image="slow"))
    refused = [503]

    def watch(request: web.Request) -> None:
        if request.path.endswith("/cancel") and refused:
            cloud.hub.failures.append(refused.pop())

    cloud.hub.watch = watch
    platform.cancel(job_id)
    assert refused == []
    assert platform.get_job(job_id).state is JobState.CANCELLED


def test_ambiguous_submission_is_not_repeated(cloud: Cloud) -> None:
    platform = open_hf_jobs(PlatformConfig(namespace="user"))
    cloud.hub.failures = [502]
    with pytest.raises(PlatformError, match="the Hub answers 502; run the same command again"):
        platform.submit(spec())
    assert cloud.hub.jobs == {}


def test_unknown_jobs_are_reported(cloud: Cloud) -> None:
    for command in ("logs", "wait", "cancel"):
        done = cloud.llm_ocr("jobs", command, "hf-jobs", "llm-ocr-run-0")
        assert done.returncode == 3
        assert "llm-ocr-run-0: user has no such job; `llm-ocr jobs list hf-jobs`" in done.stderr
    assert cloud.llm_ocr("jobs", "list", "hf-jobs").stdout == ""


def test_unsubmitted_task_is_reported(cloud: Cloud) -> None:
    platform = open_hf_jobs(PlatformConfig())
    job_id = platform.submit(spec(tasks=2, image="nothing"))
    cloud.hub.jobs.pop(next(iter(cloud.hub.jobs)))
    job = ended(platform, job_id)
    assert [task.state for task in job.tasks] == [JobState.CANCELLED, JobState.FAILED]
    assert job.tasks[0].message == "it was not submitted"
    assert job.state is JobState.FAILED


def test_stores_without_credentials_are_refused(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = open_platform("hf-jobs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    on_s3 = spec(command=("run", "s3://bucket/in", "--out", READ))
    with pytest.raises(PlatformError, match=r"s3://bucket/in: .* set AWS_ACCESS_KEY_ID"):
        platform.submit(on_s3)
    (request,) = platform.requests(on_s3)
    assert "AWS_ACCESS_KEY_ID" in request.body["secrets"], "who looks need not have the key"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    (request,) = platform.requests(on_s3)
    assert request.body["env"]["AWS_REGION"] == "eu-west-1"
    assert set(request.body["secrets"]) == {
        "HF_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    }
    assert "planted" not in json.dumps(request.body) + request.shell
    with pytest.raises(PlatformError, match=r"gs://bucket: .* no Google account; use hf://"):
        platform.requests(spec(command=("run", "gs://bucket", "--out", READ)))

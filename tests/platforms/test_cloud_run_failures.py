"""What is wrong on Cloud Run is said, with what to do."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from llm_ocr.platforms.base import GpuType, JobNotFoundError, JobState, PlatformError, wait
from llm_ocr.platforms.registry import PlatformConfig, open_platform
from tests.platforms.gcp import IMAGE, TOKEN, Cloud, put_documents, signed_in, spec
from tests.servers.google_accounts import Accounts

pytestmark = pytest.mark.long


@pytest.fixture
def cloud(tmp_path: Path, gcs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with signed_in(tmp_path, gcs, monkeypatch) as there:
        yield there


def test_task_ended_by_the_platform_reports_its_timeout(cloud: Cloud, tmp_path: Path) -> None:
    put_documents(tmp_path / "in", f"{cloud.bucket}/in", 1)
    cloud.hang()
    platform = open_platform("cloud-run")
    late = {"LLM_OCR_TIME_LIMIT": "1000"}
    job = platform.submit(spec(cloud, timeout=4, attempts=1, environment=late))
    done = wait(platform, job, lambda now: None, poll_seconds=0.2)
    assert done.state is JobState.FAILED
    assert "took longer than `timeout`" in done.tasks[0].message
    assert "with more `tasks`" in done.tasks[0].message
    listed = {one.id: one.state for one in platform.list_jobs()}
    assert listed == {job: JobState.FAILED}


def test_task_without_enough_memory_reports_it(cloud: Cloud, tmp_path: Path) -> None:
    put_documents(tmp_path / "in", f"{cloud.bucket}/in", 1)
    cloud.hang()
    platform = open_platform("cloud-run", PlatformConfig(instance="1x128Mi"))
    job = platform.submit(spec(cloud, gpu=None, attempts=1))
    done = wait(platform, job, lambda now: None, poll_seconds=0.2)
    assert done.state is JobState.FAILED
    assert "out of memory (Memory limit of 128 MiB exceeded" in done.tasks[0].message
    assert "`instance`" in done.tasks[0].message


WRONG: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "the quota": ({"tasks": 8}, r"Quota exceeded .*: give fewer `tasks`, .*Quotas"),
    "the image": ({"image": f"{IMAGE}/gone:1"}, r"Image '.*gone:1' not found: build and push"),
    "a secret": (
        {"secrets": {"HF_TOKEN": TOKEN}},
        r"llm-ocr-hf-token/versions/latest was not found: .*gcloud secrets create",
    ),
    "the bucket": (
        {"command": ("run", "gs://nowhere/in", "--out", "gs://bucket/run")},
        r"gs://nowhere: there is no such bucket",
    ),
    "the GPU": ({"gpu": GpuType.A100}, r"`gpu` a100: cloud-run has l4"),
    "the time": (
        {"timeout": 600 * 60},
        r"so the maximum is 450; give more `tasks`, or",
    ),
    "another account's key": ({}, r"not accepted, or expired: sign in with `gcloud auth"),
}


@pytest.mark.parametrize("what", WRONG)
def test_launch_errors_have_advice_and_leave_nothing(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    changed, message = WRONG[what]
    if what.startswith("another account"):
        key = Accounts().key_file(tmp_path / "other.json", cloud.server.url)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    with pytest.raises(PlatformError, match=message):
        open_platform("cloud-run").submit(spec(cloud, **changed))
    assert cloud.server.jobs == {}
    assert cloud.server.running == {}


PLACES: Mapping[str, tuple[PlatformConfig, str]] = {
    "another region": (
        PlatformConfig(region="europe-west4"),
        r"gs://bucket is in us-central1, the job would be in europe-west4: .*`region` us-central1",
    ),
    "another project": (
        PlatformConfig(project="theirs"),
        r"Permission 'run.jobs.create' denied .*: you need roles/run.developer",
    ),
    "an account that is not there": (
        PlatformConfig(service_account="nobody@x.iam.gserviceaccount.com"),
        r"nobody@.* does not exist: create the account",
    ),
    "too small a machine": (PlatformConfig(instance="2x8Gi"), r"an L4 needs 4 CPUs and 16Gi"),
    "no machine": (
        PlatformConfig(instance="n2-standard-4"),
        r"give CPUs and memory, such as",
    ),
}


@pytest.mark.parametrize("what", PLACES)
def test_invalid_location_is_reported(cloud: Cloud, what: str) -> None:
    place, message = PLACES[what]
    with pytest.raises(PlatformError, match=message):
        open_platform("cloud-run", place).submit(spec(cloud))
    assert cloud.server.jobs == {}


def test_region_without_the_gpu_is_reported(cloud: Cloud) -> None:
    platform = open_platform("cloud-run", PlatformConfig(region="europe-north1"))
    hub = ("run", "hf://datasets/user/in", "--out", "hf://datasets/user/out")
    with pytest.raises(PlatformError, match=r"not supported in europe-north1: .*another `region`"):
        platform.submit(spec(cloud, command=hub))


def test_missing_region_and_credentials_are_reported(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.delenv("CLOUDSDK_RUN_REGION")
        with pytest.raises(PlatformError, match="give `region`"):
            open_platform("cloud-run").list_jobs()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    with pytest.raises(PlatformError, match=r"nowhere.*gcloud auth application-default login"):
        open_platform("cloud-run").list_jobs()


def test_unknown_job_is_reported(cloud: Cloud) -> None:
    with pytest.raises(JobNotFoundError, match=r"no job gone in us-central1 .*jobs list cloud-run"):
        open_platform("cloud-run").get_job("gone")

"""Runs as jobs of Cloud Run, against a server that speaks its API and really runs the tasks."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import load_documents, load_pages
from llm_ocr.platforms.base import GpuType, JobNotFoundError, JobState, wait
from llm_ocr.platforms.registry import open_platform
from llm_ocr.storage.store import open_store
from tests import documents
from tests.platforms.gcp import ACCOUNT, TOKEN, Cloud, put_documents, signed_in, spec
from tests.platforms.readme import commands
from tests.servers.chat import at_once
from tests.servers.cloud_logging import PAGE_SIZE
from tests.servers.google_accounts import PROJECT

pytestmark = pytest.mark.long

README = Path(__file__).parents[2] / "google-cloud-run" / "README.md"


@pytest.fixture
def cloud(tmp_path: Path, gcs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with signed_in(tmp_path, gcs, monkeypatch) as there:
        yield there


def test_readme_commands_complete_a_run_with_a_killed_task(cloud: Cloud, tmp_path: Path) -> None:
    put_documents(tmp_path / "in", f"{cloud.bucket}/scans", 24)
    few, killed = 6, threading.Event()

    async def reply(body: dict[str, Any]) -> Any:  # noqa: ANN401
        # Nobody gets far before the second task has died.
        while len(cloud.chat.requests) > few and not killed.is_set():
            await asyncio.sleep(0.02)
        return at_once(body)

    def kill_when(task: int) -> bool:
        if task == 1 and len(cloud.chat.requests) > few:
            killed.set()
            return True
        return False

    cloud.chat.reply, cloud.server.machines.kill_when = reply, kill_when
    cloud.server.machines.secrets["llm-ocr-hf-token"] = TOKEN
    given = {
        "PROJECT": PROJECT,
        "REGION": "us-central1",
        "BUCKET": cloud.bucket.removeprefix("gs://"),
        "ACCOUNT": ACCOUNT,
        "HF_TOKEN": TOKEN,
    }
    printed = {}
    for command in commands(README, "llm-ocr"):
        if command.endswith(" plain"):
            # Of the job that gcloud makes, which test_cloud_run_readme.py does.
            continue
        if command.startswith("llm-ocr launch"):
            command = command.replace("--tasks 3", "--tasks 3 --shard-pages 2")
        done = cloud.shell(command, **given)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        printed[command] = done.stdout
        if " submitted. " in done.stdout:
            given["JOB"] = done.stdout.split()[0]
            # The job that has done it all is what the rest is about.
            cloud.shell("llm-ocr jobs wait cloud-run $JOB", **given)
    first = next(iter(cloud.server.running.values())).execution
    assert cloud.server.attempts(first.job) == [1, 2, 1]
    pages = list(load_pages(f"{cloud.bucket}/runs/first"))
    assert len(pages) == 36 == len({page["page_id"] for page in pages})
    assert len(list(load_documents(f"{cloud.bucket}/runs/first"))) == 24
    assert any("3 succeeded" in said for said in printed.values())
    assert not any(TOKEN.encode() in body for body in cloud.server.bodies)
    assert TOKEN not in cloud.server.printed() + "".join(printed.values())


def test_dry_run_prints_the_requests_that_a_launch_sends(cloud: Cloud, tmp_path: Path) -> None:
    put_documents(tmp_path / "in", f"{cloud.bucket}/in", 1)
    platform = open_platform("cloud-run")
    asked = spec(cloud, tasks=2, secrets={"HF_TOKEN": TOKEN})
    create, start = platform.requests(asked)
    assert create.operation == (
        f"POST v2/projects/{PROJECT}/locations/us-central1/jobs?jobId={asked.name}"
    )
    assert start.operation.endswith(f"/jobs/{asked.name}:run")
    task = create.body["template"]["template"]
    assert task["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert not any(b"/v2/" in body for body in cloud.server.bodies), "nothing was sent"
    cloud.server.machines.secrets["llm-ocr-hf-token"] = TOKEN
    platform.submit(asked)
    (job,) = cloud.server.jobs.values()
    assert job.template.task_count == 2
    assert job.template.template.node_selector.accelerator == "nvidia-l4"
    assert job.template.template.gpu_zonal_redundancy_disabled
    secret = next(one for one in job.template.template.containers[0].env if one.value_source)
    assert (secret.name, secret.value) == ("HF_TOKEN", "")


@pytest.mark.parametrize(
    ("minutes", "gpu", "timeout", "retries"),
    [(30, GpuType.L4, "1800s", 2), (240, GpuType.L4, "3000s", 6), (240, None, "14400s", 2)],
)
def test_timeout_over_the_platform_limit_uses_retries(
    cloud: Cloud, minutes: int, gpu: GpuType | None, timeout: str, retries: int
) -> None:
    asked = spec(cloud, timeout=minutes * 60, gpu=gpu)
    task = open_platform("cloud-run").requests(asked)[0].body["template"]["template"]
    assert (task["timeout"], task["maxRetries"]) == (timeout, retries)
    limit = {one["name"]: one["value"] for one in task["containers"][0]["env"]}
    assert int(limit["LLM_OCR_TIME_LIMIT"]) == int(timeout.rstrip("s")) - 60


def test_task_at_its_time_limit_stops_itself_and_resumes(cloud: Cloud, tmp_path: Path) -> None:
    put_documents(tmp_path / "in", f"{cloud.bucket}/in", 3)
    hanging = cloud.hang()
    platform = open_platform("cloud-run")
    job = platform.submit(spec(cloud, timeout=40))

    def tell(now: object) -> None:
        # The first attempt finds an engine that hangs, the second one that answers.
        if cloud.server.attempts(job) == [2]:
            hanging.released.set()

    while cloud.server.attempts(job) != [2]:
        assert not platform.get_job(job).state.is_over
        threading.Event().wait(0.1)
    hanging.released.set()
    done = wait(platform, job, tell, poll_seconds=0.2)
    assert done.state is JobState.SUCCEEDED
    assert "rerun the same command to resume" in cloud.server.printed()
    assert len(list(load_documents(f"{cloud.bucket}/run"))) == 3


def test_cancelling_ends_running_tasks_and_keeps_finished_pages(
    cloud: Cloud, tmp_path: Path
) -> None:
    put_documents(tmp_path / "in", f"{cloud.bucket}/in", 4)
    hanging = cloud.hang()
    platform = open_platform("cloud-run")
    job = platform.submit(spec(cloud, tasks=2, environment={"LLM_OCR_SHARD_PAGES": "2"}))
    assert hanging.asked.wait(60)
    assert platform.get_job(job).state is JobState.RUNNING
    assert cloud.llm_ocr("jobs", "cancel", "cloud-run", job).returncode == 0
    done = wait(platform, job, lambda now: None, poll_seconds=0.2)
    assert done.state is JobState.CANCELLED
    assert {task.state for task in done.tasks} == {JobState.CANCELLED}
    assert cloud.server.attempts(job) == [1, 1], "nothing is begun again"
    platform.cancel(job)
    hanging.released.set()
    again = platform.submit(spec(cloud))
    assert wait(platform, again, lambda now: None, poll_seconds=0.2).state is JobState.SUCCEEDED
    assert len(list(load_documents(f"{cloud.bucket}/run"))) == 4


def test_logs_are_followed_to_the_end(cloud: Cloud, tmp_path: Path) -> None:
    put_documents(tmp_path / "in", f"{cloud.bucket}/in", 2)
    hanging = cloud.hang()
    platform = open_platform("cloud-run")
    job = platform.submit(spec(cloud))
    assert hanging.asked.wait(60)
    lines = platform.logs(job, 0, follow=True)
    assert "plan" in next(lines)
    hanging.released.set()
    rest = list(lines)
    assert rest[-1] == "Container called exit(0)."
    assert any("index.html" in line for line in rest)
    whole = list(platform.logs(job, 0, follow=False))
    assert len(whole) == len(rest) + 1, "each line once"
    assert len(whole) > PAGE_SIZE, "more than a page"
    with pytest.raises(JobNotFoundError, match="no task 7"):
        list(platform.logs(job, 7, follow=False))


def test_secret_reaches_the_task_only(cloud: Cloud, tmp_path: Path) -> None:
    path = documents.encrypted_pdf(tmp_path / "locked.pdf", TOKEN)
    open_store(f"{cloud.bucket}/in").put("locked.pdf", path)
    cloud.server.machines.secrets["llm-ocr-password"] = TOKEN
    done = cloud.llm_ocr(
        *("launch", "cloud-run", f"{cloud.bucket}/in", "--out", f"{cloud.bucket}/run", "--wait"),
        *("--password", TOKEN),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [page["status"] for page in load_pages(f"{cloud.bucket}/run")] == ["ok"]
    store = open_store(f"{cloud.bucket}/run")
    seen = [*cloud.server.bodies, *(store.get(one.path) for one in store.list(""))]
    seen += [text.encode() for text in (cloud.server.printed(), done.stdout, done.stderr)]
    assert not any(TOKEN.encode() in text for text in seen)

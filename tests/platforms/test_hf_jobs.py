"""Runs as jobs of Hugging Face: a Hub of our own runs what the tasks' commands are."""

import asyncio
import io
import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from PIL import Image as Picture

from llm_ocr import __version__, load_pages
from llm_ocr.platforms.base import JobState
from llm_ocr.platforms.hf_jobs import open_platform as open_hf_jobs
from llm_ocr.platforms.hf_task import CPU_IMAGE, GPU_IMAGE
from llm_ocr.platforms.registry import PlatformConfig
from llm_ocr.report.status import read_status
from llm_ocr.storage.store import open_store
from tests.platforms.hf import READ, SCANS, Cloud, ended, put_documents, spec
from tests.servers.chat import PROBE_TOKENS, at_once, image_of
from tests.servers.hub_images import script_image
from tests.servers.hub_state import OWNER, Hub

pytestmark = pytest.mark.long

DOCUMENTS, TASKS = 24, 3
# Shards of four pages, and nothing that takes long.
SMALL = (
    "--shard-pages",
    "4",
    "--flush-seconds",
    "0.2",
    "--viewer-pages",
    "0",
    "--concurrency",
    "2",
)
PASSWORD = "planted-password"


def number_of(body: dict[str, Any]) -> int:
    """Which document a page is of that is asked about."""
    with Picture.open(io.BytesIO(image_of(body))) as page:
        gray = page.convert("L").getpixel((page.width // 2, page.height // 2))
    assert isinstance(gray, int)
    return round((255 - gray) / 5)


def test_three_tasks_read_a_dataset_despite_a_kill(tmp_path: Path, cloud: Cloud) -> None:
    put_documents(tmp_path / "in", DOCUMENTS)
    killed = asyncio.Event()

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        # Shards have four documents: the second and the fifth are task 1's.
        number = number_of(body)
        if body["max_tokens"] > PROBE_TOKENS and not killed.is_set():
            if number // 4 % TASKS != 1:
                await killed.wait()
            elif number == 7:
                killed.set()
                cloud.task_job(1).kill()
        return at_once(body)

    cloud.chat.reply = reply
    command = ("launch", "hf-jobs", SCANS, "--out", READ, "--tasks", str(TASKS), "--gpu", "l4")
    done = cloud.llm_ocr(*command, "--password", PASSWORD, *SMALL, "--wait")
    assert done.returncode == 0, (done.stderr, [job.lines() for job in cloud.hub.jobs.values()])
    jobs = list(cloud.hub.jobs.values())
    assert [len(one.attempts) for one in jobs] == [1, 2, 1]
    pages = list(load_pages(READ))
    assert sorted(page["name"] for page in pages) == [f"{k:02d}" for k in range(DOCUMENTS)]
    assert {page["status"] for page in pages} == {"ok"}
    summary = json.loads(open_store(READ).get("summary.json"))
    assert summary["pages"] == sum(summary["pages_by_status"].values()) == DOCUMENTS
    assert read_status(READ).stages["assemble"].items_committed == DOCUMENTS
    listed = cloud.llm_ocr("jobs", "list", "hf-jobs").stdout
    assert "succeeded  3 succeeded" in listed
    logged = cloud.llm_ocr("jobs", "logs", "hf-jobs", listed.split()[0], "--task", "1").stdout
    assert logged.splitlines() == jobs[1].lines()
    for secret in (OWNER, PASSWORD):
        assert secret not in done.stdout + done.stderr + listed
        assert not [line for one in jobs for line in one.lines() if secret in line]
        assert secrets_in_clear(cloud.hub, secret) == []


def secrets_in_clear(hub: Hub, secret: str) -> list[str]:
    """Requests that brought a secret elsewhere than where the Hub keeps it encrypted."""
    assert hub.bodies
    found = []
    for request, body in hub.bodies:
        if request == "POST /api/jobs/user":
            asked = json.loads(body)
            assert secret in asked.pop("secrets").values()
            body = json.dumps(asked).encode()
        if secret.encode() in body:
            found.append(request)
    return found


def test_cancelled_job_resumes_with_the_same_command(tmp_path: Path, cloud: Cloud) -> None:
    put_documents(tmp_path / "in", 4)
    asked = threading.Event()

    async def never(body: dict[str, Any]) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        return at_once(body)

    cloud.chat.reply = never
    command = ("launch", "hf-jobs", SCANS, "--out", READ, "--gpu", "l40s", *SMALL)
    launched = cloud.llm_ocr(*command)
    assert launched.returncode == 0, launched.stderr
    job_id = launched.stdout.split()[0]
    following = subprocess.Popen(
        [sys.executable, "-m", "llm_ocr", "jobs", "wait", "hf-jobs", job_id],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    assert asked.wait(120), cloud.task_job(0).lines()
    assert cloud.llm_ocr("jobs", "cancel", "hf-jobs", job_id).returncode == 0
    said = following.stdout.read()
    assert following.wait() == 3
    assert "running  1 running" in said
    assert "cancelled  1 cancelled" in said
    cloud.chat.reply = at_once
    assert cloud.llm_ocr(*command, "--wait").returncode == 0
    assert len(list(load_pages(READ))) == 4


def test_dry_run_shows_the_requests_and_sends_none(cloud: Cloud) -> None:
    command = ("launch", "hf-jobs", SCANS, "--out", READ, "--tasks", "2", "--password", PASSWORD)
    shown = cloud.llm_ocr(*command, "--dry-run", "--timeout", "90")
    assert shown.returncode == 0, shown.stderr
    assert cloud.hub.jobs == {}
    assert PASSWORD not in shown.stdout
    assert OWNER not in shown.stdout
    requests = json.loads(shown.stdout)
    assert [one["operation"] for one in requests] == ["run_job", "run_job"]
    body = requests[1]["body"]
    assert (body["flavor"], body["timeout"], body["image"]) == ("a100-large", 5400, GPU_IMAGE)
    assert body["env"] == {"LLM_OCR_PRICE_PER_HOUR": "2.5", "RANK": "1", "WORLD_SIZE": "2"}
    assert body["secrets"] == {"HF_TOKEN": "…", "LLM_OCR_PASSWORD": "…"}
    assert body["command"][4:] == ["run", SCANS, "--out", READ, "--steal-work"]


@pytest.mark.parametrize("tasks", [1, 2])
def test_shell_commands_send_the_same_requests(cloud: Cloud, tasks: int) -> None:
    cloud.hub.images = {}
    tricky = {"LLM_OCR_VLLM_ARGS": "--max-model-len 4096 --x '{\"a\": 1}' # no comment"}
    platform = open_hf_jobs(PlatformConfig(instance="h200"))
    wanted = spec(tasks=tasks, environment=tricky, secrets={"LLM_OCR_API_KEY": PASSWORD})
    for request in platform.requests(wanted):
        hf = Path(sys.executable).parent / "hf"
        words = [str(hf), *shlex.split(request.shell)[1:]]
        environment = {**os.environ, "LLM_OCR_API_KEY": PASSWORD}
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    platform.submit(wanted)
    asked = [job.asked for job in cloud.hub.jobs.values()]
    assert len(asked) == 2 * tasks
    assert asked[:tasks] == asked[tasks:]
    assert {one["timeoutSeconds"] for one in asked} == {600}
    assert {one["secrets"]["HF_TOKEN"] for one in asked} == {OWNER}


def test_tasks_install_the_given_wheel(tmp_path: Path, cloud: Cloud, wheel: Path) -> None:
    put_documents(tmp_path / "in", 2)
    # As long as there is no release.
    cloud.hub.images[GPU_IMAGE] = cloud.hub.images[GPU_IMAGE].having(PIP_FIND_LINKS="")
    released = open_hf_jobs(PlatformConfig())
    job = ended(released, released.submit(spec()))
    assert job.state is JobState.FAILED
    logged = "\n".join(released.logs(job.id, 0, follow=False))
    assert "No matching distribution found for llm-ocr" in logged
    command = ("launch", "hf-jobs", SCANS, "--out", READ, "--wheel", str(wheel))
    shown = json.loads(cloud.llm_ocr(*command, "--dry-run").stdout)
    assert [one["operation"] for one in shown] == ["create_bucket", "batch_bucket_files", "run_job"]
    assert cloud.hub.buckets == {}
    done = cloud.llm_ocr(*command, "--wait")
    assert done.returncode == 0, cloud.task_job(0).lines()
    assert cloud.hub.buckets["user/jobs-artifacts"].private
    assert len(list(load_pages(READ))) == 2


def test_image_with_llm_ocr_installs_nothing(tmp_path: Path, cloud: Cloud) -> None:
    own = script_image(tmp_path / "own", "echo pip is asked for; exit 1")
    program = own.folder / "bin" / "llm-ocr"
    program.write_text(f'#!/bin/sh\n[ "$1" = version ] && echo {__version__} || echo "runs $*"\n')
    program.chmod(0o755)
    cloud.hub.images["me/own"] = own
    platform = open_hf_jobs(PlatformConfig())
    job = ended(platform, platform.submit(spec(image="me/own")))
    assert list(platform.logs(job.id, 0, follow=True)) == [f"runs run {SCANS} --out {READ}"]


def test_documents_are_assembled_on_a_cpu(tmp_path: Path, cloud: Cloud) -> None:
    put_documents(tmp_path / "in", 2)
    extracted = cloud.llm_ocr(
        "launch", "hf-jobs", SCANS, "--out", READ, "--stage", "extract", "--wait"
    )
    assert extracted.returncode == 0, extracted.stderr
    assembled = cloud.llm_ocr("launch", "hf-jobs", READ, "--stage", "assemble", "--wait")
    assert assembled.returncode == 0, assembled.stderr
    asked = [job.asked for job in cloud.hub.jobs.values()]
    assert [one["flavor"] for one in asked] == ["a100-large", "cpu-upgrade"]
    assert asked[1]["dockerImage"] == CPU_IMAGE
    assert read_status(READ).stages["assemble"].items_committed == 2

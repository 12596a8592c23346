"""A Hub with jobs, and a user of it: what the tests of Hugging Face Jobs share."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture

from llm_ocr.platforms.base import GpuType, Job, JobSpec, wait
from llm_ocr.platforms.hf_jobs import HfJobs
from llm_ocr.platforms.hf_task import CPU_IMAGE, GPU_IMAGE
from llm_ocr.platforms.launching import job_spec
from llm_ocr.storage.store import create_repository, open_store
from tests.servers.chat import ChatServer, serving_beside
from tests.servers.hub import serving_hub
from tests.servers.hub_images import Image
from tests.servers.hub_jobs import RunningJob
from tests.servers.hub_state import Hub

SCANS, READ = "hf://datasets/user/scans", "hf://datasets/user/read"


@dataclass
class Cloud:
    """A Hub with jobs, the model that they ask, and the files of the user who is signed in."""

    hub: Hub
    chat: ChatServer

    def llm_ocr(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """What a user types on a machine of theirs."""
        return subprocess.run(
            [sys.executable, "-m", "llm_ocr", *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def task_job(self, rank: int) -> RunningJob:
        """The last one of that rank."""
        return [one for one in self.hub.jobs.values() if one.labels["rank"] == str(rank)][-1]


@contextmanager
def signed_in(folder: Path, image: Image) -> Iterator[Cloud]:
    """A user of a new Hub, whose usual images all are `image`."""
    hub = Hub()
    hub.bodies = []
    with (
        pytest.MonkeyPatch.context() as patch,
        serving_beside() as chat,
        serving_hub(folder, hub) as environment,
    ):
        for key, value in environment.items():
            patch.setenv(key, value)
        here = image.having(LLM_OCR_BASE_URL=chat.base_url)
        hub.images = {GPU_IMAGE: here, CPU_IMAGE: here}
        yield Cloud(hub, chat)


def put_documents(folder: Path, count: int) -> None:
    """Pages in grays that tell which document they are of, in a dataset on the Hub."""
    folder.mkdir(parents=True)
    files: dict[str, bytes | Path] = {}
    for number in range(count):
        path = folder / f"{number:02d}.png"
        page = Picture.new("L", (200, 300), 255 - 5 * number)
        page.paste(0, (20, 20, 180, 60))
        page.save(path)
        files[path.name] = path
    create_repository(SCANS, private=True)
    open_store(SCANS).put_many(files, "Scans")


def spec(**given: Any) -> JobSpec:  # noqa: ANN401
    made = job_spec("run", [SCANS], READ, {}, gpu=GpuType.A100, tasks=1, timeout=600)
    return replace(made, attempts=1, **given)


def ended(platform: HfJobs, job_id: str) -> Job:
    return wait(platform, job_id, lambda job: None, poll_seconds=0.05)

"""A project of Google Cloud with all that a run needs, and who launches there."""

import asyncio
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from llm_ocr import __version__
from llm_ocr.platforms.base import GpuType, JobSpec
from llm_ocr.storage.store import open_store
from tests import documents
from tests.servers.chat import PROBE_TOKENS, ChatServer, answer, grounded, serving_beside
from tests.servers.cloud_run import CloudRunServer, client_environment, serving_cloud_run
from tests.servers.google_accounts import PROJECT

IMAGE = f"us-central1-docker.pkg.dev/{PROJECT}/llm-ocr"
ACCOUNT = f"llm-ocr@{PROJECT}.iam.gserviceaccount.com"
TOKEN = "hf_planted-0123456789"
# Settings that a launch has to pass on to its tasks.
CHAT = {"LLM_OCR_SKIP_MODEL_CHECK": "true", "LLM_OCR_MIN_AGREEMENT": "0"}


class Hanging:
    """Answers probes, and pages only when `released`."""

    def __init__(self) -> None:
        self.asked, self.released = threading.Event(), threading.Event()

    async def __call__(self, body: dict[str, Any]) -> Any:  # noqa: ANN401
        if body["max_tokens"] > PROBE_TOKENS:
            self.asked.set()
            while not self.released.is_set():
                await asyncio.sleep(0.02)
        return answer(grounded(body))


@dataclass(frozen=True)
class Cloud:
    """A project with its bucket, an engine that its tasks reach, and who launches there."""

    server: CloudRunServer
    chat: ChatServer
    mine: Mapping[str, str]
    bucket: str
    hanging: Hanging = field(default_factory=Hanging)

    def hang(self) -> Hanging:
        """Let the engine answer nothing until it is released, at the latest at the end."""
        self.chat.reply = self.hanging
        return self.hanging

    def llm_ocr(self, *arguments: object, **more: str) -> "subprocess.CompletedProcess[str]":
        return self.shell(" ".join(["llm-ocr", *map(str, arguments)]), **more)

    def shell(self, command: str, **more: str) -> "subprocess.CompletedProcess[str]":
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, **self.mine, "PATH": path, "NO_COLOR": "1", "COLUMNS": "120"}
        return subprocess.run(
            ["bash", "-ec", command],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env={**environment, **more},
        )


@contextmanager
def project(folder: Path, gcs: Mapping[str, str]) -> Iterator[Cloud]:
    """A project whose tasks ask a server of the tests; `Cloud.mine` are its variables."""
    with serving_beside() as chat:
        network = {
            **gcs,
            **CHAT,
            "LLM_OCR_BASE_URL": chat.base_url,
            "LLM_OCR_RENDER_WORKERS": "1",
        }
        with serving_cloud_run(folder / "tasks", network) as server:
            for kind in ("gpu", "cpu"):
                server.images[f"{IMAGE}/{kind}:{__version__}"] = ["llm-ocr"]
            server.service_accounts.add(ACCOUNT)
            mine = {**gcs, **client_environment(server, folder)}
            cloud = Cloud(server, chat, mine, f"gs://bucket/{uuid.uuid4().hex}")
            try:
                yield cloud
            finally:
                cloud.hanging.released.set()


@contextmanager
def signed_in(
    folder: Path, gcs: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    """A project, and this process as its user's."""
    with project(folder, gcs) as there:
        for name, value in there.mine.items():
            monkeypatch.setenv(name, value)
        yield there


def put_documents(folder: Path, place: str, count: int) -> None:
    store = open_store(place)
    for number in range(count):
        path = documents.pdf(folder / f"{number:02}.pdf", pages=1 + number % 2)
        store.put(path.name, path)


def spec(cloud: Cloud, **changed: Any) -> JobSpec:  # noqa: ANN401
    usual = JobSpec(
        name=f"llm-ocr-run-{uuid.uuid4().hex[:8]}",
        command=("run", f"{cloud.bucket}/in", "--out", f"{cloud.bucket}/run"),
        tasks=1,
        gpu=GpuType.L4,
        timeout=600,
    )
    return replace(usual, **changed)

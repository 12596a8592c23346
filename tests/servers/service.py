"""`llm-ocr serve` as separate processes, as users start it, and a client of its API."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from aiohttp import web

from tests.servers.chat import Reply, at_once
from tests.waiting import wait_until

# The default address, which the docs use.
DEFAULT_URL = "http://127.0.0.1:8300"
LLM_OCR = [sys.executable, "-m", "llm_ocr"]
KEY = re.compile(r"lo_[0-9A-Za-z]{8}_[0-9A-Za-z]{32}")
URL = re.compile(r"(http://\S+)  \(press Ctrl-C to stop\)")
READY_SECONDS = 180


class ServiceProcess:
    """A running `llm-ocr serve …`; `output` is all that it has printed so far."""

    def __init__(self, *arguments: object, env: Mapping[str, str] | None = None) -> None:
        self.output = ""
        self._process = subprocess.Popen(
            [*LLM_OCR, "serve", *map(str, arguments)],
            env={**os.environ, "NO_COLOR": "1", **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line

    def wait_for(self, text: str, seconds: float = READY_SECONDS) -> None:
        """Wait until it has printed `text`."""
        wait_until(
            lambda: text in self.output or self._process.poll() is not None,
            seconds,
            lambda: self.output,
        )
        assert text in self.output, f"ended with {self._process.poll()}: {self.output}"

    @property
    def url(self) -> str:
        self.wait_for("(press Ctrl-C to stop)")
        found = URL.search(self.output)
        assert found is not None
        return found[1]

    @property
    def key(self) -> str:
        """The key that the first start has printed."""
        self.wait_for("/v1/documents:upload")
        found = KEY.search(self.output)
        assert found is not None
        return found[0]

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 30) -> int:
        """Send a signal and wait; returns the exit code."""
        self.send(number)
        return self.wait(seconds)

    def wait(self, seconds: float = 30) -> int:
        code = self._process.wait(seconds)
        self._reader.join(seconds)
        return code

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None


@contextmanager
def serving(*arguments: object, env: Mapping[str, str] | None = None) -> Iterator[ServiceProcess]:
    """Run `llm-ocr serve ARGUMENTS`; it is killed at the end if it still runs."""
    process = ServiceProcess(*arguments, env=env)
    try:
        yield process
    finally:
        if process.is_running:
            process.stop(signal.SIGKILL)


def state_options(folder: Path) -> list[object]:
    """Options for a service that keeps its state in `folder` and listens on a free port."""
    return ["--database", folder / "service.sqlite", "--storage", folder / "storage", "--port", 0]


def reply_unless_paused(paused: threading.Event) -> Reply:
    """An engine's reply that waits while `paused` is set."""

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        while paused.is_set():
            await asyncio.sleep(0.02)
        return at_once(body)

    return reply


class ServiceApi:
    """A client of the API for tests."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:  # noqa: ANN401
        headers = {"Authorization": f"Bearer {self.key}", **options.pop("headers", {})}
        url = path if "://" in path else f"{self.url}{path}"
        return httpx2.request(method, url, headers=headers, timeout=60, **options)

    def get(self, path: str) -> Any:  # noqa: ANN401
        response = self.request("GET", path)
        assert response.status_code == 200, response.text
        return response.json()

    def events(self, document_id: str) -> list[tuple[str, Any]]:
        """The types and data of a document's events, until it is finished."""
        text = self.request("GET", f"/v1/documents/{document_id}/events").text
        found = re.findall(r"^event: ?(.*)$|^data: ?(.*)$", text, re.MULTILINE)
        names = [event for event, _ in found if event]
        return list(zip(names, [json.loads(data) for _, data in found if data], strict=True))

    def upload(self, *files: Path, **form: str) -> str:
        """Upload a document; returns its id."""
        parts = [("files", (file.name, file.read_bytes())) for file in files]
        response = self.request("POST", "/v1/documents:upload", files=parts, data=form)
        assert response.status_code in (200, 202), response.text
        document_id: str = response.json()["id"]
        return document_id

    def document(self, document_id: str) -> Any:  # noqa: ANN401
        return self.get(f"/v1/documents/{document_id}")

    def wait(self, document_id: str, *states: str, seconds: float = 60) -> Any:  # noqa: ANN401
        """Wait until the document is in one of these states, and return it."""

        def find() -> Any:  # noqa: ANN401
            document = self.document(document_id)
            return document if document["state"] in states else None

        return wait_until(find, seconds, lambda: str(self.document(document_id)))

"""Common complaints about other document services: one test for each, with processes as users start
them. SQLite is enough here: the tests of each module and benchmarks.chaos also cover PostgreSQL."""

import asyncio
import base64
import http.client
import json
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from tests import documents
from tests.servers.chat import ChatServer, refusal, serving_beside
from tests.servers.service import (
    ServiceApi,
    ServiceProcess,
    reply_unless_paused,
    serving,
    state_options,
)
from tests.service.webhook_receiver import receiving
from tests.waiting import wait_until


@dataclass
class RunningService:
    """A service and its engine, which doesn't respond while `paused` is set."""

    api: ServiceApi
    process: ServiceProcess
    engine: ChatServer
    paused: threading.Event
    options: list[object]

    def start_processing(self, file: Path) -> str:
        """Upload a document and wait until the engine has received a page; returns its id."""
        self.paused.set()
        before = len(self.engine.requests)
        document = self.api.upload(file)
        wait_until(lambda: len(self.engine.requests) > before)
        return document


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder, paused = tmp_path_factory.mktemp("service"), threading.Event()
    with serving_beside(reply_unless_paused(paused)) as engine:
        state = state_options(folder)
        options = ["--base-url", engine.base_url, "--concurrency", 1, "--fallback", "none"]
        with serving(*state, *options, "--allow-private-webhooks") as process:
            api = ServiceApi(process.url, process.key)
            yield RunningService(api, process, engine, paused, state[:4])


@pytest.fixture
def service(shared_service: RunningService) -> Iterator[RunningService]:
    yield shared_service
    shared_service.paused.clear()


@pytest.fixture
def three_pages(tmp_path: Path) -> Path:
    return documents.pdf(tmp_path / "three.pdf", pages=3)


@pytest.mark.long
def test_1_state_survives_restarts_and_is_shared(tmp_path: Path, three_pages: Path) -> None:
    """docling-serve 378, 435: tasks were lost at a restart, and unseen by replicas."""
    state = state_options(tmp_path)
    with serving_beside() as engine, serving(*state, "--base-url", engine.base_url) as first:
        key = first.key
        with serving("gateway", *state) as replica:
            api = ServiceApi(replica.url, key)
            document = ServiceApi(first.url, key).upload(three_pages)
            assert api.document(document)["name"] == "three.pdf"
            first.stop(signal.SIGKILL)
            assert api.document(document)["name"] == "three.pdf"
            worker = ("worker", *state[:4], "--base-url", engine.base_url)
            with serving(*worker, "--lease-seconds", 1):
                assert api.wait(document, "succeeded")["progress"]["pages_done"] == 3


@pytest.mark.long
def test_2_queue_and_status_agree(tmp_path: Path, three_pages: Path) -> None:
    """docling-serve 481, 515, 379: a task whose worker died was "started" forever."""
    state, paused = [*state_options(tmp_path), "--lease-seconds", 3], threading.Event()
    paused.set()
    with serving_beside(reply_unless_paused(paused)) as engine:
        with serving(*state, "--base-url", engine.base_url) as first:
            key = first.key
            document = ServiceApi(first.url, key).upload(three_pages)
            wait_until(lambda: engine.requests)
            assert ServiceApi(first.url, key).document(document)["state"] == "processing"
            first.stop(signal.SIGKILL)
        with serving("gateway", *state[:6]) as gateway:
            api = ServiceApi(gateway.url, key)
            # No worker runs, and the status doesn't claim that one does.
            assert api.wait(document, "queued")["attempts"] == 1
            paused.clear()
            with serving("worker", *state[:4], "--base-url", engine.base_url):
                assert api.wait(document, "succeeded")["attempts"] == 2


def test_3_processing_can_be_cancelled(service: RunningService, three_pages: Path) -> None:
    """docling-serve 447: it was not possible."""
    document = service.start_processing(three_pages)
    request_count = len(service.engine.requests)
    response = service.api.request("POST", f"/v1/documents/{document}:cancel")
    assert response.status_code == 200
    # While the engine is still processing the first page.
    assert service.api.wait(document, "cancelled")["progress"]["pages_done"] == 0
    service.paused.clear()
    # No further page was sent: all other requests are those of the next document.
    second = service.api.wait(service.api.upload(three_pages), "succeeded")
    others = sum(step["requests"] for step in second["steps"])
    assert len(service.engine.requests) == request_count + others


def test_4_progress_is_reported_by_page(service: RunningService, three_pages: Path) -> None:
    """docling 3042, MinerU 541: there was no progress until the end."""
    document = service.start_processing(three_pages)
    wait_until(lambda: service.api.document(document)["progress"]["step"] == "extract")
    found = service.api.document(document)
    assert (found["state"], found["progress"]["pages_done"]) == ("processing", 0)
    service.paused.clear()
    progress = [data for type_, data in service.api.events(document) if type_ == "progress"]
    assert {event["pages"] for event in progress} == {3}
    done = [event["pages_done"] for event in progress]
    assert done == sorted(done)
    assert done[-1] == 3


@pytest.mark.parametrize(
    ("megabytes", "count", "most"), [(64, 4, 48), pytest.param(4, 100, 40, marks=pytest.mark.long)]
)
def test_5_memory_does_not_grow_with_uploads(
    service: RunningService, megabytes: int, count: int, most: int
) -> None:
    """docling-serve 366, 474; unstructured-api 197; MinerU 5432: killed for their memory."""
    size, part = megabytes << 20, b"\0" * (1 << 20)
    manifest = {"files": [{"name": "large.tiff", "size": size}] * count}
    made = service.api.request("POST", "/v1/documents", json=manifest)
    assert made.status_code == 202, made.text
    process = psutil.Process(service.process.pid)
    before = process.memory_info().rss
    statuses: list[int] = []

    def upload(address: str) -> None:
        url = urlsplit(address)
        connection = http.client.HTTPConnection(url.netloc, timeout=120)
        content = (part for _ in range(megabytes))
        connection.request("PUT", url.path, content, {"Content-Length": str(size)})
        statuses.append(connection.getresponse().status)
        connection.close()

    addresses = [file["upload"]["url"] for file in made.json()["files"]]
    threads = [threading.Thread(target=upload, args=[address]) for address in addresses]
    for thread in threads:
        thread.start()
    peak = before
    while any(thread.is_alive() for thread in threads):
        peak = max(peak, process.memory_info().rss)
        time.sleep(0.02)
    assert statuses == [204] * count
    assert peak - before < most << 20, f"{(peak - before) >> 20} MB"


def test_6_a_failure_is_never_a_200_without_a_result(
    service: RunningService, tmp_path: Path
) -> None:
    """open-webui 29914: failed conversions were answered with 200, and empty."""
    reply = service.engine.reply
    service.engine.reply = lambda body: refusal(400, "this page can't be read")
    try:
        document = service.api.upload(documents.picture(tmp_path / "scan.png"))
        failed = service.api.wait(document, "failed")
    finally:
        service.engine.reply = reply
    assert failed["error"]["code"]
    for path in ("result", "result?format=markdown", "pages/1/image"):
        response = service.api.request("GET", f"/v1/documents/{document}/{path}")
        assert response.status_code == 409
        assert response.headers["Content-Type"] == "application/problem+json"
        assert response.json()["code"] == failed["error"]["code"]


def test_7_no_request_lasts_as_long_as_a_document(
    service: RunningService, three_pages: Path
) -> None:
    """unstructured 3727: a proxy ended long requests with 504, and the work was lost."""
    service.paused.set()
    files = [("files", ("three.pdf", three_pages.read_bytes()))]
    response = service.api.request(
        "POST", "/v1/documents:upload", files=files, headers={"Prefer": "wait=1"}
    )
    assert response.status_code == 202
    assert response.headers["Location"].endswith(response.json()["id"])
    service.paused.clear()
    service.api.wait(response.json()["id"], "succeeded")


async def test_8_webhooks_announce_finished_documents(
    service: RunningService, three_pages: Path
) -> None:
    """docling-serve 11: clients had to poll."""
    async with receiving() as receiver:
        document = await asyncio.to_thread(
            service.api.upload, three_pages, webhook=f"{receiver.url}/hook", metadata='{"order": 7}'
        )
        for _ in range(1200):
            if receiver.requests:
                break
            await asyncio.sleep(0.05)
    [(path, headers, body)] = receiver.requests
    event = json.loads(body)
    assert (path, event["type"]) == ("/hook", "document.succeeded")
    assert (event["data"]["id"], event["data"]["metadata"]) == (document, {"order": 7})
    version, _, signature = headers["webhook-signature"].partition(",")
    assert (version, len(base64.b64decode(signature))) == ("v1", 32)
    # It is announced only when its result can be read.
    assert service.api.request("GET", f"/v1/documents/{document}/result").status_code == 200


def test_9_urls_are_not_fetched_and_names_are_not_paths(
    service: RunningService, three_pages: Path
) -> None:
    """docling-serve 77: clients made the server fetch what they liked, and chose paths."""
    manifest = {"files": [{"url": "http://169.254.169.254/latest/meta-data"}]}
    refused = service.api.request("POST", "/v1/documents", json=manifest)
    assert refused.status_code == 422, refused.text
    name = "../../../escaped.pdf"
    files = [("files", (name, three_pages.read_bytes()))]
    made = service.api.request("POST", "/v1/documents:upload", files=files)
    assert made.status_code == 202
    service.api.wait(made.json()["id"], "succeeded")
    storage = Path(str(service.options[3]))
    assert not list(storage.parent.parent.rglob("*escaped*.pdf"))


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("POST", "/v1/documents", {"json": {"files": [], "langauge": "de"}}),
        ("POST", "/v1/documents:upload", {"data": {"tpye": "invoice"}}),
        ("POST", "/v1/documents:upload", {"data": {"type": "nonesuch"}}),
        ("GET", "/v1/documents?stat=failed", {}),
        ("GET", "/v1/documents?state=lost", {}),
    ],
    ids=["manifest", "form", "type", "query", "value"],
)
def test_10_unknown_options_are_refused(
    service: RunningService, three_pages: Path, method: str, path: str, options: dict[str, Any]
) -> None:
    """MinerU 5432: they were silently ignored."""
    if "data" in options:
        options = {**options, "files": [("files", ("a.pdf", three_pages.read_bytes()))]}
    response = service.api.request(method, path, **options)
    assert response.status_code == 422
    assert response.json()["detail"]

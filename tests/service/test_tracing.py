"""Traces of documents through gateways, workers, the inference tier and webhooks, as processes."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import yaml

from tests import documents
from tests.processes import run_module
from tests.servers.chat import ChatServer, serving_beside
from tests.servers.otlp import ReceivedSpan, TraceReceiver, receiving_traces
from tests.servers.service import (
    ServiceApi,
    ServiceProcess,
    reply_unless_paused,
    serving,
    state_options,
)
from tests.service.webhook_receiver import receiving
from tests.waiting import wait_until

# As a client of the API sends it: W3C Trace Context.
TRACE, CLIENT_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CHAT = "chat deepseek-ai/DeepSeek-OCR"
CLIENT = {"traceparent": f"00-{TRACE}-{CLIENT_SPAN}-01"}


@pytest.fixture
def receiver() -> Iterator[TraceReceiver]:
    with receiving_traces() as receiver:
        yield receiver


@pytest.fixture
def paused() -> threading.Event:
    return threading.Event()


@pytest.fixture
def engine(paused: threading.Event) -> Iterator[ChatServer]:
    with serving_beside(reply_unless_paused(paused)) as running:
        yield running


@contextmanager
def tier(folder: Path, engine: ChatServer, receiver: TraceReceiver) -> Iterator[str]:
    """The URL of a running inference tier in front of the engine."""
    config = {
        "probe_seconds": 600,
        "models": {"deepseek-ocr": {"replicas": [{"base_url": engine.base_url}]}},
    }
    path = folder / "inference.yaml"
    path.write_text(yaml.safe_dump(config))
    with serving("inference", "--config", path, "--port", 0, env=receiver.environment) as process:
        yield process.url


def upload(process: ServiceProcess, key: str, file: Path, **form: str) -> str:
    """Upload a document as a client that traces does; returns its id."""
    response = httpx2.post(
        f"{process.url}/v1/documents:upload",
        files=[("files", (file.name, file.read_bytes()))],
        data=form,
        headers={"Authorization": f"Bearer {key}", **CLIENT},
        timeout=60,
    )
    assert response.status_code == 202, response.text
    document_id: str = response.json()["id"]
    return document_id


def create_key(folder: Path) -> str:
    command = ["serve", "key", "create", *map(str, state_options(folder)[:2])]
    done = run_module("llm_ocr", *command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def path_to_root(span: ReceivedSpan, receiver: TraceReceiver) -> list[tuple[str, str]]:
    """The services and names of a span and its ancestors."""
    by_id = {one.id: one for one in receiver.of(TRACE)}
    found = [span]
    while found[-1].parent in by_id:
        found.append(by_id[found[-1].parent])
    assert found[-1].parent == CLIENT_SPAN
    return [(one.service.removeprefix("llm-ocr-"), one.name) for one in found]


@pytest.mark.long
async def test_one_trace_from_the_clients_request_through_a_crash_to_the_webhook(
    tmp_path: Path, engine: ChatServer, paused: threading.Event, receiver: TraceReceiver
) -> None:
    async with receiving() as hooks:
        url = f"{hooks.url}/hook"
        killed, pid = await asyncio.to_thread(process, tmp_path, engine, paused, receiver, url)
    request = ("gateway", "POST /v1/documents:upload")
    document = [("gateway", "create document"), request]
    processing = [("worker", "process document"), *document]
    (posted,) = receiver.named(request[1])
    assert path_to_root(posted, receiver) == [request]
    # The worker that was killed has exported what had ended.
    waits = receiver.named("wait in queue")
    assert [(span.pid, span.attributes["llm_ocr.attempt"]) for span in waits] == [
        (killed, 1),
        (pid, 2),
    ]
    for span in waits:
        assert span.began <= span.ended
        assert path_to_root(span, receiver) == [("worker", "wait in queue"), *document]
    (processed,) = receiver.named("process document")
    assert (processed.pid, processed.attributes["llm_ocr.document.state"]) == (pid, "succeeded")
    chats = [span for span in receiver.named(CHAT) if span.pid == pid]
    assert all(span.attributes["gen_ai.usage.output_tokens"] for span in chats)
    answered = {span.id for span in chats}
    requests = receiver.named("POST /v1/chat/completions")
    replies = {span.parent: span for span in receiver.named("send to replica")}
    of_chats = [replies[span.id] for span in requests if span.parent in answered]
    assert len(of_chats) == len(chats) >= 2
    paths = [path_to_root(span, receiver) for span in of_chats]
    assert {path[3] for path in paths} >= {("worker", "step extract")}
    for path in paths:
        assert path == [
            ("inference", "send to replica"),
            ("inference", "POST /v1/chat/completions"),
            ("worker", CHAT),
            *([step] if (step := path[3])[1].startswith("step ") else []),
            *processing,
        ]
    sent = {headers.get("traceparent") for headers in engine.headers}
    # The engine here doesn't note the requests by which a worker checks its model.
    assert len(sent & {f"00-{TRACE}-{span.id}-01" for span in of_chats}) >= 2
    (written,) = receiver.named("write result")
    assert path_to_root(written, receiver) == [("worker", "write result"), *processing]
    (webhook,) = receiver.named("send webhook")
    assert path_to_root(webhook, receiver) == [("gateway", "send webhook"), *document]
    assert hooks.requests[0][1]["traceparent"] == f"00-{TRACE}-{webhook.id}-01"
    # Polls are in no trace.
    assert not any(span.name.startswith("GET") for span in receiver.spans)


def process(
    folder: Path,
    engine: ChatServer,
    paused: threading.Event,
    receiver: TraceReceiver,
    webhook: str,
) -> tuple[int, int]:
    """Process a document by a gateway, a tier, and two workers, the first of which is killed while
    it waits for an answer; returns the ids of the workers' processes."""
    state, env, key = state_options(folder), receiver.environment, create_key(folder)
    with (
        tier(folder, engine, receiver) as url,
        serving("gateway", *state, "--allow-private-webhooks", env=env) as gateway,
    ):
        ready = f"{url.removesuffix('/v1')}/readyz"
        wait_until(lambda: httpx2.get(ready).status_code == 200)
        paused.set()
        asked = len(engine.requests)
        file = documents.pdf(folder / "a.pdf", pages=2)
        document = upload(gateway, key, file, webhook=webhook)
        options = ["worker", *state[:4], "--base-url", url, "--lease-seconds", 2]
        with serving(*options, env=env) as first:
            wait_until(lambda: bool(receiver.named("wait in queue")))
            wait_until(lambda: len(engine.requests) > asked)
            first.stop(signal.SIGKILL)
        paused.clear()
        with serving(*options, env=env) as second:
            ServiceApi(gateway.url, key).wait(document, "succeeded")
            wait_until(lambda: bool(receiver.named("send webhook")))
            # The last spans are exported when a process ends.
            assert second.stop() == gateway.stop() == 0
        wait_until(lambda: len(receiver.named("send to replica")) >= len(engine.requests) - asked)
    return first.pid, second.pid


IDLE = """
import sys
from llm_ocr import tracing
from llm_ocr.router import serving as router
from llm_ocr.service import serving as service

with tracing.span("a", parent="{parent}") as span, tracing.child_span("b"):
    span.set({{"c": 1}})
    span.fail("d")
    assert tracing.traceparent() is None
    assert tracing.current_ids() == {{}}
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def test_without_an_endpoint_nothing_is_traced_or_imported() -> None:
    code = IDLE.format(parent=CLIENT["traceparent"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr

"""Metrics and health checks of running processes, as Prometheus and Kubernetes ask for them."""

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from llm_ocr.service.database import Database
from llm_ocr.service.metrics import ProcessMetrics, StatusCollector
from tests import documents
from tests.docs.blocks import ROOT
from tests.processes import run_module
from tests.servers.chat import ChatServer, serving_beside
from tests.servers.service import (
    ServiceApi,
    ServiceProcess,
    reply_unless_paused,
    serving,
    state_options,
)
from tests.waiting import wait_until


@pytest.fixture
def paused() -> threading.Event:
    return threading.Event()


@pytest.fixture
def engine(paused: threading.Event) -> Iterator[ChatServer]:
    with serving_beside(reply_unless_paused(paused)) as running:
        yield running


def metrics_url(process: ServiceProcess) -> str:
    process.wait_for("/livez and /readyz")
    match = re.search(r"(http://\S+)/metrics", process.output)
    assert match is not None
    return match[1]


class Scrape:
    """The samples of one scrape."""

    def __init__(self, url: str) -> None:
        text = httpx2.get(f"{url}/metrics").raise_for_status().text
        self.samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def value(self, name: str, **labels: str) -> float | None:
        """The value of a sample with exactly these labels."""
        found = [one.value for one in self.samples if (one.name, one.labels) == (name, labels)]
        return found[0] if found else None


def test_a_service_counts_documents_steps_errors_and_requests(
    tmp_path: Path, engine: ChatServer
) -> None:
    arguments = [*state_options(tmp_path), "--base-url", engine.base_url, "--fallback", "none"]
    with serving(*arguments, "--metrics-port", 0) as process:
        url = metrics_url(process)
        api = ServiceApi(process.url, process.key)
        good = api.upload(documents.pdf(tmp_path / "good.pdf", pages=3))
        bad = api.upload(documents.corrupt_page_pdf(tmp_path / "bad.pdf"))
        api.wait(good, "succeeded")
        code = api.wait(bad, "partially_succeeded")["error"]["code"]
        # The database is read at most every few seconds.
        wait_until(lambda: Scrape(url).value("llm_ocr_documents", state="partially_succeeded"))
        value = Scrape(url).value
        assert value("llm_ocr_documents", state="succeeded") == 1
        assert value("llm_ocr_documents", state="queued") == 0
        assert value("llm_ocr_oldest_queued_seconds") == 0
        for outcome in ("succeeded", "partially_succeeded"):
            assert value("llm_ocr_documents_processed_total", outcome=outcome) == 1
        items = partial(value, "llm_ocr_step_items_total", step="extract")
        assert items(status="ok", strategy="first") == 5
        assert items(status="failed", strategy="") == 1
        assert value("llm_ocr_step_seconds_count", step="extract", outcome="succeeded") == 2
        assert value("llm_ocr_step_errors_total", step="extract", code=code) == 1
        assert value("llm_ocr_step_tokens_total", step="extract", kind="completion")
        assert value("llm_ocr_step_requests_total", step="extract") == 5
        assert value("llm_ocr_step_request_seconds_total", step="extract")
        answers = value("llm_ocr_answer_seconds_count")
        assert answers is not None
        assert answers >= 5
        assert value("llm_ocr_worker_tasks") == 5
        assert value("llm_ocr_workers_alive") == value("llm_ocr_database_up") == 1
        route = {"method": "GET", "route": "/v1/documents/{document_id}", "status": "200"}
        assert value("llm_ocr_http_request_seconds_count", **route)
        # Neither ids nor names of clients.
        text = httpx2.get(f"{url}/metrics").text
        assert good not in text
        assert "bad.pdf" not in text
        for path in ("/livez", "/readyz"):
            assert httpx2.get(f"{url}{path}").json() == {"status": "ok"}
        assert httpx2.get(f"{url}/v1/documents").status_code == 404
        environment = {**os.environ, "LLM_OCR_SERVICE_KEY": process.key}
        done = run_module("llm_ocr", "service", "status", "--to", process.url, env=environment)
        assert done.returncode == 0, done.stderr
        assert re.search(r"^  succeeded +1$", done.stdout, re.M)
        assert re.search(r"extract +0 in progress +0 queued +median \d", done.stdout)
        assert re.search(rf"extract +{code} +1", done.stdout)
        arguments = ["service", "status", "--json", "--to", process.url]
        done = run_module("llm_ocr", *arguments, env=environment)
        assert json.loads(done.stdout)["problems"] == []


def test_a_worker_that_stops_is_live_but_not_ready(
    tmp_path: Path, engine: ChatServer, paused: threading.Event
) -> None:
    paused.set()
    state = state_options(tmp_path)
    with serving(*state, "--base-url", engine.base_url) as service:
        api = ServiceApi(service.url, service.key)
        document = api.upload(documents.pdf(tmp_path / "a.pdf"))
        wait_until(lambda: len(engine.requests) == 1)
        service.stop()
    options = ["--base-url", engine.base_url, "--metrics-port", 0, "--drain-seconds", 60]
    with serving("worker", *state[:4], *options) as worker:
        url = metrics_url(worker)
        wait_until(lambda: httpx2.get(f"{url}/readyz").status_code == 200)
        wait_until(lambda: len(engine.requests) == 2)
        assert Scrape(url).value("llm_ocr_worker_documents") == 1
        worker.send(signal.SIGTERM)
        wait_until(lambda: httpx2.get(f"{url}/readyz").status_code == 503)
        assert httpx2.get(f"{url}/readyz").json() == {"status": "failed", "failed": ["worker"]}
        assert httpx2.get(f"{url}/livez").status_code == 200
        paused.clear()
    assert document


def test_a_port_that_is_in_use_is_named(tmp_path: Path, engine: ChatServer) -> None:
    port = engine.base_url.rpartition(":")[2].partition("/")[0]
    command = ["serve", *state_options(tmp_path), "--metrics-port", port]
    done = run_module("llm_ocr", *command)
    assert done.returncode == 2
    assert f"can't listen on 127.0.0.1:{port}" in done.stderr


def test_a_database_that_is_down_is_a_metric_and_not_an_error() -> None:
    metrics = ProcessMetrics()
    metrics.registry.register(StatusCollector(Database("postgresql://127.0.0.1:1/none")))
    with metrics.serve("127.0.0.1", 0) as url:
        found = Scrape(url).samples
    assert [(sample.name, sample.value) for sample in found] == [("llm_ocr_database_up", 0)]


def test_all_metrics_are_documented(tmp_path: Path, engine: ChatServer) -> None:
    page = (ROOT / "docs" / "service" / "monitoring.md").read_text("utf-8")
    documented = set(re.findall(r"`(llm_ocr_\w+)`", page))
    with serving(*state_options(tmp_path), "--base-url", engine.base_url, "--metrics-port", 0) as (
        process
    ):
        url = metrics_url(process)
        # What is the last to be registered.
        wait_until(lambda: "llm_ocr_window" in httpx2.get(f"{url}/metrics").text)
        served = set(re.findall(r"^# TYPE (\w+)", httpx2.get(f"{url}/metrics").text, re.M))
    assert documented == {name for name in served if not name.endswith("_created")}

"""Prometheus metrics and health checks of the service's processes, served on a port of their own.

    metrics = ProcessMetrics()
    with metrics.serve("127.0.0.1", 9300) as url:
        ...

Metrics of the database are the same at each gateway: take the maximum over gateways, not the sum.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from llm_ocr.records import Outcome
from llm_ocr.service.database import Database, DatabaseError
from llm_ocr.service.schema import DocumentState
from llm_ocr.service.status_board import ServiceStatus, load_status

Check = Callable[[], bool]
# The database is asked at most once in so many seconds, whoever scrapes.
STATUS_SECONDS = 5.0
STEP_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ProcessMetrics:
    """The metrics of a process and its health checks, by which Kubernetes restarts it (`/livez`) or
    sends it no requests (`/readyz`)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.live_checks: dict[str, Check] = {}
        self.ready_checks: dict[str, Check] = {}

    @contextmanager
    def serve(self, host: str, port: int) -> Iterator[str]:
        """Serve `/metrics`, `/livez` and `/readyz`; yields the URL. Raises OSError."""
        process = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                    self._send(200, content_type, encode(process.registry))
                elif path == "/livez":
                    self._send_checks(process.live_checks)
                elif path == "/readyz":
                    self._send_checks(process.ready_checks or {"start": lambda: False})
                else:
                    self._send(404, "text/plain", b"not found: try /metrics, /livez or /readyz\n")

            def _send_checks(self, checks: dict[str, Check]) -> None:
                failed = [name for name, check in checks.items() if not check()]
                body = {"status": "failed", "failed": failed} if failed else {"status": "ok"}
                status = 503 if failed else 200
                self._send(status, "application/json", json.dumps(body).encode())

            def _send(self, status: int, content_type: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: ANN401
                """Requests are not logged."""

        with ThreadingHTTPServer((host, port), Handler) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
            thread.start()
            try:
                shown = f"[{host}]" if ":" in host else host
                yield f"http://{shown}:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


class WorkerMetrics:
    """What a worker counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._documents = Counter(
            "llm_ocr_documents_processed",
            "Documents that a worker stopped processing, by outcome: a final state, or retry, "
            "wait (for an engine or the storage), requeue, or lost (its lease expired)",
            ["outcome"],
            registry=registry,
        )
        self._step_seconds = Histogram(
            "llm_ocr_step_seconds",
            "Seconds of a step of a document in one attempt, by outcome: succeeded, failed or "
            "retried",
            ["step", "outcome"],
            buckets=STEP_SECONDS,
            registry=registry,
        )
        self._items = Counter(
            "llm_ocr_step_items",
            "Pages, figures and records that a step processed, by status and by how the result was "
            "obtained (the rung of the retry ladder, such as first or text layer)",
            ["step", "status", "strategy"],
            registry=registry,
        )
        self._errors = Counter(
            "llm_ocr_step_errors",
            "Errors by step and code: of items, and of steps that were retried or failed",
            ["step", "code"],
            registry=registry,
        )
        self._requests = Counter(
            "llm_ocr_step_requests",
            "Requests of a step to models, with those that failed",
            ["step"],
            registry=registry,
        )
        self._request_seconds = Counter(
            "llm_ocr_step_request_seconds",
            "Seconds of a step's requests to models, of which several run at the same time",
            ["step"],
            registry=registry,
        )
        self._tokens = Counter(
            "llm_ocr_step_tokens",
            "Tokens of a step's requests by kind: prompt or completion",
            ["step", "kind"],
            registry=registry,
        )
        self.in_progress = Gauge(
            "llm_ocr_worker_documents",
            "Documents that this worker is processing",
            registry=registry,
        )
        self.tasks = Gauge(
            "llm_ocr_worker_tasks",
            "Documents that this worker can process at the same time",
            registry=registry,
        )

    def count_document(self, outcome: str) -> None:
        self._documents.labels(outcome).inc()

    def count_step(self, step: str, outcome: str, seconds: float) -> None:
        """Count the end of a step in this attempt."""
        self._step_seconds.labels(step, outcome).observe(seconds)

    def count_error(self, step: str, code: str | None) -> None:
        self._errors.labels(step, code or "unknown").inc()

    def count_item(self, step: str, outcome: Outcome) -> None:
        """Count an item of a step, and what it cost."""
        self._items.labels(step, outcome.status, outcome.strategy or "").inc()
        self._requests.labels(step).inc(outcome.attempts)
        self._request_seconds.labels(step).inc(outcome.seconds)
        self._tokens.labels(step, "prompt").inc(outcome.prompt_tokens)
        self._tokens.labels(step, "completion").inc(outcome.completion_tokens)


class GatewayMetrics:
    """What a gateway counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "llm_ocr_http_request_seconds",
            "Seconds of a request to the gateway until the response begins, by method, route and "
            "status",
            ["method", "route", "status"],
            buckets=REQUEST_SECONDS,
            registry=registry,
        )

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._seconds.labels(method, route, str(status)).observe(seconds)


class StatusCollector(Collector):
    """Metrics from the database: the numbers of the status board, over all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._status: ServiceStatus | None = None
        self._loaded_at = float("-inf")

    def collect(self) -> Iterator[Metric]:
        try:
            status = self._load()
        except DatabaseError:
            yield _gauge("llm_ocr_database_up", "Whether the database responds", 0)
            return
        yield _gauge("llm_ocr_database_up", "Whether the database responds", 1)
        total, at = status.total, status.at
        documents = GaugeMetricFamily("llm_ocr_documents", "Documents by state", labels=["state"])
        for state in DocumentState:
            documents.add_metric([state], total.documents.get(state, 0))
        yield documents
        waiting = GaugeMetricFamily(
            "llm_ocr_documents_waiting_for",
            "Queued documents that wait for something besides a worker: engine, storage or other",
            labels=["kind"],
        )
        kinds = dict.fromkeys(WAIT_KINDS.values(), 0) | {"other": 0}
        for reason in status.waiting_for:
            kind = next((k for word, k in WAIT_KINDS.items() if word in reason.reason), "other")
            kinds[kind] += reason.documents
        for kind, count in kinds.items():
            waiting.add_metric([kind], count)
        yield waiting
        steps = GaugeMetricFamily(
            "llm_ocr_step_documents",
            "Documents at a step, by state: processing or queued",
            labels=["step", "state"],
        )
        for step in status.steps:
            steps.add_metric([step.name, "processing"], step.in_progress)
            steps.add_metric([step.name, "queued"], step.waiting)
        yield steps
        for name, help_text, value in (
            ("oldest_queued_seconds", "Age of the oldest queued document", total.oldest_queued_at),
            (
                "oldest_unfinished_seconds",
                "Age of the oldest unfinished document",
                total.oldest_unfinished_at,
            ),
            ("oldest_review_seconds", "Age of the oldest open review", total.oldest_review_at),
            (
                "oldest_webhook_seconds",
                "Age of the oldest webhook that isn't delivered",
                total.oldest_webhook_at,
            ),
        ):
            yield _gauge(f"llm_ocr_{name}", f"{help_text}, 0 if there is none", _age(value, at))
        for name, help_text, number in (
            ("reviews_open", "Open reviews", total.reviews_open),
            ("reviews_claimed", "Open reviews that somebody works on", total.reviews_claimed),
            ("reviews_expiring", "Open reviews that expire soon", total.reviews_expiring),
            ("webhooks_pending", "Webhooks that aren't delivered", total.webhooks_pending),
            ("webhooks_retried", "Pending webhooks that failed before", total.webhooks_retried),
            ("webhooks_disabled", "Receivers that are disabled", total.webhooks_disabled),
            ("workers_alive", "Workers seen within the last minute", status.workers_alive),
        ):
            yield _gauge(f"llm_ocr_{name}", help_text, number)

    def _load(self) -> ServiceStatus:
        with self._lock:
            if self._status is None or time.monotonic() > self._loaded_at + STATUS_SECONDS:
                self._status = load_status(self._database)
                self._loaded_at = time.monotonic()
            return self._status


# Words in what documents wait for, which is a sentence for people.
WAIT_KINDS = {"the model of the step": "engine", "the storage": "storage"}


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _age(time: datetime | None, at: datetime) -> float:
    return 0.0 if time is None else max(0.0, (at - time).total_seconds())

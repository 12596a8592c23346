"""Serve a run's metrics to Prometheus, with those of its server and GPUs."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from threading import Thread
from types import TracebackType
from typing import Self
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from llm_ocr.batch.events import Event, ItemsDone, Note, Notify
from llm_ocr.engines.gpu import find_gpus, gpu_utilization
from llm_ocr.engines.session import EngineSession
from llm_ocr.inference.responses import Answer
from llm_ocr.settings import Settings

SECONDS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
TOKENS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
GPU_LOOK_SECONDS = 5.0


class Telemetry:
    """Counts what happens; serves it at `metrics_port` if the settings want that.

    `gpu_utilization` is the GPUs' mean utilization over the run, 0..1, None where there is no GPU.
    """

    def __init__(self, settings: Settings, notify: Notify) -> None:
        self._settings, self._notify = settings, notify
        self._registry = CollectorRegistry()
        self._items = Counter(
            "llm_ocr_items",
            "Items that ended, by stage and status",
            ["stage", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "llm_ocr_answer_seconds",
            "Seconds from a request to its answer",
            buckets=SECONDS,
            registry=self._registry,
        )
        self._tokens = Histogram(
            "llm_ocr_answer_tokens",
            "Completion tokens of an answer",
            buckets=TOKENS,
            registry=self._registry,
        )
        self._gpu_looks: list[float] = []
        self._looking: asyncio.Task[None] | None = None
        self._server: tuple[WSGIServer, Thread] | None = None

    @property
    def gpu_utilization(self) -> float | None:
        looks = self._gpu_looks
        return sum(looks) / len(looks) if looks else None

    def notify(self, event: Event) -> None:
        """Count the event and pass it on."""
        if isinstance(event, ItemsDone) and event.fresh:
            self._items.labels(event.stage, event.status).inc(event.count)
        self._notify(event)

    def observe(self, answer: Answer) -> None:
        """Count an answer."""
        self._seconds.observe(answer.seconds)
        self._tokens.observe(answer.completion_tokens)

    def include(self, engine_pool: Iterable[EngineSession]) -> None:
        """Include these sessions and their servers in every scrape."""
        self._registry.register(_Live(engine_pool))

    async def __aenter__(self) -> Self:
        port, host = self._settings.metrics_port, self._settings.metrics_host
        if port is not None:
            server, thread = start_http_server(port, host, self._registry)
            bound = f"http://{host}:{server.server_port}/metrics"
            self._notify(Note(f"metrics at {bound}"))
            self._server = server, thread
        if find_gpus():
            self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._server is not None:
            server, thread = self._server
            await asyncio.to_thread(server.shutdown)
            server.server_close()
            thread.join()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(GPU_LOOK_SECONDS)
            busy = await asyncio.to_thread(gpu_utilization)
            self._gpu_looks.append(sum(busy) / max(1, len(busy)))


class _Live(Collector):
    """What is read at the moment of the scrape."""

    def __init__(self, engine_pool: Iterable[EngineSession]) -> None:
        self._askers = engine_pool

    def collect(self) -> Iterator[Metric]:
        engine_pool = list(self._askers)
        for name, help_text, of in COUNTED:
            counter = CounterMetricFamily(f"llm_ocr_{name}", help_text, labels=["model"])
            for engine_session in engine_pool:
                counter.add_metric([engine_session.target.model.name], of(engine_session))
            yield counter
        for name, help_text, of in MEASURED:
            gauge = GaugeMetricFamily(f"llm_ocr_{name}", help_text, labels=["model"])
            for engine_session in engine_pool:
                gauge.add_metric([engine_session.target.model.name], of(engine_session))
            yield gauge
        busy = GaugeMetricFamily("llm_ocr_gpu_utilization", "Share of time busy", labels=["gpu"])
        for k, share in enumerate(gpu_utilization()):
            busy.add_metric([str(k)], share)
        yield busy


Figure = tuple[str, str, Callable[[EngineSession], float]]

COUNTED: tuple[Figure, ...] = (
    ("answers", "Answers", lambda one: one.client.stats.answers),
    ("retries", "Requests that were repeated", lambda one: one.client.stats.retries),
    ("overloads", "Refusals for load and time-outs", lambda one: one.client.stats.overloads),
    ("prompt_tokens", "Tokens of prompts", lambda one: one.client.stats.prompt_tokens),
    ("completion_tokens", "Tokens of answers", lambda one: one.client.stats.completion_tokens),
    ("engine_restarts", "Restarts of the engine", lambda one: one.restarts),
    (
        "server_preemptions",
        "Requests that the server preempted for lack of KV cache",
        lambda one: one.preemptions,
    ),
)
MEASURED: tuple[Figure, ...] = (
    ("window", "Requests that may be in flight", lambda one: one.limiter.limit),
    ("in_flight", "Requests in flight", lambda one: one.limiter.in_flight),
    ("server_running", "Requests running there", lambda o: o.load.running if o.load else 0),
    ("server_waiting", "Requests queued there", lambda o: o.load.waiting if o.load else 0),
    ("server_kv_usage", "Share of the KV cache used", lambda o: o.load.kv_usage if o.load else 0),
)

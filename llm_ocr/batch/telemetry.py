"""Serve a run's metrics to Prometheus, with those of its server and GPUs."""

import asyncio
from collections.abc import Iterable
from threading import Thread
from types import TracebackType
from typing import Self
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, start_http_server

from llm_ocr.batch.events import Event, ItemsDone, Note, Notify
from llm_ocr.engines.gpu import find_gpus, gpu_utilization
from llm_ocr.engines.metrics import AnswerMetrics, EngineCollector
from llm_ocr.engines.session import EngineSession
from llm_ocr.inference.responses import Answer
from llm_ocr.settings import Settings

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
        self._answers = AnswerMetrics(self._registry)
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
        self._answers.observe(answer)

    def include(self, engine_pool: Iterable[EngineSession]) -> None:
        """Include these sessions and their servers in every scrape."""
        self._registry.register(EngineCollector(engine_pool))

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

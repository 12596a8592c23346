"""Entry points that run a gateway or a worker in this process until it is stopped."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from llm_ocr.service.database import Database
from llm_ocr.service.gateway.app import create_app
from llm_ocr.service.metrics import ProcessMetrics
from llm_ocr.service.pipelines import PipelineCatalog
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.service.worker import ServiceWorker
from llm_ocr.settings import Settings
from llm_ocr.storage.store import Store

Notify = Callable[[str], None]
# Bytes that are read from a connection at a time. asyncio would read 256 KiB, of which the HTTP
# parser and the request have copies: each of many concurrent uploads would take 0.6 MB, not 0.25.
READ_BYTES = 1 << 16


async def run_gateway(
    database: Database,
    store: Store,
    settings: ServiceSettings,
    metrics: ProcessMetrics,
    listener: socket.socket,
    stop: asyncio.Event,
    on_ready: Callable[[], None],
) -> None:
    """Serve requests on `listener` until `stop` is set, then finish those in progress within
    `drain_seconds`. `on_ready` is called when the server accepts requests."""
    pipelines = PipelineCatalog.load(settings.pipelines)
    app = create_app(database, store, settings, pipelines, metrics)
    config = uvicorn.Config(
        app,
        http=_Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
    )
    server = _Server(config, on_ready)

    async def exit_at_stop() -> None:
        await stop.wait()
        # Otherwise the server would wait for event streams, which don't end.
        app.state.gateway.changes.close()
        server.should_exit = True

    waiting = asyncio.create_task(exit_at_stop())
    try:
        await server.serve(sockets=[listener])
    finally:
        waiting.cancel()


async def run_worker(
    database: Database,
    store: Store,
    settings: ServiceSettings,
    engine_settings: Settings,
    metrics: ProcessMetrics,
    stop: asyncio.Event,
    notify: Notify,
) -> None:
    """Process documents until `stop` is set, then return unfinished ones to the queue."""
    await ServiceWorker(database, store, settings, engine_settings, notify, metrics).run(stop)


class _Connection(H11Protocol):
    """A connection that is read in smaller pieces."""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401
        # Of asyncio's own transports; others have buffers of their own.
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES
        super().connection_made(transport)


class _Server(uvicorn.Server):
    """A uvicorn server that doesn't handle signals, and calls `on_ready` after its startup."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_ready()

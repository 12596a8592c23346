"""Run the router in this process until it is stopped."""

import asyncio
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import aiohttp
from aiohttp import web

from llm_ocr.engines.memory import memory_guard
from llm_ocr.engines.resource_limits import available_cores
from llm_ocr.inference.address import authorization
from llm_ocr.inference.open_files import raise_open_files_limit
from llm_ocr.router.app import Router
from llm_ocr.router.config import DEFAULT_CONCURRENCY, ReplicaConfig, RouterConfig, read_api_key
from llm_ocr.router.metrics import RouterMetrics
from llm_ocr.router.replicas import Replica, ReplicaSet
from llm_ocr.router.supervision import Notify, ReplicaSupervisor
from llm_ocr.settings import EngineChoice

# vLLM closes idle connections after 5 seconds.
KEEPALIVE_SECONDS, CONNECT_SECONDS = 4.0, 10.0
# aiohttp's own headers, which the client may not have sent.
AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
PROBE_TIMEOUT, DRAIN_POLL_SECONDS = 60.0, 0.05
# Connections that may wait to be accepted, when many clients come at once: as of uvicorn.
BACKLOG = 2048


async def run_router(
    config: RouterConfig,
    listener: socket.socket,
    stop: asyncio.Event,
    notify: Notify,
    on_ready: Callable[[], None],
) -> None:
    """Serve requests on `listener` until `stop` is set, then finish those in progress within
    `drain_seconds`. `on_ready` is called when the server accepts requests: engines may still be
    starting.

    Raises InvalidRouterConfigError if a key is missing, and EngineNotInstalledError.
    """
    raise_open_files_limit()
    metrics = RouterMetrics()
    api_key = read_api_key(config.api_key_env)
    sets = {
        name: ReplicaSet(
            name, list(_make_replicas(config, name, metrics, notify)), model.queue_size
        )
        for name, model in config.models.items()
    }
    async with AsyncExitStack() as stack:
        log_dir = config.log_dir
        if log_dir is None:
            folder = tempfile.TemporaryDirectory(prefix="llm-ocr-inference-")
            log_dir = Path(stack.enter_context(folder))
        session = await stack.enter_async_context(_replica_session(config.request_timeout))
        supervisors = [
            asyncio.create_task(supervisor.run())
            for supervisor in _make_supervisors(config, sets, session, log_dir, notify)
        ]
        stack.push_async_callback(_cancel, supervisors)
        router = Router(sets, config.routes(), session, metrics, api_key)
        # With cancellation, a request whose client has left ends at its replica, too.
        runner = web.AppRunner(
            router.application(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.SockSite(runner, listener, backlog=BACKLOG).start()
        on_ready()
        await _until_stopped(stop, supervisors)
        router.is_draining = True
        try:
            async with asyncio.timeout(config.drain_seconds):
                while router.open_requests:
                    await asyncio.sleep(DRAIN_POLL_SECONDS)
        except TimeoutError:
            notify(f"{router.open_requests} requests in progress were cut off")


def _make_replicas(
    config: RouterConfig, model: str, metrics: RouterMetrics, notify: Notify
) -> list[Replica]:
    return [
        Replica(
            name,
            replica.served_model or config.served_name(model),
            replica.max_concurrency or _default_concurrency(replica),
            config.max_failures,
            metrics.of_replica(model, name),
            notify,
            None if replica.base_url is None else replica.base_url.rstrip("/"),
            authorization(read_api_key(replica.api_key_env)),
        )
        for k, replica in enumerate(config.models[model].replicas)
        for name in (f"{model}/{k}",)
    ]


def _make_supervisors(
    config: RouterConfig,
    sets: Mapping[str, ReplicaSet],
    session: aiohttp.ClientSession,
    log_dir: Path,
    notify: Notify,
) -> Iterator[ReplicaSupervisor]:
    memory = memory_guard(config.engine_memory, notify)
    numbers = iter(range(1, 1 + sum(len(model.replicas) for model in config.models.values())))
    for name, model in config.models.items():
        supervise = partial(
            ReplicaSupervisor,
            profile=config.profile_of(name),
            probe=model.probe,
            probe_seconds=config.probe_seconds,
            probe_timeout=min(PROBE_TIMEOUT, config.request_timeout),
            session=session,
            memory=memory,
            notify=notify,
        )
        for replica, options in zip(sets[name].replicas, model.replicas, strict=True):
            log_path = log_dir / f"engine-{next(numbers)}.log"
            yield supervise(replica, options, log_path=log_path)


def _default_concurrency(replica: ReplicaConfig) -> int:
    if replica.engine is EngineChoice.EMBEDDED:
        # A page in progress on each core, and one that waits.
        return 2 * (replica.threads or available_cores())
    return DEFAULT_CONCURRENCY


def _replica_session(timeout: float) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS),
        # Responses are passed on as they are.
        auto_decompress=False,
        skip_auto_headers=AUTO_HEADERS,
    )


async def _until_stopped(stop: asyncio.Event, supervisors: "list[asyncio.Task[None]]") -> None:
    """Wait for `stop`. Raises what ends a supervisor before."""
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({stopping, *supervisors}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()
    finally:
        stopping.cancel()


async def _cancel(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

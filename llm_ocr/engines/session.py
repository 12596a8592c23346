"""Ask one engine target: start it at the first request, and watch it until it is closed."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from llm_ocr import __version__
from llm_ocr.engines.check import check, raise_if_wrong
from llm_ocr.engines.embedded.serving.in_process import InProcessEngine
from llm_ocr.engines.launch import Engine
from llm_ocr.engines.memory import MemoryGuard
from llm_ocr.engines.resource_limits import available_cores
from llm_ocr.engines.targets import EngineKind, EngineTarget, engine_command
from llm_ocr.engines.vllm import check_issues
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import (
    INITIAL_LIMIT_WITHOUT_METRICS,
    ConcurrencyController,
    ConcurrencyLimiter,
)
from llm_ocr.inference.open_files import raise_open_files_limit
from llm_ocr.inference.request import ChatRequest, on_send
from llm_ocr.inference.responses import Answer, EngineFailedError
from llm_ocr.inference.server_status import ServerLoad, is_serving, scrape, server_version
from llm_ocr.messages import ProblemCode
from llm_ocr.retry import RetryPolicy
from llm_ocr.settings import EngineOptions

log = logging.getLogger(__name__)

# An engine of ours that makes no token and gives no answer for so many seconds, with requests in
# flight, hangs, and is started again.
STALL_SECONDS = 240.0
WATCH_SECONDS = 5.0
# How long a server that runs already may be starting.
SERVER_READY_SECONDS = 120.0

Observe = Callable[[Answer], None]
# Receives a line of text about what an engine is doing.
Notify = Callable[[str], None]


class EngineSession:
    """Asks one target: `await session.ask(request)`, between `open` and `close`.

    The first request starts the engine, for all who ask: who stops waiting for the start does not
    stop it. An engine that dies is restarted. One that can't be started, or dies again and again,
    fails each request, until `retry_seconds` have passed (None: until the session is opened again).
    """

    def __init__(
        self,
        options: EngineOptions,
        target: EngineTarget,
        notify: Notify,
        observe: Observe,
        memory: MemoryGuard,
        retry_seconds: float | None = None,
        server_seconds: float = SERVER_READY_SECONDS,
    ) -> None:
        self.target = target
        self._memory = memory
        self._server_seconds = server_seconds
        self.limiter = ConcurrencyLimiter(options.concurrency or _initial_limit(options, target))
        # The key is for the server that the options name.
        is_ours = target.kind is EngineKind.SERVER and target.base_url == options.base_url
        key = options.api_key if is_ours else None
        self.client = ChatClient(
            target.base_url or "",
            target.model.name,
            limiter=self.limiter,
            api_key=None if key is None else key.get_secret_value(),
            timeout=options.request_timeout,
            retry=RetryPolicy(busy_seconds=options.busy_timeout),
            recover=self._recover,
            # A server that the run did not start sends each token separately.
            streams=target.kind is EngineKind.VLLM,
        )
        self._in_process = InProcessEngine(options.engine_threads)
        self.engine: Engine | None = None
        # The engine with its version and its GPUs, as far as they are known.
        self.answered_by: str | None = None
        self.log_path: Path | None = None
        self._options, self._notify, self._observe = options, notify, observe
        self._retry_seconds = retry_seconds
        self._client_stack, self._engine_stack = AsyncExitStack(), AsyncExitStack()
        self._starting: asyncio.Task[None] | None = None
        self._closing = asyncio.Lock()
        self._is_ready = self._is_connected = False
        self._failure: EngineFailedError | None = None
        self._failed_at = 0.0
        self._controller: ConcurrencyController | None = None
        # Of engines that this session started before the present one.
        self._past_restarts, self._past_downtime, self._past_preemptions = 0, 0.0, 0
        self._past_memory_restarts = 0

    @property
    def is_open(self) -> bool:
        """Whether it may be asked."""
        return self.log_path is not None

    @property
    def is_live(self) -> bool:
        """Whether its engine runs, or may be started at any time, or has not ended yet."""
        return self.is_open or self._closing.locked()

    @property
    def load(self) -> ServerLoad | None:
        """The server's latest report of its load."""
        return self._controller.last_load if self._controller else None

    @property
    def is_starting(self) -> bool:
        """Whether the engine is starting, or being restarted."""
        return self._starting is not None or (self.engine is not None and self.engine.is_down)

    @property
    def restarts(self) -> int:
        return self._past_restarts + (self.engine.restarts if self.engine else 0)

    @property
    def memory_restarts(self) -> int:
        """Those of `restarts` that were for the memory that the engine took."""
        now = self._memory.restarts[self.engine] if self.engine else 0
        return self._past_memory_restarts + now

    @property
    def memory_bytes(self) -> int:
        """Memory of this machine that the engine takes, if it is ours; 0 if that is not known."""
        return self._memory.memory_of(self.engine) if self.engine else 0

    @property
    def downtime_seconds(self) -> float:
        return self._past_downtime + (self.engine.downtime_seconds if self.engine else 0.0)

    @property
    def preemptions(self) -> int:
        """Requests that the server put off for want of KV cache."""
        return self._past_preemptions + (self.load.preemptions if self.load else 0)

    def open(self, log_path: Path) -> None:
        """Let it be asked; an engine that could not be started before is tried again.

        `log_path` is that of the engine's log, if it is ours.
        """
        if not self.is_open:
            self.log_path = log_path
        self._failure = None

    async def close(self) -> None:
        """End the engine, if it is ours, and the connections."""
        async with self._closing:
            self.log_path = None
            if self._starting is not None:
                await _cancel(self._starting)
            self._is_ready = self._is_connected = False
            try:
                await self._end_engine()
            finally:
                await self._client_stack.aclose()

    async def ask(self, request: ChatRequest, *, priority: int = 0) -> Answer:
        """As `ChatClient.ask`; raises CheckFailedError if the server is not what it should be."""
        if self.target.kind is EngineKind.IN_PROCESS:
            async with self.limiter.slot(priority):
                on_send.get()()
                answer = await self._in_process.ask(request)
            self._observe(answer)
            return answer
        if not self._is_ready:
            await self.start()
        answer = await self.client.ask(request, priority=priority)
        if self.engine is not None:
            self.engine.answered()
        self._observe(answer)
        return answer

    async def start(self) -> None:
        """Start the engine, if it is ours and not yet started; find the width to begin with."""
        if not self.is_open:
            raise RuntimeError(f"{self.target.label} was asked outside a lease")
        if self._is_ready:
            return
        if self._failure is not None:
            patience = self._retry_seconds
            if patience is None or time.monotonic() - self._failed_at < patience:
                raise self._failure
            self._failure = None
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._start_ended)
        starting = self._starting
        await asyncio.wait({starting})
        if starting.cancelled():
            raise EngineFailedError(f"{self.target.label} was closed while it started")
        starting.result()

    async def _start(self) -> None:
        try:
            # What is left of an engine that was given up.
            await self._end_engine()
            await self._start_engine()
        except BaseException as error:
            if isinstance(error, EngineFailedError):
                self._fail(error)
            await self._end_engine()
            raise
        self._is_ready = True

    def _start_ended(self, starting: "asyncio.Task[None]") -> None:
        self._starting = None
        if not starting.cancelled():
            # Those who waited for it may have left: it is nobody's unhandled error.
            starting.exception()

    def _fail(self, error: EngineFailedError) -> None:
        self._is_ready = False
        self._failure, self._failed_at = error, time.monotonic()

    async def _start_engine(self) -> None:
        raise_open_files_limit()
        if self.target.kind is not EngineKind.SERVER:
            command = await asyncio.to_thread(
                engine_command, self._options, self.target, self._notify
            )
            self._notify(f"starting {command.name}")
            assert self.log_path is not None
            engine = Engine(command, self.log_path, self._notify)
            self.engine = await self._engine_stack.enter_async_context(engine)
            self.client.direct(self.engine.base_url)
        if not self._is_connected:
            await self._client_stack.enter_async_context(self.client)
            self._is_connected = True
        if self.target.kind is EngineKind.SERVER:
            await self._until_reachable()
            await self._check_version()
        if self.target.kind is not EngineKind.EMBEDDED and not self._options.skip_model_check:
            await self._check()
        if self.target.kind is not EngineKind.EMBEDDED:
            await self._start_controller()
        elif self.engine is not None:
            self._watch_in_background(self._restart_if_frozen(self.engine))
        if self.engine is not None:
            traffic = _Traffic(self.limiter, self.client)
            self._watch_in_background(self._memory.watch(self.engine, traffic))
        self.answered_by = await self._identify_engine()

    async def _end_engine(self) -> None:
        """End the engine and what watches it; its counts stay in this session's."""
        try:
            await self._engine_stack.aclose()
        finally:
            self._past_memory_restarts = self.memory_restarts
            self._past_restarts = self.restarts
            self._past_downtime = self.downtime_seconds
            self._past_preemptions = self.preemptions
            self.engine = self._controller = None

    async def _identify_engine(self) -> str | None:
        if self.target.kind is EngineKind.EMBEDDED:
            return f"{EngineKind.EMBEDDED} of llm_ocr {__version__}"
        version = await server_version(self.client.base_url, self.client.headers)
        if version is None:
            return None
        gpus = Counter(gpu.name for gpu in self.target.gpus)
        on = ", ".join(f"{count} x {name}" for name, count in gpus.items())
        return f"vLLM {version} on {on}" if on else f"vLLM {version}"

    async def _until_reachable(self) -> None:
        """Wait for a server that is starting: it refuses connections, or answers 503."""
        patience = self._options.ready_timeout or self._server_seconds
        give_up = time.monotonic() + patience
        has_notified = False
        while not await is_serving(self.client.base_url, self.client.headers):
            if time.monotonic() > give_up:
                raise EngineFailedError(
                    f"no response from {self.client.base_url} within {patience:g} s; start the "
                    "server",
                    ProblemCode.SERVER_UNREACHABLE,
                )
            if not has_notified:
                self._notify(f"waiting for {self.client.base_url} (up to {patience:g} s)")
                has_notified = True
            await asyncio.sleep(1.0)

    async def _check_version(self) -> None:
        """Warn of a version of the server with which the model is known to fail, or raise."""
        profile = self.target.model.profile
        if not profile.serving.issues:
            return
        version = await server_version(self.client.base_url, self.client.headers)
        for warning in check_issues(profile, {} if version is None else {"vllm": version}):
            self._notify(warning)

    async def _check(self) -> None:
        model = self.target.model
        self._notify(f"checking {model.name} on four known pages")
        findings = await check(self.client, model.profile)
        raise_if_wrong(findings, model.name, self.client.base_url)

    async def _start_controller(self) -> None:
        page_tokens = self.target.model.profile.serving.page_tokens
        controller = ConcurrencyController(self.limiter, self.client.stats, self._load, page_tokens)
        self._controller = controller
        if self._options.concurrency is None:
            await controller.start()
        self._watch_in_background(self._watch(controller))

    def _watch_in_background(self, watch: Coroutine[None, None, None]) -> None:
        """Let it run until the engine ends."""
        self._engine_stack.push_async_callback(_cancel, asyncio.create_task(watch))

    async def _watch(self, controller: ConcurrencyController) -> None:
        """Adjust the limit, and restart an engine that hangs."""
        async with asyncio.TaskGroup() as group:
            if self._options.concurrency is None:
                group.create_task(controller.run())
            else:
                group.create_task(self._follow(controller))
            if self.engine is not None:
                group.create_task(self._restart_if_stalled(self.engine, controller))

    async def _follow(self, controller: ConcurrencyController) -> None:
        while True:
            controller.last_load = await self._load()
            await asyncio.sleep(WATCH_SECONDS)

    async def _restart_if_stalled(self, engine: Engine, controller: ConcurrencyController) -> None:
        stats, before, since = self.client.stats, (-1, -1, -1), time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            tokens = controller.last_load.generation_tokens if controller.last_load else 0
            now = (tokens, stats.answers, engine.restarts)
            if now != before or not self.limiter.in_flight:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > STALL_SECONDS:
                log.warning("no token for %.0f s: restarting the engine", time.monotonic() - since)
                engine.kill()
                since = time.monotonic()

    async def _restart_if_frozen(self, engine: Engine) -> None:
        """As `_restart_if_stalled`, for the embedded engine, which counts no tokens: a page may
        take long on a slow machine, and the engine still serves its metrics then."""
        stats, before, since = self.client.stats, (-1, -1), time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = (stats.answers, engine.restarts)
            silent = time.monotonic() - since
            if now != before or not self.limiter.in_flight or engine.is_down:
                before, since = now, time.monotonic()
            elif silent > self._options.request_timeout or (
                silent > STALL_SECONDS and await self._load() is None
            ):
                log.warning("no answer for %.0f s: restarting the embedded engine", silent)
                engine.kill()
                since = time.monotonic()

    async def _load(self) -> ServerLoad | None:
        return await scrape(self.client.base_url, self.client.headers)

    async def _recover(self, since: float) -> bool:
        if self.engine is None:
            return False
        try:
            return await self.engine.revive(since)
        except EngineFailedError as error:
            self._fail(error)
            raise


@dataclass(frozen=True)
class _Traffic:
    """The requests of a session, as the memory guard sees them."""

    limiter: ConcurrencyLimiter
    client: ChatClient

    @property
    def in_flight(self) -> int:
        return self.limiter.in_flight

    def pause(self) -> None:
        self.limiter.pause()

    def resume(self) -> None:
        self.limiter.resume()

    def forgive(self) -> None:
        self.client.forgive()


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


def _initial_limit(options: EngineOptions, target: EngineTarget) -> int:
    return embedded_limit(options) if target.is_embedded else INITIAL_LIMIT_WITHOUT_METRICS


def embedded_limit(options: EngineOptions) -> int:
    """Requests in flight to the embedded engine: one that each core reads, and one behind it."""
    return 2 * (options.engine_threads or available_cores())

"""Use one engine target: start it at the first request, and watch it until the last."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from llm_ocr import __version__
from llm_ocr.engines.check import check, raise_if_wrong
from llm_ocr.engines.embedded.command import available_cores, check_installed, embedded_command
from llm_ocr.engines.launch import Engine, EngineCommand
from llm_ocr.engines.vllm import check_version, vllm_command, vllm_version
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import BLIND_START, Governor
from llm_ocr.inference.metrics import ServerLoad, answers, scrape
from llm_ocr.inference.replies import Answer, EngineFailedError
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.version import server_version
from llm_ocr.inference.window import Window
from llm_ocr.pipeline.engine_targets import EngineKind, EngineTarget, vllm_options
from llm_ocr.pipeline.events import Note, Notify
from llm_ocr.retry import RetryPolicy
from llm_ocr.settings import Settings

log = logging.getLogger(__name__)

# An engine of ours that makes no token and gives no answer for so many seconds, with requests in
# flight, hangs, and is started again.
STALL_SECONDS = 240.0
WATCH_SECONDS = 5.0
# How long a server that runs already may be starting.
SERVER_READY_SECONDS = 120.0

Observe = Callable[[Answer], None]


class EngineSession:
    """`async with EngineSession(...) as engine_session: await engine_session.ask(request)`."""

    def __init__(
        self,
        settings: Settings,
        target: EngineTarget,
        log_dir: Path,
        notify: Notify,
        observe: Observe,
    ) -> None:
        self.target = target
        self._is_starting = False
        self.window = Window(settings.concurrency or _first_window(settings, target))
        key = settings.api_key if target.kind is EngineKind.SERVER else None
        self.client = ChatClient(
            target.base_url or "",
            target.reader.model,
            window=self.window,
            api_key=None if key is None else key.get_secret_value(),
            timeout=settings.request_timeout,
            retry=RetryPolicy(busy_seconds=settings.busy_timeout),
            recover=self._recover,
            # A server that the run did not start sends each token separately.
            streams=target.kind is EngineKind.VLLM,
        )
        self.engine: Engine | None = None
        self.answered_by: str | None = None
        self._settings, self._log_dir = settings, log_dir
        self._notify, self._observe = notify, observe
        self._stack = AsyncExitStack()
        self._starting = asyncio.Lock()
        self._is_ready = False
        self._failure: EngineFailedError | None = None
        self._governor: Governor | None = None

    @property
    def load(self) -> ServerLoad | None:
        """What the server said last of itself."""
        return self._governor.last if self._governor else None

    @property
    def is_starting(self) -> bool:
        """Whether the engine is starting, or being restarted."""
        return self._is_starting or (self.engine is not None and self.engine.is_down)

    @property
    def restarts(self) -> int:
        return self.engine.restarts if self.engine else 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def ask(self, request: ChatRequest, *, priority: int = 0) -> Answer:
        """As `ChatClient.ask`; raises CheckFailedError if the server is not what it should be."""
        if not self._is_ready:
            await self.start()
        answer = await self.client.ask(request, priority=priority)
        if self.engine is not None:
            self.engine.answered()
        self._observe(answer)
        return answer

    async def start(self) -> None:
        """Start the engine, if it is ours and not yet started; find the width to begin with."""
        async with self._starting:
            if self._failure is not None:
                raise self._failure
            if self._is_ready:
                return
            self._is_starting = True
            try:
                await self._start()
            except EngineFailedError as error:
                self._failure = error
                raise
            finally:
                self._is_starting = False
            self._is_ready = True

    async def _start(self) -> None:
        command = await asyncio.to_thread(self._command)
        if command is not None:
            self._notify(Note(f"starting {command.name}"))
            log_path = self._log_dir / f"{self.target.kind.value.replace(' ', '-').lower()}.log"
            engine = Engine(command, log_path, lambda line: self._notify(Note(line)))
            self.engine = await self._stack.enter_async_context(engine)
            self.client.direct(self.engine.base_url)
        await self._stack.enter_async_context(self.client)
        if self.target.kind is EngineKind.SERVER:
            await self._until_reachable()
        if self.target.kind is not EngineKind.EMBEDDED and not self._settings.skip_model_check:
            await self._check()
        if self.target.kind is not EngineKind.EMBEDDED:
            await self._govern()
        elif self.engine is not None:
            self._keep(self._restart_if_frozen(self.engine))
        self.answered_by = await self._told()

    async def _told(self) -> str | None:
        """The engine with its version and its GPUs, as far as they are known."""
        if self.target.kind is EngineKind.EMBEDDED:
            return f"{EngineKind.EMBEDDED} of llm_ocr {__version__}"
        version = await server_version(self.client.base_url, self.client.headers)
        if version is None:
            return None
        gpus = Counter(gpu.name for gpu in self.target.gpus)
        on = ", ".join(f"{count} x {name}" for name, count in gpus.items())
        return f"vLLM {version} on {on}" if on else f"vLLM {version}"

    def _command(self) -> EngineCommand | None:
        settings, target = self._settings, self.target
        if target.kind is EngineKind.SERVER:
            return None
        if target.kind is EngineKind.EMBEDDED:
            check_installed()
            return embedded_command(settings.engine_threads)
        profile = target.reader.profile
        command = vllm_command(profile, target.gpus, vllm_options(settings))
        warning = check_version(profile, vllm_version(command.argv[0]))
        if warning:
            self._notify(Note(warning))
        return command

    async def _until_reachable(self) -> None:
        """Wait for a server that is starting: it refuses connections, or answers 503."""
        patience = self._settings.ready_timeout or SERVER_READY_SECONDS
        give_up = time.monotonic() + patience
        told = False
        while not await answers(self.client.base_url, self.client.headers):
            if time.monotonic() > give_up:
                raise EngineFailedError(
                    f"no response from {self.client.base_url} within {patience:g} s; start the "
                    "server, check --base-url, or wait longer with --ready-timeout"
                )
            if not told:
                self._notify(Note(f"waiting for {self.client.base_url} (up to {patience:g} s)"))
                told = True
            await asyncio.sleep(1.0)

    async def _check(self) -> None:
        reader = self.target.reader
        self._notify(Note(f"checking {reader.model} on four known pages"))
        findings = await check(self.client, reader.profile)
        raise_if_wrong(findings, reader.model, self.client.base_url)

    async def _govern(self) -> None:
        page_tokens = self.target.reader.profile.serving.page_tokens
        governor = Governor(self.window, self.client.traffic, self._load, page_tokens)
        self._governor = governor
        if self._settings.concurrency is None:
            await governor.start()
        self._keep(self._watch(governor))

    def _keep(self, watch: Coroutine[None, None, None]) -> None:
        """Let it run until this engine_session is closed."""
        self._stack.push_async_callback(_ended, asyncio.create_task(watch))

    async def _watch(self, governor: Governor) -> None:
        """Keep the window right, and start an engine again that hangs."""
        async with asyncio.TaskGroup() as group:
            if self._settings.concurrency is None:
                group.create_task(governor.run())
            else:
                group.create_task(self._follow(governor))
            if self.engine is not None:
                group.create_task(self._restart_if_stalled(self.engine, governor))

    async def _follow(self, governor: Governor) -> None:
        while True:
            governor.last = await self._load()
            await asyncio.sleep(WATCH_SECONDS)

    async def _restart_if_stalled(self, engine: Engine, governor: Governor) -> None:
        traffic, before, since = self.client.traffic, (-1, -1, -1), time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            tokens = governor.last.generation_tokens if governor.last else 0
            now = (tokens, traffic.answers, engine.restarts)
            if now != before or not self.window.inside:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > STALL_SECONDS:
                log.warning("no token for %.0f s: restarting the engine", time.monotonic() - since)
                engine.kill()
                since = time.monotonic()

    async def _restart_if_frozen(self, engine: Engine) -> None:
        """As `_restart_if_stalled`, for the embedded engine, which counts no tokens: a page may
        take long on a slow machine, and the engine still serves its metrics then."""
        traffic, before, since = self.client.traffic, (-1, -1), time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = (traffic.answers, engine.restarts)
            silent = time.monotonic() - since
            if now != before or not self.window.inside or engine.is_down:
                before, since = now, time.monotonic()
            elif silent > self._settings.request_timeout or (
                silent > STALL_SECONDS and await self._load() is None
            ):
                log.warning("no answer for %.0f s: restarting the embedded engine", silent)
                engine.kill()
                since = time.monotonic()

    async def _load(self) -> ServerLoad | None:
        return await scrape(self.client.base_url, self.client.headers)

    async def _recover(self, since: float) -> bool:
        return self.engine is not None and await self.engine.revive(since)


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


def _first_window(settings: Settings, target: EngineTarget) -> int:
    if target.kind is not EngineKind.EMBEDDED:
        return BLIND_START
    # One being read on each core, and one waiting behind it.
    return 2 * (settings.engine_threads or available_cores())

"""The server that a run asks: one that runs already, or an engine of its own."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from llm_ocr.engines.embedded.command import MODEL_NAME, available_cores, embedded_command
from llm_ocr.engines.launch import Engine
from llm_ocr.inference.client import Answer, ChatClient, ChatRequest, EngineFailedError
from llm_ocr.pipeline.events import Note, Notify
from llm_ocr.settings import Settings

EXTERNAL_WINDOW = 32


def model_asked(settings: Settings) -> str:
    """The name of the model that answers, which its rows carry."""
    if settings.base_url is None:
        return MODEL_NAME
    return settings.served_model or settings.profile.model


class Asker:
    """`ask` puts a request to the server; the first one starts it, if it is ours to start."""

    def __init__(self, settings: Settings, log_dir: Path, notify: Notify) -> None:
        self._settings, self._log_dir, self._notify = settings, log_dir, notify
        self._stack = AsyncExitStack()
        self._starting = asyncio.Lock()
        self._client: ChatClient | None = None
        self._engine: Engine | None = None
        self._failure: EngineFailedError | None = None

    @property
    def window(self) -> int:
        """Requests in flight at most."""
        if self._settings.concurrency is not None:
            return self._settings.concurrency
        if self._settings.base_url is not None:
            return EXTERNAL_WINDOW
        # One being read on each core, and one waiting behind it.
        return 2 * (self._settings.engine_threads or available_cores())

    @property
    def retries(self) -> int:
        return self._client.retries if self._client else 0

    @property
    def restarts(self) -> int:
        return self._engine.restarts if self._engine else 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def ask(self, request: ChatRequest) -> Answer:
        """As `ChatClient.ask`."""
        async with self._starting:
            if self._failure is not None:
                raise self._failure
            client = self._client or await self._start()
        answer = await client.ask(request)
        if self._engine is not None:
            self._engine.answered()
        return answer

    async def _start(self) -> ChatClient:
        settings = self._settings
        key = settings.api_key
        if settings.base_url is None:
            try:
                self._engine = await self._launch()
            except EngineFailedError as error:
                self._failure = error
                raise
        client = ChatClient(
            self._engine.base_url if self._engine else str(settings.base_url),
            model_asked(settings),
            window=self.window,
            api_key=None if key is None else key.get_secret_value(),
            timeout=settings.request_timeout,
            recover=self._engine.revive if self._engine else None,
        )
        self._client = await self._stack.enter_async_context(client)
        return client

    async def _launch(self) -> Engine:
        self._notify(Note("starting the embedded engine"))
        command = embedded_command(self._settings.engine_threads)
        engine = Engine(command, self._log_dir / "engine.log")
        return await self._stack.enter_async_context(engine)

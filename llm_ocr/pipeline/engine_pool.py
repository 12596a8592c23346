"""Hold the engines that a run uses: one target per stage, and its fallbacks."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from llm_ocr.engines.embedded.command import is_installed
from llm_ocr.models.catalog import profile_named
from llm_ocr.pipeline.engine_session import EngineSession, Observe
from llm_ocr.pipeline.engine_targets import EMBEDDED_TARGET, EngineKind, EngineTarget
from llm_ocr.pipeline.events import Notify
from llm_ocr.pipeline.retry_ladder import Endpoint, FallbackEndpoint, RetryLadder
from llm_ocr.settings import Fallback, Settings
from llm_ocr.stages.stage import ModelRef

# A fallback is not worth a long wait.
STAND_IN_READY_SECONDS = 120.0


class EnginePool:
    """Holds the session of the stage that runs, and fallbacks once they were needed.

    Two engines don't fit one GPU: that of the last stage ends before another starts.
    """

    def __init__(self, settings: Settings, log_dir: Path, notify: Notify, observe: Observe) -> None:
        self._settings, self._log_dir = settings, log_dir
        self._notify, self._observe = notify, observe
        self._stack, self._main_stack = AsyncExitStack(), AsyncExitStack()
        self._main: EngineSession | None = None
        self._stand_ins: dict[EngineKind, EngineSession] = {}
        self._ended: list[EngineSession] = []
        self._choosing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._main_stack.aclose()
        finally:
            await self._stack.aclose()

    def __iter__(self) -> Iterator[EngineSession]:
        """All engine_pool so far."""
        yield from self._ended
        yield from self._stand_ins.values()
        if self._main is not None:
            yield self._main

    async def engine_session(self, target: EngineTarget) -> EngineSession:
        """The one that asks `target`; another that was in use before is closed."""
        if self._main is not None and self._main.target == target:
            return self._main
        await self._main_stack.aclose()
        if self._main is not None:
            self._ended.append(self._main)
        self._main = await self._main_stack.enter_async_context(self._made(self._settings, target))
        return self._main

    def ladder(self, engine_session: EngineSession, stage: str) -> RetryLadder:
        """Who reads the items of a stage."""
        fallback_endpoints: list[FallbackEndpoint] = []
        settings, kind = self._settings, engine_session.target.kind
        if settings.fallback_base_url is not None:
            fallback_endpoints.append(self._other_model)
        if stage == "extract":
            if settings.fallback in (Fallback.AUTO, Fallback.TEXT_LAYER):
                fallback_endpoints.append(None)
            wanted = settings.fallback is Fallback.EMBEDDED or (
                settings.fallback is Fallback.AUTO and is_installed()
            )
            if wanted and kind is not EngineKind.EMBEDDED:
                fallback_endpoints.append(self._embedded)
        return RetryLadder(
            Endpoint(engine_session.target.reader, engine_session.ask), fallback_endpoints
        )

    def _made(self, settings: Settings, target: EngineTarget) -> EngineSession:
        return EngineSession(settings, target, self._log_dir, self._notify, self._observe)

    async def _other_model(self) -> Endpoint:
        settings = self._settings
        profile = profile_named(settings.fallback_model or settings.model)
        reader = ModelRef(profile, profile.model)
        return await self._way(EngineTarget(reader, EngineKind.SERVER, settings.fallback_base_url))

    async def _embedded(self) -> Endpoint:
        return await self._way(EMBEDDED_TARGET)

    @property
    def _for_stand_in(self) -> Settings:
        """The run's settings, less what is meant for the main model and its server."""
        changes = {
            "concurrency": None,
            "api_key": self._settings.fallback_api_key,
            "skip_model_check": True,
            "ready_timeout": STAND_IN_READY_SECONDS,
        }
        return self._settings.model_copy(update=changes)

    async def _way(self, target: EngineTarget) -> Endpoint:
        async with self._choosing:
            if target.kind not in self._stand_ins:
                engine_session = self._made(self._for_stand_in, target)
                self._stand_ins[target.kind] = await self._stack.enter_async_context(engine_session)
            engine_session = self._stand_ins[target.kind]
        return Endpoint(target.reader, engine_session.ask)

"""All whom a run asks: one target a stage, and those who stand in for it."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from llm_ocr.engines.embedded.command import is_installed
from llm_ocr.models.catalog import profile_named
from llm_ocr.pipeline.asking import Asker, Observe
from llm_ocr.pipeline.climbing import Climber, StandIn, Way
from llm_ocr.pipeline.events import Notify
from llm_ocr.pipeline.targets import EMBEDDED_TARGET, EngineKind, Target
from llm_ocr.settings import Fallback, Settings
from llm_ocr.stages.stage import Reader

# A stand-in is no reason to wait long.
STAND_IN_READY_SECONDS = 120.0


class Askers:
    """Holds the asker of the stage that runs, and the stand-ins once they were needed.

    Two engines don't fit one GPU: that of the last stage ends before another starts.
    """

    def __init__(self, settings: Settings, log_dir: Path, notify: Notify, observe: Observe) -> None:
        self._settings, self._log_dir = settings, log_dir
        self._notify, self._observe = notify, observe
        self._stack, self._main_stack = AsyncExitStack(), AsyncExitStack()
        self._main: Asker | None = None
        self._stand_ins: dict[EngineKind, Asker] = {}
        self._ended: list[Asker] = []
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

    def __iter__(self) -> Iterator[Asker]:
        """All askers so far."""
        yield from self._ended
        yield from self._stand_ins.values()
        if self._main is not None:
            yield self._main

    async def asker(self, target: Target) -> Asker:
        """The one that asks `target`; another that was in use before is closed."""
        if self._main is not None and self._main.target == target:
            return self._main
        await self._main_stack.aclose()
        if self._main is not None:
            self._ended.append(self._main)
        self._main = await self._main_stack.enter_async_context(self._made(self._settings, target))
        return self._main

    def climber(self, asker: Asker, stage: str) -> Climber:
        """Who reads the items of a stage."""
        stand_ins: list[StandIn] = []
        settings, kind = self._settings, asker.target.kind
        if settings.fallback_base_url is not None:
            stand_ins.append(self._other_model)
        if stage == "extract":
            if settings.fallback in (Fallback.AUTO, Fallback.TEXT_LAYER):
                stand_ins.append(None)
            wanted = settings.fallback is Fallback.EMBEDDED or (
                settings.fallback is Fallback.AUTO and is_installed()
            )
            if wanted and kind is not EngineKind.EMBEDDED:
                stand_ins.append(self._embedded)
        return Climber(Way(asker.target.reader, asker.ask), stand_ins)

    def _made(self, settings: Settings, target: Target) -> Asker:
        return Asker(settings, target, self._log_dir, self._notify, self._observe)

    async def _other_model(self) -> Way:
        settings = self._settings
        profile = profile_named(settings.fallback_model or settings.model)
        reader = Reader(profile, profile.model)
        return await self._way(Target(reader, EngineKind.SERVER, settings.fallback_base_url))

    async def _embedded(self) -> Way:
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

    async def _way(self, target: Target) -> Way:
        async with self._choosing:
            if target.kind not in self._stand_ins:
                asker = self._made(self._for_stand_in, target)
                self._stand_ins[target.kind] = await self._stack.enter_async_context(asker)
            asker = self._stand_ins[target.kind]
        return Way(target.reader, asker.ask)

"""Keep a replica running: launch its engine, restart it, and probe whether it works."""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from llm_ocr.engines.gpu import find_gpus
from llm_ocr.engines.launch import Engine, EngineCommand, probe_page
from llm_ocr.engines.memory import MemoryGuard
from llm_ocr.engines.targets import EMBEDDED_TARGET, EngineKind, EngineTarget, engine_command
from llm_ocr.inference.model_item import ModelRef
from llm_ocr.inference.responses import EngineFailedError, EngineNotInstalledError
from llm_ocr.messages import ProblemCode
from llm_ocr.models.catalog import profile_named
from llm_ocr.router.config import ProbeKind, ReplicaConfig
from llm_ocr.router.replicas import Replica
from llm_ocr.settings import EngineChoice

# Seconds between two looks at whether a replica must be probed, and before an engine that failed to
# start is started again.
LOOK_SECONDS, RELAUNCH_SECONDS = 1.0, 30.0
PROBE_TOKENS = 16

Notify = Callable[[str], None]


@dataclass(frozen=True)
class ReplicaSupervisor:
    """Keeps one replica running until it is cancelled. `probe_timeout` is in seconds.

    A replica becomes ready with its first answer to a probe. One that is ready and has answered
    nothing for `probe_seconds` is probed while it is idle: a busy one is judged by its requests.
    """

    replica: Replica
    config: ReplicaConfig
    # The name of its model profile, if it has one.
    profile: str | None
    probe: ProbeKind
    probe_seconds: float
    probe_timeout: float
    session: aiohttp.ClientSession
    memory: MemoryGuard
    log_path: Path
    notify: Notify

    async def run(self) -> None:
        """Raises EngineNotInstalledError if its engine isn't installed."""
        if self.config.engine is None:
            await self._probe_repeatedly()
        while True:
            try:
                await self._run_engine()
            except EngineNotInstalledError:
                raise
            except EngineFailedError as error:
                self.notify(f"{self.replica.name}: {error}")
                self.replica.record_failure(is_down=True)
            await asyncio.sleep(RELAUNCH_SECONDS)

    async def _run_engine(self) -> None:
        """Run the engine, and restart it when it dies. Raises EngineFailedError if that fails."""
        command = await asyncio.to_thread(self._command)
        self.notify(f"{self.replica.name}: starting {command.name}")
        async with Engine(command, self.log_path, self.notify) as engine:
            self.replica.base_url, self.replica.engine = engine.base_url, engine
            self.replica.record_success()
            probing = asyncio.create_task(self._probe_repeatedly())
            watching = asyncio.create_task(self.memory.watch(engine, self.replica))
            try:
                while True:
                    # Takes a second while the engine runs.
                    if await engine.revive(time.monotonic()):
                        self.replica.record_success()
            finally:
                probing.cancel()
                watching.cancel()

    def _command(self) -> EngineCommand:
        options = self.config.engine_options(self.profile)
        if self.config.engine is EngineChoice.EMBEDDED:
            return engine_command(options, EMBEDDED_TARGET, self.notify)
        assert self.profile is not None, "checked when the configuration was loaded"
        found = find_gpus()
        gpus = [gpu for gpu in found if self.config.gpus is None or gpu.index in self.config.gpus]
        if self.config.gpus is not None and len(gpus) < len(set(self.config.gpus)):
            known = ", ".join(str(gpu.index) for gpu in found) or "none"
            raise EngineFailedError(
                f"there are no GPUs {self.config.gpus}; this machine's: {known}", ProblemCode.NO_GPU
            )
        profile = profile_named(self.profile)
        target = EngineTarget(ModelRef(profile, profile.model), EngineKind.VLLM, gpus=gpus)
        return engine_command(options, target, self.notify)

    async def _probe_repeatedly(self) -> None:
        replica = self.replica
        while True:
            silence = time.monotonic() - replica.last_success
            if not replica.is_ready or (replica.is_idle and silence >= self.probe_seconds):
                await self._probe_once()
            await asyncio.sleep(LOOK_SECONDS)

    async def _probe_once(self) -> None:
        replica = self.replica
        if replica.engine is not None and replica.engine.is_down:
            return
        if await self._answers():
            replica.record_success()
            return
        replica.record_failure()
        if not replica.is_ready and replica.engine is not None:
            # It runs, but doesn't answer.
            replica.engine.kill()

    async def _answers(self) -> bool:
        path, body = _probe_request(self.probe, self.replica.served_model)
        with suppress(TimeoutError, aiohttp.ClientError, OSError):
            async with self.session.request(
                "GET" if body is None else "POST",
                f"{self.replica.base_url}{path}",
                data=body,
                headers={**self.replica.headers, "Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=self.probe_timeout),
            ) as response:
                await response.read()
                return response.status == 200
        return False


def _probe_request(probe: ProbeKind, model: str) -> tuple[str, bytes | None]:
    """The path and the body of a probe's request."""
    if probe is ProbeKind.MODELS:
        return "/models", None
    if probe is ProbeKind.EMBEDDING:
        return "/embeddings", json.dumps({"model": model, "input": "ready"}).encode()
    content: object = "Answer with one word: ready"
    if probe is ProbeKind.PAGE:
        url = f"data:image/jpeg;base64,{base64.b64encode(probe_page()).decode()}"
        image = {"type": "image_url", "image_url": {"url": url}}
        content = [image, {"type": "text", "text": "Free OCR."}]
    message = {"role": "user", "content": content}
    body = {"model": model, "messages": [message], "max_tokens": PROBE_TOKENS}
    return "/chat/completions", json.dumps(body).encode()

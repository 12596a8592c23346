"""An engine as a subprocess: start it, wait until it answers a page, bring it back, stop it."""

import asyncio
import io
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from PIL import Image, ImageDraw, ImageFont

from llm_ocr.inference.client import ChatClient, ChatRequest, EngineFailedError
from llm_ocr.inference.retry import RetryPolicy
from llm_ocr.records import PageError

log = logging.getLogger(__name__)

# Restarts without one answer between them; at the next death the engine is given up.
MAX_RESTARTS = 5


@dataclass(frozen=True)
class EngineCommand:
    """What to run: the arguments before `--host` and `--port`, and the model it will serve.

    `parallel` is how many requests it works on at once; `ready_timeout` is in seconds.
    """

    argv: Sequence[str]
    model: str
    parallel: int
    ready_timeout: float = 120.0


class Engine:
    """A running engine. `async with Engine(command, log_path) as engine: engine.base_url`.

    Leaves no process behind, however this one ends: a supervisor holds a pipe to it.
    """

    def __init__(self, command: EngineCommand, log_path: Path) -> None:
        self.command = command
        self.log_path = log_path
        self.restarts = 0
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._reviving = asyncio.Lock()
        self._died_at = 0.0
        self._deaths_in_a_row = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def answered(self) -> None:
        """Note that a page was answered: the engine works, whatever killed it before."""
        self._deaths_in_a_row = 0

    async def revive(self, since: float) -> bool:
        """True if the engine died after `since` (`time.monotonic()`), once it is up again.

        False if it is running and was not restarted since then. Raises EngineFailedError after
        `MAX_RESTARTS` deaths in a row.
        """
        async with self._reviving:
            # The supervisor needs a moment to see its child's end that the client saw first.
            if self._died_at <= since and not await self._has_ended():
                return False
            if self._died_at > since:
                return True
            self._died_at = time.monotonic()
            self._deaths_in_a_row += 1
            if self._deaths_in_a_row > MAX_RESTARTS:
                raise EngineFailedError(
                    f"the engine died {self._deaths_in_a_row} times in a row{self._last_words()}"
                )
            log.warning("the engine died; starting it again%s", self._last_words(3))
            self.restarts += 1
            await self.stop()
            await self._start()
            return True

    async def stop(self) -> None:
        """End the engine and all its processes; returns when they are gone."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.to_thread(process.wait)

    async def _has_ended(self) -> bool:
        for _ in range(20):
            if self._process is None or self._process.poll() is not None:
                return True
            await asyncio.sleep(0.05)
        return False

    async def _start(self) -> None:
        argv = [*self.command.argv, "--host", "127.0.0.1", "--port", str(self._port)]
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log_file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "llm_ocr.engines.supervisor", *argv],
                stdin=subprocess.PIPE,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        await self._until_ready()

    async def _until_ready(self) -> None:
        """Wait until a page is answered: `/health` may be 200 long before, or while it hangs."""
        give_up = time.monotonic() + self.command.ready_timeout
        patient = RetryPolicy(attempts=1)
        client = ChatClient(self.base_url, self.command.model, window=1, retry=patient)
        async with client:
            while True:
                try:
                    await client.ask(ChatRequest("Free OCR.", _probe_page(), 16))
                except EngineFailedError:
                    self._raise_if_ended()
                except PageError as error:
                    raise EngineFailedError(
                        f"the engine can't read a test page: {error}{self._last_words()}"
                    ) from error
                else:
                    return
                if time.monotonic() > give_up:
                    raise EngineFailedError(
                        f"the engine answered no page within {self.command.ready_timeout:g} s"
                        f"{self._last_words()}"
                    )
                await asyncio.sleep(0.1)

    def _raise_if_ended(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise EngineFailedError(f"the engine ended before it was ready{self._last_words()}")

    def _last_words(self, lines: int = 12) -> str:
        tail = self.log_path.read_text(errors="replace").splitlines()[-lines:]
        return f". Its log ({self.log_path}) ends with:\n" + "\n".join(f"  {line}" for line in tail)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _probe_page() -> bytes:
    """A small page with a line of text, larger than 640 px, below which some vLLM versions die."""
    image = Image.new("RGB", (720, 240), "white")
    font = ImageFont.load_default(size=40)
    ImageDraw.Draw(image).text((40, 90), "Ready when this line is read.", fill="black", font=font)
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=90)
    return sink.getvalue()

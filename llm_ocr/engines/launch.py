"""Run an engine as a subprocess: start it, wait until it answers a page, restart it, stop it."""

import asyncio
import io
import logging
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from PIL import Image, ImageDraw, ImageFont

from llm_ocr.engines.failures import STARTED, diagnose
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import EngineFailedError, EngineNotInstalledError
from llm_ocr.records import PageError
from llm_ocr.retry import RetryPolicy

log = logging.getLogger(__name__)

# Restarts without one answer between them; at the next death the engine is given up.
MAX_RESTARTS = 5
# Seconds before the second restart in a row, doubled at each further one.
FIRST_PAUSE = 2.0
# Seconds between two reports of an engine that is starting.
REPORT_SECONDS = 15.0
# Engines get ports below those that systems hand out by themselves, which may be another process's
# a moment later. If one is taken all the same, so many are tried.
PORTS = range(20_000, 30_000)
PORTS_TRIED = 3
# Seconds between two looks at whether an engine takes connections; twice none is its end.
LOOK_SECONDS = 2.0


@dataclass(frozen=True)
class EngineCommand:
    """What to run: its name for messages, its arguments before `--host` and `--port`, the model.

    `env` is laid over this process's environment; `ready_timeout` is in seconds. `not_installed` is
    the exit code, if any, by which the command says that something it needs isn't installed.
    """

    name: str
    argv: Sequence[str]
    model: str
    ready_timeout: float = 120.0
    env: Mapping[str, str] = field(default_factory=dict)
    not_installed: int | None = None


class Engine:
    """A running engine. `async with Engine(command, log_path) as engine: engine.base_url`.

    Leaves no process behind, however this one ends: a supervisor holds a pipe to it.
    """

    def __init__(
        self, command: EngineCommand, log_path: Path, report: Callable[[str], None] | None = None
    ) -> None:
        self.command = command
        self.log_path = log_path
        self.restarts = 0
        self.downtime_seconds = 0.0
        self._report = report or log.info
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._reviving = asyncio.Lock()
        self._died_at = 0.0
        self._deaths_in_a_row = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def is_down(self) -> bool:
        """Whether it died, or was stopped to be restarted, and is not up again yet."""
        return self._reviving.locked()

    @property
    def pid(self) -> int | None:
        """The process at the top of all that it started; None where there is none now."""
        return None if self._process is None else self._process.pid

    async def __aenter__(self) -> Self:
        for left in reversed(range(PORTS_TRIED)):
            try:
                await self._start()
                break
            except BaseException as error:
                await self.stop()
                # Who answers there, or keeps the engine from it, is another process.
                is_taken = isinstance(error, EngineFailedError) and not _is_free(self._port)
                if not is_taken or not left:
                    raise
                self._port = _free_port()
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
        # The supervisor needs a moment to see its child's end that the client saw first.
        # One that is down is waited for, as a start takes longer than all attempts of a request.
        if self._died_at <= since and not self.is_down and not await self._has_ended():
            return False
        async with self._reviving:
            if self._died_at > since:
                return True
            if not self._is_over:
                # It was being started again when the request was sent.
                return False
            self._died_at = time.monotonic()
            self._deaths_in_a_row += 1
            if self._deaths_in_a_row > MAX_RESTARTS:
                raise self._failure(
                    f"{self.command.name} died {self._deaths_in_a_row} times in a row"
                )
            log.warning("%s died; restarting it%s", self.command.name, diagnose(self.log_path))
            self.restarts += 1
            await self.stop()
            if self._deaths_in_a_row > 1:
                await asyncio.sleep(FIRST_PAUSE * 2 ** (self._deaths_in_a_row - 2))
            await self._start()
            self.downtime_seconds += time.monotonic() - self._died_at
            return True

    async def restart(self) -> float:
        """Stop it and start it again, though it works; returns the seconds that this took.

        Requests in flight are cut off, and `revive` is true for them. Raises EngineFailedError.
        """
        async with self._reviving:
            self._died_at = time.monotonic()
            self.restarts += 1
            await self.stop()
            await self._start()
            seconds = time.monotonic() - self._died_at
            self.downtime_seconds += seconds
            return seconds

    def kill(self) -> None:
        """End it as if it had died, because it hangs: whoever asks next starts it again."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def stop(self) -> None:
        """End the engine and all its processes; returns when they are gone. One that was canceled
        before may be called again."""
        process = self._process
        if self._watching is not None:
            self._watching.cancel()
        if process is None:
            return
        assert process.stdin is not None
        if not process.stdin.closed:
            process.stdin.close()
        await asyncio.to_thread(process.wait)
        if self._process is process:
            self._process = None

    async def _has_ended(self) -> bool:
        process = self._process
        if process is not None and process.stdin is not None and process.stdin.closed:
            await asyncio.to_thread(process.wait)
        for _ in range(20):
            if self._is_over:
                return True
            await asyncio.sleep(0.05)
        return False

    @property
    def _is_over(self) -> bool:
        return self._process is None or self._process.poll() is not None

    async def _start(self) -> None:
        argv = [*self.command.argv, "--host", "127.0.0.1", "--port", str(self._port)]
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log_file:
            log_file.write(STARTED.encode())
            log_file.flush()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "llm_ocr.engines.supervisor", *argv],
                stdin=subprocess.PIPE,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(self.command.env),
            )
        await self._until_ready()
        self._watching = asyncio.create_task(self._kill_when_deaf())

    async def _kill_when_deaf(self) -> None:
        """End an engine that runs but takes no connections any more.

        vLLM, sent SIGTERM while it reads pages, ends its workers and then waits for the requests
        in flight, which nobody is left to answer (0.32: for as long as the client waits).
        """
        refused = 0
        while refused < 2:
            await asyncio.sleep(LOOK_SECONDS)
            refused = 0 if await self._listens() else refused + 1
        self.kill()

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.close()
        return True

    async def _until_ready(self) -> None:
        """Wait until a page is answered: `/health` may be 200 long before, or while it hangs."""
        began = reported = time.monotonic()
        name, patience = self.command.name, self.command.ready_timeout
        once = RetryPolicy(attempts=1, busy_seconds=0)
        client = ChatClient(
            self.base_url,
            self.command.model,
            limiter=ConcurrencyLimiter(1),
            # One that takes the page and never answers is as little ready as one that is not there.
            timeout=min(600.0, patience),
            retry=once,
        )
        async with client:
            while True:
                try:
                    await client.ask(ChatRequest("Free OCR.", probe_page(), 16))
                except EngineFailedError:
                    self._raise_if_ended()
                except PageError as error:
                    raise self._failure(f"{name} can't read a test page: {error}") from error
                else:
                    return
                now = time.monotonic()
                if now > began + patience:
                    raise self._failure(f"{name} answered no page within {patience:g} s")
                if now > reported + REPORT_SECONDS:
                    reported = now
                    self._report(f"{name} is starting, {now - began:.0f} s: {self._last_line()}")
                await asyncio.sleep(0.1)

    def _raise_if_ended(self) -> None:
        if self._is_over:
            failure = self._failure(f"{self.command.name} ended before it was ready")
            ended = None if self._process is None else self._process.returncode
            if ended is not None and ended == self.command.not_installed:
                raise EngineNotInstalledError(str(failure), failure.code)
            raise failure

    def _failure(self, what: str) -> EngineFailedError:
        """The error that says what happened, and why as far as the log tells."""
        found = diagnose(self.log_path)
        return EngineFailedError(f"{what}{found}", found.code)

    def _last_line(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()
        return lines[-1][-120:] if lines else ""


def _environment(changes: Mapping[str, str]) -> dict[str, str]:
    # vLLM with several API servers adds up what they write into a folder of its own. With this
    # variable it would take a folder that others use, and that counts what ended engines wrote.
    inherited = {k: v for k, v in os.environ.items() if k != "PROMETHEUS_MULTIPROC_DIR"}
    # Python files beside the documents are nobody's modules, nor their processes'.
    return {**inherited, "PYTHONSAFEPATH": "1", **changes}


def _free_port() -> int:
    return next(filter(_is_free, random.sample(PORTS, len(PORTS))))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Connections that have ended don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@cache
def probe_page() -> bytes:
    """A small page with a line of text, larger than 640 px, below which some vLLM versions die."""
    image = Image.new("RGB", (720, 240), "white")
    font = ImageFont.load_default(size=40)
    ImageDraw.Draw(image).text((40, 90), "Ready when this line is read.", fill="black", font=font)
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=90)
    return sink.getvalue()

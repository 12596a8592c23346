import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from aiohttp import web

from llm_ocr.engines import launch
from llm_ocr.engines.failures import STARTED
from llm_ocr.engines.launch import Engine, EngineCommand
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import EngineFailedError
from tests.servers.chat import refusal

CHAT = [sys.executable, "-m", "tests.servers.chat"]
COMMAND = EngineCommand("the engine", CHAT, "deepseek-ai/DeepSeek-OCR", ready_timeout=30)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


def engine_processes(engine: Engine) -> list[psutil.Process]:
    """The supervisor and the engine behind it, found by the engine's port."""
    port = engine.base_url.split(":")[2].split("/")[0]
    return [
        process
        for process in psutil.process_iter()
        if process.is_running() and port in _command_line(process)
    ]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


async def test_engine_is_ready_when_it_answers_and_stops_without_leftovers(
    tmp_path: Path,
) -> None:
    async with Engine(COMMAND, tmp_path / "logs" / "engine.log") as engine:
        async with ChatClient(
            engine.base_url, COMMAND.model, limiter=ConcurrencyLimiter(1)
        ) as client:
            assert (await client.ask(ChatRequest("Free OCR.", b"x", 10))).text
        assert len(engine_processes(engine)) == 2
    assert engine_processes(engine) == []


async def test_killed_engine_is_revived_once_for_all_clients(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with Engine(COMMAND, tmp_path / "engine.log") as engine:
        before = loop.time()
        assert await engine.revive(before) is False
        for process in engine_processes(engine):
            if "supervisor" not in " ".join(process.cmdline()):
                process.send_signal(signal.SIGKILL)
        assert await asyncio.gather(*(engine.revive(before) for _ in range(3))) == [True] * 3
        assert engine.restarts == 1
        async with ChatClient(
            engine.base_url, COMMAND.model, limiter=ConcurrencyLimiter(1)
        ) as client:
            assert (await client.ask(ChatRequest("Free OCR.", b"x", 10))).text
    assert engine_processes(engine) == []


async def test_engine_does_not_write_metrics_into_the_folder_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    async with Engine(COMMAND, tmp_path / "engine.log") as engine:
        for process in engine_processes(engine):
            assert "PROMETHEUS_MULTIPROC_DIR" not in process.environ()
            assert process.environ()["PATH"] == os.environ["PATH"]


SLOW = """
import pathlib, runpy, sys, time
started, may_start = map(pathlib.Path, (sys.argv.pop(1), sys.argv.pop(1)))
while started.exists() and not may_start.exists():
    time.sleep(0.01)
started.touch()
runpy.run_module("tests.servers.chat", run_name="__main__", alter_sys=True)
"""


async def test_requests_wait_while_the_engine_restarts(tmp_path: Path) -> None:
    may_start = tmp_path / "may start"
    argv = [sys.executable, "-c", SLOW, str(tmp_path / "started"), str(may_start)]
    loop = asyncio.get_running_loop()
    log_path = tmp_path / "engine.log"
    async with Engine(EngineCommand("slow", argv, "m"), log_path) as engine:
        before = loop.time()
        for process in engine_processes(engine):
            if "supervisor" not in " ".join(process.cmdline()):
                process.send_signal(signal.SIGKILL)
        first = asyncio.create_task(engine.revive(before))
        await until(lambda: log_path.read_text().count(STARTED) == 2)
        await until(lambda: len(engine_processes(engine)) == 2)
        late = asyncio.create_task(engine.revive(loop.time()))
        # For longer than it takes to be sure that a running engine has not ended.
        done, _ = await asyncio.wait({late}, timeout=1.5)
        assert not done
        may_start.touch()
        assert await first is True
        assert await late is False, "its request was sent after the death"
        assert engine.restarts == 1


async def test_no_process_is_left_when_a_restart_is_canceled(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    stubborn += "import asyncio, tests.servers.chat as chat; asyncio.run(chat.main())"
    command = EngineCommand("the engine", [sys.executable, "-c", stubborn], COMMAND.model)
    async with Engine(command, tmp_path / "engine.log") as engine:
        [_, server] = sorted(engine_processes(engine), key=lambda one: one.pid)
        restarting = asyncio.create_task(engine.restart())
        await until(lambda: engine.is_down)
        restarting.cancel()
        await asyncio.wait({restarting})
        await until(lambda: not engine.is_down)
        server.kill()
    assert engine_processes(engine) == []


@pytest.mark.parametrize("answers", [True, False], ids=["it answers", "it is silent"])
async def test_engine_gets_another_port_when_its_own_is_taken(
    tmp_path: Path, answers: bool
) -> None:
    engine = Engine(COMMAND, tmp_path / "engine.log")
    taken = engine.base_url

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if not answers:
            assert request.transport is not None
            request.transport.abort()
        return refusal(500, "Server got itself in trouble")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    port = int(taken.split(":")[2].split("/")[0])
    await web.TCPSite(runner, "127.0.0.1", port).start()
    async with engine:
        assert engine.base_url != taken
    await runner.cleanup()


async def test_engine_that_exits_at_once_shows_its_last_log_lines(tmp_path: Path) -> None:
    script = "import sys; print('CUDA out of memory'); sys.exit(1)"
    command = EngineCommand("the engine", [sys.executable, "-c", script], "m")
    with pytest.raises(EngineFailedError, match=r"ended before it was ready[\s\S]*CUDA out of"):
        async with Engine(command, tmp_path / "engine.log"):
            pass


async def test_engine_that_crashes_repeatedly_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "FIRST_PAUSE", 0.01)
    async with Engine(COMMAND, tmp_path / "engine.log") as engine:
        with pytest.raises(EngineFailedError, match="died 6 times in a row"):
            while True:
                since = asyncio.get_running_loop().time()
                for process in engine_processes(engine):
                    if "supervisor" not in " ".join(process.cmdline()):
                        process.send_signal(signal.SIGKILL)
                await engine.revive(since)
        assert engine.restarts == 5


PARENT = """
import asyncio, sys
from pathlib import Path
from llm_ocr.engines.launch import Engine
from tests.engines.test_launch import COMMAND

async def main():
    async with Engine(COMMAND, Path(sys.argv[1])) as engine:
        print(engine.base_url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_no_process_is_left_when_the_parent_dies(
    tmp_path: Path, number: signal.Signals
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), str(tmp_path / "engine.log")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert parent.stdout is not None
    url = parent.stdout.readline().decode().strip()
    port = url.split(":")[2].split("/")[0]

    def left() -> list[psutil.Process]:
        return [one for one in psutil.process_iter() if port in _command_line(one)]

    assert len(left()) == 2
    parent.send_signal(number)
    parent.wait(30)
    await until(lambda: not left())


async def test_engine_children_that_ignore_sigterm_are_killed(tmp_path: Path) -> None:
    """As vLLM's workers may be: the whole process group goes."""
    stubborn = textwrap.dedent(
        """
        import signal, subprocess, sys
        child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
        child += "print('up', flush=True)\\nwhile True: time.sleep(60)"
        worker = subprocess.Popen([sys.executable, "-c", child, *sys.argv], stdout=subprocess.PIPE)
        worker.stdout.readline()
        import tests.servers.chat as chat, asyncio
        asyncio.run(chat.main())
        """
    )
    command = EngineCommand("the engine", [sys.executable, "-c", stubborn], COMMAND.model)
    async with Engine(command, tmp_path / "engine.log") as engine:
        assert len(engine_processes(engine)) == 3
    await until(lambda: not engine_processes(engine))

"""Commands as processes that have the libraries loaded when they begin.

`run_module("llm_ocr", "run", ...)` does what `python -m llm_ocr run ...` does, in a process forked
from one that has imported what commands import, which is most of their start: libraries, and
llm_ocr's own modules, none of which reads the environment when it is imported. Tests of the start
itself use `subprocess`.
"""

import atexit
import contextlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, NoReturn

LIBRARIES = (
    *("numpy", "pyarrow", "pyarrow.parquet", "PIL.Image", "pydantic", "pydantic_settings"),
    *("aiohttp", "aiohttp.web", "typer", "rich.console", "rich.progress", "rich.table"),
    *("yaml", "rapidfuzz", "prometheus_client", "urllib.request", "jsonschema", "openai"),
)
# Loaded later, as most commands don't need them.
OF_PLATFORMS = ("boto3", "google.cloud.run_v2")
OF_SERVICE = ("sqlalchemy.dialects.sqlite", "alembic.command", "fastapi", "uvicorn")
OF_RUNS = ("llm_ocr.cli.commands", "llm_ocr.batch.worker", "llm_ocr.inference.client")


def run_module(
    module: str,
    *arguments: object,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    timeout: float = 300,
) -> "subprocess.CompletedProcess[str]":
    """A module's `python -m`, to its end; raises subprocess.TimeoutExpired."""
    words = [str(one) for one in arguments]
    command = [sys.executable, "-m", module, *words]
    with tempfile.TemporaryDirectory(prefix="process-") as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        code = _server().run(
            {
                "module": module,
                "arguments": words,
                "env": dict(os.environ if env is None else env),
                "cwd": str(cwd or Path.cwd()),
                "out": str(out),
                "err": str(err),
            },
            timeout,
        )
        said = [path.read_text("utf-8", errors="replace") for path in (out, err)]
    if code is None:
        raise subprocess.TimeoutExpired(command, timeout, *said)
    return subprocess.CompletedProcess(command, code, *said)


class _Server:
    """The process that forks, and what is said to it: a command at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            env={
                **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                "OPENBLAS_NUM_THREADS": "1",
            },
            text=True,
        )
        self._process.wait()
        self._lock = threading.Lock()

    def run(self, command: Mapping[str, Any], timeout: float) -> int | None:
        """Its exit code; None if it was killed after `timeout` seconds."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            stdin.write(json.dumps(command) + "\n")
            stdin.flush()
            pid = int(stdout.readline())
            late = threading.Event()

            def end() -> None:
                late.set()
                os.kill(pid, signal.SIGKILL)

            timer = threading.Timer(timeout, end)
            timer.start()
            try:
                code = int(stdout.readline())
            except BaseException:
                # Ctrl-C: the tests end, and so does what they run.
                end()
                raise
            finally:
                timer.cancel()
        return None if late.is_set() else code


_started: list[_Server] = []


def _server() -> _Server:
    if not _started:
        _started.append(_Server())
    return _started[0]


class _NoPandas(MetaPathFinder):
    """What pyarrow's first array would import, as no command of llm_ocr lets it."""

    @classmethod
    def find_spec(cls, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def main() -> None:
    """Forks a process for each line of standard input; answers with its id, then its exit code."""
    # No child of the tests' process: some tests count those.
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.meta_path.insert(0, _NoPandas)
    for name in LIBRARIES:
        import_module(name)
    import pyarrow

    pyarrow.array([], pyarrow.null())
    sys.meta_path.remove(_NoPandas)
    for name in (*OF_PLATFORMS, *OF_SERVICE, *OF_RUNS):
        import_module(name)
    assert "huggingface_hub" not in sys.modules, "it reads the environment when it is imported"
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(json.loads(line))
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(command: Mapping[str, Any]) -> NoReturn:
    """The process that the command would be; ends with its exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(command["env"])
    os.chdir(command["cwd"])
    for number, place in ((0, os.devnull), (1, command["out"]), (2, command["err"])):
        opened = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    folders = command["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [command["cwd"], *filter(None, folders)]
    sys.argv = [command["module"], *command["arguments"]]
    code = 0
    try:
        runpy.run_module(command["module"], run_name="__main__", alter_sys=True)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")
    except BaseException:  # noqa: BLE001 - as the interpreter ends a program
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

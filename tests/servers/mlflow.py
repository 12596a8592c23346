"""A real MLflow server, with its database and its models' files in a folder."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.ports import free_port


@contextmanager
def serving_mlflow(folder: Path) -> Iterator[str]:
    """The address of a server that is gone afterwards."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{folder / 'mlflow.sqlite'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    # One that doesn't run jobs of its own, and reports nothing to its makers.
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "mlflow.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **quiet},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_healthy(url, server, folder / "mlflow.log")
        yield url
    finally:
        server.terminate()
        server.wait()


def _wait_until_healthy(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(1200):
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=10):
                return
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.1)
    raise RuntimeError(f"MLflow's server doesn't answer: {log.read_text()}")

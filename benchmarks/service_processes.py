"""A service on this machine, as separate processes that can be measured, killed and frozen.

with serving_service(folder, database_url, storage, environment) as service:
    gateway = service.start_gateway()
    worker = service.start_worker(base_url, tasks=5)
"""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks.material import ROOT
from llm_ocr.service.access import create_key
from llm_ocr.service.database import Database
from tests.servers.ports import free_port

START_SECONDS = 300.0
# What every process of the service prints when it works.
STARTED = "(press Ctrl-C to stop)"
# Longer than any grace period.
STOP_SECONDS = 60.0


class ServiceProcess:
    """A command in its own process group. After `kill` or `stop`, `start` restarts it at the same
    address."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self._command, self._environment, self._log = command, environment, log
        self.is_frozen = False
        # Whether it should run: if it has exited by itself, it is to be restarted.
        self.should_run = True
        self.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.is_frozen, self.should_run = False, True

    def kill(self) -> None:
        """Kill it and its children, frozen or not."""
        self.should_run = False
        self._signal(signal.SIGKILL)
        self._process.wait()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_frozen = False

    def stop(self, seconds: float = 30.0) -> int:
        """Send SIGTERM and wait; returns the exit code. Raises subprocess.TimeoutExpired."""
        self.should_run = False
        self._process.terminate()
        return self._process.wait(seconds)

    def restart(self) -> int:
        """Stop it, and start it again; returns the exit code, when the new process works."""
        code = self.stop(STOP_SECONDS)
        self.start()
        self.wait_for_output(STARTED)
        return code

    def wait_for_output(self, text: str) -> None:
        """Wait until it has printed `text`. Raises RuntimeError if it exits before, or after
        START_SECONDS."""
        deadline = time.monotonic() + START_SECONDS
        while text not in (output := self._output()):
            if not self.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start:\n{output[-2000:]}")
            time.sleep(0.05)

    def _output(self) -> str:
        """What it has printed since it was last started."""
        return self._log.read_bytes()[self._log_start :].decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running:
            os.killpg(self._process.pid, number)


class Service:
    """Gateways and workers that share a database and a storage; `key` is an API key."""

    def __init__(
        self, folder: Path, database_url: str, storage: str, environment: Mapping[str, str]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._environment = {
            **os.environ,
            **environment,
            "LLM_OCR_DATABASE": database_url,
            "LLM_OCR_STORAGE": storage,
            # The stub engines don't read the check pages: see `material.UNREAD`.
            "LLM_OCR_SKIP_MODEL_CHECK": "1",
            "LLM_OCR_MIN_AGREEMENT": "0",
        }
        self.database = Database(database_url)
        self.database.migrate()
        self.key = create_key(self.database)
        self.gateways: dict[str, ServiceProcess] = {}
        self.workers: list[ServiceProcess] = []
        # The inference tier and the servers of its replicas, if there is one.
        self.inference: ServiceProcess | None = None
        self.replicas: list[ServiceProcess] = []
        self._gateways_started = 0

    @property
    def processes(self) -> list[ServiceProcess]:
        tier = [] if self.inference is None else [self.inference]
        return [*self.gateways.values(), *self.workers, *tier, *self.replicas]

    def start_gateway(self, *options: str) -> str:
        """Start a gateway; returns its URL."""
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        number, self._gateways_started = self._gateways_started, self._gateways_started + 1
        gateway = self._start("gateway", number, "--port", str(port), *options)
        self.gateways[url] = gateway
        _wait_until_ready(url, gateway)
        return url

    def start_worker(self, base_url: str, *options: str, tasks: int = 5) -> ServiceProcess:
        """Start a worker that uses the engine at `base_url`."""
        (worker,) = self.start_workers(1, base_url, *options, tasks=tasks)
        return worker

    def start_workers(
        self, count: int, base_url: str, *options: str, tasks: int = 5
    ) -> list[ServiceProcess]:
        """Start several workers side by side, and wait until all of them process documents."""
        options = ("--base-url", base_url, "--tasks", str(tasks), *options)
        known = len(self.workers)
        for number in range(known, known + count):
            self.workers.append(self._start("worker", number, *options))
        for worker in self.workers[known:]:
            worker.wait_for_output(STARTED)
        return self.workers[known:]

    def start_inference(self, engine_url: str, replicas: int, **config: Any) -> str:  # noqa: ANN401
        """Start an inference tier whose replicas pass requests on to the engine at `engine_url`,
        each from a process of its own; returns its URL. `config` is for its configuration file,
        `max_concurrency` for its replicas."""
        addresses = [f"http://127.0.0.1:{free_port()}" for _ in range(replicas)]
        for number, address in enumerate(addresses, 1):
            target = (engine_url.removesuffix("/v1"), address.rpartition(":")[2])
            command = [sys.executable, "-m", "tests.servers.front", *target]
            log = self._folder / f"replica-{number}.log"
            self.replicas.append(ServiceProcess(log.stem, command, self._environment, log))
        of_replicas = {key: config.pop(key) for key in ("max_concurrency",) if key in config}
        model = {
            "probe": "text",
            "replicas": [{"base_url": f"{one}/v1", **of_replicas} for one in addresses],
        }
        path = self._folder / "inference.yaml"
        path.write_text(yaml.safe_dump({"models": {"deepseek-ocr": model}, **config}))
        port = free_port()
        options = ("--config", str(path), "--port", str(port))
        self.inference = self._start("inference", 0, *options)
        _wait_until_ready(f"http://127.0.0.1:{port}", self.inference)
        return f"http://127.0.0.1:{port}/v1"

    def replace_gateway(self, url: str) -> int:
        """Start another gateway, and stop this one when that is ready; returns its exit code."""
        self.start_gateway()
        return self.gateways.pop(url).stop(STOP_SECONDS)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        self.database.close()

    def _start(self, role: str, number: int, *options: str) -> ServiceProcess:
        command = [sys.executable, "-m", "llm_ocr", "serve", role, *options]
        name = f"{role}-{number + 1}"
        return ServiceProcess(name, command, self._environment, self._folder / f"{name}.log")


@contextmanager
def serving_service(
    folder: Path, database_url: str, storage: str, environment: Mapping[str, str]
) -> Iterator[Service]:
    """A service without processes at first; those that are started are killed at the end. `folder`
    contains their logs."""
    service = Service(folder, database_url, storage, environment)
    try:
        yield service
    finally:
        service.close()


def _wait_until_ready(url: str, gateway: ServiceProcess) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            if not gateway.is_running or time.monotonic() > deadline:
                gateway.wait_for_output(url)
                raise
            time.sleep(0.05)

"""The manifests in kubernetes/, and their containers as processes of this machine."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx2
import yaml

from tests import documents
from tests.docs.blocks import ROOT
from tests.processes import run_module
from tests.servers.ports import free_port
from tests.servers.service import KEY, ServiceApi
from tests.waiting import wait_until

FOLDER = ROOT / "kubernetes"
KUBECTL = shutil.which("kubectl") or ""

Manifest = dict[str, Any]


@cache
def read_base() -> tuple[Manifest, ...]:
    """The manifests of the base as they are in its files."""
    base = FOLDER / "base"
    names = yaml.safe_load((base / "kustomization.yaml").read_text("utf-8"))["resources"]
    texts = [(base / name).read_text("utf-8") for name in names]
    return tuple(one for text in texts for one in yaml.safe_load_all(text))


@cache
def render(folder: str) -> tuple[Manifest, ...]:
    """The manifests of a folder below kubernetes/, as `kubectl apply -k` would send them."""
    command = [KUBECTL, "kustomize", str(FOLDER / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def named(manifests: tuple[Manifest, ...], kind: str, name: str) -> Manifest:
    (found,) = (one for one in manifests if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


@dataclass
class Pod:
    """A pod's only container as a process: its command, environment and configuration files as in
    the manifests, its ports and the addresses of other pods on this machine. `secret` takes the
    place of Secrets."""

    manifest: Manifest
    folder: Path
    config_maps: Mapping[str, Mapping[str, str]]
    secret: Mapping[str, str]
    addresses: Mapping[str, str] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def spec(self) -> Manifest:
        spec: Manifest = self.manifest["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Manifest:
        (container,) = self.spec["containers"]
        found: Manifest = container
        return found

    @property
    def name(self) -> str:
        return str(self.container["name"])

    def port(self, name_or_number: str | int) -> int:
        """The port of this machine for one of the container's."""
        for one in self.container.get("ports", ()):
            if name_or_number in (one["name"], one["containerPort"]):
                return self.ports.setdefault(one["containerPort"], free_port())
        raise AssertionError(f"{self.name} has no port {name_or_number}")

    def url(self, port: str = "http") -> str:
        return f"http://127.0.0.1:{self.port(port)}"

    def start(self) -> None:
        """Start the container's command."""
        files = self.folder / self.name
        places = dict(self.addresses)
        for one in self.container.get("ports", ()):
            places[str(one["containerPort"])] = str(self.port(one["name"]))
        for mount in self.container.get("volumeMounts", ()):
            volume = next(v for v in self.spec["volumes"] if v["name"] == mount["name"])
            path = files / mount["name"]
            path.mkdir(parents=True, exist_ok=True)
            for name, text in self.config_maps.get(
                volume.get("configMap", {}).get("name", ""), {}
            ).items():
                (path / name).write_text(text, "utf-8")
            places[mount["mountPath"]] = str(path)
        program, *arguments = self.container["command"]
        assert program == "llm-ocr"
        given = [
            self.config_maps[source["configMapRef"]["name"]]
            for source in self.container.get("envFrom", ())
            if "configMapRef" in source
        ]
        environment = {name: _replace(text, places) for one in given for name, text in one.items()}
        # A gateway must be reachable by others, because it then wants a key: see its arguments.
        environment |= {"LLM_OCR_METRICS_HOST": "127.0.0.1"}
        # Of the processes without a port for metrics, which is only in the environment.
        environment |= {} if "9300" in places else {"LLM_OCR_METRICS_PORT": "0"}
        environment |= {"NO_COLOR": "1", **self.secret, "TMPDIR": str(files / "tmp")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "llm_ocr", *(_replace(word, places) for word in arguments)],
            env={
                **os.environ,
                "NO_COLOR": "1",
                **environment,
                **self.secret,
                "TMPDIR": str(files / "tmp"),
            },
            stdout=(self.folder / f"{self.name}.log").open("wb"),
            stderr=subprocess.STDOUT,
            cwd=self.folder,
        )

    def probe(self, kind: str) -> bool:
        """Whether one of the container's probes succeeds now."""
        get = self.container[f"{kind}Probe"]["httpGet"]
        try:
            response = httpx2.get(f"{self.url(get['port'])}{get['path']}", timeout=5)
        except httpx2.HTTPError:
            return False
        return response.status_code == 200

    def wait_until_started(self) -> None:
        """Wait as long as the startup probe does."""
        probe = self.container["startupProbe"]
        limit = probe["periodSeconds"] * probe["failureThreshold"]
        wait_until(lambda: self.probe("startup") or not self.is_running, limit, self.log)
        assert self.is_running, self.log()

    def wait(self, seconds: float = 120) -> int:
        """The exit code. Raises TimeoutExpired."""
        assert self._process is not None
        return self._process.wait(seconds)

    def stop(self) -> tuple[int, float]:
        """SIGTERM, as the kubelet sends it; the exit code and the seconds. Raises TimeoutExpired
        after the grace period, when the kubelet would kill it."""
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        return self.wait(self.spec["terminationGracePeriodSeconds"]), time.monotonic() - began

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text("utf-8", errors="replace")

    def kill(self) -> None:
        if self._process is not None and self.is_running:
            self._process.kill()
            self._process.wait()


def _replace(text: str, places: Mapping[str, str]) -> str:
    """The text with all places at once, the longest of those that match."""
    longest_first = sorted(places, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    return re.sub(pattern, lambda match: places[match[0]], text) if places else text


@contextmanager
def running(*pods: Pod) -> Iterator[None]:
    """Kill what is left of pods at the end."""
    try:
        yield
    finally:
        for pod in pods:
            pod.kill()


def watch_first_result(
    migrate: Pod, inference: Pod, gateway: Pod, worker: Pod, *, database: str
) -> None:
    """Start the processes in the order of the instructions, send a document, and stop them."""
    with running(migrate, inference, gateway, worker):
        migrate.start()
        assert migrate.wait() == 0, migrate.log()
        # Without a key, a gateway that others can reach doesn't start.
        options = ["--database", database, "--scopes", "documents:write,documents:read"]
        key = KEY.search(run_module("llm_ocr", "serve", "key", "create", *options).stdout)
        assert key is not None
        for one in (inference, gateway, worker):
            one.start()
        for one in (inference, gateway, worker):
            one.wait_until_started()
            assert one.probe("liveness")
            wait_until(partial(one.probe, "readiness"), describe=one.log)
        (port, *_) = gateway.ports.values()
        api = ServiceApi(f"http://127.0.0.1:{port}", key[0])
        document = api.upload(documents.pdf(gateway.folder / "a.pdf", pages=2))
        api.wait(document, "succeeded", seconds=300)
        for one in (worker, gateway, inference):
            code, _ = one.stop()
            assert code == 0, one.log()
    for one in (migrate, worker, gateway, inference):
        for line in one.log().splitlines():
            assert json.loads(line)["level"] in ("info", "warning"), line

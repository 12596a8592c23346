"""The Compose files: valid, consistent with the images and the program, and their processes run as
they say, from the first start to SIGTERM within the grace period."""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from llm_ocr.router.config import parse_config
from llm_ocr.service.settings import ServiceSettings
from tests.docs.blocks import ROOT
from tests.kubernetes.manifests import Pod, watch_first_result
from tests.waiting import wait_until

FILES = (ROOT / "compose.yaml", ROOT / "compose.gpu.yaml")
PASSWORD = "password-of-env-file"
VARIABLE = re.compile(r"\$\{(\w+):\?[^}]*\}")
# Where processes listen in their containers.
PORTS = {"migrate": (9300,), "gateway": (8300, 9300), "worker": (9300,), "inference": (8400,)}


def read(path: Path) -> Any:  # noqa: ANN401
    """The content of a file, with the password as an env file would set it."""
    text, count = VARIABLE.subn(PASSWORD, path.read_text("utf-8"))
    assert count == (2 if path == FILES[0] else 0)
    return yaml.safe_load(text)


def seconds(duration: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(s|m)", duration).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60}[unit]


@dataclass
class ComposeService(Pod):
    """A service of the Compose file as a process, with its health check."""

    healthcheck: dict[str, Any] = field(default_factory=dict)

    def probe(self, kind: str) -> bool:
        """Whether its health check succeeds now, with this Python."""
        program, *words = self.healthcheck["test"][1:]
        assert (self.healthcheck["test"][0], program) == ("CMD", "python3")
        for port in PORTS[self.name]:
            words = [word.replace(f":{port}/", f":{self.port(port)}/") for word in words]
        timeout = seconds(self.healthcheck["timeout"])
        done = subprocess.run([sys.executable, *words], capture_output=True, timeout=timeout)
        return done.returncode == 0

    def wait_until_started(self) -> None:
        """Wait as long as Docker does."""
        limit = seconds(self.healthcheck["start_period"])
        wait_until(lambda: self.probe("start") or not self.is_running, limit, self.log)
        assert self.is_running, self.log()


def as_process(name: str, folder: Path, secret: dict[str, str]) -> ComposeService:
    """A service with its command, environment and configuration files."""
    compose = read(FILES[0])
    service = compose["services"][name]
    mounts, maps = [], {}
    for one in service.get("configs", ()):
        target = Path(one["target"])
        mounts.append({"name": one["source"], "mountPath": str(target.parent)})
        maps[one["source"]] = {target.name: compose["configs"][one["source"]]["content"]}
    environment = service.get("environment", {})
    container = {
        "name": name,
        "command": [*service["entrypoint"], *service["command"]],
        "ports": [{"name": f"port-{port}", "containerPort": port} for port in PORTS[name]],
        "envFrom": [{"configMapRef": {"name": "environment"}}],
        "volumeMounts": mounts,
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": name, "configMap": {"name": name}} for name in maps],
        "terminationGracePeriodSeconds": seconds(service.get("stop_grace_period", "10s")),
    }
    return ComposeService(
        {"spec": {"template": {"spec": spec}}},
        folder,
        {**maps, "environment": environment},
        secret if environment else {},
        healthcheck=service.get("healthcheck", {}),
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_valid(path: Path) -> None:
    program = Path(sys.executable).parent / "check-jsonschema"
    command = [str(program), "--builtin-schema", "vendor.compose-spec", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_services_fit_images_settings_and_each_other() -> None:
    compose, gpu = map(read, FILES)
    services = compose["services"]
    known = {f"LLM_OCR_{name.upper()}" for name in ServiceSettings.model_fields}
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= services.keys(), name
        named = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert named <= compose["volumes"].keys(), name
        assert service["restart"] != "no", name
        if name in PORTS:
            assert service["environment"].keys() <= known if "environment" in service else True
            assert service["cap_drop"] == ["ALL"], name
            assert (ROOT / service["build"]["dockerfile"]).is_file(), name
    url = make_url(services["worker"]["environment"]["LLM_OCR_DATABASE"])
    database = services["postgresql"]["environment"]
    assert (url.username, url.password, url.database, url.host) == (
        database["POSTGRES_USER"],
        PASSWORD,
        database["POSTGRES_DB"],
        "postgresql",
    )
    # Only these can be written by the user of the images, and belong to it in a new volume.
    dockerfile = (ROOT / "containers" / "cpu.Dockerfile").read_text("utf-8")
    assert "install --directory --owner=llm-ocr /work" in dockerfile
    assert services["gateway"]["volumes"] == services["worker"]["volumes"] == ["storage:/work"]
    assert gpu["services"].keys() <= services.keys()
    assert (ROOT / gpu["services"]["inference"]["build"]["dockerfile"]).is_file()
    for file in (compose, gpu):
        config = parse_config(file["configs"]["inference"]["content"], "inference.yaml")
        grace = seconds(services["inference"]["stop_grace_period"])
        assert grace >= config.drain_seconds + 10


@pytest.mark.long
def test_services_start_work_and_stop_as_the_file_says(tmp_path: Path) -> None:
    database, storage = f"sqlite:///{tmp_path}/service.sqlite", str(tmp_path / "storage")
    secret = {"LLM_OCR_DATABASE": database, "LLM_OCR_STORAGE": storage}
    migrate, inference, gateway, worker = (
        as_process(name, tmp_path, secret) for name in ("migrate", "inference", "gateway", "worker")
    )
    worker.addresses = {"http://inference:8400": inference.url("port-8400")}
    watch_first_result(migrate, inference, gateway, worker, database=database)

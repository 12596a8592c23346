"""The processes that the manifests start: with their commands, environment, configuration and
probes, from the first start to SIGTERM within the grace period."""

from functools import partial
from pathlib import Path

import pytest

from tests import documents
from tests.kubernetes.manifests import Pod, named, read_base, running
from tests.processes import run_module
from tests.servers.service import KEY, ServiceApi
from tests.waiting import wait_until


@pytest.mark.long
def test_pods_start_work_and_stop_as_the_manifests_say(tmp_path: Path) -> None:
    manifests = read_base()
    maps = {one["metadata"]["name"]: one["data"] for one in manifests if one["kind"] == "ConfigMap"}
    database, storage = f"sqlite:///{tmp_path}/service.sqlite", str(tmp_path / "storage")
    secret = {"LLM_OCR_DATABASE": database, "LLM_OCR_STORAGE": storage}

    def pod(kind: str, name: str, **addresses: str) -> Pod:
        return Pod(named(manifests, kind, name), tmp_path, maps, secret, addresses)

    migrate, inference = pod("Job", "migrate"), pod("Deployment", "inference")
    gateway = pod("Deployment", "gateway")
    worker = pod("Deployment", "worker", **{"http://inference:8400": inference.url()})
    with running(migrate, inference, gateway, worker):
        migrate.start()
        assert migrate.wait() == 0, migrate.log()
        for one in (inference, gateway, worker):
            one.start()
        for one in (inference, gateway, worker):
            one.wait_until_started()
            assert one.probe("liveness")
            wait_until(partial(one.probe, "readiness"), describe=one.log)
        options = ["--database", database, "--scopes", "documents:write,documents:read"]
        made = run_module("llm_ocr", "serve", "key", "create", *options)
        key = KEY.search(made.stdout)
        assert key is not None
        api = ServiceApi(gateway.url(), key[0])
        document = api.upload(documents.pdf(tmp_path / "a.pdf", pages=2))
        api.wait(document, "succeeded", seconds=120)
        for one in (worker, gateway, inference):
            code, _ = one.stop()
            assert code == 0, one.log()
        logs = [one.log() for one in (worker, gateway, inference)]
    assert not any("Traceback" in log for log in logs)

"""The processes that the manifests start: with their commands, environment, configuration and
probes, from the first start to SIGTERM within the grace period."""

from pathlib import Path

import pytest

from tests.kubernetes.manifests import Pod, named, read_base, watch_first_result


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
    watch_first_result(migrate, inference, gateway, worker, database=database)

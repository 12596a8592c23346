"""The manifests in kubernetes/: valid, restricted, and consistent with the program and alerts."""

import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from llm_ocr.router.config import parse_config
from llm_ocr.service.settings import ServiceSettings
from tests.docs.blocks import ROOT
from tests.kubernetes.manifests import FOLDER, KUBECTL, Manifest, named, render

FOLDERS = ("base", "overlays/one-node", "overlays/gpu")
needs_kubectl = pytest.mark.skipif(not KUBECTL, reason="needs kubectl")


def pods(manifests: tuple[Manifest, ...]) -> list[tuple[str, Any]]:
    """The templates of pods, by kind and name."""
    return [
        (f"{one['kind']} {one['metadata']['name']}", one["spec"]["template"])
        for one in manifests
        if "template" in one.get("spec", {})
    ]


@needs_kubectl
@pytest.mark.parametrize("folder", FOLDERS)
def test_pods_may_do_little(folder: str) -> None:
    found = pods(render(folder))
    assert len(found) >= 4
    for name, template in found:
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["automountServiceAccountToken"] is False, name
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"], name
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["capabilities"] == {"drop": ["ALL"]}, name
            assert {"requests", "limits"} <= container["resources"].keys(), name


@needs_kubectl
@pytest.mark.parametrize("folder", FOLDERS)
def test_references_exist(folder: str) -> None:
    manifests = render(folder)
    existing = {(one["kind"], one["metadata"]["name"]) for one in manifests}
    if folder != "overlays/one-node":
        # The operator creates it.
        existing.add(("Secret", "llm-ocr"))
    for name, template in pods(manifests):
        spec = template["spec"]
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in existing, name
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert ("PersistentVolumeClaim", claim) in existing, name
        claims = {"data"} if "StatefulSet" in name else set()
        for container in spec["containers"]:
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted <= volumes.keys() | claims, name
            for source in container.get("envFrom", ()):
                for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
                    assert key not in source or (kind, source[key]["name"]) in existing, name
            ports = {port["name"] for port in container.get("ports", ())}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if "httpGet" in container.get(probe, {}):
                    assert container[probe]["httpGet"]["port"] in ports, name
    labels = [template["metadata"]["labels"] for _, template in pods(manifests)]
    for one in manifests:
        selector = one.get("spec", {}).get("selector", {})
        if one["kind"] in ("Service", "PodDisruptionBudget"):
            wanted = selector.get("matchLabels", selector)
            assert any(wanted.items() <= label.items() for label in labels), one["metadata"]


@needs_kubectl
@pytest.mark.parametrize("folder", FOLDERS)
def test_settings_exist_and_the_inference_tiers_file_is_valid(folder: str) -> None:
    manifests = render(folder)
    shared = named(manifests, "ConfigMap", "llm-ocr")["data"]
    known = {f"LLM_OCR_{name.upper()}" for name in ServiceSettings.model_fields}
    assert shared.keys() <= known
    text = named(manifests, "ConfigMap", "inference")["data"]["inference.yaml"]
    config = parse_config(text, "inference.yaml")
    grace = named(manifests, "Deployment", "inference")["spec"]["template"]["spec"]
    assert grace["terminationGracePeriodSeconds"] >= config.drain_seconds + 10


@needs_kubectl
def test_scaled_deployments_exist_and_have_no_number_of_their_own() -> None:
    manifests = render("overlays/gpu")
    scaled = [one for one in manifests if one["kind"] == "ScaledObject"]
    assert len(scaled) == 2
    for one in scaled:
        target = named(manifests, "Deployment", one["spec"]["scaleTargetRef"]["name"])
        assert "replicas" not in target["spec"]
        for trigger in one["spec"]["triggers"]:
            query = trigger["metadata"]["query"]
            # Workers that process a document must not be stopped for lack of queued ones.
            assert "processing" in query or trigger["type"] == "prometheus"


def test_alerts_of_the_operator_are_those_of_prometheus() -> None:
    path = FOLDER / "components" / "monitoring" / "alerts.yaml"
    rules = yaml.safe_load(path.read_text("utf-8"))["spec"]
    assert rules == yaml.safe_load((ROOT / "monitoring" / "alerts.yaml").read_text("utf-8"))


def test_metrics_of_scaling_exist() -> None:
    text = (FOLDER / "components" / "scaling" / "scaling.yaml").read_text("utf-8")
    page = (ROOT / "docs" / "service" / "inference.md").read_text("utf-8")
    used = re.findall(r"llm_ocr_inference_\w+", text)
    assert used
    assert [name for name in used if f"`{name}`" not in page] == []


@needs_kubectl
@pytest.mark.parametrize("folder", FOLDERS)
def test_manifests_are_valid(folder: str) -> None:
    own_kinds = [
        one
        for one in render(folder)
        # KEDA's and the Prometheus operator's kinds have no schema there.
        if not one["apiVersion"].partition("/")[0].endswith((".sh", ".coreos.com"))
    ]
    assert len(own_kinds) > 10
    for one in own_kinds:
        kubernetes_validate.validate(one, "1.37", strict=True)

"""The gateway as a whole: its OpenAPI description, its docs and its background jobs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from llm_ocr.service.database import Database
from llm_ocr.service.gateway.models import DocumentDetails, Manifest
from llm_ocr.service.schema import DocumentState
from llm_ocr.service.work_queue import WorkQueue
from tests.service.document_rows import expire
from tests.service.gateway_server import (
    JPEG,
    SQLITE_ONLY,
    Gateway,
    problem_of,
    serving_gateway,
    submit,
)
from tests.waiting import wait_until

pytestmark = SQLITE_ONLY
# What is right by its form may still be refused here: types that no pipeline serves, files that are
# empty, hosts that no webhook may have.
CHOOSY = {
    *("POST /v1/documents", "POST /v1/documents:upload", "POST /v1/webhooks"),
    *(f"POST /v1/convert/{source}{end}" for source in ("file", "source") for end in ("", "/async")),
}


def check_description(gateway: Gateway, examples: int) -> None:
    """Send requests that the description allows, and such as it doesn't, to each operation, and
    hold the answers against it."""
    with gateway.client() as client:
        key = {"Authorization": client.headers["Authorization"]}
    schema = schemathesis.openapi.from_url(f"{gateway.url}/openapi.json")
    found: list[Any] = list(schema.get_all_operations())
    operations = [each.ok() for each in found]
    assert len(operations) > 20
    for operation in operations:
        for mode in GenerationMode:
            try:
                ask(operation, mode, key, examples)
            except Unsatisfiable:
                # Nothing that could be said to it is wrong.
                assert mode is GenerationMode.NEGATIVE


def ask(
    operation: schemathesis.schemas.APIOperation[Any, Any, Any, Any],
    mode: GenerationMode,
    headers: Mapping[str, str],
    examples: int,
) -> None:
    excluded: Any = [positive_data_acceptance] if operation.label in CHOOSY else []

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(headers=dict(headers), excluded_checks=excluded, timeout=60)

    send()


def test_openapi_description_matches_responses(gateway: Gateway) -> None:
    check_description(gateway, examples=3)


@pytest.mark.long
def test_openapi_description_matches_many_responses(gateway: Gateway) -> None:
    check_description(gateway, examples=40)


def test_openapi_description_has_problems_keys_and_sizes(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    schemas = described["components"]["schemas"]
    assert "HTTPValidationError" not in schemas
    assert schemas["FileToUpload"]["properties"]["size"]["maximum"] == 100 << 20
    assert schemas["Manifest"]["additionalProperties"] is False
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            for status, answer in operation["responses"].items():
                if status >= "400":
                    assert list(answer["content"]) == ["application/problem+json"], (path, status)
            needs_key = path.startswith("/v1/") and not path.startswith("/v1/uploads/")
            assert ("401" in operation["responses"]) == needs_key
            assert bool(operation.get("security")) == needs_key
    for name in ("Manifest", "DocumentDetails"):
        (example,) = schemas[name]["examples"]
        assert {"Manifest": Manifest, "DocumentDetails": DocumentDetails}[name](**example)


def test_the_docs_work_offline(client: httpx.Client) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "default-src 'none'" in policy
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(addresses) == 3
    for address in addresses:
        assert "//" not in address
        assert client.get(f"/{address}").status_code == 200
    # Scripts in the page itself would not run.
    assert re.findall(r"<script(?! src=)", page.text) == []
    assert client.get("/docs/..%2Fapp.py").status_code == 404


def test_pipelines_and_models_are_listed(client: httpx.Client) -> None:
    pipelines = {each["name"]: each for each in client.get("/v1/pipelines").json()["pipelines"]}
    assert pipelines["invoice"]["types"] == ["invoice"]
    assert "parse" in pipelines["invoice"]["steps"]
    document_id = submit(client, JPEG, type="invoice")
    document = client.get(f"/v1/documents/{document_id}").json()
    assert document["pipeline_revision"] == pipelines["invoice"]["revision"]
    uses = [
        (use["pipeline"], use["step"])
        for model in client.get("/v1/models").json()["models"]
        for use in model["used_by"]
    ]
    assert ("invoice", "parse") in uses
    assert ("invoice", "assemble") not in uses


def test_models_are_listed_by_name_and_use(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "bill.yaml").write_text(
        "name: bill\n"
        "targets:\n  large: {model: deepseek-ocr, base_url: http://127.0.0.1:8000/v1}\n"
        "steps:\n  - {step: extract, target: large}\n  - {step: assemble}\n"
    )
    with serving_gateway(database, tmp_path / "storage", pipelines=folder) as gateway:
        with gateway.client() as client:
            models = client.get("/v1/models").json()["models"]
    assert {"name": "deepseek-ocr", "used_by": [{"pipeline": "bill", "step": "extract"}]} in models


def test_gateways_requeue_documents_of_dead_workers(
    gateway: Gateway, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    document_id = submit(client, JPEG)
    WorkQueue(gateway.database, "worker").claim(1)
    expire(gateway.database, document_id)
    path = f"/v1/documents/{document_id}"
    wait_until(lambda: client.get(path).json()["state"] == DocumentState.QUEUED)


@pytest.fixture
def hooks(client: httpx.Client) -> str:
    url = "https://hooks.example.com/documents"
    made = client.post("/v1/webhooks", json={"url": url})
    assert made.status_code == 201
    assert made.json()["secret"].startswith("whsec_")
    return str(made.json()["id"])


def test_webhooks_are_registered_listed_and_deleted(
    gateway: Gateway, client: httpx.Client, hooks: str
) -> None:
    (listed,) = client.get("/v1/webhooks").json()["webhooks"]
    assert listed["id"] == hooks
    assert "secret" not in listed
    wrong = client.post("/v1/webhooks", json={"url": "https://10.0.0.1/", "secret": "short"})
    assert problem_of(wrong, 422) == "invalid_webhook"
    assert client.get("/v1/webhooks/secret").json()["secret"].startswith("whsec_")
    with gateway.client("other") as other:
        assert other.get("/v1/webhooks").json()["webhooks"] == []
        assert problem_of(other.delete(f"/v1/webhooks/{hooks}"), 404) == "unknown_webhook"
    assert client.delete(f"/v1/webhooks/{hooks}").status_code == 204
    assert client.get("/v1/webhooks").json()["webhooks"] == []


def test_deliveries_are_listed_and_redelivered(
    gateway: Gateway, client: httpx.Client, hooks: str
) -> None:
    ids = [submit(client, JPEG) for _ in range(3)]
    for document_id in ids:
        client.post(f"/v1/documents/{document_id}:cancel")
    page = client.get("/v1/webhooks/deliveries", params={"limit": 2}).json()
    last = client.get("/v1/webhooks/deliveries", params={"cursor": page["next_cursor"]}).json()
    found = [each["document_id"] for each in (*page["deliveries"], *last["deliveries"])]
    assert found == ids[::-1]
    assert last["next_cursor"] is None
    one = client.get("/v1/webhooks/deliveries", params={"document_id": ids[1]}).json()
    (delivery,) = one["deliveries"]
    assert delivery["event_type"] == "document.cancelled"
    again = client.post(f"/v1/webhooks/deliveries/{delivery['id']}:redeliver")
    assert again.status_code == 200
    with gateway.client("other") as other:
        answer = other.post(f"/v1/webhooks/deliveries/{delivery['id']}:redeliver")
        assert problem_of(answer, 404) == "unknown_webhook"

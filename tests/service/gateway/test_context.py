"""API keys, scopes and query parameters of the routes."""

from pathlib import Path

import httpx

from llm_ocr.service.access import create_key, revoke_key
from llm_ocr.service.database import Database
from tests.service.gateway_server import (
    BARE,
    JPEG,
    SQLITE_ONLY,
    Gateway,
    problem_of,
    serving_gateway,
    submit,
)

pytestmark = SQLITE_ONLY


def test_requests_need_a_key(gateway: Gateway, client: httpx.Client) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer lo_12345678_12345678901234567890123456789012"},
        {"Authorization": "Basic bG86bG8="},
        {"X-Api-Key": "nonsense"},
    ):
        answer = BARE.get(f"{gateway.url}/v1/documents", headers=headers)
        assert problem_of(answer, 401) == "unauthorized"
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    key = create_key(gateway.database)
    for headers in ({"Authorization": f"Bearer {key}"}, {"X-Api-Key": key}):
        assert BARE.get(f"{gateway.url}/v1/documents", headers=headers).status_code == 200
    revoke_key(gateway.database, key)
    assert problem_of(BARE.get(f"{gateway.url}/v1/documents", headers=headers), 401)


def test_scopes_are_enforced(gateway: Gateway, client: httpx.Client) -> None:
    document_id = submit(client, JPEG)
    manifest = {"files": [{"name": "a.jpg", "size": 1}]}
    waiting = client.post("/v1/documents", json=manifest).json()["id"]
    assert client.get(f"/v1/documents/{waiting}").json()["files"][0]["upload"]["url"]
    with gateway.client("default", "documents:read") as reader:
        assert reader.get(f"/v1/documents/{waiting}").json()["files"][0]["upload"] is None
        assert reader.get(f"/v1/documents/{document_id}").status_code == 200
        for answer in (
            reader.post("/v1/documents", json=manifest),
            reader.post(f"/v1/documents/{document_id}:cancel"),
            reader.delete(f"/v1/documents/{document_id}"),
        ):
            assert problem_of(answer, 403) == "scope_missing"
    with gateway.client("default", "documents:write") as writer:
        assert writer.post("/v1/documents", json=manifest).status_code == 202
        assert problem_of(writer.get("/v1/documents"), 403) == "scope_missing"
    with gateway.client("default", "admin") as admin:
        assert admin.get("/v1/documents").status_code == 200
        assert admin.delete(f"/v1/documents/{document_id}").status_code == 204


def test_unknown_and_repeated_query_parameters_are_refused(client: httpx.Client) -> None:
    for address, name in (
        ("/v1/documents?states=failed", "states"),
        ("/v1/pipelines?limit=1", "limit"),
        ("/v1/webhooks/deliveries?cursors=1", "cursors"),
        ("/v1/documents?type=invoice&type=letter", "type"),
    ):
        answer = client.get(address)
        assert problem_of(answer, 422) == "invalid_request"
        assert answer.json()["errors"][0]["location"] == f"query.{name}"


def test_an_invalid_id_is_an_unknown_document(client: httpx.Client) -> None:
    for name in ("doc_1", "doc_" + "u" * 26, "..", "%00", "doc_%F0%9F%98%80", "x" * 3000):
        answer = client.get(f"/v1/documents/{name}")
        assert problem_of(answer, 404) in ("unknown_document", "not_found")


def test_urls_use_the_address_of_the_request_or_the_public_url(
    database: Database, tmp_path: Path
) -> None:
    public_url = "https://ocr.example.com/service/"
    with serving_gateway(database, tmp_path / "storage", public_url=public_url) as gateway:
        with gateway.client() as client:
            files = [{"name": "a.jpg", "size": 1}]
            made = client.post("/v1/documents", json={"files": files})
            expected = "https://ocr.example.com/service/v1/"
            assert made.headers["Location"].startswith(f"{expected}documents/doc_")
            upload = made.json()["files"][0]["upload"]
            assert upload["url"].startswith(f"{expected}uploads/")

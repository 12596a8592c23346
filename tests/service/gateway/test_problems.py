"""Errors are problem documents."""

from pathlib import Path

import httpx
import pytest

from llm_ocr.service.access import set_limits
from llm_ocr.service.database import Database, DatabaseError
from llm_ocr.storage.local import LocalStore
from llm_ocr.storage.store import StorageError
from tests.service.gateway_server import JPEG, SQLITE_ONLY, Gateway, problem_of, submit

pytestmark = SQLITE_ONLY


def test_unknown_paths_and_methods(client: httpx.Client) -> None:
    assert problem_of(client.get("/v2/documents"), 404) == "not_found"
    wrong = client.put("/v1/documents")
    assert problem_of(wrong, 405) == "method_not_allowed"
    assert "GET" in wrong.headers["Allow"] or "POST" in wrong.headers["Allow"]


def test_invalid_bodies(client: httpx.Client) -> None:
    for body, content_type in (
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'{"files": [{"name": "\\ud800", "size": 1}]}', "application/json"),
        (b'{"files": [{"name": "a", "size": NaN}]}', "application/json"),
        (b'{"files": [{"name":"a","size":1}], "metadata": {"a": NaN}}', "application/json"),
        (b'{"files": [{"name":"a","size":1}], "metadata": {"a": "\\ud800"}}', "application/json"),
        (b'{"files": [{"name": "a", "size": 1}]}', "text/plain"),
        (b"\xff\xfe", "application/json"),
    ):
        answer = client.post("/v1/documents", content=body, headers={"Content-Type": content_type})
        assert problem_of(answer, 422) == "invalid_request", body
    answer = client.post("/v1/documents", json={"files": [{"name": "a", "size": "x"}]})
    locations = {error["location"] for error in answer.json()["errors"]}
    assert any(
        "files.0.size" in location.replace("list[FileToUpload].", "") for location in locations
    )


def test_quota_errors_have_retry_after(gateway: Gateway, client: httpx.Client) -> None:
    set_limits(gateway.database, "default", {"max_unfinished": 1})
    document_id = submit(client, JPEG)
    manifest = {"files": [{"name": "a.jpg", "size": 10}]}
    late = client.post("/v1/documents", json=manifest)
    assert problem_of(late, 429) == "quota_exceeded"
    assert late.json()["retryable"] is True
    assert int(late.headers["Retry-After"]) > 0
    small = client.post("/v1/documents:upload", files={"files": ("a.jpg", JPEG)})
    assert problem_of(small, 429) == "quota_exceeded"
    gateway.finish(document_id)
    assert client.post("/v1/documents", json=manifest).status_code == 202

    limits = {"max_unfinished": None, "max_bytes": len(JPEG) + 15}
    set_limits(gateway.database, "default", limits)
    assert problem_of(client.post("/v1/documents", json=manifest), 429) == "quota_exceeded"
    set_limits(gateway.database, "default", {"max_bytes": None, "max_pages_per_day": 1})
    small = client.post("/v1/documents:upload", files={"files": ("a.jpg", JPEG)})
    assert problem_of(small, 429) == "quota_exceeded"
    assert int(small.headers["Retry-After"]) <= 86401
    # Nothing of the refused upload is left.
    assert len(list(gateway.store.list("tenants"))) == 1


def test_an_unavailable_database_or_storage_is_503(
    gateway: Gateway, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    document_id = submit(client, JPEG)
    gateway.finish(document_id, files={"document.md": b"# Title\n"})

    def lose_storage(*_: object) -> None:
        raise StorageError("s3://secret-bucket: the server can't be reached")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "open", lose_storage)
        answer = client.get(f"/v1/documents/{document_id}/result?format=markdown")
    assert problem_of(answer, 503) == "storage_unavailable"
    assert "secret-bucket" not in answer.text

    def lose_database(*_: object) -> None:
        raise DatabaseError("postgresql://secret-host: connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "read", lose_database)
        patch.setattr(Database, "begin", lose_database)
        answer = client.get("/v1/documents")
        ready, live = client.get("/readyz"), client.get("/livez")
    assert problem_of(answer, 503) == "database_unavailable"
    assert answer.headers["Retry-After"]
    assert "secret-host" not in answer.text
    assert problem_of(ready, 503) == "database_unavailable"
    # An unavailable database is no reason to restart a gateway.
    assert live.status_code == 200
    assert client.get("/readyz").status_code == 200


def test_an_unexpected_error_reveals_nothing(
    gateway: Gateway, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(f"the password is in {Path.cwd()}")

    monkeypatch.setattr(Database, "read", fail)
    answer = client.get("/v1/documents")
    assert problem_of(answer, 500) == "internal_error"
    assert "password" not in answer.text

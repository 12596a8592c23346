"""Files fetched by URL: only from allowed hosts, and never from private addresses."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from llm_ocr.service.database import Database
from llm_ocr.service.documents import load_document
from llm_ocr.sources.web import UrlPolicy
from tests.servers.web import CERTIFICATE, Answer, redirect, respond, serving_web_beside, status
from tests.service.gateway_server import (
    PDF,
    SQLITE_ONLY,
    TIFF,
    Gateway,
    problem_of,
    serving_gateway,
)
from tests.waiting import wait_until

pytestmark = SQLITE_ONLY


@contextmanager
def fetching_gateway(
    database: Database, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Gateway]:
    """A gateway that may also fetch from the test server."""
    policy = UrlPolicy(
        allow_private=True, hosts=frozenset({"127.0.0.1"}), max_bytes=1 << 20, timeout=30
    )
    monkeypatch.setattr("llm_ocr.service.gateway.app.fetch_policy", lambda _: policy)
    monkeypatch.setattr("llm_ocr.service.fetching.BACKOFF_SECONDS", (0.01, 0.01))
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with serving_gateway(database, storage, fetch_hosts="files.example.com, 127.0.0.1") as served:
        yield served


def fetch(client: httpx.Client, *urls: str) -> dict[str, object]:
    """Create a document of URLs and wait until the download has succeeded or failed."""
    made = client.post("/v1/documents", json={"files": [{"url": url} for url in urls]})
    assert made.status_code == 202, made.text
    path = f"/v1/documents/{made.json()['id']}"
    wait_until(lambda: client.get(path).json()["state"] != "awaiting_upload")
    document: dict[str, object] = client.get(path).json()
    return document


def test_urls_are_refused_unless_their_host_is_allowed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://files.example.com/a.pdf"
    with serving_gateway(database, tmp_path / "storage") as gateway, gateway.client() as client:
        answer = client.post("/v1/documents", json={"files": [{"url": url}]})
        assert problem_of(answer, 422) == "url_refused"
    with fetching_gateway(database, tmp_path / "storage", monkeypatch) as gateway:
        with gateway.client() as client:
            for wrong in (
                "http://files.example.com/a.pdf",
                "https://files.example.com.evil.org/a.pdf",
                "https://evil.org/a.pdf",
                "https://files.example.com@evil.org/a.pdf",
                "https://[::1",
            ):
                answer = client.post("/v1/documents", json={"files": [{"url": wrong}]})
                assert problem_of(answer, 422) == "url_refused"
            assert client.get("/v1/documents").json()["documents"] == []


def test_files_are_fetched_and_queued(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: dict[str, Answer] = {"/a.pdf": respond(PDF), "/1": respond(TIFF), "/2": respond(TIFF)}
    with (
        serving_web_beside(answers) as web,
        fetching_gateway(database, tmp_path / "storage", monkeypatch) as gateway,
        gateway.client() as client,
    ):
        document = fetch(client, f"{web.url}/a.pdf?token=secret")
        assert document["state"] == "queued"
        assert document["progress"] == {"step": None, "pages_done": 0, "pages": 3}
        assert "secret" not in str(document)
        stored = load_document(database, "default", str(document["id"]))
        assert gateway.store.get(stored.files[0].path) == PDF
        pages = fetch(client, f"{web.url}/1", f"{web.url}/2")
        assert pages["progress"] == {"step": None, "pages_done": 0, "pages": 6}
        assert len(web.requests) == 3


def test_a_failed_download_fails_the_document_with_the_reason(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: dict[str, Answer] = {
        "/large": respond(PDF + bytes(1 << 20)),
        "/page": respond(b"<html>sign in</html>"),
        "/away": status("503 Service Unavailable"),
        "/moved": redirect("https://169.254.169.254/latest/meta-data"),
        "/elsewhere": redirect("https://localhost/a.pdf"),
    }
    with (
        serving_web_beside(answers) as web,
        fetching_gateway(database, tmp_path / "storage", monkeypatch) as gateway,
        gateway.client() as client,
    ):
        for path, code, retryable in (
            ("/large", "too_large", False),
            ("/page", "unsupported_format", False),
            ("/none", "not_found", False),
            ("/away", "read_error", True),
            ("/moved", "address_refused", False),
            ("/elsewhere", "address_refused", False),
        ):
            document = fetch(client, f"{web.url}{path}")
            assert document["state"] == "failed", path
            error = document["error"]
            assert isinstance(error, dict)
            assert (error["code"], error["retryable"]) == (code, retryable)
        # The transient error was tried three times.
        assert sum(head.startswith("GET /away") for head in web.requests) == 3
        assert list(gateway.store.list("tenants")) == []


def test_an_allowed_host_with_a_private_address_is_not_requested(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with (
        serving_web_beside({"/a.pdf": respond(PDF)}) as web,
        serving_gateway(database, tmp_path / "storage", fetch_hosts="127.0.0.1") as gateway,
        gateway.client() as client,
    ):
        document = fetch(client, f"{web.url}/a.pdf")
        error = document["error"]
        assert isinstance(error, dict)
        assert error["code"] == "address_refused"
        assert web.requests == []


def test_two_gateways_fetch_a_file_once(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: dict[str, Answer] = {f"/{k}": respond(PDF) for k in range(6)}
    storage = tmp_path / "storage"
    with (
        serving_web_beside(answers) as web,
        fetching_gateway(database, storage, monkeypatch) as first,
        fetching_gateway(database, storage, monkeypatch),
        first.client() as client,
    ):
        for k in range(6):
            client.post("/v1/documents", json={"files": [{"url": f"{web.url}/{k}"}]})
        queued = {"state": "queued"}
        wait_until(lambda: len(client.get("/v1/documents", params=queued).json()["documents"]) == 6)
        assert len(web.requests) == 6

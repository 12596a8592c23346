"""Uploads: targets, and the checks of uploaded files."""

import base64
import hashlib
import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import ValidationError
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from llm_ocr.service.access import create_key
from llm_ocr.service.database import Database
from llm_ocr.service.documents import load_document
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.service.uploads import open_targets
from llm_ocr.storage.buckets import open_bucket
from llm_ocr.storage.store import StorageError, open_store
from tests.servers.ports import free_port, wait_for
from tests.service.gateway_server import (
    BARE,
    JPEG,
    PDF,
    SQLITE_ONLY,
    TIFF,
    Gateway,
    problem_of,
    serving_gateway,
    submit,
)
from tests.waiting import wait_until

pytestmark = SQLITE_ONLY
MEGABYTE = 1 << 20
URL = "https://s3.example.com"


@pytest.fixture
def gateway(database: Database, tmp_path: Path) -> Iterator[Gateway]:
    with serving_gateway(database, tmp_path / "storage", max_file_mb=2, max_pages=5) as served:
        yield served


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.client() as client:
        yield client


def make(client: httpx.Client, *sizes: int, **values: Any) -> dict[str, Any]:  # noqa: ANN401
    """Create a document with files of these sizes."""
    files = [{"name": f"file-{k}", "size": size, **values} for k, size in enumerate(sizes)]
    made = client.post("/v1/documents", json={"files": files})
    assert made.status_code == 202, made.text
    document: dict[str, Any] = made.json()
    return document


def complete(client: httpx.Client, document: dict[str, Any]) -> httpx.Response:
    return client.post(f"/v1/documents/{document['id']}:complete")


def send(document: dict[str, Any], content: bytes, position: int = 0) -> httpx.Response:
    upload = document["files"][position]["upload"]
    return BARE.request(upload["method"], upload["url"], content=content)


def test_a_file_must_exist_and_match_its_declaration(
    gateway: Gateway, client: httpx.Client
) -> None:
    document = make(client, len(JPEG), sha256=hashlib.sha256(JPEG).hexdigest())
    early = complete(client, document)
    assert problem_of(early, 409) == "not_uploaded"
    assert early.json()["retryable"] is True
    assert problem_of(send(document, JPEG + b"x"), 422) == "wrong_size"
    assert problem_of(send(document, JPEG[:-1]), 422) == "wrong_size"
    assert problem_of(complete(client, document), 409) == "not_uploaded"
    assert send(document, b"\xff\xd8\xff" + bytes(len(JPEG) - 3)).status_code == 204
    wrong = complete(client, document)
    assert problem_of(wrong, 422) == "wrong_checksum"
    assert wrong.json()["retryable"] is True
    # The document is not queued, and the file can be uploaded again.
    assert client.get(f"/v1/documents/{document['id']}").json()["state"] == "awaiting_upload"
    assert send(document, JPEG).status_code == 204
    assert complete(client, document).json()["state"] == "queued"
    assert problem_of(send(document, JPEG), 409) == "wrong_state"


def test_the_type_of_a_file_is_detected_from_its_content(
    gateway: Gateway, client: httpx.Client
) -> None:
    for content, code in (
        (b"PK\x03\x04 a Word file", "unsupported_format"),
        (b"<html>no</html>", "unsupported_format"),
        (b"%PDF-1.7 and no more", "corrupt_document"),
        (b"II*\0 and no more", "corrupt_document"),
    ):
        document = make(client, len(content))
        assert send(document, content).status_code == 204
        refused = complete(client, document)
        assert problem_of(refused, 422) == code
        assert "file-0" in refused.json()["detail"]
        assert str(gateway.store.folder) not in refused.text
    for content, kind in ((PDF, "application/pdf"), (TIFF, "image/tiff"), (JPEG, "image/jpeg")):
        done = client.get(f"/v1/documents/{submit(client, content)}").json()
        assert done["files"][0]["content_type"] == kind


def test_an_encrypted_document_is_refused_before_it_is_queued(
    gateway: Gateway, client: httpx.Client, tmp_path: Path
) -> None:
    path = tmp_path / "locked.pdf"
    canvas = Canvas(str(path), encrypt=StandardEncryption("secret"))
    canvas.drawString(100, 700, "hidden")
    canvas.save()
    document = make(client, path.stat().st_size)
    send(document, path.read_bytes())
    assert problem_of(complete(client, document), 422) == "encrypted"


def test_sizes_and_pages_are_limited(gateway: Gateway, client: httpx.Client) -> None:
    manifest = {"files": [{"name": "large.pdf", "size": 2 * MEGABYTE + 1}]}
    assert problem_of(client.post("/v1/documents", json=manifest), 422) == "too_large"
    many = make(client, *[len(JPEG)] * 6)
    for position in range(6):
        send(many, JPEG, position)
    assert problem_of(complete(client, many), 422) == "too_many_pages"
    pages = make(client, len(TIFF), len(TIFF))
    for position in range(2):
        send(pages, TIFF, position)
    assert problem_of(complete(client, pages), 422) == "too_many_pages"


def test_page_images_can_not_be_mixed_with_a_pdf(gateway: Gateway, client: httpx.Client) -> None:
    document = make(client, len(JPEG), len(PDF))
    send(document, JPEG)
    send(document, PDF, 1)
    assert problem_of(complete(client, document), 422) == "mixed_files"


def test_file_names_are_never_used_as_paths(gateway: Gateway, client: httpx.Client) -> None:
    name = "../../../../etc/cron.d/evil"
    files = [{"name": name, "size": len(JPEG)}]
    document = client.post("/v1/documents", json={"files": files}).json()
    send(document, JPEG)
    assert complete(client, document).status_code == 200
    small = client.post("/v1/documents:upload", files={"files": (name, JPEG)})
    assert small.status_code == 202
    for document_id in (document["id"], small.json()["id"]):
        stored = load_document(gateway.database, "default", document_id)
        assert stored.files[0].path == f"tenants/default/{document_id}/files/0"


def test_an_upload_url_is_for_one_file_and_expires(
    gateway: Gateway, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = make(client, len(JPEG)), make(client, len(JPEG))
    url = one["files"][0]["upload"]["url"]
    base, _, token = url.rpartition("/")
    payload, _, signature = token.partition(".")
    content = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    content[1] = other["id"]
    forged = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
    for wrong in (f"{forged}.{signature}", f"{payload}.", payload, "x.y", "%C3%A9.x"):
        answer = BARE.put(f"{base}/{wrong}", content=JPEG)
        assert problem_of(answer, 403) == "invalid_token"
    with monkeypatch.context() as patch:
        patch.setattr("llm_ocr.service.uploads.time.time", lambda: content[3] + 1)
        assert problem_of(BARE.put(url, content=JPEG), 403) == "expired_token"
    # Another gateway with the same storage accepts it.
    with serving_gateway(gateway.database, gateway.store, max_file_mb=2) as second:
        there = url.replace(gateway.url, second.url)
        assert BARE.put(there, content=JPEG).status_code == 204
    assert complete(client, one).status_code == 200


def test_an_interrupted_upload_leaves_nothing(gateway: Gateway, client: httpx.Client) -> None:
    document = make(client, MEGABYTE)
    upload = document["files"][0]["upload"]["url"].removeprefix(gateway.url)
    address = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1]))) as connection:
        head = f"PUT {upload} HTTP/1.1\r\nHost: x\r\nContent-Length: {MEGABYTE}\r\n\r\n"
        connection.sendall(head.encode() + bytes(MEGABYTE // 2))
        folder = gateway.store.folder
        assert folder is not None
        files = folder / "tenants" / "default" / document["id"] / "files"
        wait_until(lambda: files.is_dir() and any(files.iterdir()))
    wait_until(lambda: not any(files.iterdir()))
    assert problem_of(complete(client, document), 409) == "not_uploaded"


def test_a_bucket_refuses_more_than_the_declared_size(
    database: Database, s3: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are uploaded directly to S3, and the signature limits their size."""
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    store = open_store("s3://bucket/uploads")
    with serving_gateway(database, store, max_file_mb=2, max_pages=5) as gateway:
        with gateway.client() as client:
            document = make(client, len(PDF), sha256=hashlib.sha256(PDF).hexdigest())
            upload = document["files"][0]["upload"]
            assert not upload["url"].startswith(gateway.url)
            assert problem_of(complete(client, document), 409) == "not_uploaded"
            assert send(document, PDF + b"more").status_code == 403
            assert not store.exists(f"tenants/default/{document['id']}/files/0")
            sent = BARE.put(upload["url"], headers=upload["headers"], content=PDF)
            assert sent.status_code == 200
            done = complete(client, document)
            assert done.json()["progress"]["pages"] == 3
            small = client.post("/v1/documents:upload", files={"files": ("a.tif", TIFF)})
            assert small.json()["progress"]["pages"] == 3
            # With a bucket, upload URLs of a gateway are not valid.
            answer = BARE.put(f"{gateway.url}/v1/uploads/x.y", content=b"x")
            assert problem_of(answer, 403) == "invalid_token"


def test_upload_urls_use_the_public_address_of_the_bucket(
    database: Database, s3: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway reaches the server at 127.0.0.1, and clients at another name of it."""
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    internal = s3["AWS_ENDPOINT_URL"]
    public = internal.replace("127.0.0.1", "localhost")
    store = open_store("s3://bucket/public")
    with serving_gateway(database, store, storage_public_url=f"{public}/") as gateway:
        with gateway.client() as client:
            document = make(client, len(PDF))
            upload = document["files"][0]["upload"]
            assert upload["url"].startswith(f"{public}/bucket/public/tenants/")
            # The signature covers the host and the size.
            elsewhere = upload["url"].replace(public, internal)
            assert BARE.put(elsewhere, content=PDF).status_code == 403
            assert BARE.put(upload["url"], content=PDF + b"more").status_code == 403
            assert BARE.put(upload["url"], content=PDF).status_code == 200
            assert complete(client, document).json()["progress"]["pages"] == 3


def test_invalid_public_addresses_of_the_storage(database: Database, tmp_path: Path) -> None:
    for wrong in ("s3.example.com", "https://s3.example.com/minio", "https://me:secret@s3"):
        with pytest.raises(ValidationError, match="use the form https://HOST") as caught:
            ServiceSettings(storage_public_url=wrong)
        assert "secret" not in str(caught.value)
    with pytest.raises(StorageError, match="applies only to storages on s3"):
        Gateway(database, open_store(str(tmp_path)), ServiceSettings(storage_public_url=URL))


def test_upload_urls_of_gcs_are_signed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a service account key; not tested with the real GCS."""
    private = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "client_email": "service@project.iam.gserviceaccount.com",
        "private_key": private.decode(),
        "private_key_id": "1",
    }
    path = tmp_path / "account.json"
    path.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    with serving_gateway(database, tmp_path / "storage") as gateway, gateway.client() as client:
        stored = load_document(database, "default", make(client, 10)["id"])
    target = open_targets(open_bucket("gs://bucket/service")).make(stored, stored.files[0], "")
    assert target.method == "PUT"
    expected = f"https://storage.googleapis.com/bucket/service/{stored.files[0].path}?"
    assert target.url.startswith(expected)
    assert "X-Goog-Signature=" in target.url
    # Others have none.
    with pytest.raises(StorageError, match="needs a local folder, s3:// or gs://"):
        open_targets(open_store("memory://uploads"))


SERVE = """
import sys
import uvicorn
from llm_ocr.service.database import Database
from llm_ocr.service.gateway.app import create_app
from llm_ocr.service.pipelines import PipelineCatalog
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.storage.store import open_store

database, storage, port = sys.argv[1:]
app = create_app(
    Database(database), open_store(storage), ServiceSettings(), PipelineCatalog.load(None)
)
uvicorn.run(app, port=int(port), log_config=None)
"""


def test_large_uploads_do_not_increase_the_memory_of_a_gateway(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    """Two concurrent uploads with checks and hashes need no more memory than small files."""
    size, count = 90 * MEGABYTE, 2
    head, tail = JPEG, bytes(MEGABYTE)
    rest = size - len(head)

    def pieces() -> Iterator[bytes]:
        yield head
        for start in range(0, rest, MEGABYTE):
            yield tail[: min(MEGABYTE, rest - start)]

    digest = hashlib.sha256()
    for piece in pieces():
        digest.update(piece)
    port = free_port()
    arguments = [database_url, str(tmp_path / "storage"), str(port)]
    process = subprocess.Popen([sys.executable, "-c", SERVE, *arguments], cwd=Path.cwd())
    try:
        wait_for(port, process)
        headers = {"Authorization": f"Bearer {create_key(database)}"}
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=120
        ) as client:
            submit(client, JPEG)
            watched = psutil.Process(process.pid)
            before = watched.memory_info().rss
            documents = [make(client, size, sha256=digest.hexdigest()) for _ in range(count)]
            peak = _send_together(documents, pieces, watched)
            for document in documents:
                assert complete(client, document).status_code == 200
                peak = max(peak, watched.memory_info().rss)
    finally:
        process.terminate()
        process.wait()
    assert (peak - before) / MEGABYTE < 30


def _send_together(documents: list[dict[str, Any]], pieces: Any, watched: psutil.Process) -> int:  # noqa: ANN401
    """Upload chunks of each in turn; returns the peak memory of the gateway."""
    connections = []
    for document in documents:
        url = httpx.URL(document["files"][0]["upload"]["url"])
        connection = http.client.HTTPConnection(url.host, url.port, timeout=120)
        connection.putrequest("PUT", url.raw_path.decode())
        connection.putheader("Content-Length", str(document["files"][0]["size"]))
        connection.endheaders()
        connections.append(connection)
    peak = 0
    for piece in pieces():
        for connection in connections:
            connection.send(piece)
        peak = max(peak, watched.memory_info().rss)
    for connection in connections:
        assert connection.getresponse().status == 204
        connection.close()
    return peak

"""`Idempotency-Key`: repeated requests take effect once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import httpx
import pytest
from sqlalchemy import func, select, update

from llm_ocr.service.database import Database, now
from llm_ocr.service.gateway.idempotency import (
    IN_FLIGHT_SECONDS,
    KEY_LIFETIME_SECONDS,
    ClaimedKey,
    delete_expired_keys,
)
from llm_ocr.service.schema import documents, idempotency_keys
from tests.service.gateway_server import JPEG, PDF, Gateway, problem_of, serving_gateway

ROUTES = "llm_ocr.service.gateway.documents"
MANIFEST = {"files": [{"name": "a.pdf", "size": 10}], "metadata": {"b": 1, "a": 2}}
KEY = {"Idempotency-Key": '"8e03978e-40d5-43dd-bc93-6894a57f9324"'}


def count_documents(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(documents)).scalar_one())


def let_time_pass(database: Database, seconds: float) -> None:
    with database.begin() as connection:
        connection.execute(update(idempotency_keys).values(created_at=now(-seconds)))


def test_a_repeated_request_gets_the_first_response(gateway: Gateway, client: httpx.Client) -> None:
    first = client.post("/v1/documents", json=MANIFEST, headers=KEY)
    assert first.status_code == 202
    assert "Idempotency-Replayed" not in first.headers
    # The same JSON, in another order; the key's quotes may be left out.
    same = {"metadata": {"a": 2, "b": 1}, "files": [{"size": 10, "name": "a.pdf"}]}
    bare = {"Idempotency-Key": KEY["Idempotency-Key"].strip('"')}
    again = client.post("/v1/documents", json=same, headers=bare)
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert count_documents(gateway.database) == 1


def test_a_key_can_not_be_used_for_another_request(gateway: Gateway, client: httpx.Client) -> None:
    client.post("/v1/documents", json=MANIFEST, headers=KEY)
    other = client.post("/v1/documents", json={**MANIFEST, "priority": 1}, headers=KEY)
    assert problem_of(other, 422) == "idempotency_key_reused"
    upload = {"files": ("a.jpg", JPEG)}
    other = client.post("/v1/documents:upload", files=upload, headers=KEY)
    assert problem_of(other, 422) == "idempotency_key_reused"
    wrong = client.post("/v1/documents", json=MANIFEST, headers={"Idempotency-Key": "a b"})
    assert problem_of(wrong, 422) == "invalid_idempotency_key"
    # Another tenant's keys are its own.
    with gateway.client("other") as tenant:
        assert tenant.post("/v1/documents", json=MANIFEST, headers=KEY).status_code == 202
    assert count_documents(gateway.database) == 2


def test_uploads_with_different_content_are_different_requests(
    gateway: Gateway, client: httpx.Client
) -> None:
    def send(content: bytes) -> httpx.Response:
        # Each with another boundary.
        files = {"files": ("scan", content)}
        return client.post("/v1/documents:upload", files=files, headers=KEY)

    first, again = send(JPEG), send(JPEG)
    assert first.status_code == 202
    assert again.json() == first.json()
    assert problem_of(send(PDF), 422) == "idempotency_key_reused"
    assert count_documents(gateway.database) == 1
    assert len(list(gateway.store.list("tenants"))) == 1


def test_retrying_twice_is_retrying_once(gateway: Gateway, client: httpx.Client) -> None:
    made = client.post("/v1/documents:upload", files={"files": ("a.jpg", JPEG)}).json()
    path = f"/v1/documents/{made['id']}"
    client.post(f"{path}:cancel")
    first = client.post(f"{path}:retry", json={"from_step": "extract"}, headers=KEY)
    again = client.post(f"{path}:retry", json={"from_step": "extract"}, headers=KEY)
    assert (first.status_code, again.status_code) == (202, 202)
    with gateway.database.read() as connection:
        assert connection.execute(select(documents.c.generations)).scalar_one() == {"extract": 1}


def test_a_refused_request_may_be_repeated(gateway: Gateway, client: httpx.Client) -> None:
    wrong = client.post("/v1/documents:upload", files={"files": ("a", b"text")}, headers=KEY)
    assert problem_of(wrong, 422) == "unsupported_format"
    right = client.post("/v1/documents:upload", files={"files": ("a", JPEG)}, headers=KEY)
    assert right.status_code == 202


def test_keys_expire_after_a_day(gateway: Gateway, client: httpx.Client) -> None:
    first = client.post("/v1/documents", json=MANIFEST, headers=KEY)
    let_time_pass(gateway.database, KEY_LIFETIME_SECONDS - 60)
    delete_expired_keys(gateway.database)
    assert client.post("/v1/documents", json=MANIFEST, headers=KEY).json() == first.json()
    let_time_pass(gateway.database, KEY_LIFETIME_SECONDS + 60)
    assert client.post("/v1/documents", json=MANIFEST, headers=KEY).json() != first.json()
    let_time_pass(gateway.database, KEY_LIFETIME_SECONDS + 60)
    delete_expired_keys(gateway.database)
    with gateway.database.read() as connection:
        assert connection.execute(select(idempotency_keys)).all() == []


def test_a_request_of_a_dead_gateway_creates_one_document(
    gateway: Gateway, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        # As if the gateway was killed: it neither finishes the request nor deletes the key.
        patch.setattr(ClaimedKey, "release", lambda *_: None)
        patch.setattr(f"{ROUTES}.insert_document", lambda *_: 1 / 0)
        assert problem_of(client.post("/v1/documents", json=MANIFEST, headers=KEY), 500)
    late = client.post("/v1/documents", json=MANIFEST, headers=KEY)
    assert problem_of(late, 409) == "request_in_flight"
    assert late.headers["Retry-After"] == "1"
    let_time_pass(gateway.database, IN_FLIGHT_SECONDS + 1)
    assert client.post("/v1/documents", json=MANIFEST, headers=KEY).status_code == 202
    assert count_documents(gateway.database) == 1


@pytest.mark.parametrize("action", ["make", "upload", "retry"])
def test_an_action_and_its_response_are_saved_in_one_transaction(
    gateway: Gateway, client: httpx.Client, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """A gateway that is killed in between has no effect; the repeated request succeeds."""
    ended = client.post("/v1/documents:upload", files={"files": ("a.jpg", JPEG)}).json()["id"]
    client.post(f"/v1/documents/{ended}:cancel")

    def send() -> httpx.Response:
        if action == "make":
            return client.post("/v1/documents", json=MANIFEST, headers=KEY)
        if action == "upload":
            files = {"files": ("b.jpg", JPEG)}
            return client.post("/v1/documents:upload", files=files, headers=KEY)
        again = {"from_step": "extract"}
        return client.post(f"/v1/documents/{ended}:retry", json=again, headers=KEY)

    def snapshot() -> list[tuple[str, str, object]]:
        with gateway.database.read() as connection:
            columns = (documents.c.id, documents.c.state, documents.c.generations)
            return [tuple(row) for row in connection.execute(select(*columns))]

    before = snapshot()
    with monkeypatch.context() as patch:
        patch.setattr(ClaimedKey, "release", lambda *_: None)
        patch.setattr(ClaimedKey, "save_response", lambda *_: 1 / 0)
        assert problem_of(send(), 500)
    assert snapshot() == before
    assert problem_of(send(), 409) == "request_in_flight"
    let_time_pass(gateway.database, IN_FLIGHT_SECONDS + 1)
    first = send()
    assert first.status_code == 202
    after = snapshot()
    assert len(after) == (1 if action == "retry" else 2)
    assert send().content == first.content
    assert snapshot() == after
    if action == "retry":
        assert [row[2] for row in after] == [{"extract": 1}]


def test_concurrent_requests_with_one_key_on_two_gateways(
    database: Database, tmp_path: Path
) -> None:
    """Each of ten keys is sent by eight clients at the same time, half of them to each gateway."""
    storage = tmp_path / "storage"
    with serving_gateway(database, storage) as first, serving_gateway(database, storage) as second:
        clients = [gateway.client() for gateway in (first, second) for _ in range(4)]
        together = Barrier(len(clients))

        def send(client: httpx.Client) -> list[tuple[int, str]]:
            answers = []
            for k in range(10):
                together.wait()
                headers = {"Idempotency-Key": f"key-{k}"}
                answer = client.post("/v1/documents", json=MANIFEST, headers=headers)
                answers.append((answer.status_code, answer.json().get("id", "")))
            return answers

        with ThreadPoolExecutor(len(clients)) as threads:
            found = list(threads.map(send, clients))
        for client in clients:
            client.close()
    for k in range(10):
        of_key = [answers[k] for answers in found]
        statuses = Counter(status for status, _ in of_key)
        assert statuses.keys() <= {202, 409}, statuses
        # All who got an answer got the same.
        assert len({document_id for status, document_id in of_key if status == 202}) == 1
    assert count_documents(database) == 10

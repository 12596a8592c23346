"""Workers as processes: killed, frozen, drained, with bad documents and failing dependencies."""

import asyncio
import hashlib
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.service.database import Database
from llm_ocr.service.documents import cancel_document, retry_document
from llm_ocr.service.events import list_events
from llm_ocr.service.schema import tenants
from tests import documents
from tests.servers.chat import ChatServer, at_once, image_of, refusal, serving_beside
from tests.servers.ports import free_port
from tests.servers.postgresql import PostgresqlServer
from tests.service.worker_processes import (
    PAGES_ONLY,
    Service,
    WorkerProcess,
    stop_forking,
)
from tests.waiting import wait_until

# For tests that don't depend on the database, or that run on both elsewhere.
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


# For tests that wait until a lease expires.
SHORT = {"lease_seconds": 3.0}


@pytest.fixture(scope="module", autouse=True)
def forking() -> Iterator[None]:
    yield
    stop_forking()


@pytest.fixture
def service(database: Database, database_url: str, tmp_path: Path) -> Service:
    return Service(database, database_url, tmp_path)


class Gate:
    """An engine's reply: immediate for the first pages, and for the others when it is opened."""

    def __init__(self, pages: int) -> None:
        self.pages, self.opened = pages, threading.Event()

    def __call__(self, body: dict[str, Any]) -> Any:  # noqa: ANN401
        self.pages -= 1
        return at_once(body) if self.pages >= 0 or self.opened.is_set() else self._wait(body)

    async def _wait(self, body: dict[str, Any]) -> web.StreamResponse:
        while not self.opened.is_set():
            await asyncio.sleep(0.02)
        return at_once(body)


def images(folder: Path, count: int) -> list[Path]:
    """Pages that are small and quick to render."""
    texts = [f"{folder.name}, page {number}\n" * 8 for number in range(1, count + 1)]
    return [documents.picture(folder / f"{k}.png", text) for k, text in enumerate(texts)]


def repeated(server: ChatServer) -> int:
    """The number of requests for images that were requested before."""
    counts = Counter(hashlib.sha256(image_of(body)).digest() for body in server.requests)
    return sum(count - 1 for count in counts.values())


def wait_until_owned(service: Service, document: str, worker: WorkerProcess) -> None:
    wait_until(lambda: f"-{worker.pid}-" in (service.document(document).row["worker"] or ""))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving_beside(at_once) as server:
        yield server


@on_sqlite
def test_documents_succeed_partially_succeed_or_fail(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    (tmp_path / "empty.pdf").touch()
    (tmp_path / "text.pdf").write_text("no PDF at all")
    pages = images(tmp_path / "images", 2)
    (tmp_path / "broken.png").write_bytes(pages[0].read_bytes()[:60])
    ends = {
        service.submit(documents.pdf(tmp_path / "a b.pdf", 3), name="../a b.pdf"): "succeeded",
        service.submit(*pages, name="letter"): "succeeded",
        service.submit(pages[0], tmp_path / "broken.png", name="scan"): "partially_succeeded",
        service.submit(documents.corrupt_page_pdf(tmp_path / "c.pdf")): "partially_succeeded",
        service.submit(documents.encrypted_pdf(tmp_path / "e.pdf", "x")): "encrypted",
        service.submit(documents.zero_page_pdf(tmp_path / "z.pdf")): "no_pages",
        service.submit(tmp_path / "empty.pdf"): "empty_file",
        service.submit(tmp_path / "text.pdf"): "unsupported_format",
        service.submit(documents.pdf(tmp_path / "long.pdf", 7)): "too_many_pages",
    }
    with service.worker(server.base_url, max_pages=6):
        found = service.wait_until_finished(*ends)
    good, several, half, partial, *failed = found
    errors = [document.row["error"] for document in failed]
    assert [error["code"] for error in errors] == list(ends.values())[4:]
    assert {document.state for document in failed} == {"failed"}
    assert not any(error["retryable"] for error in errors)
    # Messages contain the client's file name, and no path.
    assert not any(str(tmp_path) in error["message"] for error in errors)
    assert [document.state for document in found[:4]] == list(ends.values())[:4]
    assert half.row["error"]["page"] == partial.row["error"]["page"] == 2
    assert "c.pdf, page 2" in partial.row["error"]["message"]
    assert [several.row["page_count"], good.row["pages_done"]] == [2, 3]
    assert [page["number"] for page in service.result(several.id)["pages"]] == [1, 2]
    assert good.row["cost"]["requests"] == sum(step["requests"] for step in good.steps) == 3
    assert [step["state"] for step in good.steps] == ["succeeded", "succeeded"]


def test_the_document_of_a_killed_worker_is_resumed(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    server.reply = gate = Gate(5)
    document = service.submit(*images(tmp_path / "book", 12))
    with service.worker(server.base_url, **SHORT) as first:
        wait_until(lambda: len(service.saved(document)) == 5)
        first.kill()
    gate.opened.set()
    with service.worker(server.base_url, **SHORT):
        [ended] = service.wait_until_finished(document)
    assert ended.state == "succeeded"
    assert (ended.row["worker_deaths"], ended.row["attempts"]) == (1, 2)
    assert len(service.result(document)["pages"]) == 12
    # Only the open requests are repeated.
    assert repeated(server) <= 2


@pytest.mark.long
def test_a_frozen_worker_that_thaws_writes_nothing(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    server.reply = gate = Gate(2)
    document = service.submit(*images(tmp_path / "book", 6))
    both = service.worker(server.base_url, **SHORT), service.worker(server.base_url, **SHORT)
    with both[0] as frozen, both[1] as other:
        wait_until(lambda: len(service.saved(document)) == 2)
        owner = service.document(document).row["worker"]
        has_it, next_one = frozen, other
        if f"-{frozen.pid}-" not in owner:
            has_it, next_one = other, frozen
        service.freeze(has_it)
        wait_until(lambda: service.document(document).row["worker"] not in (None, owner))
        gate.opened.set()
        [ended] = service.wait_until_finished(document)
        paths = {path: path.stat().st_mtime_ns for path in service.storage.rglob("*.json")}
        has_it.thaw()
        # It has stopped processing the lost document, and claims new ones.
        next_one.kill()
        more = service.submit(*images(tmp_path / "more", 1))
        service.wait_until_finished(more)
    after = {
        path: path.stat().st_mtime_ns
        for path in service.storage.rglob("*.json")
        if more not in str(path)
    }
    assert after == paths
    assert service.document(document).row == ended.row
    types = [event.type for event in list_events(service.database, "default", document)]
    assert types.count("document.succeeded") == 1


@pytest.mark.long
def test_a_document_that_kills_workers_fails_alone(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    gate = Gate(0)
    server.reply = gate
    poison = service.submit(*images(tmp_path / "poison", 1))
    others = [service.submit(*images(tmp_path / f"{k}", 1)) for k in range(3)]
    for _ in range(3):
        with service.worker(server.base_url, tasks=4, **SHORT) as worker:
            wait_until_owned(service, poison, worker)
            worker.kill()
    gate.opened.set()
    with service.worker(server.base_url, tasks=4, **SHORT):
        ended, *rest = service.wait_until_finished(poison, *others)
    assert (ended.state, ended.row["worker_deaths"]) == ("failed", 3)
    assert ended.row["error"]["code"] == "worker_died"
    assert ended.row["error"]["retryable"] is False
    assert {document.state for document in rest} == {"succeeded"}


def test_cancel_takes_effect_within_a_step(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    server.reply = Gate(3)
    document = service.submit(*images(tmp_path / "book", 8))
    with service.worker(server.base_url):
        wait_until(lambda: service.document(document).row["pages_done"] == 3)
        row = service.document(document).row
        assert (row["step"], row["page_count"]) == ("extract", 8)
        cancel_document(service.database, "default", document)
        [ended] = service.wait_until_finished(document)
        request_count = len(server.requests)
        other = service.submit(*images(tmp_path / "other", 1))
        server.reply = at_once
        service.wait_until_finished(other)
    assert (ended.state, ended.row["result"]) == ("cancelled", None)
    assert len(server.requests) == request_count + 1


def test_sigterm_requeues_documents_and_saves_responses(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    server.reply = gate = Gate(3)
    document = service.submit(*images(tmp_path / "book", 20))
    with service.worker(server.base_url, drain_seconds=6) as worker:
        wait_until(lambda: len(service.saved(document)) == 3 and server.in_flight)
        request_count = len(server.requests)
        threading.Timer(0.5, gate.opened.set).start()
        assert worker.drain() < 10
    row = service.document(document).row
    assert (row["state"], row["worker"], row["attempts"]) == ("queued", None, 0)
    # What was requested was answered and saved, and little more was requested.
    assert len(service.saved(document)) == len(server.requests) < 20
    assert len(server.requests) <= request_count + 8
    with service.worker(server.base_url):
        service.wait_until_finished(document)
    assert repeated(server) == 0


@on_sqlite
def test_a_document_keeps_the_revision_it_was_queued_with(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    server.reply = gate = Gate(1)
    edited = PAGES_ONLY.replace("- step: assemble", "- step: describe\n- step: assemble")
    first = service.submit(*images(tmp_path / "first", 2))
    with service.worker(server.base_url):
        wait_until(lambda: service.state(first) == "processing" and server.in_flight)
        second = service.submit(*images(tmp_path / "second", 2), pipeline=edited)
        gate.opened.set()
        ended = service.wait_until_finished(first, second)
    assert [[step["name"] for step in document.steps] for document in ended] == [
        ["extract", "assemble"],
        ["extract", "describe", "assemble"],
    ]
    old, new = (service.result(document.id)["pipeline_revision"] for document in ended)
    assert old != new


def test_documents_wait_while_the_engine_is_unavailable(service: Service, tmp_path: Path) -> None:
    port = free_port()
    ids = [service.submit(*images(tmp_path / f"{k}", 1)) for k in range(3)]
    url = f"http://127.0.0.1:{port}/v1"
    with service.worker(url, ready_timeout=0.1, tasks=2):
        wait_until(
            lambda: any(service.document(document_id).row["waiting_for"] for document_id in ids)
        )
        waiting = next(
            row for document_id in ids if (row := service.document(document_id).row)["waiting_for"]
        )
        assert "the model of the step extract" in waiting["waiting_for"]
        assert str(port) not in waiting["waiting_for"]
        with serving_beside(at_once, port):
            ended = service.wait_until_finished(*ids)
    assert {
        (document.state, document.row["attempts"], document.row["waiting_for"])
        for document in ended
    } == {("succeeded", 1, None)}


@on_sqlite
def test_documents_wait_while_the_storage_is_unavailable(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    document = service.submit(*images(tmp_path / "a", 1))
    files = service.storage / "tenants/default" / document
    # A file with the name of the checkpoints' folder.
    (files / "checkpoints").write_text("")
    with service.worker(server.base_url):
        wait_until(lambda: service.document(document).row["waiting_for"])
        assert "the storage" in service.document(document).row["waiting_for"]
        (files / "checkpoints").unlink()
        [ended] = service.wait_until_finished(document)
    assert (ended.state, ended.row["attempts"]) == ("succeeded", 1)


@on_sqlite
def test_retryable_page_failures_are_retried_with_backoff_and_counted(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    """A page fails until all repetitions of its request are used up; the retried step succeeds."""
    failures, bad = 5, set[bytes]()

    def reply(body: dict[str, Any]) -> web.Response:
        nonlocal failures
        image = image_of(body)
        if not bad:
            bad.add(image)
        if image in bad and failures > 0:
            failures -= 1
            return refusal(500, "for now")
        return at_once(body)

    server.reply = reply
    patient = PAGES_ONLY.replace("limit: 0", "limit: 1, backoff: 0.01")
    document = service.submit(*images(tmp_path / "a", 3), pipeline=patient)
    with service.worker(server.base_url):
        [ended] = service.wait_until_finished(document)
    assert (ended.state, ended.row["attempts"], ended.steps[0]["retries"]) == ("succeeded", 2, 1)
    # The other pages were not requested again.
    assert len(server.requests) == 5 + 3


@on_sqlite
def test_a_step_that_takes_too_long_fails_with_its_code_and_can_be_retried(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    server.reply = gate = Gate(1)
    limited = PAGES_ONLY.replace("limit: 0}", "limit: 1, backoff: 0}\n  time_limit: 0.5")
    document = service.submit(*images(tmp_path / "a", 3), pipeline=limited)
    with service.worker(server.base_url):
        [ended] = service.wait_until_finished(document)
        error = ended.row["error"]
        assert (error["code"], error["step"]) == ("time_limit", "extract")
        assert error["retryable"] is True
        assert ended.row["attempts"] == 2
        assert ended.steps[0]["retries"] == 1
        gate.opened.set()
        retry_document(service.database, "default", document)
        [again] = service.wait_until_finished(document)
    assert again.state == "succeeded"
    assert len(service.saved(document)) == 3


@on_sqlite
def test_a_time_limit_starts_with_the_first_request(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    """The second document's request waits for the only slot."""
    server.reply = gate = Gate(0)
    slow = service.submit(*images(tmp_path / "slow", 1))
    limited = PAGES_ONLY.replace("limit: 0}", "limit: 0}\n  time_limit: 20")
    with service.worker(server.base_url, concurrency=1):
        wait_until(lambda: server.in_flight)
        quick = service.submit(*images(tmp_path / "quick", 1), pipeline=limited)
        wait_until(lambda: service.state(quick) == "processing")
        assert len(server.requests) == 1
        gate.opened.set()
        ended = service.wait_until_finished(slow, quick)
    assert {document.state for document in ended} == {"succeeded"}


@on_sqlite
def test_the_concurrency_of_a_step_limits_items_of_all_documents(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    narrow = PAGES_ONLY.replace("limit: 0}", "limit: 0}\n  concurrency: 1")
    ids = [service.submit(*images(tmp_path / f"{k}", 4), pipeline=narrow) for k in range(3)]
    with service.worker(server.base_url, concurrency=8):
        service.wait_until_finished(*ids)
    assert server.most_in_flight == 1
    assert len(server.requests) == 12


def test_a_retry_processes_only_failed_items(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    refused: set[bytes] = set()

    def refuse_first(body: dict[str, Any]) -> web.Response:
        if not refused:
            refused.add(image_of(body))
        return refusal(400, "not this one") if image_of(body) in refused else at_once(body)

    server.reply = refuse_first
    document = service.submit(*images(tmp_path / "a", 4))
    with service.worker(server.base_url):
        [ended] = service.wait_until_finished(document)
        assert ended.state == "partially_succeeded"
        assert ended.row["error"]["code"] == "request_rejected"
        server.reply, request_count = at_once, len(server.requests)
        retry_document(service.database, "default", document)
        [again] = service.wait_until_finished(document)
        assert again.state == "succeeded"
        assert {image_of(body) for body in server.requests[request_count:]} == refused
        assert again.row["result"] != ended.row["result"]
        request_count = len(server.requests)
        retry_document(service.database, "default", document, "extract")
        service.wait_until_finished(document)
        assert len(server.requests) == request_count + 4
        retry_document(service.database, "default", document, "assemble")
        service.wait_until_finished(document)
        assert len(server.requests) == request_count + 4


@on_sqlite
def test_a_worker_that_was_frozen_and_thaws_has_not_died(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    server.reply = gate = Gate(1)
    document = service.submit(*images(tmp_path / "book", 3))
    with service.worker(server.base_url, **SHORT) as frozen:
        wait_until(lambda: len(service.saved(document)) == 1)
        service.freeze(frozen)
        with service.worker(server.base_url, **SHORT) as successor:
            wait_until_owned(service, document, successor)
            assert service.document(document).row["worker_deaths"] == 1
            frozen.thaw()
            wait_until(lambda: service.document(document).row["worker_deaths"] == 0)
            gate.opened.set()
            [ended] = service.wait_until_finished(document)
    assert (ended.state, ended.row["worker_stalls"]) == ("succeeded", 1)


@on_sqlite
def test_a_backup_of_the_database_that_is_older_than_the_storage_continues(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    """Copied while the service runs, as `sqlite3 FILE ".backup COPY"` does, and restored after the
    document had succeeded: its pages are not processed again."""
    server.reply = gate = Gate(2)
    document = service.submit(*images(tmp_path / "book", 5))
    copy = tmp_path / "copy.sqlite"
    with service.worker(server.base_url, **SHORT):
        wait_until(lambda: len(service.saved(document)) == 2)
        path = service.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        gate.opened.set()
        [before] = service.wait_until_finished(document)
    restored = Service(Database(str(copy)), f"sqlite:///{copy}", tmp_path)
    assert restored.state(document) == "processing"
    with restored.worker(server.base_url, **SHORT):
        [after] = restored.wait_until_finished(document)
    restored.database.close()
    assert (before.state, after.state) == ("succeeded", "succeeded")
    assert len(restored.result(document)["pages"]) == 5
    assert (len(server.requests), repeated(server)) == (5, 0)


@on_sqlite
def test_results_expire_after_the_retention_period(
    service: Service, server: ChatServer, tmp_path: Path
) -> None:
    with service.database.begin() as connection:
        connection.execute(tenants.update().values(retention_days=2.0))
    document = service.submit(*images(tmp_path / "a", 1))
    with service.worker(server.base_url):
        [ended] = service.wait_until_finished(document)
    kept = ended.row["expires_at"] - ended.row["finished_at"]
    assert 172_790 < kept.total_seconds() < 172_810


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_database_restart_costs_neither_an_attempt_nor_a_page(
    service: Service, server: ChatServer, tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    server.reply = gate = Gate(2)
    document = service.submit(*images(tmp_path / "book", 6))
    with service.worker(server.base_url):
        wait_until(lambda: len(service.saved(document)) == 2)
        postgresql.kill()
        gate.opened.set()
        # Processing continues in the meantime.
        wait_until(lambda: len(service.saved(document)) == 6)
        postgresql.start()
        [ended] = service.wait_until_finished(document)
    assert (ended.state, ended.row["attempts"], ended.row["worker_deaths"]) == ("succeeded", 1, 0)
    assert repeated(server) == 0


@pytest.mark.long
@on_sqlite
def test_documents_and_results_in_a_bucket(
    database: Database,
    database_url: str,
    server: ChatServer,
    tmp_path: Path,
    s3: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    service = Service(database, database_url, tmp_path, "s3://bucket/service")
    ids = [
        service.submit(documents.pdf(tmp_path / "a.pdf", 2)),
        service.submit(*images(tmp_path / "b", 3), name="b"),
    ]
    with service.worker(server.base_url, environment=s3):
        ended = service.wait_until_finished(*ids)
    assert [document.state for document in ended] == ["succeeded", "succeeded"]
    assert len(service.result(ids[1])["pages"]) == 3
    assert service.read(ids[0], "pages/2.jpg")[:2] == b"\xff\xd8"

"""The queue of documents: one owner at a time, leases, priorities and fair shares."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import insert, select, text

from llm_ocr.service.database import Database, DatabaseError, now
from llm_ocr.service.documents import (
    cancel_document,
    load_document,
    new_document_id,
    retry_document,
)
from llm_ocr.service.events import list_events
from llm_ocr.service.schema import DocumentState, documents, workers
from llm_ocr.service.work_queue import (
    MAX_WORKER_DEATHS,
    MAX_WORKER_STALLS,
    ClaimedDocument,
    DocumentCompletion,
    StepProgress,
    WorkQueue,
    recover_expired_leases,
)
from tests.servers.postgresql import PostgresqlServer
from tests.service.document_rows import expire, limit, make_available, queue, row_of

SUCCEEDED = DocumentCompletion(
    DocumentState.SUCCEEDED, result="result-1", cost={"prompt_tokens": 5}
)


def claim_one(database: Database, worker: str = "a") -> ClaimedDocument:
    (claimed,) = WorkQueue(database, worker).claim(1)
    return claimed


def recorded_states(database: Database, document_id: str) -> list[str]:
    events = list_events(database, "default", document_id)
    return [event.type.removeprefix("document.") for event in events]


def test_a_document_is_claimed_processed_and_finished(database: Database) -> None:
    document_id = queue(database, metadata={"order": 4711})
    a = WorkQueue(database, "a")
    (claimed,) = a.claim(5)
    assert (claimed.id, claimed.tenant, claimed.attempts) == (document_id, "default", 1)
    assert claimed.metadata == {"order": 4711}
    assert a.claim(5) == []

    running = [StepProgress("extract", "running", 1, requests=1, seconds=2.5)]
    assert a.save_progress(claimed, "extract", running, pages_done=1)
    stored = load_document(database, "default", document_id)
    assert (stored.row["step"], stored.row["pages_done"], stored.row["page_count"]) == (
        *("extract", 1),
        2,
    )
    done = [StepProgress("extract", "succeeded", 2, requests=2, seconds=4.0)]
    assert a.finish(claimed, SUCCEEDED, done, page_count=2)
    stored = load_document(database, "default", document_id)
    assert (stored.state, stored.row["result"]) == (DocumentState.SUCCEEDED, "result-1")
    assert stored.row["cost"] == {"prompt_tokens": 5}
    (step,) = stored.steps
    assert (step["state"], step["items_done"], step["seconds"]) == ("succeeded", 2, 4.0)
    assert step["started_at"] <= step["finished_at"]
    assert recorded_states(database, document_id) == [
        *("awaiting_upload", "queued"),
        *("processing", "succeeded"),
    ]


def test_two_workers_never_claim_the_same_document(database: Database) -> None:
    queued = {queue(database) for _ in range(40)}

    def work(name: str) -> list[str]:
        mine: list[str] = []
        while claimed := WorkQueue(database, name).claim(3):
            mine += [document.id for document in claimed]
        return mine

    with ThreadPoolExecutor(4) as threads:
        taken = [document for mine in threads.map(work, "abcd") for document in mine]
    assert sorted(taken) == sorted(queued)


def test_a_worker_that_lost_its_lease_changes_nothing(database: Database) -> None:
    document_id = queue(database)
    a, b = WorkQueue(database, "a"), WorkQueue(database, "b")
    (frozen,) = a.claim(1)
    expire(database, document_id)
    assert recover_expired_leases(database) == 1
    (successor,) = b.claim(1)
    assert successor.fencing_token > frozen.fencing_token
    before = row_of(database, document_id)

    assert a.renew_leases({frozen.id: frozen.fencing_token}) == {}
    assert not a.save_progress(
        frozen, "extract", [StepProgress("extract", "running")], pages_done=1
    )
    assert not a.finish(frozen, SUCCEEDED, [StepProgress("extract", "succeeded")])
    assert not a.requeue(frozen)
    assert row_of(database, document_id) == before
    assert load_document(database, "default", document_id).steps == []
    assert b.finish(successor, SUCCEEDED)
    assert recorded_states(database, document_id)[-2:] == ["processing", "succeeded"]


def test_an_older_fencing_token_of_the_same_worker_changes_nothing(database: Database) -> None:
    document_id = queue(database)
    frozen = claim_one(database)
    expire(database, document_id)
    recover_expired_leases(database)
    again = claim_one(database)
    a = WorkQueue(database, "a")
    assert not a.finish(frozen, SUCCEEDED)
    assert a.renew_leases({document_id: frozen.fencing_token}) == {}
    assert a.finish(again, SUCCEEDED)


def test_a_renewed_lease_does_not_expire(database: Database) -> None:
    document_id = queue(database)
    a = WorkQueue(database, "a", lease_seconds=60)
    (claimed,) = a.claim(1)
    expire(database, document_id)
    assert a.renew_leases({document_id: claimed.fencing_token}) == {document_id: False}
    assert recover_expired_leases(database) == 0
    with database.read() as connection:
        left = row_of(database, document_id)["lease_expires_at"] - connection.scalar(select(now()))
    assert 30 < left.total_seconds() <= 60


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_an_unavailable_database_does_not_count_as_worker_deaths(
    database: Database, postgresql: PostgresqlServer
) -> None:
    """Workers couldn't renew their leases in the meantime, and get the time to do so."""
    document_id = queue(database)
    a = WorkQueue(database, "a")
    (claimed,) = a.claim(1)
    expire(database, document_id)
    postgresql.stop()
    with pytest.raises(DatabaseError):
        recover_expired_leases(database)
    postgresql.start()
    assert recover_expired_leases(database) == 0
    assert a.renew_leases({document_id: claimed.fencing_token}) == {document_id: False}
    assert row_of(database, document_id)["worker_deaths"] == 0


def test_a_document_that_kills_its_workers_fails(database: Database) -> None:
    document_id = queue(database)
    for worker_deaths in range(1, MAX_WORKER_DEATHS + 1):
        WorkQueue(database, "a").save_progress(claim_one(database), "extract", [])
        expire(database, document_id)
        if worker_deaths == MAX_WORKER_DEATHS:
            # A failed document stays failed: the worker may be heard of yet.
            assert recover_expired_leases(database) == 0
            expire(database, document_id, seconds_ago=60)
        assert recover_expired_leases(database) == 1
        assert row_of(database, document_id)["worker_deaths"] == worker_deaths
    row = row_of(database, document_id)
    assert (row["state"], row["attempts"]) == (DocumentState.FAILED, MAX_WORKER_DEATHS)
    assert (row["error"]["code"], row["error"]["step"]) == ("worker_died", "extract")
    assert row["error"]["retryable"] is False
    assert row["finished_at"] is not None
    assert WorkQueue(database, "b").claim(1) == []
    assert recorded_states(database, document_id)[-1] == "failed"


def test_a_document_that_kills_its_workers_does_not_fail_others(database: Database) -> None:
    """A poisonous document and its neighbors lose two workers. The third worker has only one of
    them at a time."""
    poison, *innocent = (queue(database) for _ in range(4))
    ended: set[str] = set()
    for life in range(20):
        a = WorkQueue(database, f"life-{life}")
        claimed = a.claim(4)
        if not claimed:
            break
        if poison in {document.id for document in claimed}:
            for document in claimed:
                expire(database, document.id, seconds_ago=60)
            recover_expired_leases(database)
            continue
        for document in claimed:
            assert a.finish(document, SUCCEEDED)
            ended.add(document.id)
    assert ended == set(innocent)
    assert row_of(database, poison)["state"] == DocumentState.FAILED


def lose(database: Database, worker: str, document_id: str) -> None:
    """Make a worker claim a document and lose its lease."""
    (claimed,) = WorkQueue(database, worker).claim(1)
    assert claimed.id == document_id
    expire(database, document_id, seconds_ago=60)
    assert recover_expired_leases(database) == 1


def counts(database: Database, document_id: str) -> tuple[int, int]:
    """The deaths and stalls of a document's workers."""
    row = row_of(database, document_id)
    return row["worker_deaths"], row["worker_stalls"]


def test_a_worker_that_resumes_has_not_died(database: Database) -> None:
    document_id = queue(database)
    lose(database, "slow", document_id)
    lose(database, "dead", document_id)
    assert counts(database, document_id) == (2, 0)
    slow = WorkQueue(database, "slow")
    # Concurrently from several threads, and again later: each loss is taken back once.
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: slow.heartbeat(), range(4)))
    slow.heartbeat()
    assert counts(database, document_id) == (1, 1)
    WorkQueue(database, "other").heartbeat()
    assert counts(database, document_id) == (1, 1)
    lose(database, "slow too", document_id)
    WorkQueue(database, "slow too").unregister()
    assert counts(database, document_id) == (1, 2)
    for worker in ("dead too", "dead at last"):
        lose(database, worker, document_id)
    row = row_of(database, document_id)
    assert (row["state"], row["worker_deaths"]) == (DocumentState.FAILED, MAX_WORKER_DEATHS)
    assert "3 workers died" in row["error"]["message"]


def test_a_worker_that_recovers_its_own_lease_has_not_died(database: Database) -> None:
    """As after a suspension of the machine, with only this worker left."""
    document_id = queue(database)
    for stalls in range(1, MAX_WORKER_DEATHS + 2):
        claimed = claim_one(database)
        expire(database, document_id)
        assert recover_expired_leases(database, caller="a") == 1
        assert counts(database, document_id) == (0, stalls)
        assert not WorkQueue(database, "a").finish(claimed, SUCCEEDED)
    WorkQueue(database, "a").heartbeat()
    assert counts(database, document_id) == (0, MAX_WORKER_DEATHS + 1)
    assert row_of(database, document_id)["state"] == DocumentState.QUEUED


def test_a_late_worker_keeps_a_document_on_its_last_chance(database: Database) -> None:
    document_id = queue(database)
    for worker in ("dead", "dead too"):
        lose(database, worker, document_id)
    claimed = claim_one(database, "slow")
    expire(database, document_id)
    assert recover_expired_leases(database) == 0
    assert WorkQueue(database, "slow").renew_leases({document_id: claimed.fencing_token}) == {
        document_id: False
    }
    assert WorkQueue(database, "slow").finish(claimed, SUCCEEDED)


@pytest.mark.parametrize("heard", ["returns", "releases it itself"])
def test_a_document_on_which_all_workers_stall_fails(database: Database, heard: str) -> None:
    document_id = queue(database)
    for life in range(MAX_WORKER_STALLS + MAX_WORKER_DEATHS):
        assert row_of(database, document_id)["state"] == DocumentState.QUEUED
        name = f"life-{life}"
        if heard == "returns":
            lose(database, name, document_id)
        else:
            claim_one(database, name)
            expire(database, document_id)
            assert recover_expired_leases(database, caller=name) == 1
        WorkQueue(database, name).heartbeat()
    row = row_of(database, document_id)
    assert (row["state"], row["worker_deaths"], row["worker_stalls"]) == (
        *(DocumentState.FAILED, MAX_WORKER_DEATHS),
        MAX_WORKER_STALLS,
    )
    assert row["error"]["code"] == "worker_died"
    assert "13 workers stopped responding" in row["error"]["message"]


def test_a_worker_that_resumes_does_not_change_finished_or_retried_documents(
    database: Database,
) -> None:
    document_id = queue(database)
    for worker in ("slow", "dead", "dead too"):
        lose(database, worker, document_id)
    failed = row_of(database, document_id)
    assert failed["state"] == DocumentState.FAILED
    retried = queue(database)
    for worker in ("slow", "dead", "dead too"):
        lose(database, worker, retried)
    retry_document(database, "default", retried)
    lose(database, "dead again", retried)
    WorkQueue(database, "slow").heartbeat()
    assert row_of(database, document_id) == failed
    assert counts(database, retried) == (1, 0)


def test_requeued_documents_count_as_attempts_only_after_failures(database: Database) -> None:
    document_id = queue(database)
    a = WorkQueue(database, "a")
    assert a.requeue(claim_one(database))
    assert row_of(database, document_id)["attempts"] == 0
    assert a.requeue(claim_one(database), after_seconds=60, is_attempt=True)
    assert a.claim(1) == []
    make_available(database)
    claimed = claim_one(database)
    assert claimed.attempts == 2
    assert a.requeue(claimed, after_seconds=60, waiting_for="the engine of extract")
    assert row_of(database, document_id)["waiting_for"] == "the engine of extract"
    make_available(database)
    claim_one(database)
    row = row_of(database, document_id)
    assert (row["waiting_for"], row["worker_deaths"], row["fencing_token"]) == (None, 0, 4)


def test_the_highest_priority_comes_first_then_the_oldest(database: Database) -> None:
    low, first, second, high = (queue(database, priority=priority) for priority in (-1, 0, 0, 7))
    claimed = WorkQueue(database, "a").claim(10)
    assert [document.id for document in claimed] == [high, first, second, low]


def fill(database: Database, tenant: str, count: int) -> None:
    """Queue `count` documents."""
    row = {
        "tenant": tenant,
        "name": "scan.pdf",
        "pipeline": "markdown",
        "pipeline_revision": "revision-1",
        "metadata": {},
        "generations": {},
        "state": DocumentState.QUEUED,
    }
    times = {"created_at": now(-60), "queued_at": now(-60), "available_at": now(-60)}
    with database.begin() as connection:
        connection.execute(
            insert(documents).values(**times),
            [{**row, "id": new_document_id()} for _ in range(count)],
        )
        connection.execute(text("ANALYZE"))


def test_a_tenant_with_many_documents_does_not_starve_one_with_few(database: Database) -> None:
    fill(database, "default", 10_000)
    few = [queue(database, "other") for _ in range(3)]
    a = WorkQueue(database, "a")
    first = a.claim(6)
    assert {document.id for document in first if document.tenant == "other"} == set(few)
    assert Counter(document.tenant for document in first) == {"default": 3, "other": 3}

    # The claim reads the index in order, and no other rows.
    plans: list[str] = []
    with database.begin() as connection:
        for statement, parameters in statements_of(a, connection):
            explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
            rows = connection.exec_driver_sql(f"{explain} {statement}", parameters)
            plans.append("\n".join(str(row) for row in rows))
    claims = [plan for plan in plans if "documents_queue" in plan]
    assert claims, plans
    assert not any("SCAN documents\n" in plan or "Seq Scan on documents" in plan for plan in plans)
    assert not any("TEMP B-TREE" in plan or "Sort" in plan for plan in claims), claims


def statements_of(queue: WorkQueue, connection: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    """The statements of a claim on the table documents, as passed to the driver."""
    from sqlalchemy import event

    executed: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:  # noqa: ANN401
        if "FROM documents" in statement and "events" not in statement:
            executed.append((statement, parameters))

    event.listen(connection.engine, "before_cursor_execute", note)
    try:
        assert queue._claim_next(connection, "default") is not None
    finally:
        event.remove(connection.engine, "before_cursor_execute", note)
    assert executed
    return executed


def test_a_tenant_of_twice_the_weight_gets_twice_as_many_tasks(database: Database) -> None:
    limit(database, "other", weight=2.0)
    for _ in range(12):
        queue(database)
        queue(database, "other")
    claimed = WorkQueue(database, "a").claim(9)
    assert Counter(document.tenant for document in claimed) == {"default": 3, "other": 6}


@pytest.mark.parametrize("seed", range(3))
def test_max_processing_holds_over_all_workers(database: Database, seed: int) -> None:
    limit(database, "default", max_processing=4)
    limit(database, "other", max_processing=3)
    for tenant in random.Random(seed).sample(["default"] * 10 + ["other"] * 10, 20):
        queue(database, tenant)
    with ThreadPoolExecutor(6) as threads:
        claimed = threads.map(lambda name: WorkQueue(database, name).claim(5), "abcdef")
        taken = [document for documents in claimed for document in documents]
    assert Counter(document.tenant for document in taken) == {"default": 4, "other": 3}
    assert WorkQueue(database, "g").claim(5) == []
    (ended,) = [document for document in taken if document.tenant == "other"][:1]
    owner = row_of(database, ended.id)["worker"]
    assert WorkQueue(database, owner).finish(ended, SUCCEEDED)
    assert [document.tenant for document in WorkQueue(database, "g").claim(5)] == ["other"]


def test_a_worker_learns_that_its_document_is_to_be_cancelled(database: Database) -> None:
    document_id = queue(database)
    a = WorkQueue(database, "a")
    (claimed,) = a.claim(1)
    cancel_document(database, "default", document_id)
    assert a.renew_leases({document_id: claimed.fencing_token}) == {document_id: True}
    assert a.finish(claimed, DocumentCompletion(DocumentState.CANCELLED))
    assert row_of(database, document_id)["state"] == DocumentState.CANCELLED


@pytest.mark.parametrize("leaves", ["gives back", "dies"])
def test_a_cancelled_document_is_not_requeued_when_its_worker_dies(
    database: Database, leaves: str
) -> None:
    document_id = queue(database)
    claimed = claim_one(database)
    cancel_document(database, "default", document_id)
    if leaves == "dies":
        expire(database, document_id)
        recover_expired_leases(database)
    else:
        assert WorkQueue(database, "a").requeue(claimed)
    row = row_of(database, document_id)
    assert (row["state"], row["finished_at"] is not None) == (DocumentState.CANCELLED, True)
    assert recorded_states(database, document_id)[-1] == "cancelled"


def test_page_counts_are_kept(database: Database) -> None:
    document_id = queue(database)
    claimed = claim_one(database)
    assert WorkQueue(database, "a").finish(claimed, DocumentCompletion(DocumentState.FAILED))
    assert row_of(database, document_id)["page_count"] == 2


def test_only_the_databases_clock_is_used(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose clock is wrong by a day works like any other."""
    import time

    monkeypatch.setattr(time, "time", lambda: 86_400.0)
    document_id = queue(database)
    a = WorkQueue(database, "a")
    (claimed,) = a.claim(1)
    assert recover_expired_leases(database) == 0
    assert a.renew_leases({document_id: claimed.fencing_token}) == {document_id: False}
    assert a.finish(claimed, SUCCEEDED, retention_seconds=3600)
    monkeypatch.undo()
    row = row_of(database, document_id)
    for name in ("created_at", "queued_at", "started_at", "finished_at"):
        assert abs((row[name] - datetime.now(UTC)).total_seconds()) < 300, name
    kept = (row["expires_at"] - row["finished_at"]).total_seconds()
    assert kept == pytest.approx(3600, abs=1)


def test_workers_are_listed_while_they_are_alive(database: Database) -> None:
    a = WorkQueue(database, "a")
    a.register("host-1", "0.1.0", tasks=5)
    a.heartbeat(is_draining=True)
    with database.read() as connection:
        (row,) = connection.execute(select(workers))
    assert (row.host, row.tasks, row.is_draining) == ("host-1", 5, True)
    a.unregister()
    with database.read() as connection:
        assert connection.execute(select(workers)).all() == []

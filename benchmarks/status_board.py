"""The cost of the status board with many documents in the database.

    python -m benchmarks.status_board [--documents 100000]

For SQLite and PostgreSQL: milliseconds of the numbers of all tenants and of one, with documents
that finished over a month, and with all of them queued and finished within a day.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import new_document_id
from llm_ocr.service.schema import deliveries, documents, events, reviews, steps, tenants, workers
from llm_ocr.service.status_board import load_status
from tests.servers.postgresql import serving_postgresql

TENANTS = ("default", "invoices", "mail", "archive")
BATCH = 5000
DAY = 86_400.0
STATES = [
    *("succeeded",) * 90,
    *("partially_succeeded",) * 4,
    *("failed",) * 3,
    *("queued", "needs_review", "processing"),
]
ERRORS = [
    {"code": code, "step": step, "message": "as in the benchmark"}
    for code, step in (("timeout", "extract"), ("no_json", "parse"), ("too_many_pages", None))
]


def rows_of(count: int, at: Any) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:  # noqa: ANN401
    """Documents over a month, with three steps each."""
    from datetime import timedelta

    chance = random.Random(1)
    for _ in range(count):
        state = chance.choice(STATES)
        created = at - timedelta(seconds=chance.uniform(60, 30 * DAY))
        is_over = state in ("succeeded", "partially_succeeded", "failed")
        finished = created + timedelta(seconds=30)
        error = chance.choice(ERRORS) if state in ("failed", "partially_succeeded") else None
        row = {
            "id": new_document_id(),
            "tenant": chance.choice(TENANTS),
            "name": "scan.pdf",
            "pipeline": "invoice",
            "pipeline_revision": "1",
            "metadata": {"order": "4711"},
            "state": state,
            "created_at": created,
            "queued_at": created,
            "finished_at": finished if is_over else None,
            "available_at": created,
            "page_count": chance.randint(1, 9),
            "generations": {},
            "step": "extract" if state == "processing" else None,
            "error": error,
            "cost": {"steps": [{"step": "extract", "requests": 3}] * 3},
            "lease_expires_at": at + timedelta(days=1) if state == "processing" else None,
        }
        names = ("extract", "assemble", "parse")
        yield (
            row,
            [
                {
                    "document_id": row["id"],
                    "position": position,
                    "name": name,
                    "state": "succeeded" if is_over else "pending",
                    "started_at": created if is_over else None,
                    "finished_at": created + timedelta(seconds=chance.expovariate(0.2))
                    if is_over
                    else None,
                }
                for position, name in enumerate(names)
            ],
        )


def fill(database: Database, count: int) -> None:
    with database.begin() as connection:
        at = connection.execute(select(now())).scalar_one()
        values = [{"id": name, "created_at": at, "weight": 1.0} for name in TENANTS]
        connection.execute(tenants.insert(), values)
        for number in range(8):
            connection.execute(
                workers.insert().values(
                    id=f"worker-{number}",
                    host=f"host-{number}",
                    version="1",
                    tasks=5,
                    started_at=at,
                    last_seen_at=at,
                )
            )
    made = iter(rows_of(count, at))
    for _ in range(0, count, BATCH):
        batch = [row for _, row in zip(range(BATCH), made, strict=False)]
        with database.begin() as connection:
            connection.execute(documents.insert(), [row for row, _ in batch])
            connection.execute(steps.insert(), [step for _, found in batch for step in found])
            shared = [{"document_id": row["id"], "tenant": row["tenant"]} for row, _ in batch]
            connection.execute(
                events.insert().values(type="document.succeeded", data={}, created_at=at), shared
            )
            numbered = [
                {**one, "event_id": number, "state": "delivered" if number % 50 else "pending"}
                for number, one in enumerate(shared, _ * 1 + 1)
            ]
            connection.execute(
                deliveries.insert().values(url="https://example.com", attempts=1, next_at=at),
                [{**one, "url": one["document_id"]} for one in numbered],
            )
            connection.execute(
                reviews.insert().values(result="result-1", reasons=[], version=1),
                [
                    {
                        "document_id": row["id"],
                        "tenant": row["tenant"],
                        "state": "open" if row["state"] == "needs_review" else "approved",
                        "created_at": row["created_at"],
                    }
                    for row, _ in batch
                ],
            )


def measure(database: Database, name: str) -> None:
    for label, tenant in (("all tenants", None), ("one tenant", TENANTS[0])):
        load_status(database, tenant)
        times = []
        for _ in range(9):
            began = time.perf_counter()
            load_status(database, tenant)
            times.append((time.perf_counter() - began) * 1000)
        print(
            f"  {name + ', ' + label:60}median {statistics.median(times):4.0f} ms, "
            f"at most {max(times):4.0f} ms",
            flush=True,
        )


def measure_on(url: str, kind: str, count: int) -> None:
    database = Database(url)
    database.migrate()
    fill(database, count)
    if kind == "PostgreSQL":
        with database.begin() as connection:
            # As autovacuum does within a minute.
            connection.exec_driver_sql("ANALYZE")
    print(f"{kind}, {count:,} documents", flush=True)
    measure(database, "finished over a month")
    over = documents.c.finished_at.is_not(None)
    with database.begin() as connection:
        connection.execute(update(documents).where(over).values(finished_at=now(-600)))
        connection.execute(update(steps).values(finished_at=now(-600), started_at=now(-605)))
    measure(database, "all finished within the last hour")
    with database.begin() as connection:
        values = {"state": "queued", "finished_at": None, "error": None, "lease_expires_at": None}
        connection.execute(update(documents).values(**values))
    measure(database, "all queued")
    database.close()


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure_on(str(Path(folder) / "service.sqlite"), "SQLite", count)
    with serving_postgresql() as server:
        measure_on(server.create("service"), "PostgreSQL", count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    main(parser.parse_args().documents)

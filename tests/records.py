"""Records for tests of what becomes of them, in tables written by the run's own writers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel

from llm_ocr.storage.store import Store
from llm_ocr.tables.counts import ItemResult
from llm_ocr.tables.schema import Row, id_column
from llm_ocr.tables.shards import ShardWriter, publish
from llm_ocr.tables.user_schemas import save_user_schema


class Tax(BaseModel):
    rate: float
    amount: Decimal


class Line(BaseModel):
    description: str
    quantity: int | None = None
    amount: Decimal
    taxes: list[Tax] = []
    row: str | None = None


class Vendor(BaseModel):
    name: str
    vat_id: str | None = None


class Invoice(BaseModel):
    """Every kind of type, and a field that is called as a column of the run is."""

    number: str
    name: str | None = None
    issued: date
    due: date | None = None
    kind: Literal["invoice", "credit note"] = "invoice"
    vendor: Vendor
    lines: list[Line]
    tags: list[str] = []
    rate: float | None = None
    copies: int = 1
    paid: bool = False
    total: Decimal
    extra: dict[str, int] = {}


SCHEMA: Mapping[str, Any] = Invoice.model_json_schema()
HASH = "0a1b2c"


def invoice(**fields: object) -> dict[str, Any]:
    """The fields of an invoice, as they stand in the table."""
    given: dict[str, Any] = {
        "number": "2024-7",
        "issued": "2024-02-29",
        "vendor": {"name": "Mühle & Söhne"},
        "lines": [{"description": "Flour", "quantity": 2, "amount": "12.50"}],
        "total": "12.50",
        **fields,
    }
    return Invoice.model_validate(given).model_dump(mode="json")


def record(record_id: str, fields: object, **columns: object) -> Row:
    doc_id = record_id.partition("/")[0]
    return {
        "record_id": record_id,
        "doc_id": doc_id,
        "source_uri": f"s3://in/{doc_id}.png",
        "name": doc_id,
        "schema": "Invoice",
        "schema_hash": HASH,
        "fields": None if fields is None else json.dumps(fields),
        "errors": [],
        "evidence": [],
        "status": "ok",
        **columns,
    }


def error(path: str, value: str | None, reason: str) -> Row:
    return {"path": path, "value": value, "reason": reason}


def evidence(path: str, page: str, box: Sequence[float] | None, **columns: object) -> Row:
    """Evidence on a page; without a box, of a value that isn't there."""
    x1, y1, x2, y2 = box or (None,) * 4
    corners = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    found = {"matched": "exact" if box else None, "confidence": 0.9 if box else 0.1}
    place = {"page_id": page, "page_number": int(page.partition("/")[2])} if box else {}
    return (
        {"path": path, "quote": None, "page_id": None, "page_number": None}
        | found
        | corners
        | {
            **place,
            **columns,
        }
    )


def write_table(
    store: Store, stage: str, table: str, rows: Iterable[Row], shard: str = "000000"
) -> None:
    """A shard's rows, published as its stage would."""
    held = list(rows)
    order: dict[str, int] = {}
    for row in held:
        order.setdefault(row["doc_id"], len(order))
    ids = [row[id_column(table)] for row in held]
    asked = {"parse": "document-both-Invoice"} if stage == "parse" else {}
    writer = ShardWriter(store, stage, shard, (table,), order, task_versions=asked)
    for row, item in zip(held, ids, strict=True):
        writer.add(ItemResult(item, row["status"], {table: [row]}))
    writer.write_part(writer.drain())
    publish(store, writer.commit(ids), (table,), order)


def write_records_table(
    store: Store, rows: Iterable[Row], json_schema: Mapping[str, Any] | None = SCHEMA
) -> None:
    if json_schema is not None:
        save_user_schema(store, HASH, "Invoice", json_schema)
    write_table(store, "parse", "records", rows)

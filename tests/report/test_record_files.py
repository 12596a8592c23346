"""The files of a run's records: what is in them, of which types, and that nothing is lost."""

import csv
import gc
import io
import json
import tracemalloc
import uuid
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llm_ocr import load_records
from llm_ocr.report.record_counts import MAX_FIELDS, OTHER_FIELDS, RecordCounts
from llm_ocr.report.record_files import write_records
from llm_ocr.report.record_types import arrow_type
from llm_ocr.storage.store import Store, create_repository, open_store
from llm_ocr.tables.schema import Row
from llm_ocr.tables.user_schemas import save_user_schema
from tests.records import (
    HASH,
    SCHEMA,
    error,
    evidence,
    invoice,
    record,
    write_records_table,
    write_table,
)

V = pa.struct([("v", pa.int64())])
# How a JSON schema may say that a text is a decimal number.
PATTERN = r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "run"))


def written(
    store: Store, rows: Iterable[Row], json_schema: Mapping[str, Any] | None = SCHEMA
) -> RecordCounts:
    write_records_table(store, rows, json_schema)
    return write_records(store)


def lines(store: Store) -> list[dict[str, Any]]:
    text = store.get("records/records.jsonl").decode()
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def sheet(store: Store, name: str = "records") -> list[dict[str, str]]:
    text = store.get(f"records/{name}.csv").decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def read_parquet(store: Store) -> pa.Table:
    return pq.read_table(pa.BufferReader(store.get("records/records.parquet")))


def test_a_line_holds_all_of_a_record(store: Store) -> None:
    found = evidence("total", "d/1", (10, 20, 30, 40), quote="12,50 €")
    wrong = error("due", '"soon"', "no date")
    written(store, [record("d", invoice(), errors=[wrong], evidence=[found])])
    assert lines(store) == [
        {
            "source_uri": "s3://in/d.png",
            "name": "d",
            "record_id": "d",
            "page_number": None,
            "schema": "Invoice",
            "status": "ok",
            "error": None,
            "error_code": None,
            "fields": invoice(),
            "errors": [{"path": "due", "value": '"soon"', "reason": "no date"}],
            "evidence": [
                {
                    "path": "total",
                    "matched": "exact",
                    "confidence": 0.9,
                    "reading": None,
                    "extraction": None,
                    "page_id": "d/1",
                    "page_number": 1,
                    "quote": "12,50 €",
                    "box": [10.0, 20.0, 30.0, 40.0],
                }
            ],
        }
    ]
    assert json.loads(store.get("records/schema.json")) == SCHEMA


def test_columns_have_the_types_of_the_schema(store: Store) -> None:
    fields = invoice(rate=0.19, paid=True, due="2024-03-31", tags=["a", "b"], extra={"x": 1})
    written(store, [record("d", fields)])
    table = read_parquet(store)
    kinds = {field.name: field.type for field in table.schema}
    money, tax = pa.decimal128(38, 9), [("rate", pa.float64()), ("amount", pa.decimal128(38, 9))]
    line = [("description", pa.string()), ("quantity", pa.int64()), ("amount", money)]
    line += [("taxes", pa.list_(pa.struct(tax))), ("row", pa.string())]
    expected = {
        "number": pa.string(),
        "fields.name": pa.string(),
        "issued": pa.date32(),
        "due": pa.date32(),
        "kind": pa.string(),
        "vendor": pa.struct([("name", pa.string()), ("vat_id", pa.string())]),
        "lines": pa.list_(pa.struct(line)),
        "tags": pa.list_(pa.string()),
        "rate": pa.float64(),
        "copies": pa.int64(),
        "paid": pa.bool_(),
        "total": money,
        "extra": pa.string(),
    }
    assert {name: kinds[name] for name in expected} == expected
    assert kinds["source_uri"] == pa.string()
    [row] = table.to_pylist()
    assert (row["issued"], row["total"]) == (date(2024, 2, 29), Decimal("12.5"))
    assert row["lines"][0]["amount"] == Decimal("12.5")
    assert (row["extra"], row["tags"], row["name"]) == ('{"x": 1}', ["a", "b"], "d")


def test_nested_fields_stand_in_columns_and_lists_of_objects_in_files(store: Store) -> None:
    taxes = [{"rate": 0.07, "amount": "0.50"}, {"rate": 0.19, "amount": "1.00"}]
    several = [
        {"description": "Flour", "amount": "2.50", "row": "A7"},
        {"description": "Bread", "amount": "10", "taxes": taxes},
    ]
    fields = invoice(lines=several, tags=["a", "b"], name="The Mill")
    written(store, [record("c", invoice(lines=[])), record("d", fields)])
    first, second = sheet(store)
    assert (first["vendor.name"], first["vendor.vat_id"], first["paid"]) == (
        *("Mühle & Söhne", "", "false"),
    )
    assert (second["name"], second["fields.name"], second["tags"]) == (
        "d",
        "The Mill",
        '["a", "b"]',
    )
    assert "lines" not in second
    keys = {"source_uri": "s3://in/d.png", "record_id": "d"}
    found = sheet(store, "lines")
    assert [(one["row"], one["description"], one["fields.row"]) for one in found] == [
        ("1", "Flour", "A7"),
        ("2", "Bread", ""),
    ]
    assert all(keys.items() <= one.items() for one in found)
    assert sheet(store, "lines.taxes") == [
        {**keys, "row": "2", "row_2": "1", "rate": "0.07", "amount": "0.50"},
        {**keys, "row": "2", "row_2": "2", "rate": "0.19", "amount": "1.00"},
    ]


def test_lists_are_never_written_over_each_other(store: Store) -> None:
    names = ("records", "errors", "lines", "Lines", "a/b", "a_b", "../up", "…")
    part = {"type": "array", "items": {"type": "object", "properties": {"v": {"type": "integer"}}}}
    json_schema = {"type": "object", "properties": dict.fromkeys(names, part)}
    fields = {name: [{"v": k}] for k, name in enumerate(names)}
    written(store, [record("d", fields)], json_schema)
    files = {one.path.removeprefix("records/") for one in store.list("records")}
    files -= {"records.csv", "errors.csv", "records.jsonl", "records.parquet", "schema.json"}
    assert len({name.casefold() for name in files}) == len(files) == len(names)
    assert {sheet(store, name.removesuffix(".csv"))[0]["v"] for name in files} == {*"01234567"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+49 30 1234", "'+49 30 1234"),
        ("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0"),
        ("\t=1", "'\t=1"),
        ("＝1+1", "'＝1+1"),
        ("-12.50", "-12.50"),
        ("+4,2", "+4,2"),
        ("-1E-7", "-1E-7"),
        ("a = b", "a = b"),
    ],
)
def test_no_text_of_a_document_is_a_formula(store: Store, text: str, shown: str) -> None:
    wrong = error("due", text, "no date")
    line = {"description": text, "amount": "1"}
    row = record("d", invoice(number=text, lines=[line]), name=text, errors=[wrong])
    written(store, [row])
    [one] = sheet(store)
    assert (one["number"], one["name"]) == (shown, shown)
    assert sheet(store, "lines")[0]["description"] == shown
    assert sheet(store, "errors")[0]["value"] == shown
    # Only there: programs read the others.
    assert lines(store)[0]["fields"]["number"] == text
    assert read_parquet(store)["number"].to_pylist() == [text]


def test_numbers_are_numbers_however_they_are_written(store: Store) -> None:
    numbers = [-1e-07, -2.5, 1e300, -3.0]
    written(store, [record(f"d{k}", invoice(rate=one)) for k, one in enumerate(numbers)])
    assert [one["rate"] for one in sheet(store)] == ["-1e-07", "-2.5", "1e+300", "-3.0"]


def test_text_of_any_kind_comes_through(store: Store) -> None:
    texts = ['a "quoted"; one, two', "line\nline\r\nline\rline", "文書 größe", "half \ud83d end"]
    rows = [record(f"d{k}", invoice(number=text)) for k, text in enumerate(texts)]
    written(store, rows)
    expected = [*texts[:-1], "half ? end"]
    assert [one["number"] for one in sheet(store)] == expected
    assert [one["fields"]["number"] for one in lines(store)] == expected
    assert read_parquet(store)["number"].to_pylist() == expected


def test_values_that_fit_no_column_are_reported_and_stay_in_json_lines(store: Store) -> None:
    fields = invoice() | {
        "copies": 2**70,
        "total": "1e40",
        "issued": "yesterday",
        "rate": float("nan"),
        "paid": "yes",
        "color": "red",
        "lines": [{"description": "x", "amount": "1"}, "not an object"],
    }
    counts = written(store, [record("d", fields)])
    [row] = read_parquet(store).to_pylist()
    assert [row[name] for name in ("copies", "total", "issued", "rate", "paid")] == [None] * 5
    told = {one["path"]: one["value"] for one in row["errors"]}
    assert told == {
        "copies": str(2**70),
        "total": '"1e40"',
        "issued": '"yesterday"',
        "rate": '"NaN"',
        "paid": '"yes"',
        "color": '"red"',
        "lines.1": '"not an object"',
    }
    assert {one["path"] for one in sheet(store, "errors")} == set(told)
    assert lines(store)[0]["fields"] == {**fields, "rate": "NaN"}
    # The schema's own checks count, not the files'.
    assert counts.errors_by_field == {}


def test_failed_record_is_a_line_with_the_model_answer(store: Store) -> None:
    failed = {"status": "failed", "error": "no JSON", "error_code": "bad_answer"}
    written(store, [record("d", None, raw_answer="Sorry, {", **failed), record("e", invoice())])
    first, second = lines(store)
    assert (first["fields"], first["raw_answer"], first["error_code"]) == (
        *(None, "Sorry, {", "bad_answer"),
    )
    assert "raw_answer" not in second
    assert [(one["status"], one["error"], one["total"]) for one in sheet(store)] == [
        ("failed", "no JSON", ""),
        ("ok", "", "12.50"),
    ]
    assert read_parquet(store)["total"].to_pylist() == [None, Decimal("12.5")]


def test_errors_are_counted_by_field(store: Store) -> None:
    wrong = [error("lines.0.amount", "1", "x"), error("lines.12.amount", "2", "x")]
    whole = error("", None, "subtotal and VAT are not the total")
    unverified = evidence("total", "d/1", None)
    counts = written(
        store,
        [
            record("d", invoice(), errors=[*wrong, whole], evidence=[unverified]),
            record("e", None, status="failed"),
            record("f", invoice()),
        ],
    )
    assert counts.by_status == {"failed": 1, "ok": 2}
    assert counts.errors_by_field == {"lines.*.amount": 2, "": 1}
    first = sheet(store)[0]
    assert (first["errors"], first["unverified"]) == ("3", "1")
    assert read_parquet(store)["unverified"].to_pylist() == [["total"], [], []]
    assert dict(counts.summary_rows()) == {
        "Records": "3  1 failed  2 ok",
        "Errors in": "lines.*.amount 2, the whole record 1",
    }


def test_unknown_fields_are_counted_up_to_a_limit(store: Store) -> None:
    many = [error(f"made_up_{k}", "1", "no such field") for k in range(MAX_FIELDS + 10)]
    counts = written(store, [record("d", invoice(), errors=many)])
    assert len(counts.errors_by_field) == MAX_FIELDS + 1
    assert counts.errors_by_field[OTHER_FIELDS] == 10


def test_page_records_have_a_page_number(store: Store) -> None:
    written(store, [record(f"d/{page}", invoice(copies=page)) for page in (1, 2, 10)])
    assert [(one["page_number"], one["record_id"]) for one in sheet(store)] == [
        ("1", "d/1"),
        ("2", "d/2"),
        ("10", "d/10"),
    ]
    assert read_parquet(store)["page_number"].to_pylist() == [1, 2, 10]
    assert [one["page_number"] for one in lines(store)] == [1, 2, 10]


@pytest.mark.parametrize("why", ["not kept", "two", "no object"])
def test_without_one_schema_for_all_fields_are_json(store: Store, why: str) -> None:
    rows = [record("d", invoice()), record("e", {"other": [{"a": 1}]}), record("f", None)]
    if why == "two":
        rows[1] = {**rows[1], "schema_hash": "another"}
    schemas = {"not kept": None, "two": SCHEMA, "no object": {"type": "array", "items": {}}}
    written(store, rows, schemas[why])
    expected = [invoice(), {"other": [{"a": 1}]}, None]
    shown = [one and json.loads(one) for one in read_parquet(store)["fields"].to_pylist()]
    assert shown == expected
    assert [json.loads(one["fields"] or "null") for one in sheet(store)] == expected
    assert [one["fields"] for one in lines(store)] == expected


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, pa.int64()),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, pa.float64()),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, pa.string()),
        ({"type": ["number", "null"]}, pa.float64()),
        ({"type": ["integer", "string"]}, pa.string()),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, pa.decimal128(38, 9)),
        (
            {"anyOf": [{"type": "number"}, {"type": "string", "pattern": PATTERN}]},
            pa.decimal128(38, 9),
        ),
        ({"type": "string", "pattern": PATTERN}, pa.decimal128(38, 9)),
        ({"type": "string", "format": "decimal"}, pa.decimal128(38, 9)),
        ({"type": "string", "format": "date-time"}, pa.string()),
        ({"type": "string", "pattern": r"^\d{4}-\d{2}$"}, pa.string()),
        ({"type": "string", "pattern": "("}, pa.string()),
        ({"enum": ["a", "b", None]}, pa.string()),
        ({"const": 3}, pa.int64()),
        ({"enum": [True]}, pa.bool_()),
        ({"enum": [1, 2.5]}, pa.float64()),
        ({"type": "array"}, pa.string()),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, pa.string()),
        ({"$ref": "#/$defs/Node"}, pa.struct([("next", pa.string()), ("v", pa.int64())])),
        ({"allOf": [{"$ref": "#/$defs/a~1b"}]}, pa.bool_()),
        ({}, pa.string()),
        (True, pa.string()),
        (False, pa.string()),
        ({"anyOf": [True, {"type": "string"}]}, pa.string()),
        ({"anyOf": [True, {"type": "number"}]}, pa.string()),
        ({"anyOf": [{"type": "number"}, {"type": "object"}]}, pa.string()),
        ({"anyOf": [{"type": "null"}]}, pa.string()),
        ({"allOf": [True]}, pa.string()),
        ({"allOf": [{"anyOf": [{"type": "integer"}, {"type": "null"}]}]}, pa.int64()),
        ({"allOf": [{"allOf": [{"properties": {"v": {"type": "integer"}}}]}]}, V),
        ({"allOf": [{"properties": {"v": {"type": "integer"}}}, {"type": "object"}]}, V),
        ({"type": "object", "properties": {"v": {"type": "integer"}}, "anyOf": [{}, {}]}, V),
        ({"type": ["object", "null"], "properties": {"v": {"type": "integer"}}}, V),
        ({"type": ["object", "string"], "properties": {"v": {}}}, pa.string()),
        ({"$ref": "#/$defs/L/anyOf/0"}, pa.bool_()),
        ({"$ref": "#/$defs/c0"}, pa.int64()),
        ({"$ref": "#/$defs/Loop"}, pa.struct([("next", pa.string())])),
        ({"$ref": "#/$defs/Round"}, pa.string()),
        ({"$ref": "#/$defs/gone"}, pa.string()),
        ({"$ref": "http://elsewhere/schema"}, pa.string()),
        ({"items": {"type": "integer"}}, pa.list_(pa.int64())),
        ({"type": "array", "items": True}, pa.string()),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": {}}, pa.string()),
        ({"type": "array", "items": [{"type": "integer"}]}, pa.string()),
        ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}}, pa.string()),
        ({"format": "date"}, pa.string()),
        ({"enum": [1, "a", None, [], {}]}, pa.string()),
        ({"const": {"a": 1}}, pa.string()),
        ({"not": {"type": "string"}}, pa.string()),
        ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": False}, pa.string()),
        ({"type": "integer", "if": True, "then": {"minimum": 2}}, pa.int64()),
        ({"type": "money", "enum": None, "pattern": 3}, pa.string()),
    ],
)
def test_types_of_less_usual_schemas(store: Store, part: object, kind: pa.DataType) -> None:
    node = {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}
    node["v"] = {"type": "integer"}  # type: ignore[dict-item]
    chain = {f"c{k}": {"$ref": f"#/$defs/c{k + 1}"} for k in range(150)}
    loop = {"allOf": [{"properties": {"next": {"allOf": [{"$ref": "#/$defs/Loop"}]}}}]}
    defs = {
        "Node": {"type": "object", "properties": node},
        "a/b": {"type": "boolean"},
        "L": {"anyOf": [{"type": "boolean"}]},
        **chain,
        "c150": {"type": "integer"},
        "Loop": loop,
        "Round": {"$ref": "#/$defs/Round"},
    }
    json_schema = {"type": "object", "$defs": defs, "properties": {"x": part}}
    values = [None, "a", 1, 2.5, True, ["a"], {"half \ud83d": 1}]
    written(store, [record(f"d{k}", {"x": one}) for k, one in enumerate(values)], json_schema)
    assert read_parquet(store).schema.field("x").type == kind
    assert len(sheet(store)) == len(values)
    assert [one["fields"]["x"] for one in lines(store)][:-1] == values[:-1]


def test_schema_too_deep_for_columns_is_stored_as_json() -> None:
    json_schema: dict[str, Any] = {"type": "string"}
    for _ in range(2000):
        json_schema = {"type": "object", "properties": {"a": json_schema}}
    assert arrow_type(json_schema) == pa.string()


def test_invalid_names_are_not_columns() -> None:
    json_schema: dict[str, Any] = {"properties": {"a": {"properties": {"half \ud83d": {}}}}}
    assert arrow_type(json_schema) == pa.struct([("a", pa.string())])


def test_a_run_without_records_has_no_files(store: Store) -> None:
    assert write_records(store) == RecordCounts()
    written(store, [])
    assert list(store.list("records")) == []


def test_files_of_removed_lists_are_deleted(store: Store) -> None:
    written(store, [record("d", invoice())])
    assert store.exists("records/lines.taxes.csv")
    store.delete([f"schemas/{HASH}.json"])
    write_records(store)
    assert not store.exists("records/lines.csv")
    assert not store.exists("records/schema.json")


@pytest.mark.parametrize("place", ["s3", "gs", "hub bucket", "memory"])
def test_record_files_are_the_same_on_every_store(
    store: Store, place: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = {"s3": "s3", "gs": "gcs", "hub bucket": "hub"}.get(place)
    for key, value in (request.getfixturevalue(fixture) if fixture else {}).items():
        monkeypatch.setenv(key, value)
    name = uuid.uuid4().hex
    uri = f"hf://buckets/user/{name}" if fixture == "hub" else f"{place}://bucket/{name}"
    create_repository(uri, private=True)
    there = open_store(uri)
    rows = [record("d", invoice()), record("e", None, status="failed")]
    for one in (store, there):
        written(one, rows)
    here = {one.path: store.get(one.path) for one in store.list("records")}
    assert {one.path: there.get(one.path) for one in there.list("records")} == here
    assert [row["fields"] for row in load_records(uri)] == [invoice(), None]


@pytest.mark.long
def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    def peak(shards: int) -> tuple[int, int]:
        store = open_store(str(tmp_path / str(shards)))
        for shard in range(shards):
            rows = [record(f"d{k}", invoice(number=f"{shard}/{k}" * 20)) for k in range(1500)]
            write_table(store, "parse", "records", rows, f"{shard:06d}")
        save_user_schema(store, HASH, "Invoice", SCHEMA)
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        write_records(store)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(read_parquet(store)) == 1500 * shards
        gc.collect()
        return most, pa.total_allocated_bytes() - before

    few, many = peak(1), peak(4)
    assert many[0] < 1.25 * few[0]
    # All rows as Arrow has them are 3.4 MB.
    assert many[1] < few[1] + (2 << 20)

"""Write the records of a run as files: JSON Lines, CSV, and Parquet with the types of the schema.

    records/records.jsonl      all of each record
    records/records.parquet    one column per field, of the field's type
    records/records.csv        one column per field, nested ones with dots; also errors.csv and
                               a file for each list of objects
    records/disagreements.csv  the values for which a second model has others, if there was one
    records/schema.json        the JSON schema

They are derived from the table, whose rows are read one by one.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.records import Disagreement, FieldError
from llm_ocr.report.record_counts import RecordCounter, RecordCounts
from llm_ocr.report.record_csv import CsvFiles
from llm_ocr.report.record_types import Json, arrow_type, as_json, convert_value, encodable
from llm_ocr.storage.store import Store
from llm_ocr.tables.read import read_table
from llm_ocr.tables.schema import ERRORS, Row
from llm_ocr.tables.user_schemas import load_user_schema

FOLDER = "records"
# A row group of the Parquet file, whichever comes first.
GROUP_ROWS, GROUP_CHARACTERS = 1024, 16 << 20

_LEADING_COLUMNS = {
    "source_uri": pa.string(),
    "name": pa.string(),
    "record_id": pa.string(),
    "page_number": pa.int32(),
    "schema": pa.string(),
    "status": pa.string(),
    "error": pa.string(),
}
_TRAILING_COLUMNS = {"errors": ERRORS, "unverified": pa.list_(pa.string())}
# The one field of records whose schema is not known.
_UNKNOWN_SCHEMA: Json = {"type": "object", "properties": {"fields": {}}}


def write_records(store: Store) -> RecordCounts:
    """Write the files of the run's records, if it has any, replacing earlier ones."""
    first = next(read_table(store, "records", ["schema_hash"]), None)
    if first is None:
        return RecordCounts()
    json_schema = load_user_schema(store, first["schema_hash"])
    try:
        return _put(store, json_schema, _rows_of_schema(store, first["schema_hash"]))
    except _MixedSchemasError:
        return _put(store, None, read_table(store, "records"))


class _MixedSchemasError(Exception):
    """Records of several schemas, which have no common type."""


def _rows_of_schema(store: Store, schema_hash: str) -> Iterator[Row]:
    for row in read_table(store, "records"):
        if row["schema_hash"] != schema_hash:
            raise _MixedSchemasError
        yield row


def _put(store: Store, json_schema: Json | None, rows: Iterator[Row]) -> RecordCounts:
    with tempfile.TemporaryDirectory(prefix="llm-ocr-") as name:
        folder = Path(name)
        counts = _write(folder, json_schema, rows)
        if json_schema is not None:
            text = json.dumps(json_schema, indent=2, ensure_ascii=False)
            (folder / "schema.json").write_text(encodable(text), "utf-8")
        files: dict[str, bytes | Path] = {
            f"{FOLDER}/{path.name}": path for path in sorted(folder.iterdir())
        }
        store.put_many(files, "Records")
    store.delete([stored.path for stored in store.list(FOLDER) if stored.path not in files])
    return counts


@dataclass(frozen=True)
class _Record:
    """A row of the table of records with its fields parsed."""

    row: Row
    fields: Any
    typed: Mapping[str, Any]
    errors: tuple[FieldError, ...]
    misfits: tuple[FieldError, ...]

    @property
    def is_checked(self) -> bool:
        """Whether a second model was to check it."""
        return self.row.get("check_model") is not None

    @property
    def disagreements(self) -> list[Disagreement] | None:
        found = self.row.get("disagreements")
        return None if found is None else [Disagreement(**one) for one in found]

    @property
    def unverified_paths(self) -> list[str]:
        evidence = self.row["evidence"] or ()
        return [value["path"] for value in evidence if value["matched"] is None]

    @property
    def page_number(self) -> int | None:
        """None for the record of a whole document."""
        _, _, page = self.row["record_id"].partition("/")
        return int(page) if page else None

    @property
    def own(self) -> dict[str, object]:
        values = {name: self.row.get(name) for name in _LEADING_COLUMNS}
        return {**values, "page_number": self.page_number}


def _write(folder: Path, json_schema: Json | None, rows: Iterator[Row]) -> RecordCounts:
    kind = arrow_type(json_schema or _UNKNOWN_SCHEMA)
    is_known = json_schema is not None and pa.types.is_struct(kind)
    if not is_known:
        kind = arrow_type(_UNKNOWN_SCHEMA)
    names = _column_names(kind) if is_known else {}
    own = [*_LEADING_COLUMNS, *_TRAILING_COLUMNS]
    counter = RecordCounter()
    with ExitStack() as files:
        lines = files.enter_context((folder / "records.jsonl").open("w", encoding="utf-8"))
        tables = files.enter_context(CsvFiles(folder, kind, own, names))
        typed = files.enter_context(_TypedWriter(folder / "records.parquet", kind, names))
        for row in rows:
            record = _parse_record(row, kind, is_known)
            lines.write(as_json(_to_json(record)) + "\n")
            errors = record.errors + record.misfits
            numbers = {"errors": len(errors), "unverified": len(record.unverified_paths)}
            fields = record.fields if is_known else {"fields": record.fields}
            tables.write({**record.own, **numbers}, fields or {}, errors)
            typed.write(record)
            counter.add(row["status"], record.errors)
            if record.is_checked:
                counter.add_check(record.disagreements)
                tables.write_disagreements(record.own, record.disagreements or ())
    return counter.counts


def _column_names(kind: pa.StructType) -> dict[str, str]:
    """New names for fields that are named like our columns; some readers ignore case."""
    ours = {*_LEADING_COLUMNS, *_TRAILING_COLUMNS}
    taken = {field.name.casefold() for field in kind}
    names: dict[str, str] = {}
    for field in kind:
        if field.name.casefold() in ours:
            name = f"fields.{field.name}"
            while name.casefold() in taken:
                name = f"fields.{name}"
            names[field.name] = name
    return names


def _parse_record(row: Row, kind: pa.StructType, is_known: bool) -> _Record:
    # NaN is not valid JSON: it becomes a string.
    fields = None if row["fields"] is None else json.loads(row["fields"], parse_constant=str)
    misfits: list[FieldError] = []
    value = fields if is_known or fields is None else {"fields": fields}
    typed = convert_value(value, kind, "", misfits)
    errors = tuple(FieldError(**error) for error in row["errors"] or ())
    return _Record(row, fields, typed if isinstance(typed, dict) else {}, errors, tuple(misfits))


def _to_json(record: _Record) -> dict[str, object]:
    """A record without its cost; with the model's answer if it failed."""
    row = record.row
    line: dict[str, object] = {
        **record.own,
        "error_code": row["error_code"],
        "fields": record.fields,
        "errors": [asdict(error) for error in record.errors],
        "evidence": [_evidence(value) for value in row["evidence"] or ()],
    }
    if record.is_checked:
        line |= {name: row[name] for name in ("check_model", "check_error", "disagreements")}
    return line if record.fields is not None else {**line, "raw_answer": row["raw_answer"]}


def _evidence(value: Row) -> dict[str, object]:
    corners = [value[corner] for corner in ("x1", "y1", "x2", "y2")]
    box = None if None in corners else corners
    names = ("path", "matched", "confidence", "page_id", "page_number", "quote")
    # The table has 32-bit floats: further digits are noise.
    rounded = {
        name: None if value.get(name) is None else round(value[name], 4)
        for name in ("confidence", "reading", "extraction")
    }
    return {**{name: value[name] for name in names}, **rounded, "box": box}


class _TypedWriter:
    """Writes the Parquet file, one row group at a time."""

    def __init__(self, path: Path, kind: pa.StructType, names: Mapping[str, str]) -> None:
        fields = [(names.get(field.name, field.name), field.type) for field in kind]
        self._schema = pa.schema([*_LEADING_COLUMNS.items(), *fields, *_TRAILING_COLUMNS.items()])
        self._path, self._column_names = path, names
        self._rows: list[dict[str, object]] = []
        self._characters = 0

    def __enter__(self) -> "_TypedWriter":
        self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def write(self, record: _Record) -> None:
        fields = {self._column_names.get(name, name): value for name, value in record.typed.items()}
        errors = [asdict(error) for error in record.errors + record.misfits]
        last = {"errors": errors, "unverified": record.unverified_paths}
        self._rows.append({**record.own, **fields, **last})
        self._characters += len(record.row["fields"] or "")
        self._characters += sum(len(error.value or "") for error in record.errors)
        if len(self._rows) == GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._characters = [], 0

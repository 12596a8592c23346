"""The Arrow schemas of the tables, and encoding rows by them as Parquet.

Images are structs `{bytes, path}` with the metadata by which `datasets` shows them as images.
Boxes are pixels of the stored page image. Every table joins the others by `doc_id`, `page_id`
and `figure_id`.
"""

import io
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.records import valid_text

Row = Mapping[str, Any]

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
BOX = [(corner, pa.float64()) for corner in ("x1", "y1", "x2", "y2")]
BLOCKS = pa.list_(
    pa.struct([("label", pa.string()), ("text", pa.string()), *BOX, ("confidence", pa.float32())])
)
# From an engine that reads line by line; `doubtful` marks lines that are likely misread.
LINES = pa.list_(
    pa.struct(
        [
            ("text", pa.string()),
            ("confidence", pa.float32()),
            ("doubtful", pa.bool_()),
            *BOX,
        ]
    )
)
# The words of the lines; `line` is the position in `lines`, from 0. Single precision is exact to a
# thousandth of a pixel and takes half the space, which matters for the longest list of a row.
WORDS = pa.list_(
    pa.struct(
        [
            ("line", pa.int32()),
            ("text", pa.string()),
            ("confidence", pa.float32()),
            *((corner, pa.float32()) for corner, _ in BOX),
        ]
    )
)

ERRORS = pa.list_(
    pa.struct([("path", pa.string()), ("value", pa.string()), ("reason", pa.string())])
)
DISAGREEMENTS = pa.list_(
    pa.struct([("path", pa.string()), ("value", pa.string()), ("check_value", pa.string())])
)
EVIDENCE = pa.list_(
    pa.struct(
        [
            ("path", pa.string()),
            ("matched", pa.string()),
            ("confidence", pa.float32()),
            ("page_id", pa.string()),
            ("page_number", pa.int32()),
            ("quote", pa.string()),
            *BOX,
            ("reading", pa.float32()),
            ("extraction", pa.float32()),
        ]
    )
)

# Columns of every item that a model was asked about: its outcome and its usage.
OUTCOME = [
    ("status", pa.string()),
    ("error_code", pa.string()),
    ("error", pa.string()),
    ("attempts", pa.int32()),
    ("strategy", pa.string()),
    ("finish_reason", pa.string()),
    ("prompt_tokens", pa.int32()),
    ("completion_tokens", pa.int32()),
    ("seconds", pa.float32()),
    ("model", pa.string()),
    ("model_revision", pa.string()),
    ("profile", pa.string()),
    ("prompt_hash", pa.string()),
]


def _schema(fields: list[tuple[str, pa.DataType]]) -> pa.Schema:
    """A schema whose image columns are marked for `datasets` (its `huggingface` metadata key)."""
    images = {name: {"_type": "Image"} for name, kind in fields if kind == IMAGE}
    if not images:
        return pa.schema(fields)
    features = {name: images.get(name) or _feature(kind) for name, kind in fields}
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def _feature(kind: pa.DataType) -> object:
    if pa.types.is_list(kind):
        return {"_type": "List", "feature": _feature(kind.value_type)}
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    name = {"float": "float32", "double": "float64"}.get(str(kind), str(kind))
    return {"_type": "Value", "dtype": name}


PAGES = _schema(
    [
        ("page_id", pa.string()),
        ("doc_id", pa.string()),
        ("source_uri", pa.string()),
        ("name", pa.string()),
        ("content_hash", pa.string()),
        ("metadata", pa.string()),
        ("page_number", pa.int32()),
        ("image", IMAGE),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("width_pt", pa.float32()),
        ("height_pt", pa.float32()),
        ("rotation", pa.int32()),
        ("markdown", pa.string()),
        ("blocks", BLOCKS),
        ("lines", LINES),
        ("words", WORDS),
        ("confidence", pa.float32()),
        ("notes", pa.list_(pa.string())),
        ("raw_answer", pa.string()),
        ("agreement", pa.float32()),
        ("flaw", pa.string()),
        ("missing", pa.list_(pa.string())),
        ("text_layer", pa.float32()),
        ("layer_text", pa.string()),
        ("parser_version", pa.int32()),
        *OUTCOME,
    ]
)

FIGURES = _schema(
    [
        ("figure_id", pa.string()),
        ("page_id", pa.string()),
        ("doc_id", pa.string()),
        ("name", pa.string()),
        ("label", pa.string()),
        ("caption", pa.string()),
        *BOX,
        ("image", IMAGE),
        ("width", pa.int32()),
        ("height", pa.int32()),
    ]
)

# `data` is JSON; `raw_answer` is set where `text` differs from the model's answer.
DESCRIPTIONS = _schema(
    [
        ("description_id", pa.string()),
        ("figure_id", pa.string()),
        ("page_id", pa.string()),
        ("doc_id", pa.string()),
        ("task", pa.string()),
        ("text", pa.string()),
        ("data", pa.string()),
        ("confidence", pa.float32()),
        ("errors", ERRORS),
        ("raw_answer", pa.string()),
        *OUTCOME,
    ]
)

DOCUMENTS = _schema(
    [
        ("doc_id", pa.string()),
        ("source_uri", pa.string()),
        ("name", pa.string()),
        ("content_hash", pa.string()),
        ("metadata", pa.string()),
        ("markdown", pa.string()),
        ("page_count", pa.int32()),
        ("figure_count", pa.int32()),
        ("status", pa.string()),
        ("error_code", pa.string()),
        ("error", pa.string()),
    ]
)

# `fields` is JSON as in the user's schema, `record_id` the ID of the document or page.
RECORDS = _schema(
    [
        ("record_id", pa.string()),
        ("doc_id", pa.string()),
        ("source_uri", pa.string()),
        ("name", pa.string()),
        ("schema", pa.string()),
        ("schema_hash", pa.string()),
        ("fields", pa.string()),
        ("errors", ERRORS),
        ("evidence", EVIDENCE),
        ("check_model", pa.string()),
        ("check_error", pa.string()),
        ("disagreements", DISAGREEMENTS),
        ("rows_added", pa.int32()),
        ("raw_answer", pa.string()),
        *OUTCOME,
    ]
)

SCHEMAS: Mapping[str, pa.Schema] = {
    "pages": PAGES,
    "figures": FIGURES,
    "descriptions": DESCRIPTIONS,
    "documents": DOCUMENTS,
    "records": RECORDS,
}
# The stages of a run, in order, and the tables that each writes; the rows of the first have the ids
# of its items.
STAGE_TABLES: Mapping[str, Sequence[str]] = {
    "extract": ("pages", "figures"),
    "describe": ("descriptions",),
    "assemble": ("documents",),
    "parse": ("records",),
}
STAGES = tuple(STAGE_TABLES)


def with_all_columns(rows: pa.Table, table: str) -> pa.Table:
    """Rows that an earlier version wrote, with null in the columns, and in the parts of these, that
    it did not have."""
    schema = SCHEMAS[table]
    if rows.schema.equals(schema):
        return rows
    columns = [_column(rows, field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name not in rows.schema.names:
        return pa.nulls(len(rows), field.type)
    column = rows[field.name]
    if column.type == field.type:
        return column
    return pa.array(column.to_pylist(), field.type)


def id_column(table: str) -> str:
    """The ID column of a table: its first."""
    return str(SCHEMAS[table].names[0])


def sort_key(row_id: str, order: Mapping[str, int]) -> tuple[int | str, ...]:
    """`doc_id/page/figure/task` -> (position of the document in `order`, page, figure, task)."""
    doc_id, *parts = row_id.split("/")
    return (order[doc_id], *(int(part) if part.isdecimal() else part for part in parts))


# Encoding --------------------------------------------------------------------------------------

# Rows with page images are large: 16 of them are a few megabytes, which readers hold in memory.
ROW_GROUP = 16
JPEG_COLUMN = "image.bytes"
# Raised for text that is not valid Unicode, for numbers out of range, and for wrong types.
ENCODING_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError)


@cache
def write_options(table: str) -> dict[str, Any]:
    """Options of pyarrow's writer: all columns are compressed except JPEGs, which don't shrink."""
    sink = io.BytesIO()
    pq.write_table(SCHEMAS[table].empty_table(), sink)
    schema = pq.ParquetFile(sink).schema
    leaves = [schema.column(k).path for k in range(len(schema))]
    return {
        "compression": {leaf: "none" if leaf == JPEG_COLUMN else "zstd" for leaf in leaves},
        "write_statistics": [leaf for leaf in leaves if leaf != JPEG_COLUMN],
        "use_dictionary": False,
    }


def encoding_error(rows: Mapping[str, Sequence[Row]]) -> str | None:
    """Why rows, by table, can't be encoded; None if they can."""
    for table, table_rows in rows.items():
        if table_rows:
            try:
                pa.RecordBatch.from_pylist(list(table_rows), schema=SCHEMAS[table])
            except ENCODING_ERRORS as error:
                columns = [
                    name
                    for row in table_rows
                    for name in row
                    if not _is_encodable(row, table, name)
                ]
                return f"{table}.{columns[0] if columns else '?'}: {str(error)[:200]}"
    return None


def drop_unencodable(rows: Mapping[str, Sequence[Row]]) -> dict[str, Sequence[Row]]:
    """The rows, by table, with null for values that can't be encoded; invalid text is repaired."""
    return {
        table: [_drop_unencodable(row, table) for row in table_rows]
        for table, table_rows in rows.items()
    }


def _drop_unencodable(row: Row, table: str) -> Row:
    repaired = {
        name: valid_text(value) if isinstance(value, str) else value for name, value in row.items()
    }
    return {
        name: value if _is_encodable(repaired, table, name) else None
        for name, value in repaired.items()
    }


def _is_encodable(row: Row, table: str, column: str) -> bool:
    if column not in SCHEMAS[table].names:
        return True
    try:
        pa.array([row[column]], type=SCHEMAS[table].field(column).type)
    except ENCODING_ERRORS:
        return False
    return True


def encode(rows: Sequence[Row], table: str) -> bytes:
    """Rows of a table as one Parquet file."""
    # Writing into a BytesIO takes half as long again.
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, SCHEMAS[table], **write_options(table)) as writer:
        # No empty row group if there are no rows: `datasets` can't stream one.
        if rows:
            batch = pa.Table.from_pylist(list(rows), schema=SCHEMAS[table])
            writer.write_table(batch, row_group_size=ROW_GROUP)
    return bytes(sink.getvalue())

"""The Arrow schemas of the tables, and how records become rows.

Images are structs `{bytes, path}` with the metadata by which `datasets` shows them as images.
Boxes are pixels of the stored page image. Every table joins the others by `doc_id`, `page_id`
and `figure_id`.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
BOX = [(corner, pa.float64()) for corner in ("x1", "y1", "x2", "y2")]
BLOCKS = pa.list_(
    pa.struct([("label", pa.string()), ("text", pa.string()), *BOX, ("confidence", pa.float32())])
)
# From an engine that reads line by line; `doubtful` is what may well be misread.
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

ERRORS = pa.list_(
    pa.struct([("path", pa.string()), ("value", pa.string()), ("reason", pa.string())])
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
        ]
    )
)

# What every item that was asked about carries: what became of it, and what it cost.
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

# `data` is JSON; `raw_answer` is kept where `text` is not what the model said.
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

# `fields` is JSON by the user's schema, `record_id` the id of the document or of the page.
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


def with_all_columns(rows: pa.Table, table: str) -> pa.Table:
    """Rows of a table that an earlier version wrote, with the columns that it lacks, null."""
    schema = SCHEMAS[table]
    if rows.schema.names == schema.names:
        return rows
    columns = [
        rows[field.name] if field.name in rows.schema.names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def id_column(table: str) -> str:
    """The column that identifies a table's rows: its first."""
    return str(SCHEMAS[table].names[0])


def sort_key(row_id: str, order: Mapping[str, int]) -> tuple[int | str, ...]:
    """`doc_id/page/figure/task` -> (place of the document in `order`, page, figure, task)."""
    doc_id, *parts = row_id.split("/")
    return (order[doc_id], *(int(part) if part.isdecimal() else part for part in parts))

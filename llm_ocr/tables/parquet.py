"""How the tables' Parquet files are written."""

import io
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.records import valid_text
from llm_ocr.tables.schema import SCHEMAS, Row

# Rows with page images are large: 16 of them are a few megabytes, which is what readers hold.
ROW_GROUP = 16
JPEGS = "image.bytes"
# Raised for text that is no Unicode, a number too large for its column, or another type.
MISFITS = (pa.ArrowException, ValueError, TypeError, OverflowError)


@cache
def write_options(table: str) -> dict[str, Any]:
    """Options of pyarrow's writer: text is compressed; JPEGs, which don't get smaller, are not."""
    sink = io.BytesIO()
    pq.write_table(SCHEMAS[table].empty_table(), sink)
    schema = pq.ParquetFile(sink).schema
    leaves = [schema.column(k).path for k in range(len(schema))]
    return {
        "compression": {leaf: "none" if leaf == JPEGS else "zstd" for leaf in leaves},
        "write_statistics": [leaf for leaf in leaves if leaf != JPEGS],
        "use_dictionary": False,
    }


def misfit(rows: Mapping[str, Sequence[Row]]) -> str | None:
    """Why rows, by table, can't be encoded; None where they can."""
    for table, some in rows.items():
        if some:
            try:
                pa.RecordBatch.from_pylist(list(some), schema=SCHEMAS[table])
            except MISFITS as error:
                columns = [name for row in some for name in row if not _fits(row, table, name)]
                return f"{table}.{columns[0] if columns else '?'}: {str(error)[:200]}"
    return None


def fitted(rows: Mapping[str, Sequence[Row]]) -> dict[str, Sequence[Row]]:
    """The rows without the values that can't be encoded, but text, which is mended."""
    return {table: [_fitted(row, table) for row in some] for table, some in rows.items()}


def _fitted(row: Row, table: str) -> Row:
    mended = {key: valid_text(one) if isinstance(one, str) else one for key, one in row.items()}
    return {key: one if _fits(mended, table, key) else None for key, one in mended.items()}


def _fits(row: Row, table: str, column: str) -> bool:
    if column not in SCHEMAS[table].names:
        return True
    try:
        pa.array([row[column]], type=SCHEMAS[table].field(column).type)
    except MISFITS:
        return False
    return True


def encode(rows: Sequence[Row], table: str) -> bytes:
    """Rows of a table as one Parquet file."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, SCHEMAS[table], **write_options(table)) as writer:
        # Not even an empty row group where there are no rows: `datasets` can't stream one.
        if rows:
            whole = pa.Table.from_pylist(list(rows), schema=SCHEMAS[table])
            writer.write_table(whole, row_group_size=ROW_GROUP)
    return sink.getvalue()

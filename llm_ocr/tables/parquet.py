"""How the tables' Parquet files are written."""

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.tables.schema import SCHEMAS, Row

# Rows with page images are large: 16 of them are a few megabytes, which is what readers hold.
ROW_GROUP = 16
JPEGS = "image.bytes"


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


def encode(rows: Sequence[Row], table: str) -> bytes:
    """Rows of a table as one Parquet file."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, SCHEMAS[table], **write_options(table)) as writer:
        # Not even an empty row group where there are no rows: `datasets` can't stream one.
        if rows:
            whole = pa.Table.from_pylist(list(rows), schema=SCHEMAS[table])
            writer.write_table(whole, row_group_size=ROW_GROUP)
    return sink.getvalue()

"""How the tables' Parquet files are written."""

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.tables.schema import SCHEMAS, Row

# Rows with page images are large: 16 of them are a few megabytes, which is what readers hold.
ROW_GROUP = 16
PARQUET: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "use_dictionary": False}


def encode(rows: Sequence[Row], table: str) -> bytes:
    """Rows of a table as one Parquet file."""
    sink = io.BytesIO()
    whole = pa.Table.from_pylist(list(rows), schema=SCHEMAS[table])
    pq.write_table(whole, sink, row_group_size=ROW_GROUP, **PARQUET)
    return sink.getvalue()

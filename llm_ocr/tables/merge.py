"""Sorted parts of a table merged into one sorted file, a few rows in memory at a time."""

import heapq
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.storage.store import Store
from llm_ocr.tables.parquet import ROW_GROUP, write_options
from llm_ocr.tables.schema import SCHEMAS, id_column, sort_key

_Keyed = tuple[tuple[int, ...], int, pa.RecordBatch | None]


def merge_parts(
    store: Store, parts: Sequence[str], table: str, path: str, order: Mapping[str, int]
) -> None:
    """Write the rows of `parts`, each sorted by `order`, to `path`, sorted. One part is copied.

    A part is opened when its first row is due, so that parts which follow each other (as those
    of a large document do) are never in memory together.
    """
    if len(parts) == 1:
        store.copy(parts[0], path)
        return
    with tempfile.TemporaryDirectory(prefix="llm-ocr-") as folder:
        merged = Path(folder) / "merged.parquet"
        with pq.ParquetWriter(merged, SCHEMAS[table], **write_options(table)) as writer:
            rows = heapq.merge(
                *(_rows(store, part, table, order, k) for k, part in enumerate(parts)),
                key=lambda keyed: keyed[:2],
            )
            held: list[pa.RecordBatch] = []
            for _, _, row in rows:
                if row is not None:
                    held.append(row)
                if len(held) == ROW_GROUP:
                    writer.write_table(pa.Table.from_batches(held))
                    held = []
            if held:
                writer.write_table(pa.Table.from_batches(held))
        store.put(path, merged)
    pa.default_memory_pool().release_unused()


def _rows(
    store: Store, part: str, table: str, order: Mapping[str, int], k: int
) -> Iterator[_Keyed]:
    """The part's rows with their keys, after a marker that makes the merge wait to open it."""
    column = id_column(table)
    with store.open(part) as source:
        file = pq.ParquetFile(source)
        if file.metadata.num_rows == 0:
            return
        first = file.read_row_group(0, columns=[column])[column][0].as_py()
    yield sort_key(first, order), k, None
    with store.open(part) as source:
        file = pq.ParquetFile(source)
        # One row group at a time: `iter_batches` reads ahead as far as it likes.
        for group in range(file.num_row_groups):
            for batch in file.read_row_group(group).to_batches():
                for at, row_id in enumerate(batch.column(column).to_pylist()):
                    yield sort_key(row_id, order), k, batch.slice(at, 1)

"""Sorted files of a table merged into one sorted file, a few rows in memory at a time."""

import heapq
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.storage.store import Store
from llm_ocr.tables.parquet import ROW_GROUP, write_options
from llm_ocr.tables.schema import SCHEMAS, id_column, sort_key, with_all_columns

_Keyed = tuple[tuple[int | str, ...], int, pa.RecordBatch | None]


@dataclass(frozen=True)
class Source:
    """A file whose rows are merged; with `only`, those of which `column` is among it."""

    path: str
    column: str = ""
    only: Collection[str] | None = None


def merge(
    store: Store, sources: Sequence[Source], table: str, path: str, order: Mapping[str, int]
) -> None:
    """Write the rows of `sources`, each sorted by `order`, to `path`, sorted. One whole file is
    copied.

    A file is opened when its first row is due, so that parts which follow each other (as those
    of a large document do) are never in memory together.
    """
    if len(sources) == 1 and sources[0].only is None:
        store.copy(sources[0].path, path)
        return
    with tempfile.TemporaryDirectory(prefix="llm-ocr-") as folder:
        merged = Path(folder) / "merged.parquet"
        with pq.ParquetWriter(merged, SCHEMAS[table], **write_options(table)) as writer:
            rows = heapq.merge(
                *(_rows(store, source, table, order, k) for k, source in enumerate(sources)),
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
    store: Store, source: Source, table: str, order: Mapping[str, int], k: int
) -> Iterator[_Keyed]:
    """The file's rows with their keys, after a marker that makes the merge wait to open it."""
    column = id_column(table)
    with store.open(source.path) as opened:
        file = pq.ParquetFile(opened, pre_buffer=False)
        if file.metadata.num_rows == 0:
            return
        key = file.read_row_group(0, columns=[column], use_threads=False)
        first = key[column][0].as_py()
    yield sort_key(first, order), k, None
    with store.open(source.path) as opened:
        file = pq.ParquetFile(opened, pre_buffer=False)
        # One row group at a time: `iter_batches` reads ahead as far as it likes.
        for group in range(file.num_row_groups):
            found = with_all_columns(file.read_row_group(group, use_threads=False), table)
            for batch in found.to_batches():
                for at, row_id in enumerate(batch.column(column).to_pylist()):
                    if source.only is None or batch[source.column][at].as_py() in source.only:
                        yield sort_key(row_id, order), k, batch.slice(at, 1)

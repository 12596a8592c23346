"""Merging sorted files of a table into one, with a few rows in memory at a time."""

import heapq
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.storage.store import Store
from llm_ocr.tables.schema import (
    ROW_GROUP,
    SCHEMAS,
    id_column,
    sort_key,
    with_all_columns,
    write_options,
)

_Keyed = tuple[tuple[int | str, ...], int, pa.RecordBatch | None]


@dataclass(frozen=True)
class MergeInput:
    """A sorted file to merge; with `only`, just the rows whose `column` is in it."""

    path: str
    column: str = ""
    only: Collection[str] | None = None


def merge_files(
    store: Store, sources: Sequence[MergeInput], table: str, path: str, order: Mapping[str, int]
) -> None:
    """Merge the rows of `sources`, each sorted by `order`, into a file at `path`. A single whole
    file is copied.

    A file is opened when its first row is next, so consecutive parts (as those of a large
    document) are never in memory together.
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
            buffered: list[pa.RecordBatch] = []
            for _, _, row in rows:
                if row is not None:
                    buffered.append(row)
                if len(buffered) == ROW_GROUP:
                    writer.write_table(pa.Table.from_batches(buffered))
                    buffered = []
            if buffered:
                writer.write_table(pa.Table.from_batches(buffered))
        store.put(path, merged)
    pa.default_memory_pool().release_unused()


def _rows(
    store: Store, source: MergeInput, table: str, order: Mapping[str, int], k: int
) -> Iterator[_Keyed]:
    """The file's rows with their sort keys, after a marker that delays opening the file until the
    merge reaches its first key."""
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
            rows = with_all_columns(file.read_row_group(group, use_threads=False), table)
            for batch in rows.to_batches():
                for at, row_id in enumerate(batch.column(column).to_pylist()):
                    if source.only is None or batch[source.column][at].as_py() in source.only:
                        yield sort_key(row_id, order), k, batch.slice(at, 1)

"""Compaction: small files of a table are merged, and split again before a shard is replaced.

Rows are written to their new file before the old one is deleted: a kill can leave rows twice in
`data/`, never missing, and the next compaction or split completes the interrupted one.
"""

import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.storage.store import Store
from llm_ocr.tables.commits import data_path
from llm_ocr.tables.data_files import (
    SHARDS_KEY,
    DataFile,
    large_files,
    large_path,
    latest_ranges,
    list_data_files,
)
from llm_ocr.tables.read import row_groups
from llm_ocr.tables.schema import ROW_GROUP, SCHEMAS, with_all_columns, write_options

# Marks a run that has, or had, large files: without it no reader searches for them.
COMPACTED_PATH = "commits/compacted.json"
# Files up to this many bytes are fetched whole, so many in parallel; larger ones are read one row
# group at a time.
SMALL_FILE_BYTES, MAX_PARALLEL_READS = 8 << 20, 16


def compact(store: Store, table: str, file_bytes: int) -> Iterator[int]:
    """Merge neighboring files of a table into files of up to `file_bytes`.

    Yields, after each step, how many files are done. Only for runs without writers.
    """
    files = list_data_files(store, table)
    current = latest_ranges(files)
    current_files: list[DataFile] = []
    for file in files:
        ranges = tuple(rows for rows in file.ranges if current[rows.shard] == rows)
        if ranges:
            current_files.append(replace(file, ranges=ranges))
        else:
            store.delete([file.path])
    done = len(files) - len(current_files)
    for group in _group_by_size(current_files, file_bytes):
        if len(group) > 1:
            _merge(store, table, group)
        done += len(group)
        yield done


def presplit_shards(store: Store, tables: Sequence[str], shards: frozenset[str]) -> None:
    """Split the large files that hold any of `shards`, before these are read and replaced."""
    if not shards or not store.exists(COMPACTED_PATH):
        return
    for table in tables:
        for file in list_data_files(store, table):
            if len(file.ranges) > 1 and not shards.isdisjoint(rows.shard for rows in file.ranges):
                _split_file(store, table, file)


def split_shard(store: Store, table: str, shard: str) -> None:
    """Split the large files that hold `shard` into one file per shard."""
    for file in large_files(store, table, shard):
        _split_file(store, table, file)


def _split_file(store: Store, table: str, file: DataFile) -> None:
    try:
        _write_shard_files(store, table, file)
    except FileNotFoundError:
        # Another process has split it in the meantime.
        if store.exists(file.path):
            raise
    store.delete([file.path])


def _write_shard_files(store: Store, table: str, file: DataFile) -> None:
    for rows in file.ranges:
        path = data_path(table, rows.shard, rows.generation)
        if not store.exists(path):
            with tempfile.TemporaryDirectory(prefix="llm-ocr-") as folder:
                target = Path(folder) / "rows.parquet"
                with store.open(file.path) as source:
                    _write(target, table, row_groups(source, rows))
                store.put(path, target)


def _group_by_size(files: Sequence[DataFile], file_bytes: int) -> Iterator[list[DataFile]]:
    group: list[DataFile] = []
    size = 0
    for file in files:
        if group and size + file.size > file_bytes:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


def _merge(store: Store, table: str, group: Sequence[DataFile]) -> None:
    store.put(COMPACTED_PATH, b"{}")
    names = [rows.shard for file in group for rows in file.ranges]
    path = large_path(table, min(names), max(names))
    shards: list[tuple[str, int, int]] = []

    def tables() -> Iterator[pa.Table]:
        for file, source in _open_files(store, group):
            for rows in file.ranges:
                count = 0
                for batch in row_groups(source, rows):
                    count += batch.num_rows
                    yield batch
                shards.append((rows.shard, rows.generation, count))

    with tempfile.TemporaryDirectory(prefix="llm-ocr-") as folder:
        target = Path(folder) / "rows.parquet"
        _write(target, table, tables(), shards)
        store.put(path, target)
    store.delete(file.path for file in group if file.path != path)
    pa.default_memory_pool().release_unused()


def _open_files(store: Store, group: Sequence[DataFile]) -> Iterator[tuple[DataFile, BinaryIO]]:
    def fetch(file: DataFile) -> BinaryIO:
        return (
            io.BytesIO(store.get(file.path))
            if file.size <= SMALL_FILE_BYTES
            else store.open(file.path)
        )

    with ThreadPoolExecutor(MAX_PARALLEL_READS) as threads:
        for k in range(0, len(group), MAX_PARALLEL_READS):
            batch = group[k : k + MAX_PARALLEL_READS]
            for file, source in zip(batch, threads.map(fetch, batch), strict=True):
                with source:
                    yield file, source


def _write(
    target: Path,
    table: str,
    tables: Iterator[pa.Table],
    shards: Sequence[tuple[str, int, int]] | None = None,
) -> None:
    """Write rows in row groups of the usual size; `shards`, filled by then, goes in the footer."""
    with pq.ParquetWriter(target, SCHEMAS[table], **write_options(table)) as writer:
        buffered = SCHEMAS[table].empty_table()
        for batch in tables:
            buffered = pa.concat_tables([buffered, with_all_columns(batch, table)])
            while buffered.num_rows >= ROW_GROUP:
                writer.write_table(buffered.slice(0, ROW_GROUP))
                buffered = buffered.slice(ROW_GROUP)
        if buffered.num_rows:
            writer.write_table(buffered)
        if shards is not None:
            writer.add_key_value_metadata({SHARDS_KEY: json.dumps(shards)})

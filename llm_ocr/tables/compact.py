"""Small files of a table merged into large ones, and split again where a shard is to be replaced.

Before anything is dropped, its rows stand elsewhere: a kill leaves rows twice in `data/`, never
none, and the next of either ends what was begun.
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
from llm_ocr.tables.data import (
    SHARDS_KEY,
    DataFile,
    data_files,
    large_files,
    large_path,
    newest,
)
from llm_ocr.tables.parquet import ROW_GROUP, write_options
from llm_ocr.tables.read import row_groups
from llm_ocr.tables.schema import SCHEMAS, with_all_columns

# Says that there are, or were, large files: without it nobody looks for them.
COMPACTED_PATH = "commits/compacted.json"
# Small files are fetched whole, so many at a time; larger ones are read a row group at a time.
AHEAD, SMALL = 16, 8 << 20


def compact(store: Store, table: str, file_bytes: int) -> Iterator[int]:
    """Merge the neighboring files of a table, up to `file_bytes` each.

    Yields, after each step, how many files are dealt with. Only for runs that nobody writes to.
    """
    files = data_files(store, table)
    current = newest(files)
    standing: list[DataFile] = []
    for file in files:
        pieces = tuple(one for one in file.pieces if current[one.shard] == one)
        if pieces:
            standing.append(replace(file, pieces=pieces))
        else:
            store.delete([file.path])
    done = len(files) - len(standing)
    for group in _groups(standing, file_bytes):
        if len(group) > 1:
            _merge(store, table, group)
        done += len(group)
        yield done


def split_ahead(store: Store, tables: Sequence[str], shards: frozenset[str]) -> None:
    """Split the large files that hold any of `shards`, before these are read and replaced."""
    if not shards or not store.exists(COMPACTED_PATH):
        return
    for table in tables:
        for file in data_files(store, table):
            if len(file.pieces) > 1 and not shards.isdisjoint(one.shard for one in file.pieces):
                _split(store, table, file)


def split(store: Store, table: str, shard: str) -> None:
    """Give each shard of the large files that hold `shard` a file of its own again."""
    for file in large_files(store, table, shard):
        _split(store, table, file)


def _split(store: Store, table: str, file: DataFile) -> None:
    try:
        _write_pieces(store, table, file)
    except FileNotFoundError:
        # Another process has split it meanwhile.
        if store.exists(file.path):
            raise
    store.delete([file.path])


def _write_pieces(store: Store, table: str, file: DataFile) -> None:
    for piece in file.pieces:
        path = data_path(table, piece.shard, piece.generation)
        if not store.exists(path):
            with tempfile.TemporaryDirectory(prefix="llm-ocr-") as folder:
                target = Path(folder) / "rows.parquet"
                with store.open(file.path) as source:
                    _write(target, table, row_groups(source, piece))
                store.put(path, target)


def _groups(files: Sequence[DataFile], file_bytes: int) -> Iterator[list[DataFile]]:
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
    held = [piece.shard for file in group for piece in file.pieces]
    path = large_path(table, min(held), max(held))
    shards: list[tuple[str, int, int]] = []

    def tables() -> Iterator[pa.Table]:
        for file, source in _opened(store, group):
            for piece in file.pieces:
                rows = 0
                for found in row_groups(source, piece):
                    rows += found.num_rows
                    yield found
                shards.append((piece.shard, piece.generation, rows))

    with tempfile.TemporaryDirectory(prefix="llm-ocr-") as folder:
        target = Path(folder) / "rows.parquet"
        _write(target, table, tables(), shards)
        store.put(path, target)
    store.delete(file.path for file in group if file.path != path)
    pa.default_memory_pool().release_unused()


def _opened(store: Store, group: Sequence[DataFile]) -> Iterator[tuple[DataFile, BinaryIO]]:
    def fetched(file: DataFile) -> BinaryIO:
        return io.BytesIO(store.get(file.path)) if file.size <= SMALL else store.open(file.path)

    with ThreadPoolExecutor(AHEAD) as threads:
        for k in range(0, len(group), AHEAD):
            some = group[k : k + AHEAD]
            for file, source in zip(some, threads.map(fetched, some), strict=True):
                with source:
                    yield file, source


def _write(
    target: Path,
    table: str,
    tables: Iterator[pa.Table],
    shards: Sequence[tuple[str, int, int]] | None = None,
) -> None:
    """Write rows in row groups of their usual size, and `shards`, as it is then, in the footer."""
    with pq.ParquetWriter(target, SCHEMAS[table], **write_options(table)) as writer:
        held = SCHEMAS[table].empty_table()
        for found in tables:
            held = pa.concat_tables([held, with_all_columns(found, table)])
            while held.num_rows >= ROW_GROUP:
                writer.write_table(held.slice(0, ROW_GROUP))
                held = held.slice(ROW_GROUP)
        if held.num_rows:
            writer.write_table(held)
        if shards is not None:
            writer.add_key_value_metadata({SHARDS_KEY: json.dumps(shards)})

"""Files in `data/` and the row ranges of the shards in them.

    data/TABLE/SHARD-GENERATION.parquet     one shard
    data/TABLE/FIRST-to-LAST.parquet        several shards, in order; the footer lists them

Rows may be in both for a moment, or after a kill: they are then identical.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow.parquet as pq

from llm_ocr.storage.store import Store
from llm_ocr.tables.commits import data_path

SHARDS_KEY = b"llm_ocr.shards"
TABLE_FILE = re.compile(r"data/[^/]+/(\d+)-(?:(\d+)|to-(\d+))\.parquet")


@dataclass(frozen=True)
class RowRange:
    """The rows of a shard's generation: `rows` from `start` in a file, or the whole file."""

    path: str
    shard: str
    generation: int
    start: int = 0
    rows: int | None = None


@dataclass(frozen=True)
class DataFile:
    """A file of a table, its size in bytes, and the row ranges in it, in order."""

    path: str
    size: int
    ranges: tuple[RowRange, ...]


def shard_span(path: str) -> tuple[str, str]:
    """The first and last shard of a table's file, by its name."""
    shard, _, last = _parse_name(path)
    return shard, last or shard


def _parse_name(path: str) -> tuple[str, str | None, str | None]:
    """`(shard, generation, None)`, or `(first shard, None, last shard)` of a large file."""
    match = TABLE_FILE.fullmatch(path)
    if match is None:
        raise ValueError(f"{path} is not a file of a table")
    return match[1], match[2], match[3]


def large_path(table: str, first: str, last: str) -> str:
    return f"data/{table}/{first}-to-{last}.parquet"


def list_data_files(store: Store, table: str) -> list[DataFile]:
    """The files of a table, in the order of their shards; reads the footers of large ones."""
    files: list[DataFile] = []
    for entry in store.list(f"data/{table}"):
        shard, generation, _ = _parse_name(entry.path)
        if generation is None:
            ranges = _read_ranges(store, entry.path)
        else:
            ranges = (RowRange(entry.path, shard, int(generation)),)
        files.append(DataFile(entry.path, entry.size, ranges))
    return sorted(files, key=lambda file: (shard_span(file.path), file.path))


def published_ranges(store: Store, table: str) -> dict[str, RowRange]:
    """Shard -> the rows of its highest published generation of a table."""
    return latest_ranges(list_data_files(store, table))


def latest_ranges(files: Iterable[DataFile]) -> dict[str, RowRange]:
    """Shard -> the rows of its highest generation; of identical rows, those in the larger file."""
    best: dict[str, tuple[tuple[int, int], RowRange]] = {}
    for file in files:
        for rows in file.ranges:
            rank = rows.generation, len(file.ranges)
            if rows.shard not in best or best[rows.shard][0] < rank:
                best[rows.shard] = rank, rows
    return {shard: rows for shard, (_, rows) in best.items()}


def find_rows(store: Store, table: str, shard: str, generation: int) -> RowRange:
    """The range of a shard's rows in a generation. Raises FileNotFoundError."""
    own = RowRange(data_path(table, shard, generation), shard, generation)
    if store.exists(own.path):
        return own
    for file in large_files(store, table, shard):
        for rows in file.ranges:
            if (rows.shard, rows.generation) == (shard, generation):
                return rows
    raise FileNotFoundError(f"{store.uri}: {own.path}")


def large_files(store: Store, table: str, shard: str) -> list[DataFile]:
    """The large files of a table that contain rows of a shard."""
    spans = ((entry, shard_span(entry.path)) for entry in store.list(f"data/{table}"))
    large = [entry for entry, (first, last) in spans if first <= shard <= last and first != last]
    files = [DataFile(entry.path, entry.size, _read_ranges(store, entry.path)) for entry in large]
    return [file for file in files if any(rows.shard == shard for rows in file.ranges)]


def _read_ranges(store: Store, path: str) -> tuple[RowRange, ...]:
    with store.open(path) as source:
        metadata = pq.read_metadata(source).metadata or {}
    start = 0
    ranges: list[RowRange] = []
    for shard, generation, rows in json.loads(metadata[SHARDS_KEY]):
        ranges.append(RowRange(path, shard, generation, start, rows))
        start += rows
    return tuple(ranges)

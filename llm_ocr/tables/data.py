"""Where the rows of shards lie in `data/`: each shard's in a file of its own, or many in one.

    data/TABLE/SHARD-GENERATION.parquet     a shard
    data/TABLE/FIRST-to-LAST.parquet        shards, one after the other; its footer says which

Rows may lie in both for a moment, or after a kill: they are then the same.
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
class Piece:
    """Rows of a shard's generation: `rows` of them from `start` on in a file, or the file whole."""

    path: str
    shard: str
    generation: int
    start: int = 0
    rows: int | None = None


@dataclass(frozen=True)
class DataFile:
    """A file of a table, its size in bytes, and what lies in it, in the order of its rows."""

    path: str
    size: int
    pieces: tuple[Piece, ...]


def span(path: str) -> tuple[str, str]:
    """The first and the last shard of a table's file, by its name."""
    shard, _, last = _named(path)
    return shard, last or shard


def _named(path: str) -> tuple[str, str | None, str | None]:
    """The shard and its generation, or the first shard and the last."""
    named = TABLE_FILE.fullmatch(path)
    if named is None:
        raise ValueError(f"{path} is no file of a table")
    return named[1], named[2], named[3]


def large_path(table: str, first: str, last: str) -> str:
    return f"data/{table}/{first}-to-{last}.parquet"


def data_files(store: Store, table: str) -> list[DataFile]:
    """The files of a table, in the order of their shards; reads the footers of large ones."""
    found: list[DataFile] = []
    for thing in store.list(f"data/{table}"):
        shard, generation, _ = _named(thing.path)
        if generation is None:
            pieces = _pieces(store, thing.path)
        else:
            pieces = (Piece(thing.path, shard, int(generation)),)
        found.append(DataFile(thing.path, thing.size, pieces))
    return sorted(found, key=lambda file: (span(file.path), file.path))


def published(store: Store, table: str) -> dict[str, Piece]:
    """Shard -> the rows of its highest published generation of a table."""
    return newest(data_files(store, table))


def newest(files: Iterable[DataFile]) -> dict[str, Piece]:
    """Shard -> the rows of its highest generation; of the same rows, those in the larger file."""
    found: dict[str, tuple[tuple[int, int], Piece]] = {}
    for file in files:
        for piece in file.pieces:
            rank = piece.generation, len(file.pieces)
            if piece.shard not in found or found[piece.shard][0] < rank:
                found[piece.shard] = rank, piece
    return {shard: piece for shard, (_, piece) in found.items()}


def find(store: Store, table: str, shard: str, generation: int) -> Piece:
    """Where a shard's rows of a generation are. Raises FileNotFoundError."""
    own = Piece(data_path(table, shard, generation), shard, generation)
    if store.exists(own.path):
        return own
    for file in large_files(store, table, shard):
        for piece in file.pieces:
            if (piece.shard, piece.generation) == (shard, generation):
                return piece
    raise FileNotFoundError(f"{store.uri}: {own.path}")


def large_files(store: Store, table: str, shard: str) -> list[DataFile]:
    """The large files of a table that hold rows of a shard."""
    spans = ((thing, span(thing.path)) for thing in store.list(f"data/{table}"))
    near = [thing for thing, (first, last) in spans if first <= shard <= last and first != last]
    files = [DataFile(thing.path, thing.size, _pieces(store, thing.path)) for thing in near]
    return [file for file in files if any(piece.shard == shard for piece in file.pieces)]


def _pieces(store: Store, path: str) -> tuple[Piece, ...]:
    with store.open(path) as source:
        metadata = pq.read_metadata(source).metadata or {}
    start = 0
    pieces: list[Piece] = []
    for shard, generation, rows in json.loads(metadata[SHARDS_KEY]):
        pieces.append(Piece(path, shard, generation, start, rows))
        start += rows
    return tuple(pieces)

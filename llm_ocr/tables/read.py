"""Reading a run's tables back: each shard's highest published generation, in order."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.storage.store import Store, open_snapshot
from llm_ocr.tables.data import Piece, find, published
from llm_ocr.tables.schema import Row


def load_pages(run: str | Path) -> Iterator[Row]:
    """The rows of `pages` of the run at URI `run`, streamed in the order of the input.

    Each is a dict with the columns of `llm_ocr.tables.schema.PAGES`; `image["bytes"]` is a JPEG.
    """
    return read_table(open_snapshot(str(run)), "pages")


def load_figures(run: str | Path) -> Iterator[Row]:
    """The rows of `figures` of a run, streamed; `image["bytes"]` is a JPEG."""
    return read_table(open_snapshot(str(run)), "figures")


def load_descriptions(run: str | Path) -> Iterator[Row]:
    """The rows of `descriptions` of a run, streamed."""
    return read_table(open_snapshot(str(run)), "descriptions")


def load_documents(run: str | Path) -> Iterator[Row]:
    """The rows of `documents` of a run, streamed; `markdown` is the whole document."""
    return read_table(open_snapshot(str(run)), "documents")


def load_records(run: str | Path) -> Iterator[Row]:
    """The rows of `records` of a run, streamed; `fields` is a dict by the schema, None where there
    is no record."""
    for row in read_table(open_snapshot(str(run)), "records"):
        yield {**row, "fields": None if row["fields"] is None else json.loads(row["fields"])}


# A column and the values of it that are wanted.
Only = tuple[str, Collection[str]]


def read_table(
    store: Store, table: str, columns: Sequence[str] | None = None, only: Only | None = None
) -> Iterator[Row]:
    """All rows of a table, shard by shard; `columns` and `only` spare reading the rest."""
    found = published(store, table)
    for piece in _joined(found[shard] for shard in sorted(found)):
        yield from read_piece(store, piece, columns, only)


def read_shard_rows(
    store: Store,
    table: str,
    shard: str,
    generation: int,
    columns: Sequence[str] | None = None,
    only: Only | None = None,
) -> Iterator[Row]:
    """The rows of a shard as published in `generation`. Raises FileNotFoundError."""
    yield from read_piece(store, find(store, table, shard, generation), columns, only)


def read_piece(
    store: Store, piece: Piece, columns: Sequence[str] | None = None, only: Only | None = None
) -> Iterator[Row]:
    """The rows of a piece, a row group in memory at a time."""
    with store.open(piece.path) as source:
        for rows in row_groups(source, piece, columns, only):
            yield from rows.to_pylist()


def row_groups(
    source: BinaryIO,
    piece: Piece,
    columns: Sequence[str] | None = None,
    only: Only | None = None,
) -> Iterator[pa.Table]:
    """As `read_piece`, from a file that is open, as Arrow tables."""
    # Without threads: a program that ends at once would end in the middle of their start.
    file = pq.ParquetFile(source, pre_buffer=False)
    end = file.metadata.num_rows if piece.rows is None else piece.start + piece.rows
    at = 0
    for group in range(file.num_row_groups):
        first, at = at, at + file.metadata.row_group(group).num_rows
        inside = range(max(piece.start, first) - first, min(end, at) - first)
        wanted = _wanted(file, group, inside, only) if inside and only else inside
        if wanted:
            rows = file.read_row_group(group, columns=columns, use_threads=False)
            yield rows if len(wanted) == rows.num_rows else rows.take(pa.array(wanted))


def _wanted(file: pq.ParquetFile, group: int, inside: range, only: Only) -> list[int]:
    """Which rows of a group are wanted, from their key column alone."""
    column, values = only
    keys = file.read_row_group(group, columns=[column], use_threads=False)[column].to_pylist()
    return [at for at in inside if keys[at] in values]


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Pieces that follow each other in one file as one."""
    held: Piece | None = None
    for piece in pieces:
        if held is None:
            held = piece
        elif _follows(piece, held):
            held = replace(held, rows=piece.start + (piece.rows or 0) - held.start)
        else:
            yield held
            held = piece
    if held is not None:
        yield held


def _follows(piece: Piece, other: Piece) -> bool:
    is_same = piece.path == other.path and other.rows is not None
    return is_same and piece.start == other.start + (other.rows or 0)

"""Reading a run's tables: each shard's highest published generation, in order."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.storage.store import Store, open_snapshot
from llm_ocr.tables.data_files import RowRange, find_rows, published_ranges
from llm_ocr.tables.schema import Row


def load_pages(run: str | Path) -> Iterator[Row]:
    """Stream the rows of `pages` of the run at URI `run`, in the order of the input.

    Each is a dict with the columns of `llm_ocr.tables.schema.PAGES`; `image["bytes"]` is a JPEG.
    """
    return read_table(open_snapshot(str(run)), "pages")


def load_figures(run: str | Path) -> Iterator[Row]:
    """Stream the rows of `figures` of a run; `image["bytes"]` is a JPEG."""
    return read_table(open_snapshot(str(run)), "figures")


def load_descriptions(run: str | Path) -> Iterator[Row]:
    """Stream the rows of `descriptions` of a run."""
    return read_table(open_snapshot(str(run)), "descriptions")


def load_documents(run: str | Path) -> Iterator[Row]:
    """Stream the rows of `documents` of a run; `markdown` is the whole document."""
    return read_table(open_snapshot(str(run)), "documents")


def load_records(run: str | Path) -> Iterator[Row]:
    """Stream the rows of `records` of a run; `fields` is a dict as in the schema, None where there
    is no record."""
    for row in read_table(open_snapshot(str(run)), "records"):
        yield {**row, "fields": None if row["fields"] is None else json.loads(row["fields"])}


# A column, and the values whose rows are read.
RowFilter = tuple[str, Collection[str]]


def read_table(
    store: Store, table: str, columns: Sequence[str] | None = None, only: RowFilter | None = None
) -> Iterator[Row]:
    """All rows of a table, shard by shard; only `columns`, and the rows that match `only`."""
    found = published_ranges(store, table)
    for rows in _merge_adjacent(found[shard] for shard in sorted(found)):
        yield from read_range(store, rows, columns, only)


class GroupedRows:
    """Rows of a table grouped by `key`, read once: keys must be requested in the table's order."""

    def __init__(self, rows: Iterator[Row], key: str) -> None:
        self._rows, self._key = rows, key
        self._ahead: Row | None = None

    def of(self, value: str) -> Iterator[Row]:
        while True:
            row = self._ahead or next(self._rows, None)
            self._ahead = row
            if row is None or row[self._key] != value:
                return
            self._ahead = None
            yield row


def read_shard_rows(
    store: Store,
    table: str,
    shard: str,
    generation: int,
    columns: Sequence[str] | None = None,
    only: RowFilter | None = None,
) -> Iterator[Row]:
    """The rows of a shard's published `generation`. Raises FileNotFoundError."""
    yield from read_range(store, find_rows(store, table, shard, generation), columns, only)


def read_range(
    store: Store,
    rows: RowRange,
    columns: Sequence[str] | None = None,
    only: RowFilter | None = None,
) -> Iterator[Row]:
    """The rows of a range, one row group in memory at a time."""
    with store.open(rows.path) as source:
        for batch in row_groups(source, rows, columns, only):
            yield from batch.to_pylist()


def row_groups(
    source: BinaryIO,
    rows: RowRange,
    columns: Sequence[str] | None = None,
    only: RowFilter | None = None,
) -> Iterator[pa.Table]:
    """The rows of a range of an open file, as one Arrow table per row group."""
    # Without threads: a program that exits immediately would crash while they start.
    file = pq.ParquetFile(source, pre_buffer=False)
    end = file.metadata.num_rows if rows.rows is None else rows.start + rows.rows
    group_end = 0
    for group in range(file.num_row_groups):
        first, group_end = group_end, group_end + file.metadata.row_group(group).num_rows
        inside = range(max(rows.start, first) - first, min(end, group_end) - first)
        selected = _filter_rows(file, group, inside, only) if inside and only else inside
        if selected:
            batch = file.read_row_group(group, columns=columns, use_threads=False)
            yield batch if len(selected) == batch.num_rows else batch.take(pa.array(selected))


def _filter_rows(file: pq.ParquetFile, group: int, inside: range, only: RowFilter) -> list[int]:
    """The rows of a group that match, by reading only the filter's column."""
    column, values = only
    keys = file.read_row_group(group, columns=[column], use_threads=False)[column].to_pylist()
    return [row for row in inside if keys[row] in values]


def _merge_adjacent(ranges: Iterable[RowRange]) -> Iterator[RowRange]:
    """Adjacent ranges of the same file as one."""
    current: RowRange | None = None
    for following in ranges:
        if current is None:
            current = following
        elif _is_adjacent(current, following):
            end = following.start + (following.rows or 0)
            current = replace(current, rows=end - current.start)
        else:
            yield current
            current = following
    if current is not None:
        yield current


def _is_adjacent(first: RowRange, second: RowRange) -> bool:
    is_same_file = first.path == second.path and first.rows is not None
    return is_same_file and second.start == first.start + (first.rows or 0)

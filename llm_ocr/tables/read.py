"""Reading a run's tables back: each shard's highest published generation, in order."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from llm_ocr.storage.store import Store, open_snapshot
from llm_ocr.tables.commits import data_path
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


# A column and the values of it that are wanted.
Only = tuple[str, Collection[str]]


def read_table(
    store: Store, table: str, columns: Sequence[str] | None = None, only: Only | None = None
) -> Iterator[Row]:
    """All rows of a table, shard by shard; `columns` and `only` spare reading the rest."""
    for path in sorted(published(store, table).values()):
        yield from read_rows(store, path, columns, only)


def published(store: Store, table: str) -> dict[str, str]:
    """Shard -> the path of its highest published generation of a table."""
    found: dict[str, int] = {}
    for thing in store.list(f"data/{table}"):
        shard, _, generation = PurePosixPath(thing.path).stem.rpartition("-")
        found[shard] = max(found.get(shard, -1), int(generation))
    return {shard: data_path(table, shard, generation) for shard, generation in found.items()}


def read_rows(
    store: Store, path: str, columns: Sequence[str] | None = None, only: Only | None = None
) -> Iterator[Row]:
    """The rows of one published file, a row group in memory at a time."""
    with store.open(path) as source:
        file = pq.ParquetFile(source)
        for group in range(file.num_row_groups):
            wanted = _wanted(file, group, only)
            if wanted is None or any(wanted):
                rows = file.read_row_group(group, columns=columns)
                yield from (rows if wanted is None else rows.filter(pa.array(wanted))).to_pylist()


def _wanted(file: pq.ParquetFile, group: int, only: Only | None) -> list[bool] | None:
    """Which rows of a group are wanted, from their key column alone; None for all."""
    if only is None:
        return None
    column, values = only
    keys = file.read_row_group(group, columns=[column])[column].to_pylist()
    return [key in values for key in keys]

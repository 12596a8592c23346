"""Searching the files of a run for a secret, also where they are compressed."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def files_with(secret: str, folder: Path) -> list[Path]:
    """The files below a folder whose name or decoded content has the secret."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".parquet" for path in files), f"no table below {folder}"
    return [path for path in files if secret in path.name or secret.encode() in _content(path)]


def _content(path: Path) -> bytes:
    """The bytes of a file, and what they decompress to."""
    raw = path.read_bytes()
    if path.suffix == ".gz":
        return raw + gzip.decompress(raw)
    if path.suffix == ".parquet":
        return raw + _uncompressed(pq.ParquetFile(path).read())
    return raw


def _uncompressed(table: pa.Table) -> bytes:
    """All values and the metadata of a table, as an Arrow stream, which is not compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())

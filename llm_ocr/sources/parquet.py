"""Read Parquet files: the footer when a run is planned, later the rows that a document names."""

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from llm_ocr.documents import Document, Range
from llm_ocr.records import ErrorCode, PageError, valid_text
from llm_ocr.sources.dataset_rows import BATCH_BYTES, DatasetRow, metadata
from llm_ocr.sources.listing import open_unchanged
from llm_ocr.storage.store import StorageError

# Bytes of each column that are fetched at a time.
BUFFER = 4 << 20
BATCH_ROWS = 256
# A file may have this many rows with less than a byte per row, for example if all are null.
BLANK_ROWS = 100_000
# Exceptions of reading a damaged file, in addition to those of the disk and the store.
DAMAGE = (pa.ArrowException, ValueError, EOFError, LookupError, TypeError, ArithmeticError)
ERRORS = (*DAMAGE, OSError, StorageError, MemoryError)
# A column of images or PDFs that compresses by more than this factor is a decompression bomb;
# smaller chunks (in bytes) are read in any case.
MAX_COMPRESSION, SMALL_CHUNK = 100, 256 << 20
# Any value of a dictionary may be as large as the whole dictionary: this bounds a batch's bytes.
DICTIONARY_BYTES = 128 << 20


@dataclass(frozen=True)
class RowGroup:
    """Rows `first` to `first + count - 1` of a file, with the number of images in its column and
    the column's size in bytes."""

    first: int
    count: int
    images: int
    size: int


@dataclass(frozen=True)
class Footer:
    """The column to read and the row groups of a Parquet file. `is_pdf`: the column holds PDFs."""

    column: str
    is_pdf: bool
    groups: tuple[RowGroup, ...]


def read_footer(document: Document) -> Footer:
    """Read a file's footer. Raises PageError: CORRUPT_DOCUMENT if it is not a Parquet file,
    UNSUPPORTED_FORMAT if not exactly one column can be read."""
    with _open_document(document) as file, _translate_footer_errors(document.file_uri):
        column = _column(document, file.schema_arrow)
        leaf = _leaf(file, column)
        groups, first = [], 0
        counts = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
        if any(count < 0 for count in counts) or sum(counts) > max(document.size, BLANK_ROWS):
            problem = f"it claims {sum(counts):,} rows in {document.size:,} bytes; make it again"
            raise PageError(ErrorCode.CORRUPT_DOCUMENT, f"{document.file_uri}: {problem}")
        for k in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(k)
            chunk = group.column(leaf)
            size = chunk.total_uncompressed_size
            groups.append(RowGroup(first, group.num_rows, chunk.num_values, size))
            first += group.num_rows
        return Footer(column, _is_pdf(file.schema_arrow, column), tuple(groups))


def read_parquet_rows(document: Document) -> Iterator[DatasetRow]:
    """The rows in the document's ranges, a few in memory at a time. Raises PageError."""
    with _open_document(document) as file:
        column = _column(document, file.schema_arrow)
        ranges = list(document.ranges)
        first = 0
        for k in range(file.metadata.num_row_groups):
            count = file.metadata.row_group(k).num_rows
            numbers = _clip_ranges(ranges, first, first + count - 1)
            if numbers:
                yield from _rows(document, file, k, column, first, numbers)
                pa.default_memory_pool().release_unused()
            first += count


@contextmanager
def _translate_footer_errors(uri: str) -> Iterator[None]:
    """Raise errors of a damaged footer as a PageError that names the file."""
    try:
        yield
    except DAMAGE as error:
        problem = f"its footer can't be understood ({error}); copy it again or recreate it"
        raise PageError(ErrorCode.CORRUPT_DOCUMENT, f"{uri}: {problem}") from error


@contextmanager
def _open_document(document: Document) -> Iterator[pq.ParquetFile]:
    uri = document.file_uri
    with open_unchanged(uri, document.version) as source:
        yield _parquet(uri, source)


def _parquet(uri: str, source: BinaryIO) -> pq.ParquetFile:
    # A store's buffered reader would read ahead into columns that are not needed.
    exact = source.raw if isinstance(source, io.BufferedReader) else source
    try:
        return pq.ParquetFile(exact, buffer_size=BUFFER, pre_buffer=False)
    except (pa.ArrowException, ValueError) as error:
        problem = f"it is no Parquet file, or cut off ({error}); copy it again or recreate it"
        raise PageError(ErrorCode.CORRUPT_DOCUMENT, f"{uri}: {problem}") from error


def _clip_ranges(ranges: Sequence[Range], first: int, last: int) -> list[int]:
    """The numbers in the ranges that are between `first` and `last`."""
    return [
        number
        for start, end in ranges
        for number in range(max(start, first), min(last if end is None else end, last) + 1)
    ]


def _rows(
    document: Document, file: pq.ParquetFile, k: int, column: str, first: int, numbers: list[int]
) -> Iterator[DatasetRow]:
    """The rows with these numbers from row group `k`, which begins with row `first`. Rows that
    can't be read have the error as content."""
    remaining = list(reversed(numbers))
    group = file.metadata.row_group(k)
    chunk = group.column(_leaf(file, column))
    packed, size = chunk.total_compressed_size, chunk.total_uncompressed_size
    if size > max(SMALL_CHUNK, MAX_COMPRESSION * packed):
        problem = f"{packed:,} bytes of column {column} become {size:,}; make it again without"
        for number in numbers:
            row = document.row(number)
            error = PageError(ErrorCode.TOO_LARGE, f"{row.source_uri}: {problem} compression")
            yield DatasetRow(row, error)
        return
    others = [field.name for field in file.schema_arrow if _is_plain(field.type)]
    rows = min(BATCH_ROWS, BATCH_BYTES * group.num_rows // max(1, group.total_byte_size))
    if chunk.has_dictionary_page:
        rows = min(rows, DICTIONARY_BYTES // max(1, size))
    batches = file.iter_batches(
        max(1, rows),
        row_groups=[k],
        columns=[column, *others],
        use_threads=False,
    )
    try:
        for batch in batches:
            while remaining and remaining[-1] < first + batch.num_rows:
                dataset_row = _row(document, batch, column, remaining[-1], first)
                remaining.pop()
                yield dataset_row
            first += batch.num_rows
            if not remaining:
                return
    except ERRORS as error:
        for number in reversed(remaining):
            failed = document.row(number)
            if isinstance(error, StorageError):
                code, problem = ErrorCode.READ_ERROR, f"it can't be fetched ({error})"
            elif isinstance(error, MemoryError):
                code, problem = ErrorCode.TOO_LARGE, "there is not enough memory to read it"
            else:
                code, problem = ErrorCode.CORRUPT_DOCUMENT, f"the file is damaged there ({error})"
            yield DatasetRow(failed, PageError(code, f"{failed.source_uri}: {problem}"))


def _row(
    document: Document, batch: pa.RecordBatch, column: str, number: int, first: int
) -> DatasetRow:
    row = document.row(number)
    values: dict[str, Any] = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        try:
            values[name] = array[number - first].as_py()
        except DAMAGE as error:
            # A date that does not exist, or text that is not UTF-8.
            problem = (
                f"the value in column {name} can't be read ({error}); mend it or leave the row"
            )
            damage = PageError(
                ErrorCode.CORRUPT_DOCUMENT, valid_text(f"{row.source_uri}: {problem}")
            )
            return DatasetRow(row, damage)
    value = values.pop(column)
    row = replace(row, metadata=metadata(values))
    return DatasetRow(row, _content(f"{row.source_uri}, column {column}", value))


def _content(where: str, value: Any) -> bytes | tuple[bytes, ...] | PageError:  # noqa: ANN401
    if isinstance(value, list):
        pages = [_bytes(item) for item in value]
        if pages:
            # A missing image becomes an empty file, so that only its page fails.
            return tuple(page or b"" for page in pages)
        return PageError(ErrorCode.NO_PAGES, f"{where}: the list is empty; leave the row")
    content = _bytes(value)
    if content:
        return content
    path = value.get("path") if isinstance(value, dict) else None
    problem = (
        f"only a path ({path}), no bytes; embed the files" if path else "nothing; leave the row"
    )
    return PageError(ErrorCode.EMPTY_FILE, f"{where}: there is {problem}")


def _bytes(value: Any) -> bytes | None:  # noqa: ANN401
    return value.get("bytes") if isinstance(value, dict) else value


# Columns -----------------------------------------------------------------------------------------


def _column(document: Document, schema: pa.Schema) -> str:
    """The name of the column to read: the document's, or the only readable one."""
    uri, column = document.file_uri, document.column
    readable = [field.name for field in schema if _holds_bytes(field.type)]
    listed = ", ".join(f"{field.name} ({field.type})" for field in schema)[:2000]
    if column is not None:
        if column in readable:
            return column
        problem = "holds no bytes" if column in schema.names else "is not there"
        raise PageError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"{uri}: column {column!r} {problem}; images or PDFs are in a column of bytes, or of "
            f"structs with bytes, or of lists of these. Columns: {listed}",
        )
    declared = [name for name in readable if _feature(schema, name)]
    candidates = declared or readable
    if len(candidates) == 1:
        return str(candidates[0])
    if candidates:
        problem = f"{' and '.join(candidates)} could hold the pages; add ?column={candidates[0]}"
    else:
        problem = "no column holds bytes of images or PDFs"
    raise PageError(ErrorCode.UNSUPPORTED_FORMAT, f"{uri}: {problem}. Columns: {listed}")


def _holds_bytes(kind: pa.DataType) -> bool:
    if types.is_list(kind) or types.is_large_list(kind):
        return _holds_bytes(kind.value_type) and not types.is_list(kind.value_type)
    if types.is_struct(kind):
        return any(field.name == "bytes" and _is_binary(field.type) for field in kind)
    return _is_binary(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values of the type are scalars, which `metadata` contains."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    return not (types.is_nested(kind) or _is_binary(kind) or types.is_null(kind))


def _feature(schema: pa.Schema, column: str) -> str | None:
    """`Image` or `Pdf` if the schema's metadata, written by `datasets`, declares it; else None."""
    raw = (schema.metadata or {}).get(b"huggingface")
    if raw is None:
        return None
    # Metadata of another form declares nothing.
    try:
        feature = json.loads(raw)["info"]["features"][column]
        while isinstance(feature, list) or "feature" in feature:
            feature = feature[0] if isinstance(feature, list) else feature["feature"]
        kind = feature.get("_type")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return str(kind) if kind in ("Image", "Pdf") else None


def _is_pdf(schema: pa.Schema, column: str) -> bool:
    feature = _feature(schema, column)
    return feature == "Pdf" or (feature is None and "pdf" in column.lower())


def _leaf(file: pq.ParquetFile, column: str) -> int:
    """The index of the Parquet column with the bytes."""
    paths = [file.schema.column(k).path for k in range(len(file.schema))]
    mine = [k for k, path in enumerate(paths) if path == column or path.startswith(f"{column}.")]
    return next((k for k in mine if paths[k].endswith(".bytes")), mine[0])

"""Read the samples of WebDataset tars: consecutive files whose names differ in the extension only.

Each sample with a PDF or with images is a document; samples are numbered from 0.
"""

import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import BinaryIO

from llm_ocr.documents import Document
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.sources.dataset_rows import DatasetRow, metadata
from llm_ocr.sources.listing import open_unchanged
from llm_ocr.sources.names import KINDS
from llm_ocr.storage.store import StorageError

TEXT_EXTENSIONS = (".txt", ".cls", ".caption")
# Larger texts are not copied into the metadata of their sample.
MAX_TEXT_BYTES = 1 << 20
# The largest sample that is read: its files are in memory together.
MAX_SAMPLE_BYTES = 1 << 30
BLOCK = 512
# A larger header is damaged: paths have a few thousand bytes at most.
MAX_HEADER_BYTES = 1 << 20
# Bytes after the end mark that are searched for more files. Tars are padded to a multiple of 10 KB.
PADDING_BYTES = 1 << 16
_PAX = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)


class _CutShortError(Exception):
    """The tar is truncated or damaged in or after the current sample; the message says where.

    `name` is the name of the truncated file, if its header is complete. `at_end`: all files before
    the tar's end mark are complete.
    """

    def __init__(self, message: str, name: str = "", *, at_end: bool = False) -> None:
        super().__init__(message)
        self.name, self.at_end = name, at_end


@dataclass(frozen=True)
class _Member:
    """A file in a tar: `size` bytes from `start` on, without the holes of a sparse file."""

    name: str
    start: int
    size: int
    is_sparse: bool


@dataclass(frozen=True)
class _Sample:
    """Files with the same name, each with its extension."""

    key: str
    files: tuple[tuple[str, _Member], ...]


def count_samples(document: Document, limit: int | None = None) -> int:
    """Count the samples of a tar by its headers, up to `limit`.

    The place where a damaged tar breaks off counts as one more sample, whose row reports it. Raises
    PageError.
    """
    count = 0
    with open_unchanged(document.file_uri, document.version) as source:
        try:
            for _ in _samples(document, source):
                count += 1
                if count == limit:
                    break
        except _CutShortError:
            count += 1
    return count


def read_tar_rows(document: Document) -> Iterator[DatasetRow]:
    """The samples in the document's row ranges, one in memory at a time. Raises PageError."""
    number = 0
    with open_unchanged(document.file_uri, document.version) as source:
        try:
            for sample in _samples(document, source):
                if not _has_rows_from(document, number):
                    return
                if _has_row(document, number):
                    yield _row(document, source, number, sample)
                number += 1
        except (_CutShortError, StorageError) as error:
            yield from _lost_rows(document, number, error)


def _samples(document: Document, source: BinaryIO) -> Iterator[_Sample]:
    """Files grouped by folder and by name up to the first dot. A group is yielded when the next one
    begins, because only then is it known to be complete."""
    key = ""
    files: list[tuple[str, _Member]] = []
    try:
        for member in _members(document, source):
            split_name = _split_name(member.name)
            if split_name is None:
                continue
            if files and split_name[0] != key:
                yield _Sample(key, tuple(files))
                files = []
            key = split_name[0]
            files.append((split_name[1], member))
    except _CutShortError as error:
        cut = _split_name(error.name)
        if files and (error.at_end or (cut is not None and cut[0] != key)):
            yield _Sample(key, tuple(files))
        raise
    if files:
        yield _Sample(key, tuple(files))


def _split_name(name: str) -> tuple[str, str] | None:
    """The sample's key and the file's extension; None for hidden files."""
    path = PurePosixPath(name)
    stem, dot, extension = path.name.partition(".")
    return (str(path.with_name(stem)), f"{dot}{extension}".lower()) if stem else None


def _members(document: Document, source: BinaryIO) -> Iterator[_Member]:
    """The files of a tar, in order. Raises PageError for a file that is not a tar, and
    _CutShortError where the tar is truncated or damaged.

    `tarfile.TarFile` is not used because it takes a damaged header for the end.
    """
    end = source.seek(0, io.SEEK_END)
    at = 0
    # Values of extended headers: for the next file, and for all files that follow.
    overrides: dict[str, str] = {}
    defaults: dict[str, str] = {}
    while True:
        head = _bytes_at(source, at, BLOCK)
        if at and len(head) < BLOCK:
            raise _CutShortError(f"at byte {at:,} it ends without the mark that ends a tar")
        if head == bytes(BLOCK):
            padding = _bytes_at(source, at, PADDING_BYTES)
            if padding.strip(b"\0"):
                message = f"at byte {at:,} it ends, and there is more behind the end"
                raise _CutShortError(message, at_end=not padding[: BLOCK * 2].strip(b"\0"))
            return
        try:
            info = tarfile.TarInfo.frombuf(head, "utf-8", "backslashreplace")
        except tarfile.TarError as error:
            if at == 0:
                problem = f"it is no tar ({error}; compressed ones can't be read)"
                raise PageError(
                    ErrorCode.CORRUPT_DOCUMENT,
                    f"{document.file_uri}: {problem}; copy it again or recreate it",
                ) from error
            raise _CutShortError(f"at byte {at:,} there is no header ({error})") from error
        start = at + BLOCK
        is_pax = info.type in _PAX
        is_name = info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
        extended = defaults | overrides
        size = info.size if is_pax or is_name else _size(extended.get("size"), info.size, at)
        is_sparse = info.type == tarfile.GNUTYPE_SPARSE
        # The map of a sparse file continues in further blocks if it is too long for its header.
        has_more_map = is_sparse and head[482]
        while has_more_map:
            has_more_map = _bytes_at(source, start, BLOCK)[504:505] not in (b"", b"\0")
            start += BLOCK
        has_body = info.isreg() or info.type not in tarfile.SUPPORTED_TYPES
        has_body = has_body or is_pax or is_name
        body = size if has_body else 0
        if size < 0 or start + body > end:
            raise _CutShortError(
                f"the file at byte {at:,} has {size:,} bytes, and the tar ends {end - start:,} "
                "bytes behind its header",
                extended.get("path", info.name),
            )
        if (is_pax or is_name) and size > MAX_HEADER_BYTES:
            raise _CutShortError(f"at byte {at:,} there is a header of {size:,} bytes")
        if is_pax:
            records = _parse_pax(_bytes_at(source, start, size))
            if info.type == tarfile.XGLTYPE:
                defaults |= records
            else:
                overrides |= records
        elif info.type == tarfile.GNUTYPE_LONGNAME:
            overrides["path"] = _decode(_bytes_at(source, start, size).rstrip(b"\0"))
        elif not is_name:
            if info.isreg():
                is_sparse = is_sparse or any(key.startswith("GNU.sparse.") for key in extended)
                yield _Member(extended.get("path", info.name), start, size, is_sparse)
            overrides = {}
        at = start + -(-body // BLOCK) * BLOCK


def _bytes_at(source: BinaryIO, at: int, count: int) -> bytes:
    source.seek(at)
    return source.read(count)


def _decode(name: bytes) -> str:
    return name.decode(errors="backslashreplace")


def _size(extended: str | None, default: int, at: int) -> int:
    if extended is None:
        return default
    if not extended.isdecimal() or len(extended) > 20:
        raise _CutShortError(f"at byte {at:,} a header says that the size is {extended[:40]!r}")
    return int(extended)


def _parse_pax(body: bytes) -> dict[str, str]:
    """The records of an extended header, such as `30 path=folder/name.jpg`, up to the first invalid
    one."""
    records: dict[str, str] = {}
    at = 0
    while (space := body.find(b" ", at, at + 12)) > at and body[at:space].isdigit():
        length = int(body[at:space])
        key, _, value = body[space + 1 : at + length].rstrip(b"\n").partition(b"=")
        records[_decode(key)] = _decode(value)
        if length <= space - at:
            break
        at += length
    return records


def _has_row(document: Document, number: int) -> bool:
    return any(
        first <= number and (last is None or number <= last) for first, last in document.ranges
    )


def _has_rows_from(document: Document, number: int) -> bool:
    """Whether the document's ranges contain `number` or a later row."""
    return any(last is None or last >= number for _, last in document.ranges)


def _lost_rows(document: Document, number: int, error: Exception) -> Iterator[DatasetRow]:
    """A row with the error for each requested sample from `number` on, as far as they were
    counted."""
    if isinstance(error, StorageError):
        code, problem = ErrorCode.READ_ERROR, f"it can't be fetched from here on ({error})"
    else:
        code = ErrorCode.CORRUPT_DOCUMENT
        problem = (
            f"the tar is cut off or damaged here: {error}. {number:,} samples stand before it; "
            "what follows is lost"
        )
    for first, last in document.ranges:
        for lost in range(max(first, number), (number if last is None else last) + 1):
            row = document.row(lost)
            yield DatasetRow(
                row, PageError(code, f"{row.source_uri}: {problem}; copy it again or recreate it")
            )


def _row(document: Document, source: BinaryIO, number: int, sample: _Sample) -> DatasetRow:
    row = document.row(number)
    try:
        values = {"__key__": sample.key, **_texts(source, sample)}
        content = _content(row.source_uri, source, sample, document.column)
    except StorageError as error:
        problem = f"it can't be fetched ({error})"
        return DatasetRow(row, PageError(ErrorCode.READ_ERROR, f"{row.source_uri}: {problem}"))
    except RecursionError:
        problem = f"the JSON of sample {sample.key} is nested too deep; leave it out"
        message = f"{row.source_uri}: {problem}"
        return DatasetRow(row, PageError(ErrorCode.CORRUPT_DOCUMENT, message))
    return DatasetRow(replace(row, metadata=metadata(values)), content)


def _content(
    where: str, source: BinaryIO, sample: _Sample, column: str | None
) -> bytes | tuple[bytes, ...] | PageError:
    """The bytes of the PDF, or else of the images in the order of the tar, or else the error. If
    `column` names an extension, only files with it are read."""
    if column is not None:
        extension = f".{column.lower().lstrip('.')}"
        members = [member for ending, member in sample.files if ending == extension]
    else:
        pdfs = [member for ending, member in sample.files if ending.endswith(".pdf")]
        images = [member for ending, member in sample.files if _kind(ending) == "image"]
        members = pdfs[:1] or images
    if not members:
        endings = " ".join(ending for ending, _ in sample.files)[:500]
        wanted = f"{column} file" if column else "image or PDF"
        problem = f"the sample {sample.key} holds no {wanted} but {endings}; leave it"
        return PageError(ErrorCode.NO_PAGES, f"{where}: {problem}")
    if any(member.is_sparse for member in members):
        problem = "its files are stored as sparse ones, with holes; make the tar without --sparse"
        return PageError(ErrorCode.UNSUPPORTED_FORMAT, f"{where}: {problem}")
    size = sum(member.size for member in members)
    if size > MAX_SAMPLE_BYTES:
        problem = f"the sample has {size:,} bytes, more than the {MAX_SAMPLE_BYTES:,} that are read"
        return PageError(ErrorCode.TOO_LARGE, f"{where}: {problem}; read it as a separate file")
    pages = [_read(source, member) for member in members]
    if len(pages) > 1:
        return tuple(pages)
    return pages[0] or PageError(ErrorCode.EMPTY_FILE, f"{where}: {members[0].name} is empty")


def _texts(source: BinaryIO, sample: _Sample) -> dict[str, object]:
    """The scalar values of the sample's JSON, and its short texts. Raises RecursionError."""
    values: dict[str, object] = {}
    for ending, member in sample.files:
        if member.size > MAX_TEXT_BYTES or member.is_sparse:
            continue
        if ending in TEXT_EXTENSIONS:
            values[ending.lstrip(".")] = _read(source, member).decode(errors="replace")
        elif ending == ".json":
            with suppress(ValueError):
                fields = json.loads(_read(source, member))
                if isinstance(fields, dict):
                    scalar = (str, int, float, bool, type(None))
                    values |= {
                        key: value for key, value in fields.items() if isinstance(value, scalar)
                    }
    return values


def _read(source: BinaryIO, member: _Member) -> bytes:
    return _bytes_at(source, member.start, member.size)


def _kind(ending: str) -> str | None:
    """The kind of file that the last extension stands for: `.left.png` is an image, like `.png`."""
    return KINDS.get(PurePosixPath(f"x{ending}").suffix)

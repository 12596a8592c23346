"""Samples in WebDataset tars: files that follow each other and have the same name but the ending.

Each sample with a PDF, or with images, is a document; samples are counted from 0.
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

TEXTS = (".txt", ".cls", ".caption")
# A larger text beside an image is none of its plain values.
TEXT_BYTES = 1 << 20


# What is read of a sample at most: its files are in memory together.
SAMPLE_BYTES = 1 << 30
BLOCK = 512
# A header that is larger than this is none; paths have a few thousand bytes at most.
HEADER_BYTES = 1 << 20
# How far behind a tar's end there is looked for more: tars are filled up to 10 KB, or a few times.
BEHIND = 1 << 16
_PAX = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)


class _CutShortError(Exception):
    """The tar ends, or is damaged, in or behind the sample that was being read; says where.

    `name` is that of the file whose bytes are cut off, if its header is whole. `at_end` is whether
    all files before a tar's end are there.
    """

    def __init__(self, said: str, name: str = "", *, at_end: bool = False) -> None:
        super().__init__(said)
        self.name, self.at_end = name, at_end


@dataclass(frozen=True)
class _Member:
    """A file in a tar: `size` bytes from `start` on. Of a sparse file what was left out is not
    there."""

    name: str
    start: int
    size: int
    is_sparse: bool


@dataclass(frozen=True)
class _Sample:
    """Files of one name, by ending."""

    key: str
    files: tuple[tuple[str, _Member], ...]


def count_samples(document: Document, limit: int | None = None) -> int:
    """How many samples a tar holds, by its headers; at most `limit` are counted.

    Where it breaks off counts as one more, as it will be told of. Raises PageError.
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
    """The samples that `document` stands for, one in memory at a time. Raises PageError."""
    number = 0
    with open_unchanged(document.file_uri, document.version) as source:
        try:
            for sample in _samples(document, source):
                if not _ahead(document, number):
                    return
                if _among(document, number):
                    yield _row(document, source, number, sample)
                number += 1
        except (_CutShortError, StorageError) as error:
            yield from _unread(document, number, error)


def _samples(document: Document, source: BinaryIO) -> Iterator[_Sample]:
    """Files grouped by folder and name up to the first dot. A group is known to be whole, its
    bytes included, when the next one begins."""
    key = ""
    files: list[tuple[str, _Member]] = []
    try:
        for member in _members(document, source):
            named = _key_and_ending(member.name)
            if named is None:
                continue
            if files and named[0] != key:
                yield _Sample(key, tuple(files))
                files = []
            key = named[0]
            files.append((named[1], member))
    except _CutShortError as error:
        cut = _key_and_ending(error.name)
        if files and (error.at_end or (cut is not None and cut[0] != key)):
            yield _Sample(key, tuple(files))
        raise
    if files:
        yield _Sample(key, tuple(files))


def _key_and_ending(name: str) -> tuple[str, str] | None:
    """What the files of a sample share, and what sets one apart; None for a file without it."""
    path = PurePosixPath(name)
    stem, dot, ending = path.name.partition(".")
    return (str(path.with_name(stem)), f"{dot}{ending}".lower()) if stem else None


def _members(document: Document, source: BinaryIO) -> Iterator[_Member]:
    """The files of a tar, in order. Raises PageError for what is no tar, and _CutShortError where
    it doesn't go on, or end, as tars do.

    Not by `tarfile.TarFile`: that takes a damaged header for the end.
    """
    end = source.seek(0, io.SEEK_END)
    at = 0
    # What headers before a file's own say of it, or of all that follow.
    said: dict[str, str] = {}
    of_all: dict[str, str] = {}
    while True:
        head = _bytes_at(source, at, BLOCK)
        if at and len(head) < BLOCK:
            raise _CutShortError(f"at byte {at:,} it ends without the mark that ends a tar")
        if head == bytes(BLOCK):
            behind = _bytes_at(source, at, BEHIND)
            if behind.strip(b"\0"):
                said_so = f"at byte {at:,} it ends, and there is more behind the end"
                raise _CutShortError(said_so, at_end=not behind[: BLOCK * 2].strip(b"\0"))
            return
        try:
            info = tarfile.TarInfo.frombuf(head, "utf-8", "backslashreplace")
        except tarfile.TarError as error:
            if at == 0:
                wrong = f"it is no tar ({error}; compressed ones can't be read)"
                raise PageError(
                    ErrorCode.CORRUPT_DOCUMENT,
                    f"{document.file_uri}: {wrong}; copy it again or recreate it",
                ) from error
            raise _CutShortError(f"at byte {at:,} there is no header ({error})") from error
        start = at + BLOCK
        is_pax = info.type in _PAX
        is_name = info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
        known = of_all | said
        size = info.size if is_pax or is_name else _size(known.get("size"), info.size, at)
        is_sparse = info.type == tarfile.GNUTYPE_SPARSE
        # A map of a sparse file that is too long for its header goes on in further blocks.
        more = is_sparse and head[482]
        while more:
            more = _bytes_at(source, start, BLOCK)[504:505] not in (b"", b"\0")
            start += BLOCK
        has_body = info.isreg() or info.type not in tarfile.SUPPORTED_TYPES
        has_body = has_body or is_pax or is_name
        body = size if has_body else 0
        if size < 0 or start + body > end:
            raise _CutShortError(
                f"the file at byte {at:,} has {size:,} bytes, and the tar ends {end - start:,} "
                "bytes behind its header",
                known.get("path", info.name),
            )
        if (is_pax or is_name) and size > HEADER_BYTES:
            raise _CutShortError(f"at byte {at:,} there is a header of {size:,} bytes")
        if is_pax:
            records = _pax(_bytes_at(source, start, size))
            if info.type == tarfile.XGLTYPE:
                of_all |= records
            else:
                said |= records
        elif info.type == tarfile.GNUTYPE_LONGNAME:
            said["path"] = _decoded(_bytes_at(source, start, size).rstrip(b"\0"))
        elif not is_name:
            if info.isreg():
                is_sparse = is_sparse or any(key.startswith("GNU.sparse.") for key in known)
                yield _Member(known.get("path", info.name), start, size, is_sparse)
            said = {}
        at = start + -(-body // BLOCK) * BLOCK


def _bytes_at(source: BinaryIO, at: int, count: int) -> bytes:
    source.seek(at)
    return source.read(count)


def _decoded(name: bytes) -> str:
    return name.decode(errors="backslashreplace")


def _size(said: str | None, usual: int, at: int) -> int:
    if said is None:
        return usual
    if not said.isdecimal() or len(said) > 20:
        raise _CutShortError(f"at byte {at:,} a header says that the size is {said[:40]!r}")
    return int(said)


def _pax(body: bytes) -> dict[str, str]:
    """The records of an extended header, as `30 path=folder/name.jpg`; what is none ends them."""
    records: dict[str, str] = {}
    at = 0
    while (space := body.find(b" ", at, at + 12)) > at and body[at:space].isdigit():
        length = int(body[at:space])
        key, _, value = body[space + 1 : at + length].rstrip(b"\n").partition(b"=")
        records[_decoded(key)] = _decoded(value)
        if length <= space - at:
            break
        at += length
    return records


def _among(document: Document, number: int) -> bool:
    return any(
        first <= number and (last is None or number <= last) for first, last in document.ranges
    )


def _ahead(document: Document, number: int) -> bool:
    """Whether a sample from `number` on is wanted."""
    return any(last is None or last >= number for _, last in document.ranges)


def _unread(document: Document, number: int, error: Exception) -> Iterator[DatasetRow]:
    """Of the wanted samples from `number` on, as far as they were counted, that they are lost."""
    if isinstance(error, StorageError):
        code, said = ErrorCode.READ_ERROR, f"it can't be fetched from here on ({error})"
    else:
        code = ErrorCode.CORRUPT_DOCUMENT
        said = (
            f"the tar is cut off or damaged here: {error}. {number:,} samples stand before it; "
            "what follows is lost"
        )
    for first, last in document.ranges:
        for one in range(max(first, number), (number if last is None else last) + 1):
            row = document.row(one)
            yield DatasetRow(
                row, PageError(code, f"{row.source_uri}: {said}; copy it again or recreate it")
            )


def _row(document: Document, source: BinaryIO, number: int, sample: _Sample) -> DatasetRow:
    row = document.row(number)
    try:
        values = {"__key__": sample.key, **_texts(source, sample)}
        content = _content(row.source_uri, source, sample, document.column)
    except StorageError as error:
        said = f"{row.source_uri}: it can't be fetched ({error})"
        return DatasetRow(row, PageError(ErrorCode.READ_ERROR, said))
    except RecursionError:
        said = f"{row.source_uri}: the JSON of sample {sample.key} is nested too deep; leave it out"
        return DatasetRow(row, PageError(ErrorCode.CORRUPT_DOCUMENT, said))
    return DatasetRow(replace(row, metadata=metadata(values)), content)


def _content(
    where: str, source: BinaryIO, sample: _Sample, column: str | None
) -> bytes | tuple[bytes, ...] | PageError:
    """The PDF, else the images in the order of the tar; `column` is the ending that is wanted."""
    kinds = {
        "pdf": [one for ending, one in sample.files if ending.endswith(".pdf")],
        "image": [one for ending, one in sample.files if _kind(ending) == "image"],
    }
    if column is not None:
        wanted = f".{column.lower().lstrip('.')}"
        found = [one for ending, one in sample.files if ending == wanted]
    else:
        found = kinds["pdf"][:1] or kinds["image"]
    if not found:
        there = " ".join(ending for ending, _ in sample.files)[:500]
        wanted = f"{column} file" if column else "image or PDF"
        said = f"the sample {sample.key} holds no {wanted} but {there}; leave it"
        return PageError(ErrorCode.NO_PAGES, f"{where}: {said}")
    if any(one.is_sparse for one in found):
        said = "its files are stored as sparse ones, with holes; make the tar without --sparse"
        return PageError(ErrorCode.UNSUPPORTED_FORMAT, f"{where}: {said}")
    size = sum(one.size for one in found)
    if size > SAMPLE_BYTES:
        said = f"the sample has {size:,} bytes, more than the {SAMPLE_BYTES:,} that are read"
        return PageError(ErrorCode.TOO_LARGE, f"{where}: {said}; read it as a file of its own")
    pages = [_read(source, one) for one in found]
    if len(pages) > 1:
        return tuple(pages)
    return pages[0] or PageError(ErrorCode.EMPTY_FILE, f"{where}: {found[0].name} is empty")


def _texts(source: BinaryIO, sample: _Sample) -> dict[str, object]:
    """Plain values of the sample's JSON, and its short texts. Raises RecursionError."""
    values: dict[str, object] = {}
    for ending, member in sample.files:
        if member.size > TEXT_BYTES or member.is_sparse:
            continue
        if ending in TEXTS:
            values[ending.lstrip(".")] = _read(source, member).decode(errors="replace")
        elif ending == ".json":
            with suppress(ValueError):
                found = json.loads(_read(source, member))
                if isinstance(found, dict):
                    plain = (str, int, float, bool, type(None))
                    values |= {key: one for key, one in found.items() if isinstance(one, plain)}
    return values


def _read(source: BinaryIO, member: _Member) -> bytes:
    return _bytes_at(source, member.start, member.size)


def _kind(ending: str) -> str | None:
    """`0001.left.png` is an image as well as `0001.png`."""
    return KINDS.get(PurePosixPath(f"x{ending}").suffix)

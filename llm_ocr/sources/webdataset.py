"""Samples in WebDataset tars: files that follow each other and have the same name but the ending.

Each sample with a PDF, or with images, is a document; samples are counted from 0.
"""

import json
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import BinaryIO

from llm_ocr.documents import Document
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.sources.files import open_as_listed
from llm_ocr.sources.names import KINDS
from llm_ocr.sources.row import Row, metadata
from llm_ocr.storage.store import StorageError

TEXTS = (".txt", ".cls", ".caption")
# A larger text beside an image is none of its plain values.
TEXT_BYTES = 1 << 20


class _CutShortError(Exception):
    """The tar ends, or is damaged, in or behind the sample that was being read."""


@dataclass(frozen=True)
class _Sample:
    """Files of one name, by ending."""

    key: str
    files: tuple[tuple[str, tarfile.TarInfo], ...]


def count_samples(document: Document, limit: int | None = None) -> int:
    """How many samples a tar holds, by its headers; at most `limit` are counted.

    One that is cut short counts, as it will be told of. Raises PageError.
    """
    count = 0
    with open_as_listed(document.file_uri, document.version) as source:
        try:
            for _ in _samples(_opened(document, source)):
                count += 1
                if count == limit:
                    break
        except _CutShortError:
            count += 1
    return count


def rows_of_tar(document: Document) -> Iterator[Row]:
    """The samples that `document` stands for, one in memory at a time. Raises PageError."""
    number = 0
    with open_as_listed(document.file_uri, document.version) as source:
        tar = _opened(document, source)
        try:
            for sample in _samples(tar):
                if not _ahead(document, number):
                    return
                if _among(document, number):
                    yield _row(document, tar, number, sample)
                number += 1
        except (_CutShortError, StorageError) as error:
            yield from _unread(document, number, error)


def _opened(document: Document, source: BinaryIO) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=source, mode="r:")
    except tarfile.TarError as error:
        said = f"it is no tar ({error}; compressed ones can't be read); copy or make it again"
        raise PageError(ErrorCode.CORRUPT_DOCUMENT, f"{document.file_uri}: {said}") from error


def _samples(tar: tarfile.TarFile) -> Iterator[_Sample]:
    """Files grouped by folder and name up to the first dot. A group is known to be whole, its
    bytes included, when the next one begins."""
    key = ""
    files: list[tuple[str, tarfile.TarInfo]] = []
    try:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # it would remember them all
            path = PurePosixPath(member.name)
            name, dot, ending = path.name.partition(".")
            if not member.isfile() or not name:
                continue
            sample = str(path.with_name(name))
            if files and sample != key:
                yield _Sample(key, tuple(files))
                files = []
            key = sample
            files.append((f"{dot}{ending}".lower(), member))
    except tarfile.TarError as error:
        raise _CutShortError(str(error)) from error
    if files:
        yield _Sample(key, tuple(files))


def _among(document: Document, number: int) -> bool:
    return any(
        first <= number and (last is None or number <= last) for first, last in document.ranges
    )


def _ahead(document: Document, number: int) -> bool:
    """Whether a sample from `number` on is wanted."""
    return any(last is None or last >= number for _, last in document.ranges)


def _unread(document: Document, number: int, error: Exception) -> Iterator[Row]:
    """Of the wanted samples from `number` on, as far as they were counted, that they are lost."""
    if isinstance(error, StorageError):
        code, said = ErrorCode.READ_ERROR, f"it can't be fetched from here on ({error})"
    else:
        code = ErrorCode.CORRUPT_DOCUMENT
        said = f"the tar is cut off or damaged here ({error}), and what follows is lost"
    for first, last in document.ranges:
        for one in range(max(first, number), (number if last is None else last) + 1):
            row = document.row(one)
            yield Row(row, PageError(code, f"{row.source_uri}: {said}; copy or make it again"))


def _row(document: Document, tar: tarfile.TarFile, number: int, sample: _Sample) -> Row:
    row = document.row(number)
    try:
        values = {"__key__": sample.key, **_texts(tar, sample)}
        content = _content(row.source_uri, tar, sample, document.column)
    except StorageError as error:
        said = f"{row.source_uri}: it can't be fetched ({error})"
        return Row(row, PageError(ErrorCode.READ_ERROR, said))
    return Row(replace(row, metadata=metadata(values)), content)


def _content(
    where: str, tar: tarfile.TarFile, sample: _Sample, column: str | None
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
        there = " ".join(ending for ending, _ in sample.files)
        wanted = f"{column} file" if column else "image or PDF"
        said = f"the sample {sample.key} holds no {wanted} but {there}; leave it"
        return PageError(ErrorCode.NO_PAGES, f"{where}: {said}")
    pages = [_read(tar, one) for one in found]
    if len(pages) > 1:
        return tuple(pages)
    return pages[0] or PageError(ErrorCode.EMPTY_FILE, f"{where}: {found[0].name} is empty")


def _texts(tar: tarfile.TarFile, sample: _Sample) -> dict[str, object]:
    """Plain values of the sample's JSON, and its short texts."""
    values: dict[str, object] = {}
    for ending, member in sample.files:
        if member.size > TEXT_BYTES:
            continue
        if ending in TEXTS:
            values[ending.lstrip(".")] = _read(tar, member).decode(errors="replace")
        elif ending == ".json":
            with suppress(ValueError):
                found = json.loads(_read(tar, member))
                if isinstance(found, dict):
                    plain = (str, int, float, bool, type(None))
                    values |= {key: one for key, one in found.items() if isinstance(one, plain)}
    return values


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    body = tar.extractfile(member)
    return body.read() if body else b""


def _kind(ending: str) -> str | None:
    """`0001.left.png` is an image as well as `0001.png`."""
    return KINDS.get(PurePosixPath(f"x{ending}").suffix)

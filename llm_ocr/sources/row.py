"""A row of a dataset: the bytes of its pages, and what else it says."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from llm_ocr.documents import Document
from llm_ocr.records import PageError, valid_text
from llm_ocr.sources.names import file_version

# What is kept of a row's other values, in characters: of one of them, and of all together.
VALUE_LENGTH, METADATA_LENGTH = 1000, 16_000
# Bytes of rows that are read at a time.
BATCH_BYTES = 8 << 20


@dataclass(frozen=True)
class Row:
    """A row as a document, and its content: the bytes of its image or PDF, those of its pages
    where it holds a list of them, or why there is neither."""

    document: Document
    content: "bytes | tuple[bytes, ...] | PageError"


def write_row(row: Row, folder: Path) -> Document:
    """The row as a file in `folder`, or as a folder of pages in it. Raises the row's PageError."""
    if isinstance(row.content, PageError):
        raise row.content
    path = folder / row.document.doc_id
    if isinstance(row.content, bytes):
        path.write_bytes(row.content)
        size = len(row.content)
    else:
        path.mkdir()
        for number, page in enumerate(row.content, 1):
            page_path(path, number).write_bytes(page)
        size = sum(len(page) for page in row.content)
    version, _ = file_version(path)
    return replace(row.document, source_uri=str(path), version=version, size=size, rows=None)


def page_path(folder: Path, number: int) -> Path:
    """Where a page of a row lies that has several."""
    return folder / f"{number:06d}"


def metadata(values: Mapping[str, object]) -> str | None:
    """A row's plain values as JSON, long strings cut; as many of them as there is room for."""
    kept: dict[str, object] = {}
    room = METADATA_LENGTH
    for name, value in values.items():
        plain = _plain(value)
        room -= len(name) + len(str(plain)) + 6
        if room < 0:
            break
        kept[name] = plain
    return valid_text(json.dumps(kept, ensure_ascii=False)) if kept else None


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    text = str(value)
    return text if len(text) <= VALUE_LENGTH else f"{text[: VALUE_LENGTH - 1]}…"

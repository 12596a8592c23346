"""A row of a dataset: its document, content and metadata, and writing it as a file."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from llm_ocr.documents import Document
from llm_ocr.records import PageError, valid_text
from llm_ocr.sources.names import file_version

# Limits of a row's metadata, in characters: of one value, and in total.
MAX_VALUE_LENGTH, MAX_METADATA_LENGTH = 1000, 16_000
# Target size of a batch of rows in memory.
BATCH_BYTES = 8 << 20


@dataclass(frozen=True)
class DatasetRow:
    """A row as a document, and its content: the bytes of its image or PDF, the bytes of each image
    if it has a list of them, or the error that explains why there is none."""

    document: Document
    content: "bytes | tuple[bytes, ...] | PageError"


def write_row(row: DatasetRow, folder: Path) -> Document:
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
    """The path of a page in the folder of a row with several images."""
    return folder / f"{number:06d}"


def metadata(values: Mapping[str, object]) -> str | None:
    """A row's scalar values as JSON: long strings truncated, as many values as fit."""
    scalars: dict[str, object] = {}
    remaining = MAX_METADATA_LENGTH
    for name, value in values.items():
        scalar = _json_scalar(value)
        remaining -= len(name) + len(str(scalar)) + 6
        if remaining < 0:
            break
        scalars[name] = scalar
    return valid_text(json.dumps(scalars, ensure_ascii=False)) if scalars else None


def _json_scalar(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    text = str(value)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 1]}…"

"""Datasets as inputs: Parquet files, WebDataset tars, and datasets on the Hub.

data/*.parquet?column=images
s3://bucket/shards
hf://datasets/ORG/NAME@REVISION?config=CONFIG&split=SPLIT&column=COLUMN
"""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import parse_qsl

from llm_ocr.documents import Document, document_id
from llm_ocr.sources.configs import UnknownSplitError, default_config, find_configs, select_files
from llm_ocr.sources.listing import FoundFile, find_files
from llm_ocr.sources.names import DATASET_KINDS, safe_name
from llm_ocr.storage.store import StorageError, open_store

_log = logging.getLogger(__name__)
_QUERY = re.compile(r"\?(\w+=[^?]*)$")
_REPOSITORY = re.compile(r"(hf://datasets/[^/@]+/[^/@]+)(@refs/[^/]+/[^/]+|@[^/]+)?")
_SHARD_TOTAL = re.compile(r"-of-\d+$")
# The revision with the Hub's conversion of a dataset.
CONVERTED = "@refs/convert/parquet"


class InvalidQueryError(ValueError):
    """A query with an unknown parameter."""


@dataclass(frozen=True)
class DatasetSource:
    """A location, and the dataset's config, split and column from its query."""

    location: str
    config: str | None = None
    split: str | None = None
    column: str | None = None

    @property
    def is_repository(self) -> bool:
        return _REPOSITORY.fullmatch(self.location) is not None

    @property
    def is_dataset(self) -> bool:
        """Whether it is certainly a dataset: by its query, address or extension."""
        extension = PurePosixPath(self.location).suffix.lower()
        has_query = bool(self.config or self.split or self.column)
        return has_query or self.is_repository or extension in DATASET_KINDS


def parse_dataset_source(source: str) -> DatasetSource:
    """Parse an input and its query. Raises InvalidQueryError for an unknown parameter."""
    match = _QUERY.search(source)
    if match is None or ("://" not in source and os.path.exists(os.path.expanduser(source))):
        return DatasetSource(source.rstrip("/") if "://" in source else source)
    query = dict(parse_qsl(match[1], keep_blank_values=True))
    unknown = sorted(query.keys() - {"config", "split", "column"})
    if unknown:
        problem = f"unknown parameter ?{unknown[0]}=; use ?config=, ?split= or ?column="
        raise InvalidQueryError(f"{source}: {problem}")
    location = source[: match.start()]
    return DatasetSource(location.rstrip("/") if "://" in source else location, **query)


def list_dataset_files(source: DatasetSource) -> Iterator[tuple[str, Document]]:
    """`(URI, document)` for each file of a dataset; no file is opened.

    Raises StorageError or UnknownSplitError.
    """
    location = source.location
    if source.is_repository or source.config or source.split:
        yield from _documents(source, _split_files(source, location))
    else:
        yield from _documents(source, find_files(location, DATASET_KINDS))


def list_converted_files(source: DatasetSource) -> Iterator[tuple[str, Document]]:
    """`(URI, document)` for each file of the Hub's Parquet conversion of a repository, if there is
    one. Raises UnknownSplitError."""
    if "@" in source.location:
        return
    try:
        files = _split_files(source, f"{source.location}{CONVERTED}")
    except StorageError as error:
        _log.info("%s: there is no conversion to Parquet (%s)", source.location, error)
        return
    yield from _documents(source, files)


def _documents(source: DatasetSource, files: Sequence[FoundFile]) -> Iterator[tuple[str, Document]]:
    for file in files:
        name = str(safe_name(file.path))
        document = Document(
            document_id(file.uri, file.version),
            file.uri,
            file.version,
            _SHARD_TOTAL.sub("", name),
            DATASET_KINDS[file.path.suffix.lower()],
            file.size,
            column=source.column,
        )
        yield file.uri, document


def _split_files(source: DatasetSource, root: str) -> list[FoundFile]:
    """The files below `root` that are in the source's config and split."""
    files = {str(file.path): file for file in find_files(root, DATASET_KINDS)}
    readme = _readme(root)
    configs = find_configs(sorted(files), readme)
    if not configs:
        return []
    try:
        chosen = select_files(configs, source.config, source.split, default_config(readme))
    except UnknownSplitError as error:
        raise UnknownSplitError(f"{source.location}: {error}") from error
    return [files[path] for path in chosen]


def _readme(root: str) -> str:
    try:
        return open_store(root).get("README.md").decode(errors="replace")
    except FileNotFoundError:
        return ""

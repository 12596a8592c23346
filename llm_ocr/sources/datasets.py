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
from llm_ocr.sources.configs import NoSuchPartError, choose, configs_of, usual_config
from llm_ocr.sources.files import FoundFile, find_files
from llm_ocr.sources.names import DATASET_KINDS, safe_name
from llm_ocr.storage.store import StorageError, open_store

_log = logging.getLogger(__name__)
_QUERY = re.compile(r"\?(\w+=[^?]*)$")
_REPOSITORY = re.compile(r"(hf://datasets/[^/@]+/[^/@]+)(@refs/[^/]+/[^/]+|@[^/]+)?")
_OF_HOW_MANY = re.compile(r"-of-\d+$")
# Where the Hub keeps its own conversion of a dataset.
CONVERTED = "@refs/convert/parquet"


class WrongQueryError(ValueError):
    """A query that says nothing about a dataset."""


@dataclass(frozen=True)
class Source:
    """A place, and what its query says of the dataset there."""

    place: str
    config: str | None = None
    split: str | None = None
    column: str | None = None

    @property
    def is_repository(self) -> bool:
        return _REPOSITORY.fullmatch(self.place) is not None

    @property
    def is_dataset(self) -> bool:
        """Whether it can be nothing else."""
        ending = PurePosixPath(self.place).suffix.lower()
        asked = self.config or self.split or self.column
        return bool(asked) or self.is_repository or ending in DATASET_KINDS


def parse_source(source: str) -> Source:
    """An input and its query; raises WrongQueryError naming a part that can't be understood."""
    match = _QUERY.search(source)
    if match is None or ("://" not in source and os.path.exists(os.path.expanduser(source))):
        return Source(source.rstrip("/") if "://" in source else source)
    query = dict(parse_qsl(match[1], keep_blank_values=True))
    unknown = sorted(query.keys() - {"config", "split", "column"})
    if unknown:
        said = f"?{unknown[0]}= is not understood; there are ?config=, ?split= and ?column="
        raise WrongQueryError(f"{source}: {said}")
    place = source[: match.start()]
    return Source(place.rstrip("/") if "://" in source else place, **query)


def dataset_files(source: Source) -> Iterator[tuple[str, Document]]:
    """`(URI, document)` for each file of a dataset, none of which was opened.

    Raises StorageError, or NoSuchPartError.
    """
    place = source.place
    if source.is_repository or source.config or source.split:
        yield from _documents(source, _parts(source, place))
    else:
        yield from _documents(source, find_files(place, DATASET_KINDS))


def converted_files(source: Source) -> Iterator[tuple[str, Document]]:
    """As `dataset_files`, of the Hub's conversion of a repository; none if it made none."""
    if "@" in source.place:
        return
    try:
        found = _parts(source, f"{source.place}{CONVERTED}")
    except StorageError as error:
        _log.info("%s: there is no conversion to Parquet (%s)", source.place, error)
        return
    yield from _documents(source, found)


def _documents(source: Source, files: Sequence[FoundFile]) -> Iterator[tuple[str, Document]]:
    for found in files:
        name = str(safe_name(found.path))
        document = Document(
            document_id(found.uri, found.version),
            found.uri,
            found.version,
            _OF_HOW_MANY.sub("", name),
            DATASET_KINDS[found.path.suffix.lower()],
            found.size,
            column=source.column,
        )
        yield found.uri, document


def _parts(source: Source, root: str) -> list[FoundFile]:
    """The files of the config and the split below `root`."""
    files = {str(one.path): one for one in find_files(root, DATASET_KINDS)}
    readme = _readme(root)
    configs = configs_of(sorted(files), readme)
    if not configs:
        return []
    try:
        chosen = choose(configs, source.config, source.split, usual_config(readme))
    except NoSuchPartError as error:
        raise NoSuchPartError(f"{source.place}: {error}") from error
    return [files[path] for path in chosen]


def _readme(root: str) -> str:
    try:
        return open_store(root).get("README.md").decode(errors="replace")
    except FileNotFoundError:
        return ""

"""Listing files on a disk or in a store by suffix, and opening them if unchanged."""

import glob
import logging
import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from llm_ocr.records import ErrorCode, PageError
from llm_ocr.sources.names import file_version, missing_file_message, path_uri
from llm_ocr.storage.store import StorageError, StoredObject, open_store

_log = logging.getLogger(__name__)
# Beginnings of URIs whose objects are not on this machine's disk.
SCHEMES = ("s3://", "gs://", "hf://", "memory://")
CHANGED = "the file has changed since the run was planned; choose another --out to read it"


@dataclass(frozen=True)
class FoundFile:
    """A file's URI, its path below the place that was listed, its version and size in bytes."""

    uri: str
    path: PurePosixPath
    version: str
    size: int


def is_remote(source: str) -> bool:
    return source.startswith(SCHEMES)


def find_files(place: str, endings: Collection[str]) -> list[FoundFile]:
    """The file at a place, those below a folder, or what a glob matches: sorted, none hidden.

    Raises StorageError.
    """
    found = _in_store(place, endings) if is_remote(place) else _on_disk(place, endings)
    return sorted(found, key=lambda one: one.uri)


def _on_disk(place: str, endings: Collection[str]) -> Iterator[FoundFile]:
    path = Path(os.path.expanduser(place))
    # Not pathlib's: these are False for a path that can't be, such as one that is too long.
    if os.path.isdir(path):
        root, paths = path, [*walk_folder(path)]
    elif os.path.exists(path) or not glob.has_magic(place):
        root, paths = path.parent, [path] if os.path.exists(path) else []
    else:
        root = glob_root(path)
        paths = [Path(match) for match in glob.glob(str(path), recursive=True)]
    for one in paths:
        if one.suffix.lower() in endings and one.is_file():
            version, size = file_version(one)
            real = os.path.realpath(one.parent)
            relative = PurePosixPath(one.relative_to(root))
            uri = path_uri(Path(real, one.name))
            if uri != f"{real}/{one.name}":
                _log.warning(
                    "%s: the file's name is not valid UTF-8 and can't be read; rename it", uri
                )
                version, size = "missing", 0
            yield FoundFile(uri, relative, version, size)


def walk_folder(folder: Path) -> Iterator[Path]:
    """Files and links below a folder, hidden ones left out."""
    for top, folders, files in os.walk(folder, onerror=_warn_of_skipped_folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(top, name) for name in files if not name.startswith("."))


def _warn_of_skipped_folder(error: OSError) -> None:
    _log.warning("%s: the folder is skipped (%s)", error.filename, error.strerror)


def glob_root(pattern: Path) -> Path:
    """The folder of a glob before its first wildcard."""
    parts = []
    for part in pattern.parts[:-1]:
        if glob.has_magic(part):
            break
        parts.append(part)
    return Path(*parts)


def _in_store(place: str, endings: Collection[str]) -> Iterator[FoundFile]:
    scheme, _, path = place.rstrip("/").partition("://")
    if glob.has_magic(path):
        root = f"{scheme}://{glob_root(Path(path))}"
        matches = glob_matcher(path[len(root) - len(scheme) - 2 :])
        yield from (one for one in _below(root, endings) if matches(str(one.path)))
        return
    folder, _, name = place.rstrip("/").rpartition("/")
    if PurePosixPath(name).suffix.lower() in endings:
        with suppress(FileNotFoundError):
            store = open_store(folder)
            found = store.stat(name)
            yield _found(store.uri, found)
            return
    yield from _below(place, endings)


def _below(place: str, endings: Collection[str]) -> Iterator[FoundFile]:
    store = open_store(place)
    for found in store.list(""):
        path = PurePosixPath(found.path)
        hidden = any(part.startswith(".") for part in path.parts)
        if not hidden and path.suffix.lower() in endings:
            yield _found(store.uri, found)


def _found(root: str, found: StoredObject) -> FoundFile:
    path = PurePosixPath(found.path)
    return FoundFile(f"{root}/{found.path}", path, found.version, found.size)


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a path matches a glob, whose `**` stands for folders and whose `*` for none."""
    pieces = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", pattern)
    written = "".join(
        pieces.get(part) or (part.replace("[!", "[^") if part[:1] == "[" else re.escape(part))
        for part in parts
    )
    compiled = re.compile(written)
    return lambda path: compiled.fullmatch(path) is not None


@contextmanager
def open_unchanged(uri: str, version: str) -> Iterator[BinaryIO]:
    """A seekable reader of a file. Raises PageError if it is missing or has changed."""
    try:
        with _opened(uri, version) as source:
            yield source
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PageError(ErrorCode.NOT_FOUND, f"{uri}: {missing_file_message(uri)}") from error
    except (StorageError, OSError) as error:
        raise PageError(ErrorCode.READ_ERROR, f"{uri}: it can't be read ({error})") from error


def _opened(uri: str, version: str) -> BinaryIO:
    folder, _, name = uri.rpartition("/")
    if is_remote(uri):
        store = open_store(folder)
        there = store.stat(name).version
    else:
        there = file_version(Path(uri))[0]
    if there != version:
        raise PageError(ErrorCode.SOURCE_CHANGED, f"{uri}: {CHANGED}")
    return store.open(name) if is_remote(uri) else Path(uri).open("rb")

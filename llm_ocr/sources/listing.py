"""List files on a disk or in a store by extension, and open them if unchanged."""

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
from llm_ocr.sources.names import CHANGED, file_version, missing_file_message, path_uri
from llm_ocr.storage.store import StorageError, StoredObject, open_store

_log = logging.getLogger(__name__)
# Prefixes of URIs in stores other than the local disk.
SCHEMES = ("s3://", "gs://", "hf://", "memory://")


@dataclass(frozen=True)
class FoundFile:
    """A file's URI, its path below the listed folder, its version and its size in bytes."""

    uri: str
    path: PurePosixPath
    version: str
    size: int


def is_remote(source: str) -> bool:
    return source.startswith(SCHEMES)


def find_files(location: str, endings: Collection[str]) -> list[FoundFile]:
    """The file at a path or URI, the files below a folder, or the matches of a glob: sorted,
    without hidden files. Raises StorageError.
    """
    found = _in_store(location, endings) if is_remote(location) else _on_disk(location, endings)
    return sorted(found, key=lambda one: one.uri)


def _on_disk(location: str, endings: Collection[str]) -> Iterator[FoundFile]:
    path = Path(os.path.expanduser(location))
    # Unlike pathlib's, these return False for an invalid path, such as one that is too long.
    if os.path.isdir(path):
        root, paths = path, [*walk_folder(path)]
    elif os.path.exists(path) or not glob.has_magic(location):
        root, paths = path.parent, [path] if os.path.exists(path) else []
    else:
        root = glob_root(path)
        paths = [Path(match) for match in glob.glob(str(path), recursive=True)]
    for file in paths:
        if file.suffix.lower() in endings and file.is_file():
            version, size = file_version(file)
            real = os.path.realpath(file.parent)
            relative = PurePosixPath(file.relative_to(root))
            uri = path_uri(Path(real, file.name))
            if uri != f"{real}/{file.name}":
                _log.warning(
                    "%s: the file's name is not valid UTF-8 and can't be read; rename it", uri
                )
                version, size = "missing", 0
            yield FoundFile(uri, relative, version, size)


def walk_folder(folder: Path) -> Iterator[Path]:
    """Files and links below a folder, without hidden ones."""
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


def _in_store(location: str, endings: Collection[str]) -> Iterator[FoundFile]:
    scheme, _, path = location.rstrip("/").partition("://")
    if glob.has_magic(path):
        root = f"{scheme}://{glob_root(Path(path))}"
        matches = glob_matcher(path[len(root) - len(scheme) - 2 :])
        yield from (file for file in _below(root, endings) if matches(str(file.path)))
        return
    folder, _, name = location.rstrip("/").rpartition("/")
    if PurePosixPath(name).suffix.lower() in endings:
        with suppress(FileNotFoundError):
            store = open_store(folder)
            found = store.stat(name)
            yield _to_found_file(store.uri, found)
            return
    yield from _below(location, endings)


def _below(location: str, endings: Collection[str]) -> Iterator[FoundFile]:
    store = open_store(location)
    for found in store.list(""):
        path = PurePosixPath(found.path)
        hidden = any(part.startswith(".") for part in path.parts)
        if not hidden and path.suffix.lower() in endings:
            yield _to_found_file(store.uri, found)


def _to_found_file(root: str, found: StoredObject) -> FoundFile:
    path = PurePosixPath(found.path)
    return FoundFile(f"{root}/{found.path}", path, found.version, found.size)


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """A function that says whether a path matches a glob; `**` matches across folders, `*` does
    not."""
    pieces = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", pattern)
    regex = "".join(
        pieces.get(part) or (part.replace("[!", "[^") if part[:1] == "[" else re.escape(part))
        for part in parts
    )
    compiled = re.compile(regex)
    return lambda path: compiled.fullmatch(path) is not None


@contextmanager
def open_unchanged(uri: str, version: str) -> Iterator[BinaryIO]:
    """A seekable reader of a file. Raises PageError if it is missing or has changed."""
    try:
        with _open_version(uri, version) as source:
            yield source
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PageError(ErrorCode.NOT_FOUND, f"{uri}: {missing_file_message(uri)}") from error
    except (StorageError, OSError) as error:
        raise PageError(ErrorCode.READ_ERROR, f"{uri}: it can't be read ({error})") from error


def _open_version(uri: str, version: str) -> BinaryIO:
    folder, _, name = uri.rpartition("/")
    if is_remote(uri):
        store = open_store(folder)
        current = store.stat(name).version
    else:
        current = file_version(Path(uri))[0]
    if current != version:
        raise PageError(ErrorCode.SOURCE_CHANGED, f"{uri}: {CHANGED}")
    return store.open(name) if is_remote(uri) else Path(uri).open("rb")

"""The operations that every store implements, and the errors that they raise."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from llm_ocr.messages import CodedError, MissingExtraError


class StorageError(CodedError):
    """A store can't be read or written; the message names it and says what to do."""


class HubNotInstalledError(MissingExtraError, StorageError):
    """The Hub's client isn't installed."""


class RunInUseError(CodedError):
    """Another process is writing to the same store."""


@dataclass(frozen=True)
class StoredObject:
    """An object's path below the store's URI, `/`-separated, its size in bytes, and a version that
    changes with its content. `modified` is when it was written, in seconds since the epoch, 0 if
    the store does not report it."""

    path: str
    size: int
    version: str
    modified: float = 0.0


class Store(Protocol):
    """Objects under one URI. Paths are relative to it.

    Missing objects raise FileNotFoundError; everything else that goes wrong raises StorageError.
    """

    uri: str

    @property
    def folder(self) -> Path | None:
        """The folder that holds the objects; None for stores that are not on a local disk."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object whose path lies below the folder `prefix`, in no particular order."""
        ...

    def exists(self, path: str) -> bool: ...

    def stat(self, path: str) -> StoredObject:
        """One object, as `list` returns it."""
        ...

    def get(self, path: str) -> bytes: ...

    def open(self, path: str) -> BinaryIO:
        """A seekable reader that fetches byte ranges on demand."""
        ...

    def put(self, path: str, data: bytes | Path) -> None:
        """Write an object atomically, replacing any at that path: readers never see half of it."""
        ...

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        """Write several objects, in no particular order; on the Hub's repositories in one commit
        with `message`."""
        ...

    def copy(self, source: str, path: str) -> None:
        """Copy the object at `source` to `path`, on the server where it can."""
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Write an object if there is none at that path (put-if-absent): True for the one caller
        that wrote it."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; missing ones are ignored."""
        ...

    def exclusive_lock(self) -> AbstractContextManager[None]:
        """Lock a local store: a second run on this machine raises RunInUseError.

        Other stores are not locked; workers that share one are coordinated by `create`.
        """
        ...

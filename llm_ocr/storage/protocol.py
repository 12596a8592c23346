"""The few things that a run asks of a place that holds objects."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from llm_ocr.messages import MissingExtraError


class StorageError(Exception):
    """A store that can't be read or written; the message names it and says what to do."""


class HubNotInstalledError(MissingExtraError, StorageError):
    """The Hub's client isn't installed."""


class RunInUseError(Exception):
    """Another process is writing to the same place."""


@dataclass(frozen=True)
class StoredObject:
    """An object's path below the store's URI, `/`-separated, its size in bytes, and a version that
    is another one when its content is. `modified` is when it was written, in seconds since the
    epoch, 0 where the store does not say."""

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
        """Where the objects are on this machine's disk, if they are."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object whose path lies below the folder `prefix`, in no particular order."""
        ...

    def exists(self, path: str) -> bool: ...

    def look(self, path: str) -> StoredObject:
        """What `list` says of one object."""
        ...

    def get(self, path: str) -> bytes: ...

    def open(self, path: str) -> BinaryIO:
        """A seekable reader that fetches ranges as they are asked for."""
        ...

    def put(self, path: str, data: bytes | Path) -> None:
        """Write an object whole, in place of any that stands there; never half of it is seen."""
        ...

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        """Write objects, in no particular order; to a repository on the Hub in one commit."""
        ...

    def copy(self, source: str, path: str) -> None:
        """Put the object at `source` at `path` too, if possible without moving its bytes."""
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Write an object unless one stands there: True for the one caller that wrote it."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; those already gone don't matter."""
        ...

    def sole_writer(self) -> AbstractContextManager[None]:
        """Hold a local store against a second run on this machine, which raises RunInUseError.

        Others are held by none: what is created only once decides between workers.
        """
        ...

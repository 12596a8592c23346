"""Stores through obstore: a local disk, buckets, memory."""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore

from llm_ocr.storage.protocol import StorageError, StoredObject

if TYPE_CHECKING:
    from obstore import ObjectMeta

READ_AHEAD = 1 << 20


class Objects:
    """What lies below `prefix` in `store`, named `uri`; `advice` says what to do about an error."""

    def __init__(
        self, uri: str, store: ObjectStore, advice: Callable[[Exception], str], prefix: str = ""
    ) -> None:
        self.uri = uri
        self._prefix = f"{prefix}/" if prefix else ""
        self._store, self._advice = store, advice

    @property
    def folder(self) -> Path | None:
        return None

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with self._errors(missing_is_fine=True):
            for batch in obstore.list(self._store, self._at(prefix).rstrip("/") or None):
                for meta in batch:
                    yield self._stored(meta)

    def exists(self, path: str) -> bool:
        try:
            self.look(path)
        except FileNotFoundError:
            return False
        return True

    def look(self, path: str) -> StoredObject:
        with self._errors():
            return self._stored(obstore.head(self._store, self._at(path)))

    def get(self, path: str) -> bytes:
        with self._errors():
            return bytes(obstore.get(self._store, self._at(path)).bytes())

    def open(self, path: str) -> BinaryIO:
        return io.BufferedReader(_Ranges(self, path, self.look(path).size), READ_AHEAD)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        with self._errors():
            return bytes(obstore.get_range(self._store, self._at(path), start=start, length=length))

    def put(self, path: str, data: bytes | Path) -> None:
        with self._errors():
            obstore.put(self._store, self._at(path), data)

    def copy(self, source: str, path: str) -> None:
        with self._errors():
            obstore.copy(self._store, self._at(source), self._at(path))

    def create(self, path: str, data: bytes) -> bool:
        try:
            with self._errors():
                obstore.put(self._store, self._at(path), data, mode="create")
        except FileExistsError:
            return False
        return True

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with self._errors(missing_is_fine=True):
                obstore.delete(self._store, self._at(path))

    def sole_writer(self) -> AbstractContextManager[None]:
        # Whoever else writes there, elsewhere in the world, can't be seen from here: what is
        # created only once decides.
        return nullcontext()

    def _at(self, path: str) -> str:
        return self._prefix + path

    def _stored(self, meta: "ObjectMeta") -> StoredObject:
        version = meta["e_tag"] or meta["last_modified"].isoformat()
        modified = meta["last_modified"].timestamp()
        return StoredObject(
            meta["path"].removeprefix(self._prefix), meta["size"], version, modified
        )

    @contextmanager
    def _errors(self, missing_is_fine: bool = False) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if self._is_gone(error):
                raise self._failed(error) from error
            if not missing_is_fine:
                raise
        except AlreadyExistsError as error:
            raise FileExistsError(str(error)) from error
        except (OSError, BaseError) as error:
            raise self._failed(error) from error

    def _is_gone(self, error: FileNotFoundError) -> bool:
        """Whether not the object is missing but all of the store."""
        return "NoSuchBucket" in str(error)

    def _failed(self, error: Exception) -> StorageError:
        return StorageError(f"{self.uri}: {self._advice(error)}")


class _Ranges(io.RawIOBase):
    """A seekable reader over an object's ranges, for pyarrow."""

    def __init__(self, store: Objects, path: str, size: int) -> None:
        self._store, self._path, self._size, self._at = store, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        buffer[:length] = self._store.get_range(self._path, self._at, length)
        self._at += length
        return length


def first_line(error: Exception) -> str:
    """An error in its own words, without the debug output behind them."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__

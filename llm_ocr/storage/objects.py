"""Stores through obstore: a local disk, buckets, memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore

from llm_ocr.storage.protocol import StorageError, StoredObject
from llm_ocr.storage.ranges import reader

if TYPE_CHECKING:
    from obstore import ObjectMeta


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
        return reader(self.look(path).size, partial(self.get_range, path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        with self._errors():
            return bytes(obstore.get_range(self._store, self._at(path), start=start, length=length))

    def put(self, path: str, data: bytes | Path) -> None:
        with self._errors():
            obstore.put(self._store, self._at(path), data)

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        for path, data in files.items():
            self.put(path, data)

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


def first_line(error: Exception) -> str:
    """An error in its own words, without the debug output behind them."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__

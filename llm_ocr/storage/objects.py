"""Stores on obstore: the base of local folders and buckets."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore as ObstoreBackend

from llm_ocr.messages import ProblemCode
from llm_ocr.storage.protocol import StorageError, StoredObject
from llm_ocr.storage.ranges import open_ranges

if TYPE_CHECKING:
    from obstore import ObjectMeta


# What an error of a backend means, in words, and its code where there is one.
Explanation = tuple[str, ProblemCode | None]


class ObjectStore:
    """The objects below `prefix` of an obstore backend, which is opened when it is needed;
    `explain` says what its errors mean."""

    def __init__(
        self,
        uri: str,
        open_backend: Callable[[], ObstoreBackend],
        explain: Callable[[Exception], Explanation],
        prefix: str = "",
    ) -> None:
        self.uri = uri
        self._prefix = f"{prefix}/" if prefix else ""
        self._open_backend, self._explain = open_backend, explain

    @cached_property
    def _backend(self) -> ObstoreBackend:
        return self._open_backend()

    @property
    def folder(self) -> Path | None:
        return None

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """As in `Store`. With `after`, only objects behind that one in the bucket's order."""
        where = self._full_path(prefix).rstrip("/") or None
        offset = self._full_path(after) if after else None
        with self._errors(ignore_missing=True):
            for batch in obstore.list(self._backend, where, offset=offset):
                for meta in batch:
                    yield self._to_stored_object(meta)

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def stat(self, path: str) -> StoredObject:
        with self._errors():
            return self._to_stored_object(obstore.head(self._backend, self._full_path(path)))

    def get(self, path: str) -> bytes:
        with self._errors():
            return bytes(obstore.get(self._backend, self._full_path(path)).bytes())

    def open(self, path: str) -> BinaryIO:
        return open_ranges(self.stat(path).size, partial(self.get_range, path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        with self._errors():
            return bytes(
                obstore.get_range(self._backend, self._full_path(path), start=start, length=length)
            )

    def put(self, path: str, data: bytes | Path) -> None:
        with self._errors():
            obstore.put(self._backend, self._full_path(path), data)

    def put_many(self, files: Mapping[str, bytes | Path], message: str) -> None:
        for path, data in files.items():
            self.put(path, data)

    def copy(self, source: str, path: str) -> None:
        with self._errors():
            obstore.copy(self._backend, self._full_path(source), self._full_path(path))

    def create(self, path: str, data: bytes) -> bool:
        try:
            with self._errors():
                obstore.put(self._backend, self._full_path(path), data, mode="create")
        except FileExistsError:
            return False
        return True

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with self._errors(ignore_missing=True):
                obstore.delete(self._backend, self._full_path(path))

    def exclusive_lock(self) -> AbstractContextManager[None]:
        # Writers on other machines can't be seen from here; `create` coordinates them.
        return nullcontext()

    def _full_path(self, path: str) -> str:
        return self._prefix + path

    def _to_stored_object(self, meta: "ObjectMeta") -> StoredObject:
        version = meta["e_tag"] or meta["last_modified"].isoformat()
        modified = meta["last_modified"].timestamp()
        return StoredObject(
            meta["path"].removeprefix(self._prefix), meta["size"], version, modified
        )

    @contextmanager
    def _errors(self, ignore_missing: bool = False) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if self._is_store_missing(error):
                raise self._storage_error(error) from error
            if not ignore_missing:
                raise
        except AlreadyExistsError as error:
            raise FileExistsError(str(error)) from error
        except (OSError, BaseError) as error:
            raise self._storage_error(error) from error

    def _is_store_missing(self, error: FileNotFoundError) -> bool:
        """Whether the whole bucket is missing, not just the object."""
        return "NoSuchBucket" in str(error)

    def _storage_error(self, error: Exception) -> StorageError:
        said, code = self._explain(error)
        return StorageError(f"{self.uri}: {said}", code)


def first_line(error: Exception) -> str:
    """The first line of an error's message, without the debug output that obstore appends."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__

"""Stores through obstore: local disk."""

import errno
import fcntl
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore

from llm_ocr.storage.protocol import RunInUseError, StorageError, StoredObject

READ_AHEAD = 1 << 20


class LocalObjects:
    """A folder as a store. Objects appear whole: each is written beside its place, then renamed."""

    def __init__(self, path: str) -> None:
        folder = Path(path).expanduser().absolute()
        self.uri = str(folder)
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._store = LocalStore(folder)
        except (OSError, BaseError) as error:
            raise _storage_error(self.uri, error) from error

    def list(self, prefix: str) -> Iterator[StoredObject]:
        try:
            for batch in obstore.list(self._store, prefix.rstrip("/") or None):
                for meta in batch:
                    yield StoredObject(meta["path"], meta["size"])
        except FileNotFoundError:
            return
        except (OSError, BaseError) as error:
            raise _storage_error(self.uri, error) from error

    def exists(self, path: str) -> bool:
        try:
            with self._errors():
                obstore.head(self._store, path)
        except FileNotFoundError:
            return False
        return True

    def get(self, path: str) -> bytes:
        with self._errors():
            return bytes(obstore.get(self._store, path).bytes())

    def open(self, path: str) -> BinaryIO:
        with self._errors():
            size: int = obstore.head(self._store, path)["size"]
        return io.BufferedReader(_Ranges(self, path, size), READ_AHEAD)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        with self._errors():
            return bytes(obstore.get_range(self._store, path, start=start, length=length))

    def put(self, path: str, data: bytes | Path) -> None:
        with self._errors():
            if not (isinstance(data, Path) and self._linked(data, self._folder / path)):
                obstore.put(self._store, path, data)

    def copy(self, source: str, path: str) -> None:
        with self._errors():
            obstore.copy(self._store, source, path)

    def create(self, path: str, data: bytes) -> bool:
        try:
            with self._errors():
                obstore.put(self._store, path, data, mode="create")
        except FileExistsError:
            return False
        return True

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with self._errors(missing_is_fine=True):
                obstore.delete(self._store, path)

    @contextmanager
    def sole_writer(self) -> Iterator[None]:
        # The kernel drops this lock when its holder dies, kill -9 included: nothing to clean up.
        with self._errors():
            lock = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode() or "unknown"
            os.close(lock)
            raise RunInUseError(
                f"{self.uri}: another run (process {holder}) is writing there; wait for it, "
                "stop it, or give another --out"
            ) from None
        try:
            yield
        finally:
            # Only now: a folder that is empty may be the one that another write just made.
            self._remove_empty_folders()
            os.close(lock)

    @contextmanager
    def _errors(self, missing_is_fine: bool = False) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            if not missing_is_fine:
                raise
        except AlreadyExistsError as error:
            raise FileExistsError(str(error)) from error
        except (OSError, BaseError) as error:
            raise _storage_error(self.uri, error) from error

    def _linked(self, source: Path, target: Path) -> bool:
        """Give a file a second name instead of copying it; False where disks don't let it."""
        unfinished = target.with_name(f"{target.name}#{os.getpid()}")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, unfinished)
        except OSError:
            return False
        os.replace(unfinished, target)
        return True

    def _remove_empty_folders(self) -> None:
        for folder, _, _ in os.walk(self._folder / "_staging", topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                continue


class _Ranges(io.RawIOBase):
    """A seekable reader over an object's ranges, for pyarrow."""

    def __init__(self, store: LocalObjects, path: str, size: int) -> None:
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


def _storage_error(uri: str, error: Exception) -> StorageError:
    text = str(error)
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.ENOSPC or "No space left" in text or "StorageFull" in text:
        advice = "the disk is full; free some space and run the same command again"
    elif isinstance(error, PermissionError) or "Permission denied" in text:
        advice = "no permission to write there; choose another --out or change its permissions"
    elif code == errno.EROFS or "Read-only file system" in text:
        advice = "the file system is read-only; choose another --out"
    elif isinstance(error, NotADirectoryError | FileExistsError) or "Not a directory" in text:
        advice = "a file stands where a folder is needed; choose another --out"
    else:
        advice = text.splitlines()[0] if text else type(error).__name__
    return StorageError(f"{uri}: {advice}")

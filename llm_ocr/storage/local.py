"""A local folder as a store."""

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from obstore.store import LocalStore as ObstoreLocalBackend

from llm_ocr.messages import ProblemCode
from llm_ocr.storage.objects import Explanation, ObjectStore, first_line
from llm_ocr.storage.protocol import RunInUseError, StoredObject

# How obstore, and `_hard_link`, name a file until it is renamed into place.
_UNFINISHED = re.compile(r"#\d+$")


class LocalStore(ObjectStore):
    """A folder as a store. Writes are atomic: to a temporary file, which is then renamed.

    The folder is created; without `creates`, only by a write. One that is missing, or is a file,
    reads as empty then.
    """

    def __init__(self, path: str, *, creates: bool = True) -> None:
        self._folder = Path(os.path.expanduser(path)).absolute()
        super().__init__(str(self._folder), self._create_folder, _explain)
        if creates:
            self._create_folder()

    def _create_folder(self) -> ObstoreLocalBackend:
        with self._errors():
            self._folder.mkdir(parents=True, exist_ok=True)
            return ObstoreLocalBackend(self._folder)

    @property
    def folder(self) -> Path:
        return self._folder

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        return super().list(prefix, after=after) if self._folder.is_dir() else iter(())

    def stat(self, path: str) -> StoredObject:
        self._check_folder()
        return super().stat(path)

    # Files are read directly: obstore takes twice as long because it passes them between threads.
    def get(self, path: str) -> bytes:
        with self.open(path) as file, self._errors():
            return file.read()

    def open(self, path: str) -> BinaryIO:
        self._check_folder()
        with self._errors():
            return (self._folder / path).open("rb")

    def get_range(self, path: str, start: int, length: int) -> bytes:
        with self.open(path) as file, self._errors():
            file.seek(start)
            return file.read(length)

    def put(self, path: str, data: bytes | Path) -> None:
        with self._errors():
            linked = isinstance(data, Path) and self._hard_link(data, self._folder / path)
        if not linked:
            super().put(path, data)

    def _check_folder(self) -> None:
        if not self._folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._folder))

    @contextmanager
    def exclusive_lock(self) -> Iterator[None]:
        # The kernel drops this lock when its holder dies, kill -9 included: nothing to clean up.
        self._create_folder()
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
                f"{self.uri}: another run (process {holder}) is writing there; wait for "
                "it, or stop it",
                ProblemCode.OUT_IN_USE,
            ) from None
        try:
            yield
        finally:
            # Only while locked: another writer's temporary files and new folders look the same.
            self._remove_unfinished()
            self._remove_empty_folders()
            os.close(lock)

    def _hard_link(self, source: Path, target: Path) -> bool:
        """Hard-link a file instead of copying it; False if the file system does not allow it."""
        unfinished = target.with_name(f"{target.name}#{os.getpid()}")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, unfinished)
        except OSError:
            return False
        os.replace(unfinished, target)
        return True

    def _remove_unfinished(self) -> None:
        """Delete temporary files of killed processes, which no listing shows."""
        for top in ("_staging", "data", "commits", "plans"):
            for path in (self._folder / top).rglob("*#*"):
                if _UNFINISHED.search(path.name):
                    path.unlink(missing_ok=True)

    def _remove_empty_folders(self) -> None:
        for folder, _, _ in os.walk(self._folder / "_staging", topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                continue


def _explain(error: Exception) -> Explanation:
    text = str(error)
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.ENOSPC or "No space left" in text or "StorageFull" in text:
        return "the disk is full; free some space and run the same command again", None
    if isinstance(error, PermissionError) or "Permission denied" in text:
        return "no permission to write there", ProblemCode.OUT_DENIED
    if code == errno.EROFS or "Read-only file system" in text:
        return "the file system is read-only", ProblemCode.OUT_UNUSABLE
    if isinstance(error, NotADirectoryError | FileExistsError) or "Not a directory" in text:
        return "a file is in the way of a folder", ProblemCode.OUT_UNUSABLE
    return first_line(error), None

"""Files on this machine's disk: written atomically, or fetched from a URI."""

import atexit
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from llm_ocr.storage.protocol import StorageError
from llm_ocr.storage.store import open_store

# Content-addressed files: the folder is named by the SHA-256 of the file's bytes.
_CONTENT_ADDRESSED = re.compile(r".*/([0-9a-f]{64})/[^/]+")


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A file to write that replaces `path` once it is complete; after an error it never does.

    Threads, processes or machines may write the same path at the same time: the last one wins.
    Creates the folder. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # No process id: two containers on one file system may have the same. Nor the file's own name,
    # which may be as long as names can be.
    unfinished = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with unfinished.open("wb") as target:
            yield target
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def local_file(location: str) -> Path:
    """The file at a path; for a URI, a temporary copy with the same name.

    The bytes of a file at `…/SHA256/NAME` are checked against the digest. Raises StorageError.
    """
    if "://" not in location:
        return Path(os.path.expanduser(location))
    return _download(location)


@cache
def _download(uri: str) -> Path:
    folder, _, name = uri.rpartition("/")
    try:
        data = open_store(folder).get(name)
    except FileNotFoundError as error:
        raise StorageError(f"{uri}: file not found; check the address") from error
    addressed = _CONTENT_ADDRESSED.fullmatch(uri)
    if addressed is not None and hashlib.sha256(data).hexdigest() != addressed[1]:
        raise StorageError(
            f"{uri}: its content does not match the SHA-256 in its path, so it was modified after "
            "upload. Upload the file again with the command that created it"
        )
    temporary = Path(tempfile.mkdtemp(prefix="llm-ocr-files-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    (temporary / name).write_bytes(data)
    return temporary / name

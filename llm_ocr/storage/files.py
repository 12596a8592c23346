"""Files on this machine's disk for people to open, which are there whole or not at all."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def appearing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes `path`'s place when all is written; after an error it never does.

    Several may write the same path at once, from threads, processes or machines: the last one
    stands. Makes the folder. Raises OSError.
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

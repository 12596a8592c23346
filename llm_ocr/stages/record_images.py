"""The page images of a document that is being read."""

import tempfile
from collections.abc import Callable
from functools import partial
from typing import IO

from llm_ocr.tables.schema import Row

IN_MEMORY = 16  # of a document


class Images:
    """The images of a document's pages: of a long one in a file, so that it takes no more memory
    than a short one."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._in_memory = 0

    def taken(self, row: Row, *, keep: bool) -> Row:
        """The row with what gives its image instead of it, or None."""
        held = row["image"]["bytes"] if keep and row["image"] else None
        return {**row, "image": None if held is None else self._kept(held)}

    def _kept(self, image: bytes) -> Callable[[], bytes]:
        if self._in_memory < IN_MEMORY:
            self._in_memory += 1
            return lambda: image
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="llm-ocr-")  # noqa: SIM115 - open as long as the document is
        start = self._file.seek(0, 2)
        self._file.write(image)
        return partial(self._read, start, len(image))

    def _read(self, start: int, length: int) -> bytes:
        assert self._file is not None, "the image was written there"
        self._file.seek(start)
        return self._file.read(length)

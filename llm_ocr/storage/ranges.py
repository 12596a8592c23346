"""A seekable file object over byte-range requests."""

import io
from collections.abc import Callable
from typing import BinaryIO

BUFFER_BYTES = 1 << 20


def open_ranges(size: int, fetch: Callable[[int, int], bytes]) -> BinaryIO:
    """A seekable reader of `size` bytes, as pyarrow needs; `fetch(start, length)` requests some."""
    return io.BufferedReader(_RangeFile(size, fetch), BUFFER_BYTES)


class _RangeFile(io.RawIOBase):
    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size, self._fetch, self._position = size, fetch, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        buffer[:length] = self._fetch(self._position, length)
        self._position += length
        return length

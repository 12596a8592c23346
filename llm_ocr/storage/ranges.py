"""A file that lies elsewhere, read in ranges."""

import io
from collections.abc import Callable
from typing import BinaryIO

READ_AHEAD = 1 << 20


def reader(size: int, fetch: Callable[[int, int], bytes]) -> BinaryIO:
    """A seekable reader of `size` bytes, for pyarrow; `fetch(start, length)` gets some of them."""
    return io.BufferedReader(_Ranges(size, fetch), READ_AHEAD)


class _Ranges(io.RawIOBase):
    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size, self._fetch, self._at = size, fetch, 0

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
        buffer[:length] = self._fetch(self._at, length)
        self._at += length
        return length

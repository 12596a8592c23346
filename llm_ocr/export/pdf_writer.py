"""Write PDF files object by object: new ones, and updates that are appended to existing ones."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby

HEADER = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"


class PdfWriter:
    """Gives objects their numbers and their bytes, and keeps where each begins in the file.

    `size` is the number of objects that the file has, with the free one, and `offset` its length
    in bytes so far. Each method returns bytes that have to be written before the next call.
    """

    def __init__(self, offset: int = 0, size: int = 1) -> None:
        self._offset, self._size = offset, size
        self._offsets: dict[int, tuple[int, int]] = {}

    def reserve(self) -> int:
        """The number of an object that is written later."""
        self._size += 1
        return self._size - 1

    def raw(self, data: bytes) -> bytes:
        """Bytes that are no object."""
        self._offset += len(data)
        return data

    def object(self, number: int, body: bytes, generation: int = 0) -> bytes:
        """An object with a reserved number, or a new version of an existing one."""
        self._offsets[number] = self._offset, generation
        return self.raw(b"%d %d obj\n%s\nendobj\n" % (number, generation, body))

    def stream(
        self, number: int, data: bytes, entries: bytes = b"", *, compress: bool = True
    ) -> bytes:
        """A stream; `entries` are those of its dictionary besides its length and compression."""
        if compress:
            data, entries = zlib.compress(data, 9), entries + b" /Filter /FlateDecode"
        head = b"<< /Length %d %s >>" % (len(data), entries)
        return self.object(number, b"%s\nstream\n%s\nendstream" % (head, data))

    def end_with_table(self, trailer: bytes) -> bytes:
        """The end of the file, with a classic table of objects; `trailer` are its entries without
        the size."""
        start = self._offset
        if 0 not in self._offsets and self._is_new():
            self._offsets[0] = 0, 65535
        lines = [b"xref\n"]
        for first, places in self._sections():
            lines.append(b"%d %d\n" % (first, len(places)))
            kinds = (b"f" if first + k == 0 else b"n" for k in range(len(places)))
            lines += [
                b"%010d %05d %s \n" % (*place, kind)
                for place, kind in zip(places, kinds, strict=True)
            ]
        lines.append(b"trailer\n<< /Size %d %s >>\n" % (self._size, trailer))
        return self.raw(b"%sstartxref\n%d\n%%%%EOF\n" % (b"".join(lines), start))

    def end_with_stream(self, trailer: bytes) -> bytes:
        """As `end_with_table`, with a stream of objects, as files have that compress objects."""
        start, number = self._offset, self.reserve()
        self._offsets[number] = start, 0
        sections = list(self._sections())
        index = b" ".join(b"%d %d" % (first, len(places)) for first, places in sections)
        data = b"".join(
            struct.pack(">BQH", 1, *place) for _, places in sections for place in places
        )
        entries = b"/Type /XRef /Size %d /W [1 8 2] /Index [%s] %s" % (self._size, index, trailer)
        written = self.stream(number, data, entries)
        return written + self.raw(b"startxref\n%d\n%%%%EOF\n" % start)

    def _is_new(self) -> bool:
        return len(self._offsets) == self._size - 1

    def _sections(self) -> Iterator[tuple[int, Sequence[tuple[int, int]]]]:
        """Runs of consecutive numbers: the first, and where each object begins."""
        numbers = sorted(self._offsets)
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
            found = [number for _, number in run]
            yield found[0], [self._offsets[number] for number in found]


def hex_text(text: str) -> bytes:
    """A text string of PDF."""
    return b"<feff%s>" % text.encode("utf-16-be", "replace").hex().encode()

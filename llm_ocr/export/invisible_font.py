"""The font of invisible text, which is in any script.

Every character has the same glyph, a box half as wide as it is high: text is invisible because it
is not painted (rendering mode 3). An empty glyph would do as well for most readers, but pdfium
leaves out words of one character if that has no extent. What the characters are is said by the
font's ToUnicode map, which has all that were used.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence

from llm_ocr.export.pdf_writer import PdfWriter

# The width of each glyph, in thousandths of the font size.
WIDTH = 500
_UNITS = 1000
# Codes for characters beyond U+FFFF: the private area, whose own characters get others, too.
_FIRST_SPARE, _LAST_SPARE = 0xE000, 0xF8FF
_REPLACEMENT = 0xFFFD


class InvisibleFont:
    """The font of one file: gives characters their codes, and writes itself once all are known."""

    def __init__(self, writer: PdfWriter) -> None:
        self._writer = writer
        self.number = writer.reserve()
        self._codes: dict[str, int] = {}
        self._spare = _FIRST_SPARE

    def encode(self, text: str) -> bytes:
        """The codes of a text as a string of PDF, in hex."""
        return b"<%s>" % b"".join(b"%04x" % self._code(char) for char in text)

    def objects(self) -> Iterator[bytes]:
        """The font and what it refers to."""
        writer = self._writer
        descendant, descriptor, file, to_glyph, to_unicode = (writer.reserve() for _ in range(5))
        name = b"/LLMOCR+Invisible"
        yield writer.object(
            self.number,
            b"<< /Type /Font /Subtype /Type0 /BaseFont %s /Encoding /Identity-H "
            b"/DescendantFonts [%d 0 R] /ToUnicode %d 0 R >>" % (name, descendant, to_unicode),
        )
        yield writer.object(
            descendant,
            b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont %s /DW %d /CIDToGIDMap %d 0 R "
            b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> "
            b"/FontDescriptor %d 0 R >>" % (name, WIDTH, to_glyph, descriptor),
        )
        yield writer.object(
            descriptor,
            b"<< /Type /FontDescriptor /FontName %s /Flags 5 /FontBBox [0 0 %d %d] /Ascent %d "
            b"/Descent 0 /CapHeight %d /ItalicAngle 0 /StemV 80 /FontFile2 %d 0 R >>"
            % (name, WIDTH, _UNITS, _UNITS, _UNITS, file),
        )
        program = font_program()
        yield writer.stream(file, program, b"/Length1 %d" % len(program))
        yield writer.stream(to_glyph, struct.pack(">H", 1) * 0x10000)
        yield writer.stream(to_unicode, _unicode_map(sorted(self._codes.items())))

    def _code(self, char: str) -> int:
        if char not in self._codes:
            self._codes[char] = self._new_code(ord(char))
        return self._codes[char]

    def _new_code(self, point: int) -> int:
        if 0xD800 <= point <= 0xDFFF:
            return _REPLACEMENT
        if point < _FIRST_SPARE or _LAST_SPARE < point <= 0xFFFF:
            return point
        if self._spare > _LAST_SPARE:
            return _REPLACEMENT
        self._spare += 1
        return self._spare - 1


def _unicode_map(codes: Iterable[tuple[str, int]]) -> bytes:
    """The ToUnicode map of characters and their codes."""
    by_code = {code: char for char, code in codes if code != _REPLACEMENT}
    by_code[_REPLACEMENT] = chr(_REPLACEMENT)
    pairs = [
        b"<%04x> <%s>\n" % (code, char.encode("utf-16-be").hex().encode())
        for code, char in sorted(by_code.items())
    ]
    blocks = [
        b"%d beginbfchar\n%sendbfchar\n" % (len(some), b"".join(some))
        for some in (pairs[k : k + 100] for k in range(0, len(pairs), 100))
    ]
    return (
        b"/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n"
        b"/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n"
        b"1 begincodespacerange\n<0000> <ffff>\nendcodespacerange\n%sendcmap\n"
        b"CMapName currentdict /CMap defineresource pop\nend\nend\n" % b"".join(blocks)
    )


def font_program() -> bytes:
    """A TrueType font of two glyphs, an empty one and a box, with the tables that PDF requires."""
    contour = struct.pack(">hhhhh", 1, 0, 0, WIDTH, _UNITS) + struct.pack(">HH", 3, 0)
    steps = struct.pack(">8h", 0, 0, WIDTH, 0, 0, _UNITS, 0, -_UNITS)
    box = contour + b"\1\1\1\1" + steps
    tables = {
        b"glyf": box,
        b"head": struct.pack(
            *(">IIIIHHQQhhhhHHhhh", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, _UNITS, 0, 0),
            *(0, 0, WIDTH, _UNITS, 0, 8, 2, 0, 0),
        ),
        b"hhea": struct.pack(
            ">IhhhHhhhhhhhhhhhH", 0x10000, _UNITS, 0, 0, WIDTH, 0, 0, WIDTH, 1, *(0,) * 7, 1
        ),
        # One width, which the second glyph shares.
        b"hmtx": struct.pack(">Hhh", WIDTH, 0, 0),
        # In units of two bytes.
        b"loca": struct.pack(">HHH", 0, 0, len(box) // 2),
        b"maxp": struct.pack(">I14H", 0x10000, 2, 4, 1, 0, 0, 1, *(0,) * 8),
    }
    return _with_directory(sorted(tables.items()))


def _with_directory(tables: Sequence[tuple[bytes, bytes]]) -> bytes:
    count = len(tables)
    power = 1 << (count.bit_length() - 1)
    search = 16 * power, power.bit_length() - 1, 16 * (count - power)
    offset = 12 + 16 * count
    directory, bodies, head_at = b"", b"", 0
    for tag, body in tables:
        padded = body + bytes(-len(body) % 4)
        if tag == b"head":
            head_at = offset
        directory += struct.pack(">4sIII", tag, _checksum(padded), offset, len(body))
        bodies += padded
        offset += len(padded)
    font = struct.pack(">IHHHH", 0x10000, count, *search) + directory + bodies
    adjustment = (0xB1B0AFBA - _checksum(font)) & 0xFFFFFFFF
    return font[: head_at + 8] + struct.pack(">I", adjustment) + font[head_at + 12 :]


def _checksum(padded: bytes) -> int:
    words: tuple[int, ...] = struct.unpack(f">{len(padded) // 4}I", padded)
    return sum(words) & 0xFFFFFFFF

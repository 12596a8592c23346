"""Documents made for tests."""

import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw
from reportlab.pdfgen.canvas import Canvas


def pdf(path: Path, pages: int = 1, **canvas: object) -> Path:
    """A PDF whose pages say their number, with a picture-like box on each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet = Canvas(str(path), pagesize=(300, 400), **canvas)
    for number in range(1, pages + 1):
        sheet.setFont("Helvetica", 20)
        sheet.drawString(40, 350, f"{path.stem}, page {number}")
        sheet.setFillColorRGB(0.2, 0.4, 0.6)
        sheet.rect(60, 120, 180, 100, fill=1)
        sheet.showPage()
    sheet.save()
    return path


def text_pdf(path: Path, texts: Sequence[str], size: tuple[float, float] = (600, 800)) -> Path:
    """A PDF of a page per text, which is a line near the top."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet = Canvas(str(path), pagesize=size)
    for text in texts:
        sheet.setFont("Helvetica", 14)
        sheet.drawString(72, size[1] - 110, text)
        sheet.showPage()
    sheet.save()
    return path


def encrypted_pdf(path: Path, password: str) -> Path:
    from reportlab.lib.pdfencrypt import StandardEncryption

    return pdf(path, encrypt=StandardEncryption(password, canPrint=1))


def huge_page_pdf(path: Path) -> Path:
    """One page of 200 x 200 inches."""
    sheet = Canvas(str(path), pagesize=(200 * 72, 200 * 72))
    sheet.setFont("Helvetica", 600)
    sheet.drawString(1000, 7000, "A very large page")
    sheet.save()
    return path


def pdf_of(path: Path, page_tree: bytes, *objects: bytes) -> Path:
    """A PDF of raw objects: 1 is the catalog, 2 the page tree, the others follow."""
    whole = [b"<< /Type /Catalog /Pages 2 0 R >>", page_tree, *objects]
    body, places = b"%PDF-1.4\n", []
    for number, content in enumerate(whole, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(whole) + 1
    body += b"xref\n0 %d\n0000000000 65535 f \n%strailer\n" % (size, table)
    start = body.index(b"xref")
    body += b"<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, start)
    path.write_bytes(body)
    return path


def zero_page_pdf(path: Path) -> Path:
    return pdf_of(path, b"<< /Type /Pages /Kids [] /Count 0 >>")


def corrupt_page_pdf(path: Path) -> Path:
    """Three pages, the second of which is no page at all."""
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 6 0 R >>"
    content = b"1 0 0 rg 50 50 100 100 re f"
    return pdf_of(
        path,
        b"<< /Type /Pages /Kids [3 0 R 4 0 R 5 0 R] /Count 3 >>",
        page,
        b"(not a page)",
        page,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    )


def bomb_png(path: Path, side: int = 60_000) -> Path:
    """A PNG of `side` x `side` pixels in a few kilobytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(1 + side // 8) * 100, 9)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)
    return path


def picture(path: Path, text: str = "words", size: tuple[int, int] = (300, 200)) -> Path:
    """An image file with a word on it, in the format of its ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).text((20, 20), text, fill="black")
    image.save(path)
    return path


def cmyk_jpeg(path: Path) -> Path:
    image = Image.new("CMYK", (200, 100), (0, 0, 0, 0))
    image.paste((0, 255, 255, 0), (20, 20, 80, 80))
    image.save(path, "JPEG", quality=95)
    return path


def deep_tiff(path: Path) -> Path:
    """16 bits a pixel: white paper with a dark square."""
    dark = [[20 <= x < 80 and 20 <= y < 80 for x in range(200)] for y in range(100)]
    pixels = [2_000 if one else 60_000 for row in dark for one in row]
    image = Image.frombytes("I;16", (200, 100), struct.pack(f"<{len(pixels)}H", *pixels))
    image.save(path)
    return path


def blank_image(path: Path) -> Path:
    Image.new("RGB", (300, 200), (250, 249, 244)).save(path)
    return path


def decoded(jpeg: bytes) -> Image.Image:
    return Image.open(io.BytesIO(jpeg))


def color_at(jpeg: bytes, across: float, down: float) -> tuple[int, int, int]:
    """The color of the pixel at these shares (0..1) of the width and the height."""
    image = decoded(jpeg).convert("RGB")
    red, green, blue = image.crop(_pixel(image, across, down)).tobytes()
    return red, green, blue


def _pixel(image: Image.Image, across: float, down: float) -> tuple[int, int, int, int]:
    x, y = int(across * image.width), int(down * image.height)
    return x, y, x + 1, y + 1


def marked_pdf(
    path: Path,
    size: tuple[float, float],
    *,
    mark: bool = True,
    rotation: int = 0,
    crop_box: tuple[float, float, float, float] | None = None,
) -> Path:
    """A page with a red square in its upper left corner as stored, a tenth of each side."""
    width, height = size
    square = f"1 0 0 rg 0 {height * 0.9} {width / 10} {height / 10} re f" if mark else ""
    box = f"/CropBox [{' '.join(map(str, crop_box))}]" if crop_box else ""
    page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] {box}"
    return pdf_of(
        path,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"{page} /Rotate {rotation} /Contents 4 0 R >>".encode(),
        f"<< /Length {len(square)} >>\nstream\n{square}\nendstream".encode(),
    )


def misspelt_pdf(path: Path, lines: Sequence[str], shift: int = 1) -> Path:
    """A page whose font says that each letter is the one `shift` places on: it shows `lines`, and
    says something else."""
    shown = "".join(f"({line}) Tj 0 -24 Td " for line in lines)
    draw = f"BT /F1 14 Tf 60 700 Td {shown} ET".encode()
    letters = [*range(65, 91), *range(97, 123)]
    pairs = "".join(f"<{one:02x}> <{one + shift:04x}>\n" for one in letters)
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def "
        "1 begincodespacerange <00> <ff> endcodespacerange "
        f"{len(letters)} beginbfchar\n{pairs}endbfchar endcmap end end"
    ).encode()
    return pdf_of(
        path,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(draw), draw),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(cmap), cmap),
    )


def letter_pdf(path: Path, text: str, letter: str, code: str) -> Path:
    """A page that shows `text`, whose font says that a letter is `code` (hex digits of UTF-16)."""
    draw = f"BT /F1 14 Tf 60 700 Td ({text}) Tj ET".encode()
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def "
        "1 begincodespacerange <00> <ff> endcodespacerange "
        f"1 beginbfchar\n<{ord(letter):02x}> <{code}>\nendbfchar endcmap end end"
    ).encode()
    return pdf_of(
        path,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(draw), draw),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(cmap), cmap),
    )


def image_pdf(path: Path, size: tuple[int, int]) -> Path:
    """A page with a gray image that claims to be of `size`; its stream holds 10,000 pixels."""
    draw = b"100 0 0 100 0 0 cm /Im Do"
    resources = b"/Resources << /XObject << /Im 5 0 R >> >>"
    body = bytes([128]) * 10_000
    return pdf_of(
        path,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 400] /Contents 4 0 R %s >>" % resources,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(draw), draw),
        b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray "
        b"/BitsPerComponent 8 /Length %d >>\nstream\n%s\nendstream" % (*size, len(body), body),
    )


def oriented_jpeg(path: Path, orientation: int) -> Path:
    """A photo at 150 dpi, stored as EXIF's `orientation` says; upright, it is red in a corner.

    Upright it measures 300 x 200 pixels, or 200 x 300 where it is stored on its side, and the red
    is the upper left fifth.
    """
    upright = Image.new("RGB", (300, 200) if orientation < 5 else (200, 300), "white")
    upright.paste((255, 0, 0), (0, 0, upright.width // 5, upright.height // 5))
    # What brings the upright image to how it is stored; 6 and 8 undo each other.
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(turns[orientation]) if orientation in turns else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(path, exif=exif, dpi=(150, 150), quality=95)
    return path


def memory_bomb_pdf(path: Path) -> Path:
    """A page that draws 40 million rectangles, in a content stream that is compressed twice."""
    once = zlib.compress(b"0 0 9 9 re f\n" * (40 << 20), 9)
    body = zlib.compress(once, 9)
    head = b"<< /Filter [/FlateDecode /FlateDecode] /Length %d >>" % len(body)
    return pdf_of(
        path,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 400] /Contents 4 0 R >>",
        head + b"\nstream\n" + body + b"\nendstream",
    )


def with_metadata(jpeg: bytes) -> bytes:
    """A JPEG with a place in its EXIF, a comment, a text before its end's marker as data might have
    it, and 200 KB behind its end."""
    exif = Image.Exif()
    exif[0x8825] = {1: "N", 2: (48.0, 8.0, 14.0)}
    body = b"Exif\0\0" + exif.tobytes()
    segment = b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    comment = b"\xff\xfe" + struct.pack(">H", 12) + b"secret\xff\xd9ok"
    return jpeg[:2] + segment + comment + jpeg[2:] + b"hidden" * 40_000

"""Searchable PDFs: the original pages, or the page images, with their text, which is invisible."""

import hashlib
import io
from collections.abc import Iterator
from contextlib import ExitStack
from xml.sax.saxutils import escape

from PIL import Image, ImageCms

from llm_ocr import __version__
from llm_ocr.export.document import ExportDocument, ExportError
from llm_ocr.export.invisible_font import InvisibleFont
from llm_ocr.export.layout import page_layout
from llm_ocr.export.pdf_text import Matrix, invisible_text, page_matrix
from llm_ocr.export.pdf_update import FONT_NAME, CannotUpdateError, PdfUpdate
from llm_ocr.export.pdf_writer import HEADER, PdfWriter, hex_text
from llm_ocr.records import Box, PageError, PageResult

# The longest side in points of a page without a resolution: that of A4.
PAGE_SIDE = 842.0
PRODUCER = f"llm_ocr {__version__}"


def searchable_pdf(document: ExportDocument) -> Iterator[bytes]:
    """The document as a searchable PDF, in pieces.

    The pages of a PDF stay as they are; those without text of their own that can be trusted get
    what was read. Images become pages. The pages of a PDF that can't be had, or not be extended,
    are made of the stored page images, and a note says so. Raises ExportError and PageError.
    """
    with ExitStack() as stack:
        update = _open(document, stack)
        if update is not None:
            yield from update.with_text(document.pages)
        else:
            yield from image_pdf(document)


def image_pdf(document: ExportDocument, *, is_archive: bool = False) -> Iterator[bytes]:
    """The page images as a PDF with invisible text, in pieces; `is_archive`: as PDF/A-2u, which
    may be kept for good as it needs nothing from outside.

    Raises ExportError for pages without an image.
    """
    writer = PdfWriter()
    font, pages = InvisibleFont(writer), writer.reserve()
    kids: list[int] = []
    yield writer.raw(HEADER)
    for page in document.pages:
        kids.append(writer.reserve())
        yield from _page(document, page, writer, font, (kids[-1], pages))
    yield from font.objects()
    listed = b" ".join(b"%d 0 R" % number for number in kids)
    yield writer.object(pages, b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), listed))
    catalog = writer.reserve()
    entries = b""
    if is_archive:
        metadata, intent = writer.reserve(), writer.reserve()
        yield from _archive_objects(document.name, writer, metadata, intent)
        entries = b" /Metadata %d 0 R /OutputIntents [%d 0 R]" % (metadata, intent)
    body = b"<< /Type /Catalog /Pages %d 0 R%s >>" % (pages, entries)
    yield writer.object(catalog, body)
    identity = hashlib.sha256(f"{document.source_uri}\n{document.name}".encode()).hexdigest()[:32]
    trailer = b"/Root %d 0 R /ID [<%s> <%s>]" % (catalog, *(identity.encode(),) * 2)
    if not is_archive:
        info = writer.reserve()
        title, producer = hex_text(document.name), hex_text(PRODUCER)
        yield writer.object(info, b"<< /Title %s /Producer %s >>" % (title, producer))
        trailer += b" /Info %d 0 R" % info
    yield writer.end_with_table(trailer)


def _open(document: ExportDocument, stack: ExitStack) -> PdfUpdate | None:
    """The original, if it is a PDF that can be extended."""
    source = document.source
    if source is None:
        document.notes.append("its original isn't known; made from the stored page images")
        return None
    if not source.is_pdf:
        return None
    try:
        path = stack.enter_context(source.file())
        return PdfUpdate(stack.enter_context(path.open("rb")))
    except CannotUpdateError as error:
        reason = f"the original can't be extended: {error}"
    except PageError as error:
        reason = str(error)
    document.notes.append(f"{reason}; made from the stored page images")
    return None


def _page(
    document: ExportDocument,
    page: PageResult,
    writer: PdfWriter,
    font: InvisibleFont,
    numbers: tuple[int, int],
) -> Iterator[bytes]:
    """A page with its image and text; `numbers` are its own and that of the page tree."""
    number, parent = numbers
    head = b"<< /Type /Page /Parent %d 0 R" % parent
    if not page.width or not page.height:
        document.notes.append(f"page {page.page_number} could not be rendered and is empty")
        yield writer.object(number, b"%s /MediaBox [0 0 595 842] /Resources << >> >>" % head)
        return
    width, height = _points(page)
    jpeg, turn = _image(document, page)
    image, content = writer.reserve(), writer.reserve()
    yield writer.stream(image, jpeg, _image_entries(jpeg, page), compress=False)
    box = Box(0, 0, width, height)
    matrix = page_matrix(box, (page.width, page.height), 0)
    text = invisible_text(page_layout(page), matrix, font, FONT_NAME)
    drawn = b"q\n%s cm\n/Im Do\nQ\n" % _image_matrix(width, height, turn).operands()
    yield writer.stream(content, drawn + text)
    resources = b"<< /XObject << /Im %d 0 R >> /Font << /%s %d 0 R >> >>" % (
        *(image, FONT_NAME, font.number),
    )
    body = b"%s /MediaBox [0 0 %.3f %.3f] /Contents %d 0 R /Resources %s >>"
    yield writer.object(number, body % (head, width, height, content, resources))


def _points(page: PageResult) -> tuple[float, float]:
    """The size of a page in points."""
    if page.width_pt and page.height_pt:
        return page.width_pt, page.height_pt
    width, height = page.width or 1, page.height or 1
    scale = PAGE_SIDE / max(width, height)
    return width * scale, height * scale


def _image(document: ExportDocument, page: PageResult) -> tuple[bytes, int]:
    """A page's image as a JPEG, and the clockwise rotation that makes it upright: that of an image
    file in its full size, else the stored one, else one that is made again."""
    source = document.source
    if source is not None and (page.image is None or not source.is_pdf):
        try:
            image = source.image(page)
        except PageError as error:
            if page.image is None:
                lost = f"{error}; no image of page {page.page_number} is stored either"
                raise ExportError(lost) from error
            document.notes.append(f"{error}; made from the stored page image")
        else:
            return image.jpeg, ((page.rotation or 0) - image.rotation) % 360
    if page.image is None:
        raise ExportError(
            f"{document.source_uri}, page {page.page_number}: no image of it is stored, and the "
            "original isn't known"
        )
    return page.image, 0


def _image_entries(jpeg: bytes, page: PageResult) -> bytes:
    with Image.open(io.BytesIO(jpeg)) as image:
        (width, height), mode = image.size, image.mode
    space = {"L": b"/DeviceGray", "RGB": b"/DeviceRGB", "CMYK": b"/DeviceCMYK"}[mode]
    return (
        b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace %s "
        b"/BitsPerComponent 8 /Filter /DCTDecode" % (width, height, space)
    )


def _image_matrix(width: float, height: float, turn: int) -> Matrix:
    """Places the unit square of an image on the page, turned clockwise."""
    return {
        0: Matrix(width, 0, 0, height, 0, 0),
        90: Matrix(0, -height, width, 0, 0, height),
        180: Matrix(-width, 0, 0, -height, width, height),
        270: Matrix(0, height, -width, 0, width, 0),
    }[turn]


def _archive_objects(title: str, writer: PdfWriter, metadata: int, intent: int) -> Iterator[bytes]:
    """What PDF/A needs besides: metadata, and what the colors are."""
    profile = writer.reserve()
    yield writer.stream(
        metadata,
        _METADATA.format(title=escape(title), producer=PRODUCER).encode(),
        b"/Type /Metadata /Subtype /XML",
        compress=False,
    )
    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    yield writer.stream(profile, icc, b"/N 3")
    yield writer.object(
        intent,
        b"<< /Type /OutputIntent /S /GTS_PDFA1 /OutputConditionIdentifier (sRGB) "
        b"/Info (sRGB) /DestOutputProfile %d 0 R >>" % profile,
    )


_METADATA = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about=""
 xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:pdf="http://ns.adobe.com/pdf/1.3/"
 xmlns:pdfaid="http://www.aiim.org/pdfa/ns/id/">
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">{title}</rdf:li></rdf:Alt></dc:title>
<pdf:Producer>{producer}</pdf:Producer>
<pdfaid:part>2</pdfaid:part>
<pdfaid:conformance>U</pdfaid:conformance>
</rdf:Description>
</rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""

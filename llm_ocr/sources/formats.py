"""Detect the format of a document from its first bytes, whatever its name or server says."""

import codecs

from llm_ocr.records import ErrorCode, PageError

# As many of a file's first bytes as are looked at. The header of a PDF may stand behind others.
HEAD_BYTES = 1024
FILE_SIGNATURES = {
    b"PK\x03\x04": "a ZIP or Office file",
    b"\xd0\xcf\x11\xe0": "an old Office file",
    b"{\\rtf": "an RTF text",
    b"%!PS": "PostScript",
    b"GIF8": "a GIF image",
    b"BM": "a BMP image",
    b"\0\0\0\x0cjP  ": "a JPEG 2000 image",
    b"AT&TFORM": "a DjVu file",
    b"\x1f\x8b": "a gzip archive",
}
# The suffixes of images, by their first bytes.
IMAGE_SIGNATURES = {
    b"\x89PNG": ".png",
    b"\xff\xd8\xff": ".jpg",
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
    b"II+\0": ".tif",
    b"MM\0+": ".tif",
}


def detect_suffix(name: str, head: bytes, remedy: str = "convert it first") -> str:
    """The suffix of the PDF or image `name` that begins with `head`, such as `.pdf`.

    Raises PageError for another format, with `remedy` as what to do.
    """
    if b"%PDF-" in head[:HEAD_BYTES]:
        return ".pdf"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return ".webp"
    for magic, suffix in IMAGE_SIGNATURES.items():
        if head.startswith(magic):
            return suffix
    message = f"{name}: {_describe(head)}, not a PDF, PNG, JPEG, WebP or TIFF; {remedy}"
    raise PageError(ErrorCode.UNSUPPORTED_FORMAT, message)


def _describe(head: bytes) -> str:
    for magic, format_name in FILE_SIGNATURES.items():
        if head.startswith(magic):
            return f"this is {format_name}"
    if head[4:8] == b"ftyp":
        return "this is a HEIC or AVIF image, or a video"
    if head[:5].lower() in (b"<html", b"<!doc") or b"<html" in head[:200].lower():
        return "this is a web page"
    try:
        # Incrementally, as a character may be cut at the end of what was read.
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "this is some other format"
    return "this is some other format" if "\0" in text else "this is text"

"""Searchable PDFs, read by pdfium: their text, where it is, and that pages look as before."""

import io
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pytest
from PIL import Image

from llm_ocr.documents import Document, document_id
from llm_ocr.export.document import ExportDocument, ExportError
from llm_ocr.export.pdf import image_pdf, searchable_pdf
from llm_ocr.export.source import SourceReader
from llm_ocr.records import Box, ImagePolicy, PageLine, PageResult, TextWord
from llm_ocr.sources.names import file_version
from llm_ocr.sources.pdf import PdfFile
from tests import documents
from tests.export.pages import page, read_page

TEXTS = [
    ["Hello", "wörld,", "Straße", "x"],
    ["שנת", "1948", "הגיעה", "שלום"],
    ["في", "عام", "2024", "كانت"],
    ["漢字かな交じり文。"],
    ["emoji", "😀", "𝒳"],
]


def text_lines(texts: Iterable[list[str]]) -> tuple[PageLine, ...]:
    """A line for each text, from the right where that is right-to-left."""
    return tuple(_line(words, 100.0 + 50 * k) for k, words in enumerate(texts))


def _line(words: list[str], y: float) -> PageLine:
    found, x, sign = [], 50.0, 1
    if "\u0590" < words[0][0] < "\u0700":
        x, sign = 750.0, -1
    for word in words:
        end = x + sign * 11 * len(word)
        found.append(TextWord(word, Box(min(x, end), y, max(x, end), y + 20), 0.9))
        x = end + sign * 8
    edges = [word.box for word in found]
    box = Box(min(one.x1 for one in edges), y, max(one.x2 for one in edges), y + 20)
    return PageLine(" ".join(words), 0.9, False, box, tuple(found))


def jpeg(size: tuple[int, int] = (800, 1000)) -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", size, (250, 240, 230)).save(sink, "JPEG")
    return sink.getvalue()


def source_of(path: Path, reader: SourceReader) -> ExportDocument:
    """A document of one page without lines, read from this PDF."""
    version, size = file_version(path)
    uri = str(path)
    original = Document(document_id(uri, version), uri, version, path.stem, "pdf", size)
    return ExportDocument(path.stem, uri, [], source=reader.source(original))


def read_text(pdf: bytes) -> list[str]:
    opened = pdfium.PdfDocument(pdf)
    return [one.get_textpage().get_text_bounded() for one in opened]


def layer_of(path: Path) -> tuple[list[TextWord], tuple[int, int], int]:
    """The words of a PDF's first page as this project reads them, on the upright page."""
    file = PdfFile(path, None, 10**8)
    image = file.render(1, ImagePolicy(1000, with_lines=True))
    file.close()
    assert image.text_layer is not None
    words = [word for line in image.text_layer.lines for word in line.words]
    return words, (image.width, image.height), image.rotation


def test_text_of_any_script_is_read_as_it_was_written() -> None:
    made = b"".join(image_pdf(_images(page(image=jpeg(), lines=text_lines(TEXTS)))))
    (text,) = read_text(made)
    assert text.split("\r\n") == [" ".join(words) for words in TEXTS]


def test_an_image_becomes_a_page_that_looks_like_it() -> None:
    picture = Image.open(io.BytesIO(jpeg()))
    made = b"".join(image_pdf(_images(page(image=jpeg(), lines=read_page().lines))))
    opened = pdfium.PdfDocument(made)
    assert opened[0].get_size() == (576, 720)
    shown = opened[0].render(scale=100 / 72).to_pil().convert("RGB")
    assert shown.size == picture.size
    assert shown.getpixel((200, 55)) == shown.getpixel((790, 990)), "its text is not seen"
    assert max(abs(a - 250) for a in shown.getpixel((200, 55))[:1]) < 3


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_words_are_where_they_were_read_on_rotated_and_cropped_pages(
    rotation: int, tmp_path: Path
) -> None:
    size = (400.0, 600.0)
    original = documents.marked_pdf(
        tmp_path / "a.pdf", size, rotation=rotation, crop_box=(50, 20, 390, 580)
    )
    upright = (608, 1000) if rotation % 180 == 0 else (1000, 608)
    lines = text_lines([["Hello", "wörld"], ["Further", "down"]])
    read = page(width=upright[0], height=upright[1], rotation=rotation, lines=lines)
    with SourceReader() as reader:
        document = replace(source_of(original, reader), pages=[read])
        made = tmp_path / "made.pdf"
        made.write_bytes(b"".join(searchable_pdf(document)))
    assert document.notes == []
    assert made.read_bytes().startswith(original.read_bytes())
    words, drawn_size, drawn_rotation = layer_of(made)
    assert (drawn_size, drawn_rotation) == (upright, rotation)
    expected = [word for line in lines for word in line.words]
    assert [word.text for word in words] == [word.text for word in expected]
    for word, other in zip(words, expected, strict=True):
        assert _distance(word.box, other.box) < 3


def test_a_scan_on_its_side_has_its_text_on_its_side(tmp_path: Path) -> None:
    """The engine turned it: the page stays as it is."""
    original = documents.marked_pdf(tmp_path / "a.pdf", (400, 600))
    lines = text_lines([["A", "line", "that", "is", "long", "enough", "to", "see", "its", "way"]])
    read = page(width=1000, height=667, rotation=90, lines=lines)
    with SourceReader() as reader:
        document = replace(source_of(original, reader), pages=[read])
        made = tmp_path / "made.pdf"
        made.write_bytes(b"".join(searchable_pdf(document)))
    words, size, rotation = layer_of(made)
    assert (size, rotation) == ((1000, 667), 90), "the text says how the page is upright"
    assert all(
        _distance(one.box, other.box) < 3 for one, other in zip(words, lines[0].words, strict=True)
    )


def test_a_page_with_text_of_its_own_gets_no_second(tmp_path: Path) -> None:
    original = documents.text_pdf(tmp_path / "a.pdf", ["Its own text", "is here"])
    own = page(1, text_layer=0.9, lines=text_lines(TEXTS))
    doubtful = page(2, text_layer=0.2, lines=text_lines(TEXTS[:1]))
    with SourceReader() as reader:
        document = source_of(original, reader)
        unchanged = b"".join(searchable_pdf(replace(document, pages=[own])))
        made = b"".join(searchable_pdf(replace(document, pages=[own, doubtful])))
    assert unchanged == original.read_bytes()
    first, second = read_text(made)
    assert first == "Its own text"
    assert "Hello wörld, Straße x" in second
    assert "is here" in second
    before, after = (_drawn(pdf, 1) for pdf in (unchanged, made))
    assert before == after


def test_files_with_a_stream_of_objects_are_extended_more_than_once(tmp_path: Path) -> None:
    from pypdf import PdfWriter

    plain = documents.marked_pdf(tmp_path / "plain.pdf", (400, 600))
    writer = PdfWriter(plain, incremental=True)
    writer.add_metadata({"/Title": "A title"})
    original = tmp_path / "a.pdf"
    writer.write(original)
    assert b"/XRef" in original.read_bytes()
    with SourceReader() as reader:
        document = source_of(original, reader)
        once = tmp_path / "once.pdf"
        pages = [page(lines=text_lines([["Hello", "😀", "there"]]))]
        once.write_bytes(b"".join(searchable_pdf(replace(document, pages=pages))))
        again = replace(source_of(once, reader), pages=[page(lines=text_lines(TEXTS[3:4]))])
        (text,) = read_text(b"".join(searchable_pdf(again)))
    assert document.notes == again.notes == []
    assert "Hello 😀 there" in text
    assert "漢字" in text, "the second has a font of its own"


def test_what_cannot_be_extended_is_made_of_page_images(tmp_path: Path) -> None:
    encrypted = documents.encrypted_pdf(tmp_path / "e.pdf", "")
    lost = documents.text_pdf(tmp_path / "lost.pdf", ["Text"])
    damaged = documents.text_pdf(tmp_path / "d.pdf", ["Text"])
    damaged.write_bytes(damaged.read_bytes().replace(b"startxref", b"startxxxx"))
    pages = [page(image=jpeg(), lines=text_lines(TEXTS[:1]), text_layer=1.0)]
    with SourceReader() as reader:
        found = {one: replace(source_of(one, reader), pages=pages) for one in (encrypted, damaged)}
        found[lost] = replace(source_of(lost, reader), pages=pages)
        lost.unlink()
        for path, document in found.items():
            (text,) = read_text(b"".join(searchable_pdf(document)))
            assert text == "Hello wörld, Straße x"
            assert len(document.notes) == 1, path
            assert "made from the stored page images" in document.notes[0]
        bare = replace(found[lost], pages=[replace(pages[0], image=None)])
        with pytest.raises(ExportError, match="no image of page 1 is stored either"):
            b"".join(searchable_pdf(bare))


def test_a_page_that_could_not_be_rendered_is_empty_and_noted() -> None:
    document = ExportDocument("a", "/in/a.tiff", [page(1, image=jpeg()), _unrendered(2)])
    made = b"".join(image_pdf(document, is_archive=False))
    assert len(pdfium.PdfDocument(made)) == 2
    assert document.notes == ["page 2 could not be rendered and is empty"]


def test_an_archive_has_what_pdf_a_asks_for() -> None:
    from pypdf import PdfReader

    document = ExportDocument('a & "b"', "/in/a.pdf", [page(image=jpeg(), lines=text_lines(TEXTS))])
    made = b"".join(image_pdf(document, is_archive=True))
    reader: Any = PdfReader(io.BytesIO(made), strict=True)
    catalog = reader.trailer["/Root"]
    metadata = catalog["/Metadata"]
    assert "/Filter" not in metadata
    assert b"<pdfaid:part>2</pdfaid:part>" in metadata.get_data()
    assert b"a &amp; " in metadata.get_data()
    (intent,) = catalog["/OutputIntents"]
    assert intent["/DestOutputProfile"]["/N"] == 3
    font = reader.pages[0]["/Resources"]["/Font"]["/LlmOcrInvisible"]["/DescendantFonts"][0]
    assert font["/FontDescriptor"]["/FontFile2"].get_data()[:4] == b"\0\1\0\0"
    assert "/ID" in reader.trailer
    assert "/Encrypt" not in reader.trailer
    assert "/Info" not in reader.trailer, "it would have to say the same as the metadata"


def test_vertical_lines_run_as_they_are_read() -> None:
    up = (
        TextWord("going", Box(100, 500, 120, 550), 0.9),
        TextWord("upwards", Box(100, 420, 120, 490), 0.9),
    )
    line = PageLine("going upwards", 0.9, False, Box(100, 420, 120, 550), up)
    made = b"".join(image_pdf(_images(page(image=jpeg(), lines=(line,)))))
    (opened,) = pdfium.PdfDocument(made)
    text = opened.get_textpage()
    assert text.get_text_bounded().split() == ["going", "upwards"]
    tops = [text.get_charbox(k)[3] for k in range(5)]
    assert all(before < after for before, after in pairwise(tops))


def _images(read: PageResult) -> ExportDocument:
    return ExportDocument("a", "/in/a.png", [read])


def _unrendered(number: int) -> PageResult:
    return page(number, width=None, height=None, width_pt=None, height_pt=None)


def _drawn(pdf: bytes, number: int) -> bytes:
    drawn: bytes = pdfium.PdfDocument(pdf)[number].render(scale=1).to_pil().tobytes()
    return drawn


def _distance(one: Box, other: Box) -> float:
    pairs = zip(vars(one).values(), vars(other).values(), strict=True)
    return max(abs(float(a - b)) for a, b in pairs)

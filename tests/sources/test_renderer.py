"""One worker's documents, one after the other: what each is, whatever came before it."""

import math
from itertools import permutations
from pathlib import Path

import pytest
from PIL import Image

from llm_ocr.documents import Document
from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError
from llm_ocr.sources import renderer as renderer_module
from llm_ocr.sources.inputs import list_documents
from llm_ocr.sources.raster import RenderLimits, to_pixels
from llm_ocr.sources.renderer import DocumentRenderer
from tests import documents


def document(path: Path) -> Document:
    return list_documents([str(path)])[0]


def renderer(password: str | None = None) -> DocumentRenderer:
    return DocumentRenderer(password, RenderLimits())


def refusal(by: DocumentRenderer, path: Path) -> PageError:
    with pytest.raises(PageError) as caught:
        by.count_pages(document(path))
    return caught.value


@pytest.mark.parametrize("password", [None, "guess"])
def test_refusal_of_a_pdf_is_independent_of_the_one_before(
    tmp_path: Path, password: str | None
) -> None:
    """pdfium keeps its last error over a success, and a PDF without pages is one."""
    (tmp_path / "cut.pdf").write_bytes(documents.pdf(tmp_path / "a.pdf").read_bytes()[:300])
    kinds = {
        tmp_path / "cut.pdf": ErrorCode.CORRUPT_DOCUMENT,
        documents.encrypted_pdf(tmp_path / "secret.pdf", "sesame"): (
            ErrorCode.WRONG_PASSWORD if password else ErrorCode.ENCRYPTED
        ),
        documents.zero_page_pdf(tmp_path / "none.pdf"): ErrorCode.NO_PAGES,
    }
    for order in permutations(kinds):
        by = renderer(password)
        assert [refusal(by, path).code for path in order] == [kinds[path] for path in order]


@pytest.mark.parametrize(
    ("head", "likeness"),
    [
        (b"<!DOCTYPE html><p>404", "a web page"),
        (b"PK\x03\x04\x14", "a ZIP or Office file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old Office file"),
        (b"GIF89a\x01", "a GIF image"),
        (b"\0\0\0\x18ftypheic", "a HEIC or AVIF image"),
        (b"%!PS-Adobe-3.0", "PostScript"),
        (("a" * 1023 + "ü").encode(), "text"),
        (b"\x80\x81\x82", "some other format"),
    ],
)
def test_non_documents_are_named(tmp_path: Path, head: bytes, likeness: str) -> None:
    (tmp_path / "a.pdf").write_bytes(head)
    error = refusal(renderer(), tmp_path / "a.pdf")
    assert error.code is ErrorCode.UNSUPPORTED_FORMAT
    assert f"a.pdf: this is {likeness}" in error.message


@pytest.mark.parametrize("rotation", [0, 90])
def test_pdf_crops_are_at_whole_pixels(tmp_path: Path, rotation: int) -> None:
    path = documents.marked_pdf(tmp_path / "a.pdf", (297.3, 411.7), rotation=rotation)
    by = renderer()
    image = by.render(document(path), 1, ImagePolicy(1000))
    size = (image.width, image.height)
    assert image.width_pt
    assert image.height_pt
    full = (math.ceil(image.width_pt * 200 / 72), math.ceil(image.height_pt * 200 / 72))
    boxes = [Box(x, y, x + 57, y + 91) for x in range(0, 640, 61) for y in range(0, 600, 83)]
    for box, crop in zip(boxes, by.crop(document(path), 1, size, boxes, 200), strict=True):
        left, top, right, bottom = to_pixels(box, size, full)
        assert (crop.width, crop.height) == (right - left, bottom - top)


def test_a_path_through_a_file_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("body")
    (tmp_path / "list.txt").write_text("file/a.pdf\n")
    with pytest.raises(PageError) as caught:
        renderer().count_pages(list_documents([f"@{tmp_path}/list.txt"])[0])
    assert caught.value.code is ErrorCode.NOT_FOUND


def test_the_last_few_documents_stay_open(tmp_path: Path) -> None:
    by = renderer()
    paths = [
        documents.pdf(tmp_path / f"{k}.pdf", pages=3)
        for k in range(renderer_module.MAX_OPEN_DOCUMENTS + 1)
    ]
    first_id = document(paths[0]).doc_id
    opened = []
    for number in (1, 2, 3):
        by.render(document(paths[0]), number, ImagePolicy(50))
        opened.append(by._open[first_id])
    assert opened == [opened[0]] * 3, "opened once"
    for path in paths:
        by.count_pages(document(path))
    assert len(by._open) == renderer_module.MAX_OPEN_DOCUMENTS
    assert first_id not in by._open
    by.count_pages(document(paths[0]))
    assert by._open[first_id] is not opened[0]


def test_long_document_is_reopened_after_many_uses(tmp_path: Path) -> None:
    path = documents.pdf(tmp_path / "a.pdf")
    by = renderer()
    by.count_pages(document(path))
    first = by._open[document(path).doc_id]
    for _ in range(renderer_module.MAX_USES_PER_DOCUMENT):
        by.count_pages(document(path))
    assert by._open[document(path).doc_id] is not first


def test_a_decoded_image_is_not_kept(tmp_path: Path) -> None:
    Image.new("RGB", (400, 300), "white").save(tmp_path / "a.png")
    by = renderer()
    by.render(document(tmp_path / "a.png"), 1, ImagePolicy(100))
    (kept,) = by._open.values()
    assert not [one for one in vars(kept).values() if isinstance(one, Image.Image)]

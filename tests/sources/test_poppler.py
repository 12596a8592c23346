"""Poppler itself on pages that pdfium can't load; a page it does not have is never another's."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError
from llm_ocr.sources.pdf import PdfFile
from tests.documents import decoded, pdf_of

pytestmark = pytest.mark.skipif(shutil.which("pdftoppm") is None, reason="needs poppler-utils")
POLICY = ImagePolicy(longest_side=400)


def three_pages(path: Path, second: bytes) -> PdfFile:
    """A page of 110, one of `second` and one of 130 points' width; all 200 high, with ink."""
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {} 200] /Contents 6 0 R >>"
    content = b"1 0 0 rg 10 10 90 90 re f"
    pdf_of(
        path,
        b"<< /Type /Pages /Kids [3 0 R 4 0 R 5 0 R] /Count 3 >>",
        page.format(110).encode(),
        second,
        page.format(130).encode(),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    )
    return PdfFile(path, None, 10**8)


def test_poppler_renders_a_page_that_pdfium_rejects(tmp_path: Path) -> None:
    odd = b"<< /Type /Odd /Parent 2 0 R /MediaBox [0 0 120 200] /Contents 6 0 R >>"
    image = three_pages(tmp_path / "a.pdf", odd).render(2, POLICY)
    assert (image.width, image.height) == decoded(image.jpeg).size == (240, 400)
    assert image.ink > 0.1


@pytest.mark.parametrize("second", [b"(no page)", b"null"])
def test_page_skipped_by_poppler_is_not_replaced_by_the_next(tmp_path: Path, second: bytes) -> None:
    file = three_pages(tmp_path / "a.pdf", second)
    assert file.render(1, POLICY).width == 220
    assert file.render(3, POLICY).width == 260
    with pytest.raises(PageError, match=r"a\.pdf, page 2: .* not even by poppler; save") as caught:
        file.render(2, POLICY)
    assert caught.value.code is ErrorCode.CORRUPT_PAGE


@pytest.mark.parametrize("number", [2, 3])
def test_pages_that_are_only_counted_are_not_blank(tmp_path: Path, number: int) -> None:
    pdf_of(
        tmp_path / "a.pdf",
        b"<< /Type /Pages /Kids [3 0 R] /Count 3 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 200] >>",
    )
    with pytest.raises(PageError, match="not even by poppler"):
        PdfFile(tmp_path / "a.pdf", None, 10**8).render(number, POLICY)


def test_poppler_renders_crops(tmp_path: Path) -> None:
    odd = b"<< /Type /Odd /Parent 2 0 R /MediaBox [0 0 120 200] /Contents 6 0 R >>"
    file = three_pages(tmp_path / "a.pdf", odd)
    (crop,) = file.crop(2, (240, 400), [Box(30, 230, 190, 370)], 200, 4096)
    assert (crop.width, crop.height) == (160, 140)
    image: Image.Image = decoded(crop.jpeg).convert("RGB")
    red = image.getpixel((80, 70))
    assert isinstance(red, tuple)
    assert red[0] > 200 > 80 > max(red[1:])

"""PDF files -> pages and crops, drawn by pdfium; by poppler where pdfium can't."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from PIL import Image

from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError, PageImage
from llm_ocr.sources.raster import Crop, encode, ink

FIGURE_QUALITY = 92
POINTS_PER_INCH = 72
# Images nested deeper than this in form objects are not looked for when pixels are estimated.
FORM_DEPTH = 8


class PdfFile:
    """An open PDF. Not thread safe, as pdfium isn't."""

    def __init__(self, path: Path, password: str | None, max_pixels: int) -> None:
        self._path, self._password, self._max_pixels = path, password, max_pixels
        # pdfium keeps an earlier file's error where it has none of its own; this is one that a file
        # which was found can't have.
        pdfium_c.FPDF_LoadDocument(b"", None)
        try:
            self._document = pdfium.PdfDocument(path, password=password)
        except pdfium.PdfiumError as error:
            raise self._why_not_open(error) from error
        self.page_count = len(self._document)
        if self._document.get_formtype() != pdfium_c.FORMTYPE_NONE:
            self._document.init_forms()

    def close(self) -> None:
        self._document.close()

    def render(self, number: int, policy: ImagePolicy) -> PageImage:
        """The page upright, its longest side exactly what the policy wants."""
        try:
            with self._page(number) as page:
                width_pt, height_pt = page.get_size()
                rotation = int(page.get_rotation())
                # pdfium rounds up: a little less keeps the longest side from being one too many.
                image = _draw(page, (policy.longest_side - 0.01) / max(width_pt, height_pt))
        except pdfium.PdfiumError:
            return self._render_with_poppler(number, policy)
        jpeg = encode(image, policy.jpeg_quality)
        return PageImage(jpeg, *image.size, ink(image), width_pt, height_pt, rotation)

    def crop(
        self, number: int, size: tuple[int, int], boxes: Sequence[Box], dpi: int, max_side: int
    ) -> list[Crop]:
        """Boxes on a page rendered at `size`, drawn anew at `dpi`."""
        try:
            with self._page(number) as page:
                return [_draw_box(page, size, box, dpi, max_side) for box in boxes]
        except pdfium.PdfiumError:
            image = self._poppler(number, max(size))
            cuts = [image.crop((box.x1, box.y1, box.x2, box.y2)) for box in boxes]
            return [Crop(encode(cut, FIGURE_QUALITY), *cut.size) for cut in cuts]

    @contextmanager
    def _page(self, number: int) -> Iterator[Any]:
        page = self._document[number - 1]
        try:
            self._check_pixels(page, number)
            yield page
        finally:
            page.close()

    def _check_pixels(self, page: Any, number: int) -> None:  # noqa: ANN401
        """Bound what the page's images decode to, from their headers, before any is."""
        images = page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE], max_depth=FORM_DEPTH)
        # Each size counts once: what is drawn again and again, as a tile is, is decoded once.
        pixels = sum(width * height for width, height in {one.get_px_size() for one in images})
        if pixels > self._max_pixels:
            raise PageError(
                ErrorCode.TOO_LARGE,
                f"{self._path}, page {number}: its images hold {pixels:,} pixels, more than the "
                f"{self._max_pixels:,} that are decoded; raise --max-pixels to read it",
            )

    def _render_with_poppler(self, number: int, policy: ImagePolicy) -> PageImage:
        image = self._poppler(number, policy.longest_side)
        jpeg = encode(image, policy.jpeg_quality)
        return PageImage(jpeg, *image.size, ink(image), None, None, 0)

    def _poppler(self, number: int, longest_side: int) -> Image.Image:
        said = f"{self._path}, page {number}: the page is damaged and can't be drawn"
        if self._password is not None:
            # Poppler would take the password on its command line, where others can see it.
            said = f"{said}; save the PDF without its password, and poppler can try"
            raise PageError(ErrorCode.CORRUPT_PAGE, said)
        if shutil.which("pdftoppm") is None:
            advice = "install poppler-utils, which draws some pages that pdfium can't"
            raise PageError(ErrorCode.CORRUPT_PAGE, f"{said}; {advice}")
        neither = f"{said}, nor by poppler; save the PDF anew, or leave the page"
        from pdf2image import convert_from_path
        from pdf2image.exceptions import PDFPageCountError, PDFPopplerTimeoutError

        try:
            images = convert_from_path(
                self._path,
                first_page=number,
                last_page=number,
                size=longest_side,
                use_cropbox=True,
            )
        except (OSError, PDFPageCountError, PDFPopplerTimeoutError) as error:
            raise PageError(ErrorCode.CORRUPT_PAGE, neither) from error
        if not images:
            raise PageError(ErrorCode.CORRUPT_PAGE, neither)
        return images[0].convert("RGB")

    def _why_not_open(self, error: pdfium.PdfiumError) -> PageError:
        if error.err_code == pdfium_c.FPDF_ERR_FILE:
            # A PDF in good order without a page: pdfium opens none, and has no error for it.
            return PageError(ErrorCode.NO_PAGES, f"{self._path}: the PDF has no pages; leave it")
        if error.err_code != pdfium_c.FPDF_ERR_PASSWORD:
            said = "the PDF can't be opened; it is damaged or cut off; copy or make it again"
            return PageError(ErrorCode.CORRUPT_DOCUMENT, f"{self._path}: {said}")
        if self._password is None:
            said = "the PDF is encrypted; pass its password with --password"
            return PageError(ErrorCode.ENCRYPTED, f"{self._path}: {said}")
        said = "the password does not open this PDF; check --password"
        return PageError(ErrorCode.WRONG_PASSWORD, f"{self._path}: {said}")


def _draw(page: Any, scale: float, crop: tuple[float, ...] = (0, 0, 0, 0)) -> Image.Image:  # noqa: ANN401
    bitmap = page.render(scale=scale, crop=crop, rev_byteorder=True)
    image: Image.Image = bitmap.to_pil()
    # Only grey and transparent bitmaps have another mode; converting RGB to RGB copies it.
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    bitmap.close()
    return rgb


def _draw_box(
    page: Any,  # noqa: ANN401
    size: tuple[int, int],
    box: Box,
    dpi: int,
    max_side: int,
) -> Crop:
    width_pt, height_pt = page.get_size()
    x, y = width_pt / size[0], height_pt / size[1]
    left, top, right, bottom = box.x1 * x, box.y1 * y, box.x2 * x, box.y2 * y
    side_pt = max(right - left, bottom - top, 1.0)
    # A little less, as pypdfium2 rounds the page up; it rounds what is cut off up as well, so that
    # of a sliver nothing would be left.
    scale = min(dpi / POINTS_PER_INCH, (max_side - 0.01) / side_pt)
    least = 2 / scale
    left, top = max(0.0, min(left, width_pt - least)), max(0.0, min(top, height_pt - least))
    right = min(width_pt, max(right, left + least))
    bottom = min(height_pt, max(bottom, top + least))
    image = _draw(page, scale, (left, height_pt - bottom, width_pt - right, top))
    return Crop(encode(image, FIGURE_QUALITY), *image.size)

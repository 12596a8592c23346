"""Rendering PDF pages and crops with pdfium, or with poppler where pdfium fails."""

import ctypes
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from PIL import Image

from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError, PageImage
from llm_ocr.sources.raster import FIGURE_QUALITY, Crop, encode, ink_ratio, rotate, to_pixels
from llm_ocr.sources.text_layer import PdfTextPage

POINTS_PER_INCH = 72
# Images nested deeper than this in form objects are not looked for when pixels are estimated.
FORM_DEPTH = 8
LAST_PAGE_SIDE = 16
# Bytes of a PDF without which no page of it can be, however well its objects are compressed.
LEAST_PAGE = 10


class PdfFile:
    """An open PDF. Not thread safe, as pdfium isn't."""

    def __init__(self, path: Path, password: str | None, max_pixels: int) -> None:
        self._path, self._max_pixels = path, max_pixels
        # What takes any reader, as where only printing is restricted, wants no password, and
        # pdfium refuses it with a wrong one.
        self._password: str | None = None
        try:
            self._document = pdfium.PdfDocument(path)
        except pdfium.PdfiumError as error:
            if password is None or error.err_code != pdfium_c.FPDF_ERR_PASSWORD:
                raise self._why_not_open(error) from error
            self._password = password
            self._document = self._opened_with(password)
        self._claimed = len(self._document)
        self.page_count = self._plausible_count()
        if self._document.get_formtype() != pdfium_c.FORMTYPE_NONE:
            self._document.init_forms()

    def _plausible_count(self) -> int:
        """The pages that the PDF claims to have. Of one that claims more than its bytes can hold,
        up to the last that is there, and one more, which fails and says so. Raises PageError."""
        most = self._path.stat().st_size // LEAST_PAGE + 1
        if self._claimed <= most:
            return self._claimed
        for number in range(most, 0, -1):
            try:
                self._document[number - 1].close()
            except pdfium.PdfiumError:
                continue
            return number + 1
        said = f"the PDF claims {self._claimed:,} pages but has none; recreate it or exclude it"
        raise PageError(ErrorCode.CORRUPT_DOCUMENT, f"{self._path}: {said}")

    def close(self) -> None:
        self._document.close()

    def render(self, number: int, policy: ImagePolicy) -> PageImage:
        """The page upright, its longest side exactly what the policy wants."""
        try:
            with self._page(number) as page:
                with closing(PdfTextPage(page)) as text:
                    turn = text.turn()
                    points = _upright(page.get_size(), turn)
                    # pdfium rounds up: a little less keeps the longest side from being one more.
                    image = _draw(page, (policy.longest_side - 0.01) / max(points), turn)
                    layer = text.layer(turn, image.size, with_lines=policy.with_lines)
                rotation = (int(page.get_rotation()) + turn) % 360
        except pdfium.PdfiumError:
            return self._render_with_poppler(number, policy)
        jpeg = encode(image, policy.jpeg_quality)
        return PageImage(jpeg, *image.size, ink_ratio(image), *points, rotation, layer)

    def crop(
        self,
        number: int,
        size: tuple[int, int],
        boxes: Sequence[Box],
        dpi: int,
        max_side: int,
        rotation: int | None = None,
    ) -> list[Crop]:
        """Boxes on a page of `size`, drawn anew at `dpi`."""
        try:
            with self._page(number) as page:
                turn = _turn(page) if rotation is None else rotation - int(page.get_rotation())
                return [_draw_box(page, turn, size, box, dpi, max_side) for box in boxes]
        except pdfium.PdfiumError:
            image = rotate(self._render_damaged(number, max(size)), rotation or 0)
            cuts = [image.crop(to_pixels(box, size, image.size)) for box in boxes]
            return [Crop(encode(cut, FIGURE_QUALITY), *cut.size) for cut in cuts]

    @contextmanager
    def _page(self, number: int) -> Iterator[Any]:
        if number == self.page_count < self._claimed:
            said = f"the PDF claims {self._claimed:,} pages but has only {number - 1:,}"
            raise PageError(ErrorCode.CORRUPT_PAGE, f"{self._path}, page {number}: {said}")
        page = self._document[number - 1]
        try:
            # A CropBox that lies beside the page leaves nothing of it: then the whole page counts.
            if min(page.get_size()) <= 0:
                page.set_cropbox(*page.get_mediabox())
            if min(page.get_size()) <= 0:
                said = "the page has no area; correct its MediaBox or exclude the page"
                raise PageError(ErrorCode.CORRUPT_PAGE, f"{self._path}, page {number}: {said}")
            self._check_pixels(page, number)
            yield page
        finally:
            page.close()

    def _check_pixels(self, page: Any, number: int) -> None:  # noqa: ANN401
        """Bound what the page's images decode to, from their headers, before any is."""
        count, get = pdfium_c.FPDFPage_CountObjects, pdfium_c.FPDFPage_GetObject
        # Each size counts once: what is drawn again and again, as a tile is, is decoded once.
        sizes = set(_image_sizes(page, count, get, FORM_DEPTH))
        pixels = sum(width * height for width, height in sizes)
        if pixels > self._max_pixels:
            raise PageError(
                ErrorCode.TOO_LARGE,
                f"{self._path}, page {number}: its images have {pixels:,} pixels, more than the "
                f"limit of {self._max_pixels:,}; raise --max-pixels to read it",
            )

    def _render_with_poppler(self, number: int, policy: ImagePolicy) -> PageImage:
        image = self._render_damaged(number, policy.longest_side)
        jpeg = encode(image, policy.jpeg_quality)
        return PageImage(jpeg, *image.size, ink_ratio(image), None, None, 0)

    def _render_damaged(self, number: int, longest_side: int) -> Image.Image:
        said = f"{self._path}, page {number}: the page is damaged and can't be rendered"
        if self._password is not None:
            # Poppler would take the password on its command line, where others can see it.
            said = f"{said}; save the PDF without a password so that poppler can try"
            raise PageError(ErrorCode.CORRUPT_PAGE, said)
        if shutil.which("pdftoppm") is None:
            advice = "install poppler-utils, which renders some pages that pdfium can't"
            raise PageError(ErrorCode.CORRUPT_PAGE, f"{said}; {advice}")
        image = self._render_poppler_page(number, longest_side)
        # Poppler counts on where it finds no page: without a last page its numbers are not ours,
        # and its page would be another one.
        has_last = self._render_poppler_page(self.page_count, LAST_PAGE_SIDE) is not None
        if image is None or not has_last:
            neither = f"{said}, not even by poppler; save the PDF again or exclude the page"
            raise PageError(ErrorCode.CORRUPT_PAGE, neither)
        return image

    def _render_poppler_page(self, number: int, longest_side: int) -> Image.Image | None:
        from pdf2image import convert_from_path
        from pdf2image.exceptions import PDFPageCountError

        try:
            images = convert_from_path(
                self._path,
                first_page=number,
                last_page=number,
                size=longest_side,
                use_cropbox=True,
            )
        except (OSError, PDFPageCountError):
            return None
        # A page that it does not have, poppler draws as one white pixel.
        drawn = [image.convert("RGB") for image in images if max(image.size) > 1]
        return drawn[0] if drawn else None

    def _opened_with(self, password: str) -> Any:  # noqa: ANN401
        try:
            return pdfium.PdfDocument(self._path, password=password)
        except pdfium.PdfiumError as error:
            raise self._why_not_open(error) from error

    def _why_not_open(self, error: pdfium.PdfiumError) -> PageError:
        if _can_be_loaded(self._path, self._password):
            said = "the PDF has no pages; recreate it or exclude it"
            return PageError(ErrorCode.NO_PAGES, f"{self._path}: {said}")
        if error.err_code != pdfium_c.FPDF_ERR_PASSWORD:
            said = (
                "the PDF can't be opened: it is damaged or truncated; copy it again or recreate it"
            )
            return PageError(ErrorCode.CORRUPT_DOCUMENT, f"{self._path}: {said}")
        if self._password is None:
            said = "the PDF is encrypted; pass its password with --password"
            return PageError(ErrorCode.ENCRYPTED, f"{self._path}: {said}")
        said = "the password does not open this PDF; check --password"
        return PageError(ErrorCode.WRONG_PASSWORD, f"{self._path}: {said}")


def _can_be_loaded(path: Path, password: str | None) -> bool:
    """Whether pdfium takes a file that pypdfium2 refuses: it is in order, and has no page.

    pdfium's error code can't tell, as a success leaves that of an earlier file as it is.
    """
    secret = None if password is None else password.encode() + b"\0"
    document = pdfium_c.FPDF_LoadDocument(os.fsencode(path) + b"\0", secret)
    if document:
        pdfium_c.FPDF_CloseDocument(document)
    return bool(document)


def _image_sizes(
    parent: Any,  # noqa: ANN401
    count: Callable[[Any], int],
    get: Callable[[Any, int], Any],
    depth: int,
) -> Iterator[tuple[int, int]]:
    """Width and height in pixels of the images on a page or in a form, from their headers.

    On pdfium's own functions: pypdfium2's wrapper of each object costs a tenth of a drawn page.
    """
    for index in range(count(parent)):
        item = get(parent, index)
        kind = pdfium_c.FPDFPageObj_GetType(item)
        if kind == pdfium_c.FPDF_PAGEOBJ_IMAGE:
            width, height = ctypes.c_uint(), ctypes.c_uint()
            if pdfium_c.FPDFImageObj_GetImagePixelSize(item, width, height):
                yield width.value, height.value
        elif kind == pdfium_c.FPDF_PAGEOBJ_FORM and depth > 1:
            inside = pdfium_c.FPDFFormObj_CountObjects, pdfium_c.FPDFFormObj_GetObject
            yield from _image_sizes(item, *inside, depth - 1)


def _turn(page: Any) -> int:  # noqa: ANN401
    with closing(PdfTextPage(page)) as text:
        return text.turn()


def _upright(size: tuple[float, float], turn: int) -> tuple[float, float]:
    return size if turn % 180 == 0 else (size[1], size[0])


def _draw(
    page: Any,  # noqa: ANN401
    scale: float,
    turn: int,
    crop: tuple[float, ...] = (0, 0, 0, 0),
) -> Image.Image:
    # Pillow takes four bytes a pixel as they are (it keeps the buffer alive), and copies three.
    bitmap = page.render(
        scale=scale, rotation=turn % 360, crop=crop, rev_byteorder=True, prefer_bgrx=True
    )
    image: Image.Image = bitmap.to_pil()
    return image


def _draw_box(
    page: Any,  # noqa: ANN401
    turn: int,
    size: tuple[int, int],
    box: Box,
    dpi: int,
    max_side: int,
) -> Crop:
    width_pt, height_pt = _upright(page.get_size(), turn)
    sides_pt = (box.x2 - box.x1) / size[0] * width_pt, (box.y2 - box.y1) / size[1] * height_pt
    # One pixel less than allowed, as both edges are rounded.
    scale = min(dpi / POINTS_PER_INCH, max(1, max_side - 1) / max(*sides_pt, 1e-6))
    width, height = math.ceil(width_pt * scale), math.ceil(height_pt * scale)
    left, top, right, bottom = to_pixels(box, size, (width, height))
    # pypdfium2 takes margins in points and rounds them up to pixels: half a pixel less than
    # meant gives what is meant.
    margins = [(one - 0.5) / scale for one in (left, height - bottom, width - right, top)]
    image = _draw(page, scale, turn, tuple(margins))
    return Crop(encode(image, FIGURE_QUALITY), *image.size)

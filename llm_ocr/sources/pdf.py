"""Render PDF pages and crops with pdfium, or with poppler where pdfium fails."""

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
from llm_ocr.sources.raster import (
    FIGURE_QUALITY,
    IMAGE_BYTES_PER_TOKEN,
    Crop,
    encode,
    fit,
    fit_size,
    ink_ratio,
    rotate,
    to_pixels,
)
from llm_ocr.sources.text_layer import PdfTextPage

POINTS_PER_INCH = 72
# Images nested deeper than this in form objects are not counted when pixels are estimated.
MAX_FORM_DEPTH = 8
LAST_PAGE_SIDE = 16
# UTF-8 bytes of a text for each token, roughly in any script.
BYTES_PER_TOKEN = 4
# A page with less text of its own is taken to be a scan: its text is in its images.
MIN_TEXT_TOKENS = 32
# The fewest bytes of a PDF per page, however well its objects are compressed.
MIN_PAGE_BYTES = 10


class PdfFile:
    """An open PDF. Like pdfium, it is not thread safe."""

    def __init__(self, path: Path, password: str | None, max_pixels: int) -> None:
        self._path, self._max_pixels = path, max_pixels
        # First without the password: a PDF that restricts only printing opens without one, and
        # pdfium rejects it with a wrong one.
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
        """The number of pages that the PDF claims to have. If it claims more than fit in its bytes:
        the number of the last existing page plus 1, and reading that additional page reports the
        problem. Raises PageError if no page exists."""
        limit = self._path.stat().st_size // MIN_PAGE_BYTES + 1
        if self._claimed <= limit:
            return self._claimed
        for number in range(limit, 0, -1):
            try:
                self._document[number - 1].close()
            except pdfium.PdfiumError:
                continue
            return number + 1
        problem = f"the PDF claims {self._claimed:,} pages but has none; recreate it or exclude it"
        raise PageError(ErrorCode.CORRUPT_DOCUMENT, f"{self._path}: {problem}")

    def close(self) -> None:
        self._document.close()

    def expected_tokens(self, number: int) -> int:
        """About how many tokens the page's text has: its own text, or for a scan, by the size of
        its images; 0 if the page is damaged."""
        if number > self._claimed:
            return 0
        try:
            with closing(self._document[number - 1]) as page:
                with closing(page.get_textpage()) as text:
                    tokens = len(text.get_text_bounded().encode(errors="ignore")) // BYTES_PER_TOKEN
                if tokens >= MIN_TEXT_TOKENS:
                    return tokens
                return max(tokens, _image_bytes(page) // IMAGE_BYTES_PER_TOKEN)
        except pdfium.PdfiumError:
            return 0

    def render(self, number: int, policy: ImagePolicy) -> PageImage:
        """The page upright, as large as the policy allows."""
        try:
            with self._page(number) as page:
                with closing(PdfTextPage(page)) as text:
                    turn = text.turn()
                    points = _upright(page.get_size(), turn)
                    size = fit_size(*points, policy, fills=True)
                    # pdfium rounds up; a slightly smaller scale avoids an additional pixel.
                    image = _draw(page, (max(size) - 0.01) / max(points), turn)
                    if policy.multiple_of > 1 and image.size != size:
                        image = image.resize(size, Image.Resampling.LANCZOS)
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
        """Boxes on a page of `size`, rendered again at `dpi`."""
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
            problem = f"the PDF claims {self._claimed:,} pages but has only {number - 1:,}"
            raise PageError(ErrorCode.CORRUPT_PAGE, f"{self._path}, page {number}: {problem}")
        page = self._document[number - 1]
        try:
            # A CropBox outside of the page leaves no area: then the whole page is rendered.
            if min(page.get_size()) <= 0:
                page.set_cropbox(*page.get_mediabox())
            if min(page.get_size()) <= 0:
                problem = "the page has no area; correct its MediaBox or exclude the page"
                raise PageError(ErrorCode.CORRUPT_PAGE, f"{self._path}, page {number}: {problem}")
            self._check_pixels(page, number)
            yield page
        finally:
            page.close()

    def _check_pixels(self, page: Any, number: int) -> None:  # noqa: ANN401
        """Raise PageError if the page's images have too many pixels, before any is decoded."""
        count, get = pdfium_c.FPDFPage_CountObjects, pdfium_c.FPDFPage_GetObject
        # Each size counts once: an image that is drawn repeatedly, as a tile, is decoded once.
        sizes = set(_image_sizes(page, count, get, MAX_FORM_DEPTH))
        pixels = sum(width * height for width, height in sizes)
        if pixels > self._max_pixels:
            raise PageError(
                ErrorCode.TOO_LARGE,
                f"{self._path}, page {number}: its images have {pixels:,} pixels, more than the "
                f"limit of {self._max_pixels:,} (`max_pixels`)",
            )

    def _render_with_poppler(self, number: int, policy: ImagePolicy) -> PageImage:
        image = fit(self._render_damaged(number, policy.longest_side), policy)
        jpeg = encode(image, policy.jpeg_quality)
        return PageImage(jpeg, *image.size, ink_ratio(image), None, None, 0)

    def _render_damaged(self, number: int, longest_side: int) -> Image.Image:
        problem = f"{self._path}, page {number}: the page is damaged and can't be rendered"
        if self._password is not None:
            # Poppler takes passwords on its command line, where other users can see them.
            problem = f"{problem}; save the PDF without a password so that poppler can try"
            raise PageError(ErrorCode.CORRUPT_PAGE, problem)
        if shutil.which("pdftoppm") is None:
            advice = "install poppler-utils, which renders some pages that pdfium can't"
            raise PageError(ErrorCode.CORRUPT_PAGE, f"{problem}; {advice}")
        image = self._render_poppler_page(number, longest_side)
        # Poppler skips missing pages when it counts: if it has no page with the last number, its
        # numbers differ from pdfium's, and its image would be of a different page.
        has_last = self._render_poppler_page(self.page_count, LAST_PAGE_SIDE) is not None
        if image is None or not has_last:
            advice = "not even by poppler; save the PDF again or exclude the page"
            raise PageError(ErrorCode.CORRUPT_PAGE, f"{problem}, {advice}")
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
        # Poppler renders a missing page as one white pixel.
        rendered = [image.convert("RGB") for image in images if max(image.size) > 1]
        return rendered[0] if rendered else None

    def _opened_with(self, password: str) -> Any:  # noqa: ANN401
        try:
            return pdfium.PdfDocument(self._path, password=password)
        except pdfium.PdfiumError as error:
            raise self._why_not_open(error) from error

    def _why_not_open(self, error: pdfium.PdfiumError) -> PageError:
        if _can_be_loaded(self._path, self._password):
            problem = "the PDF has no pages; recreate it or exclude it"
            return PageError(ErrorCode.NO_PAGES, f"{self._path}: {problem}")
        if error.err_code != pdfium_c.FPDF_ERR_PASSWORD:
            problem = (
                "the PDF can't be opened: it is damaged or truncated; copy it again or recreate it"
            )
            return PageError(ErrorCode.CORRUPT_DOCUMENT, f"{self._path}: {problem}")
        if self._password is None:
            problem = "the PDF is encrypted, and no password was given"
            return PageError(ErrorCode.ENCRYPTED, f"{self._path}: {problem}")
        problem = "the password does not open this PDF"
        return PageError(ErrorCode.WRONG_PASSWORD, f"{self._path}: {problem}")


def _can_be_loaded(path: Path, password: str | None) -> bool:
    """Whether pdfium loads a file that pypdfium2 rejects: a valid PDF without pages.

    pdfium's error code doesn't show this: a success leaves the code of an earlier file unchanged.
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

    It calls pdfium directly: pypdfium2's wrappers of the objects would take a tenth of the time for
    rendering the page.
    """
    for index in range(count(parent)):
        item = get(parent, index)
        kind = pdfium_c.FPDFPageObj_GetType(item)
        if kind == pdfium_c.FPDF_PAGEOBJ_IMAGE:
            width, height = ctypes.c_uint(), ctypes.c_uint()
            if pdfium_c.FPDFImageObj_GetImagePixelSize(item, width, height):
                yield width.value, height.value
        elif kind == pdfium_c.FPDF_PAGEOBJ_FORM and depth > 1:
            functions = pdfium_c.FPDFFormObj_CountObjects, pdfium_c.FPDFFormObj_GetObject
            yield from _image_sizes(item, *functions, depth - 1)


def _image_bytes(page: Any) -> int:  # noqa: ANN401
    """The stored bytes of the images on a page, without those in forms; none is decoded."""
    items = (
        pdfium_c.FPDFPage_GetObject(page, index)
        for index in range(pdfium_c.FPDFPage_CountObjects(page))
    )
    return sum(
        pdfium_c.FPDFImageObj_GetImageDataRaw(item, None, 0)
        for item in items
        if pdfium_c.FPDFPageObj_GetType(item) == pdfium_c.FPDF_PAGEOBJ_IMAGE
    )


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
    # Pillow uses a buffer of four bytes per pixel in place, and would copy one of three.
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
    # One pixel less than allowed, because both edges are rounded.
    scale = min(dpi / POINTS_PER_INCH, max(1, max_side - 1) / max(*sides_pt, 1e-6))
    width, height = math.ceil(width_pt * scale), math.ceil(height_pt * scale)
    left, top, right, bottom = to_pixels(box, size, (width, height))
    # pypdfium2 takes margins in points and rounds them up to pixels: half a pixel less gives the
    # exact margin.
    margins = [(margin - 0.5) / scale for margin in (left, height - bottom, width - right, top)]
    image = _draw(page, scale, turn, tuple(margins))
    return Crop(encode(image, FIGURE_QUALITY), *image.size)

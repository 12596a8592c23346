"""Rendering image files as upright pages and crops. Each frame of a TIFF is a page."""

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

# The plugins are imported so that Pillow need not load all of its plugins to find WebP and TIFF.
from PIL import Image, ImageOps, JpegImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin
from PIL import UnidentifiedImageError as NoImageError

from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError, PageImage
from llm_ocr.sources.dataset_rows import page_path
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

FORMATS = tuple(
    plugin.format
    for plugin in (
        JpegImagePlugin.JpegImageFile,
        PngImagePlugin.PngImageFile,
        TiffImagePlugin.TiffImageFile,
        WebPImagePlugin.WebPImageFile,
    )
)
# EXIF orientations that turn the page, clockwise. 2 and 4 only mirror it (4 after a half turn).
ROTATIONS = {3: 180, 4: 180, 5: 90, 6: 90, 7: 270, 8: 270}
ORIENTATION, PHOTOMETRIC, WHITE_IS_ZERO = 0x0112, 262, 0
ADVICE = "copy it again or recreate it"
GRAY_RANGES = (255.0, 1023.0, 4095.0, 65_535.0)
# A TIFF stays open for its next frame only if its frames have at most this many pixels.
MAX_OPEN_PIXELS = 16_000_000
# A larger JPEG file is encoded again, even if its image fits a model's page image.
MAX_JPEG_BYTES = 32 << 20
# A JPEG marker, except for an escaped 0xFF and restart markers within the image's data.
_MARKER = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd8]", re.DOTALL)
_END, _APP0, _APP15, _ADOBE, _COMMENT = 0xD9, 0xE0, 0xEF, 0xEE, 0xFE
# Exceptions of Pillow's decoders for damaged files (found by changing bytes of intact ones), in
# addition to an OSError without a number.
DECODER_ERRORS = (SyntaxError, ValueError, TypeError, KeyError, IndexError, EOFError, struct.error)


class ImageFile:
    """An image file. Decodes one page at a time."""

    def __init__(self, path: Path, max_pixels: int, *, keep_metadata: bool = False) -> None:
        self._path, self._max_pixels, self._keep_metadata = path, max_pixels, keep_metadata
        self._image: Image.Image | None = None
        self._number = 0
        with self._errors(ErrorCode.CORRUPT_DOCUMENT, "the image can't be opened"):
            image = self._fresh()
            # The frames of an animation are not pages.
            is_tiff = isinstance(image, TiffImagePlugin.TiffImageFile)
            self.page_count = cast(TiffImagePlugin.TiffImageFile, image).n_frames if is_tiff else 1

    def close(self) -> None:
        if self._image is not None:
            self._image.close()

    def expected_tokens(self, number: int) -> int:
        """About how many tokens the page's text has, by the size of the file."""
        return self._path.stat().st_size // self.page_count // IMAGE_BYTES_PER_TOKEN

    def render(self, number: int, policy: ImagePolicy) -> PageImage:
        """The page upright in RGB, enlarged only as far as the policy wants."""
        page = self._decode(number, policy.longest_side)
        stored = None
        if page.sendable and fit_size(*page.full_size, policy) == page.full_size:
            image, stored = page.image, self._stored_jpeg()
        else:
            image = fit(page.image, policy)
        jpeg = encode(image, policy.jpeg_quality) if stored is None else stored
        return PageImage(jpeg, *image.size, ink_ratio(image), *page.points, page.rotation)

    def _stored_jpeg(self) -> bytes | None:
        """The file's JPEG data without metadata and trailing bytes; None if it can't be parsed."""
        with self._path.open("rb") as file:
            body = file.read(MAX_JPEG_BYTES)
        return strip_metadata(body, keep_metadata=self._keep_metadata)

    def crop(
        self,
        number: int,
        size: tuple[int, int],
        boxes: Sequence[Box],
        dpi: int,
        max_side: int,
        rotation: int | None = None,
    ) -> list[Crop]:
        """Boxes on a page of `size`, cut at the file's own resolution up to `dpi`."""
        page = self._decode(number, None)
        width_pt = page.points[0]
        scale = min(1.0, dpi * width_pt / 72 / page.image.width) if width_pt else 1.0
        image = rotate(page.image, 0 if rotation is None else rotation - page.rotation)
        return [_crop(image, size, box, scale, max_side) for box in boxes]

    def _decode(self, number: int, side: int | None) -> "_Decoded":
        """The page upright in RGB; a JPEG no larger than needed for `side` pixels."""
        with self._errors(ErrorCode.CORRUPT_PAGE, f"page {number} can't be decoded"):
            image = self._at(number)
            self._check_pixels(*image.size)
            stored, dpi, orientation = image.size, image.info.get("dpi"), _orientation(image)
            if side is not None and isinstance(image, JpegImagePlugin.JpegImageFile):
                image.draft(None, _fit_size(stored, side))
            image.load()
            upright = _upright_rgb(image)
            rotation = ROTATIONS.get(orientation, 0)
            sideways = rotation in (90, 270)
            return _Decoded(
                upright,
                rotation,
                # The size of a TIFF is the upright one already, the size of a JPEG is not.
                upright.size if image.size == stored else (stored[::-1] if sideways else stored),
                dpi if dpi is None or not sideways else dpi[::-1],
                sendable=_is_plain_jpeg(image) and orientation == 1,
            )

    def _at(self, number: int) -> Image.Image:
        """The file at a page that is not decoded yet; a file with several frames stays open."""
        # Opened again for the same page: Pillow forgets the orientation once a page is decoded,
        # and can't draft a JPEG at another size.
        image = self._image
        if image is None or number == self._number:
            image = self._fresh()
        image.seek(number - 1)
        keep = self.page_count > 1 and image.width * image.height <= MAX_OPEN_PIXELS
        self._image, self._number = (image, number) if keep else (None, 0)
        return image

    def _fresh(self) -> Image.Image:
        image = Image.open(self._path, formats=FORMATS)
        # Without its name Pillow can't map the file into memory: it garbles an uncompressed TIFF
        # that is stored on its side (13.0), and a file that shrinks meanwhile ends the process.
        image.filename = ""
        return image

    def _check_pixels(self, width: int, height: int) -> None:
        if width * height > self._max_pixels:
            raise PageError(
                ErrorCode.TOO_LARGE,
                f"{self._path}: {width:,} x {height:,} pixels exceed the limit of "
                f"{self._max_pixels:,} (`max_pixels`)",
            )

    @contextmanager
    def _errors(self, code: ErrorCode, what: str) -> Iterator[None]:
        try:
            yield
        except NoImageError as error:
            problem = f"{what}, as it is damaged; {ADVICE}"
            raise PageError(code, f"{self._path}: {problem}") from error
        except (*DECODER_ERRORS, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk's, not the decoder's
            problem = f"{what} ({error}), as it is damaged or cut off; {ADVICE}"
            raise PageError(code, f"{self._path}: {problem}") from error


class MultiImageDocument:
    """A dataset row with several images, or a document of page images: a folder with one image
    file per page, opened one at a time, so that a broken image affects one page only."""

    def __init__(self, folder: Path, max_pixels: int, *, keep_metadata: bool = False) -> None:
        self._folder, self._max_pixels, self._keep_metadata = folder, max_pixels, keep_metadata
        self.page_count = sum(1 for _ in folder.iterdir())

    def close(self) -> None:
        """Nothing to close: no file stays open."""

    def expected_tokens(self, number: int) -> int:
        """As `ImageFile.expected_tokens`; 0 if there is no such image."""
        path = page_path(self._folder, number)
        return path.stat().st_size // IMAGE_BYTES_PER_TOKEN if path.exists() else 0

    def render(self, number: int, policy: ImagePolicy) -> PageImage:
        with self._page(number) as image:
            return image.render(1, policy)

    def crop(
        self,
        number: int,
        size: tuple[int, int],
        boxes: Sequence[Box],
        dpi: int,
        max_side: int,
        rotation: int | None = None,
    ) -> list[Crop]:
        with self._page(number) as image:
            return image.crop(1, size, boxes, dpi, max_side, rotation)

    @contextmanager
    def _page(self, number: int) -> Iterator[ImageFile]:
        path = page_path(self._folder, number)
        try:
            if path.stat().st_size == 0:
                raise PageError(ErrorCode.EMPTY_FILE, f"{path}: the image is empty; leave it out")
            image = ImageFile(path, self._max_pixels, keep_metadata=self._keep_metadata)
            try:
                yield image
            finally:
                image.close()
        except PageError as error:
            # Name the row and the page's number, not the temporary file.
            message = error.message.replace(str(path), f"{self._folder}, image {number}")
            raise PageError(error.code, message) from error


def strip_metadata(jpeg: bytes, *, keep_metadata: bool = False) -> bytes | None:
    """A JPEG without trailing bytes and without segments that don't affect how it looks (EXIF, XMP,
    comments). It is not decoded, and so loses no quality. None if it is truncated or not a JPEG."""
    parts = [jpeg[:2]]
    at = 2
    while marker := _MARKER.search(jpeg, at):
        kind = marker[0][-1]
        begin = marker.start()
        if kind == _END:
            parts += [jpeg[at:begin], marker[0][-2:]]
            return b"".join(parts)
        size = int.from_bytes(jpeg[begin + 2 : begin + 4], "big")
        if size < 2 or begin + 2 + size > len(jpeg):
            return None
        parts.append(jpeg[at:begin])
        at = begin + 2 + size
        segment = jpeg[begin:at]
        is_metadata = (_APP0 < kind <= _APP15 and kind != _ADOBE) or kind == _COMMENT
        is_color = segment[4:].startswith(b"ICC_PROFILE\0")
        if keep_metadata or is_color or not is_metadata:
            parts.append(segment)
    return None


@dataclass(frozen=True)
class _Decoded:
    """An upright page, with the rotation that was applied, its full size in pixels and its
    resolution.

    `sendable`: the file can be sent to a model unchanged, as a plain upright JPEG.
    """

    image: Image.Image
    rotation: int
    full_size: tuple[int, int]
    dpi: tuple[float, float] | None
    sendable: bool

    @property
    def points(self) -> tuple[float | None, float | None]:
        """Width and height of the upright page in points; None without a resolution."""
        if self.dpi is None or not all(float(dpi) > 1 for dpi in self.dpi):
            return None, None
        width, height = (
            side / float(dpi) * 72 for side, dpi in zip(self.full_size, self.dpi, strict=True)
        )
        return width, height


def _orientation(image: Image.Image) -> int:
    orientation = image.getexif().get(ORIENTATION, 1)
    return orientation if orientation in (2, *ROTATIONS) else 1


def _is_plain_jpeg(image: Image.Image) -> bool:
    """Whether it is a baseline JPEG in RGB or gray, which every decoder can read."""
    plain = image.format == "JPEG" and image.mode in ("RGB", "L")
    return plain and "progressive" not in image.info


def _shrink(image: Image.Image, side: int) -> Image.Image:
    if max(image.size) <= side:
        return image
    size = _fit_size(image.size, side)
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def _fit_size(size: tuple[int, int], side: int) -> tuple[int, int]:
    """The size scaled down to a longest side of at most `side`; both sides are at least 1."""
    scale = min(1.0, side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _crop(image: Image.Image, size: tuple[int, int], box: Box, scale: float, max_side: int) -> Crop:
    pixels = to_pixels(box, size, image.size)
    cut = image.crop(pixels)
    side = min(max_side, max(1, round(max(cut.size) * scale)))
    small = _shrink(cut, side)
    return Crop(encode(small, FIGURE_QUALITY), *small.size)


def _upright_rgb(image: Image.Image) -> Image.Image:
    """The image in RGB on white, rotated according to EXIF. Grays of more than 8 bits are scaled to
    8 bits; Pillow would clip them."""
    upright = image if _orientation(image) == 1 else ImageOps.exif_transpose(image)
    if upright.mode.startswith("I") or upright.mode == "F":
        gray = _eight_bits(upright)
        return (ImageOps.invert(gray) if _is_deep_negative(image) else gray).convert("RGB")
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        layer = upright.convert("RGBA")
        background = Image.new("RGB", layer.size, "white")
        background.paste(layer, mask=layer.getchannel("A"))
        return background
    return upright if upright.mode == "RGB" else upright.convert("RGB")


def _is_deep_negative(image: Image.Image) -> bool:
    """Whether it is a TIFF in which white is 0; Pillow inverts those of 1 to 8 bits only."""
    if not isinstance(image, TiffImagePlugin.TiffImageFile):
        return False
    return bool(image.tag_v2.get(PHOTOMETRIC) == WHITE_IS_ZERO)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Gray of 10, 12 or 16 bits, or floats, as 8 bits."""
    wide = image.convert("F")
    low, high = cast(tuple[float, float], wide.getextrema())
    if image.mode == "F":
        bottom, top = (low, high) if high > low else (0.0, 255.0)
    else:
        bottom, top = 0.0, next((limit for limit in GRAY_RANGES if high <= limit), high)
    scale = 255.0 / (top - bottom)
    return wide.point(lambda value: value * scale - bottom * scale).convert("L")

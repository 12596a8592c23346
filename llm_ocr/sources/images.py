"""Rendering image files as upright pages and crops. Each frame of a TIFF is a page."""

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

# The plugins are named so that Pillow need not load all it has to find WebP and TIFF.
from PIL import Image, ImageOps, JpegImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin
from PIL import UnidentifiedImageError as NoImageError

from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError, PageImage
from llm_ocr.sources.dataset_rows import page_path
from llm_ocr.sources.raster import (
    FIGURE_QUALITY,
    Crop,
    encode,
    ink_ratio,
    rotate,
    to_pixels,
    upscale,
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
# A frame of a TIFF with more pixels than this is let go at once, not with the file.
PIXELS_KEPT = 16_000_000
# A JPEG that fits a model's page image, as it is sent, has never more bytes; others are made again.
LARGEST_JPEG = 32 << 20
# A marker of a JPEG: not what within the image's own data stands for an 0xFF or for a restart.
_MARKER = re.compile(rb"\xff[^\x00\x01\xff\xd0-\xd8]", re.DOTALL)
_END, _APP0, _APP15, _ADOBE, _COMMENT = 0xD9, 0xE0, 0xEF, 0xEE, 0xFE
# What Pillow's decoders raise for damaged files (found by changing bytes of good ones), beside an
# OSError without a number.
DECODER_ERRORS = (SyntaxError, ValueError, TypeError, KeyError, IndexError, EOFError, struct.error)


class ImageFile:
    """An image file. Decodes one page at a time."""

    def __init__(self, path: Path, max_pixels: int, *, keep_metadata: bool = False) -> None:
        self._path, self._max_pixels, self._keep_metadata = path, max_pixels, keep_metadata
        self._image: Image.Image | None = None
        self._number = 0
        with self._errors(ErrorCode.CORRUPT_DOCUMENT, "the image can't be opened"):
            image = self._fresh()
            # An animation's frames are no pages.
            is_tiff = isinstance(image, TiffImagePlugin.TiffImageFile)
            self.page_count = cast(TiffImagePlugin.TiffImageFile, image).n_frames if is_tiff else 1

    def close(self) -> None:
        if self._image is not None:
            self._image.close()

    def render(self, number: int, policy: ImagePolicy) -> PageImage:
        """The page upright, RGB, no larger than it is unless the policy wants it so."""
        side = policy.longest_side
        page = self._decode(number, side)
        stored = None
        if page.sendable and policy.smallest_side <= max(page.full_size) <= side:
            image, stored = page.image, self._stored()
        else:
            image = upscale(_shrunk(page.image, side), policy.smallest_side)
        jpeg = encode(image, policy.jpeg_quality) if stored is None else stored
        return PageImage(jpeg, *image.size, ink_ratio(image), *page.points, page.rotation)

    def _stored(self) -> bytes | None:
        """The file's JPEG data without metadata and trailing bytes; None if it can't be parsed."""
        with self._path.open("rb") as file:
            body = file.read(LARGEST_JPEG)
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
        return [_cut(image, size, box, scale, max_side) for box in boxes]

    def _decode(self, number: int, side: int | None) -> "_Decoded":
        """The page upright in RGB; a JPEG no larger than needed for `side` pixels."""
        with self._errors(ErrorCode.CORRUPT_PAGE, f"page {number} can't be decoded"):
            image = self._at(number)
            self._check_pixels(*image.size)
            stored, dpi, orientation = image.size, image.info.get("dpi"), _orientation(image)
            if side is not None and isinstance(image, JpegImagePlugin.JpegImageFile):
                image.draft(None, _fitting(stored, side))
            image.load()
            upright = _upright_rgb(image)
            rotation = ROTATIONS.get(orientation, 0)
            sideways = rotation in (90, 270)
            return _Decoded(
                upright,
                rotation,
                # A TIFF's own size is the upright one already, that of a JPEG is not.
                upright.size if image.size == stored else (stored[::-1] if sideways else stored),
                dpi if dpi is None or not sideways else dpi[::-1],
                sendable=_is_plain_jpeg(image) and orientation == 1,
            )

    def _at(self, number: int) -> Image.Image:
        """The file at a page that is not decoded yet; it is kept where frames are many."""
        # Opened anew for the same page: Pillow forgets the orientation once a page is decoded,
        # and can't draft a JPEG at another size.
        image = self._image
        if image is None or number == self._number:
            image = self._fresh()
        image.seek(number - 1)
        keep = self.page_count > 1 and image.width * image.height <= PIXELS_KEPT
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
                f"{self._max_pixels:,}; raise --max-pixels to read it",
            )

    @contextmanager
    def _errors(self, code: ErrorCode, what: str) -> Iterator[None]:
        try:
            yield
        except NoImageError as error:
            said = f"{what}, as it is damaged; {ADVICE}"
            raise PageError(code, f"{self._path}: {said}") from error
        except (*DECODER_ERRORS, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk's, not the decoder's
            said = f"{what} ({error}), as it is damaged or cut off; {ADVICE}"
            raise PageError(code, f"{self._path}: {said}") from error


class MultiImageDocument:
    """A dataset row with several images: a folder with one image file per page, opened one at a
    time, so that a broken image affects one page only."""

    def __init__(self, folder: Path, max_pixels: int, *, keep_metadata: bool = False) -> None:
        self._folder, self._max_pixels, self._keep_metadata = folder, max_pixels, keep_metadata
        self.page_count = sum(1 for _ in folder.iterdir())

    def close(self) -> None:
        """Nothing to close: no file stays open."""

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
                raise PageError(
                    ErrorCode.EMPTY_FILE, f"{path}: the image is empty; exclude the row"
                )
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
    """A JPEG up to its end, without segments that don't bear on how it looks (EXIF, XMP, comments):
    not decoded, and so not a bit worse. None for what is cut off or no JPEG."""
    kept = [jpeg[:2]]
    at = 2
    while marker := _MARKER.search(jpeg, at):
        kind = marker[0][-1]
        begin = marker.start()
        if kind == _END:
            kept += [jpeg[at:begin], marker[0][-2:]]
            return b"".join(kept)
        size = int.from_bytes(jpeg[begin + 2 : begin + 4], "big")
        if size < 2 or begin + 2 + size > len(jpeg):
            return None
        kept.append(jpeg[at:begin])
        at = begin + 2 + size
        segment = jpeg[begin:at]
        is_metadata = (_APP0 < kind <= _APP15 and kind != _ADOBE) or kind == _COMMENT
        is_color = segment[4:].startswith(b"ICC_PROFILE\0")
        if keep_metadata or is_color or not is_metadata:
            kept.append(segment)
    return None


@dataclass(frozen=True)
class _Decoded:
    """A page, upright; and what its file says of it: the turn, the full size, dots an inch.

    `sendable`: the file's bytes show the page as it is: a plain JPEG, upright.
    """

    image: Image.Image
    rotation: int
    full_size: tuple[int, int]
    dpi: tuple[float, float] | None
    sendable: bool

    @property
    def points(self) -> tuple[float | None, float | None]:
        """Width and height of the upright page in points; None without a resolution."""
        if self.dpi is None or not all(float(one) > 1 for one in self.dpi):
            return None, None
        width, height = (
            side / float(one) * 72 for side, one in zip(self.full_size, self.dpi, strict=True)
        )
        return width, height


def _orientation(image: Image.Image) -> int:
    orientation = image.getexif().get(ORIENTATION, 1)
    return orientation if orientation in (2, *ROTATIONS) else 1


def _is_plain_jpeg(image: Image.Image) -> bool:
    """Baseline, in RGB or gray: what every reader of JPEG understands."""
    plain = image.format == "JPEG" and image.mode in ("RGB", "L")
    return plain and "progressive" not in image.info


def _shrunk(image: Image.Image, side: int) -> Image.Image:
    if max(image.size) <= side:
        return image
    size = _fitting(image.size, side)
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def _fitting(size: tuple[int, int], side: int) -> tuple[int, int]:
    """The size with a longest side of at most `side`, and no side of none."""
    scale = min(1.0, side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _cut(image: Image.Image, size: tuple[int, int], box: Box, scale: float, max_side: int) -> Crop:
    pixels = to_pixels(box, size, image.size)
    cut = image.crop(pixels)
    side = min(max_side, max(1, round(max(cut.size) * scale)))
    small = _shrunk(cut, side)
    return Crop(encode(small, FIGURE_QUALITY), *small.size)


def _upright_rgb(image: Image.Image) -> Image.Image:
    """RGB on white, turned as EXIF says; deep grays become 8 bits by scaling, not by clipping."""
    upright = image if _orientation(image) == 1 else ImageOps.exif_transpose(image)
    if upright.mode.startswith("I") or upright.mode == "F":
        gray = _eight_bits(upright)
        return (ImageOps.invert(gray) if _is_deep_negative(image) else gray).convert("RGB")
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        layer = upright.convert("RGBA")
        paper = Image.new("RGB", layer.size, "white")
        paper.paste(layer, mask=layer.getchannel("A"))
        return paper
    return upright if upright.mode == "RGB" else upright.convert("RGB")


def _is_deep_negative(image: Image.Image) -> bool:
    """Pillow turns negatives of 1 to 8 bits over, and leaves those of 16 bits."""
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
        bottom, top = 0.0, next((one for one in GRAY_RANGES if high <= one), high)
    scale = 255.0 / (top - bottom)
    return wide.point(lambda value: value * scale - bottom * scale).convert("L")

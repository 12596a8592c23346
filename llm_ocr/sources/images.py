"""Image files -> upright pages and crops. A TIFF's frames are its pages."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from PIL import Image, ImageOps, UnidentifiedImageError

from llm_ocr.records import Box, ErrorCode, ImagePolicy, PageError, PageImage
from llm_ocr.sources.raster import Crop, encode, ink

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF")
ROTATIONS = {3: 180, 4: 180, 5: 90, 6: 90, 7: 270, 8: 270}
MIRRORED_OR_TURNED = range(2, 9)
ORIENTATION = 0x0112
GREY_RANGES = (255.0, 1023.0, 4095.0, 65_535.0)
FIGURE_QUALITY = 92
ADVICE = "copy or make it again"

# Pages are bounded by `RenderLimits.max_pixels`, which is checked before anything is decoded.
Image.MAX_IMAGE_PIXELS = None


class ImageFile:
    """An open image file. Decodes one page at a time."""

    def __init__(self, path: Path, max_pixels: int) -> None:
        self._path, self._max_pixels = path, max_pixels
        with self._errors(ErrorCode.CORRUPT_DOCUMENT, "the image can't be opened"):
            self._image = Image.open(path, formats=FORMATS)
            self.page_count = int(getattr(self._image, "n_frames", 1))
        if self._image.format != "TIFF":
            self.page_count = 1  # an animation's frames are no pages

    def close(self) -> None:
        self._image.close()

    def render(self, number: int, policy: ImagePolicy) -> PageImage:
        """The page upright, RGB, never larger than it is nor than the policy wants."""
        side = policy.longest_side
        page = self._decode(number, side)
        image = page.image
        if max(image.size) > side:
            image.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=2.0)
        sendable = page.is_plain_jpeg and image.size == page.full_size
        jpeg = self._path.read_bytes() if sendable else encode(image, policy.jpeg_quality)
        return PageImage(jpeg, *image.size, ink(image), *page.points, page.rotation)

    def crop(
        self, number: int, size: tuple[int, int], boxes: Sequence[Box], dpi: int, max_side: int
    ) -> list[Crop]:
        """Boxes on a page rendered at `size`, cut at the file's own resolution up to `dpi`."""
        page = self._decode(number, None)
        width_pt = page.points[0]
        scale = min(1.0, dpi * width_pt / 72 / page.image.width) if width_pt else 1.0
        return [_cut(page.image, size, box, scale, max_side) for box in boxes]

    def _decode(self, number: int, side: int | None) -> "_Decoded":
        """The page upright in RGB; a JPEG no larger than needed for `side` pixels."""
        with self._errors(ErrorCode.CORRUPT_PAGE, f"page {number} can't be decoded"):
            if self._image.format == "JPEG":
                # Opened anew: one that was decoded can't be drafted at another size.
                self._image.close()
                self._image = Image.open(self._path, formats=FORMATS)
            self._image.seek(number - 1)
            self._check_pixels()
            full, dpi = self._image.size, self._image.info.get("dpi")
            orientation = self._image.getexif().get(ORIENTATION, 1)
            if self._image.format == "JPEG" and side is not None:
                self._image.draft(None, (side, side))
            self._image.load()
            plain = self._image.format == "JPEG" and self._image.mode in ("RGB", "L")
            return _Decoded(_upright_rgb(self._image), orientation, full, dpi, plain)

    def _check_pixels(self) -> None:
        width, height = self._image.size
        if width * height > self._max_pixels:
            raise PageError(
                ErrorCode.TOO_LARGE,
                f"{self._path}: {width:,} x {height:,} pixels are more than the "
                f"{self._max_pixels:,} that are decoded; raise --max-pixels to read it",
            )

    @contextmanager
    def _errors(self, code: ErrorCode, what: str) -> Iterator[None]:
        try:
            yield
        except UnidentifiedImageError as error:
            raise PageError(code, f"{self._path}: {what}, as it is damaged; {ADVICE}") from error
        except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
            message = f"{self._path}: {what} ({error}), as it is damaged or cut off; {ADVICE}"
            raise PageError(code, message) from error


@dataclass(frozen=True)
class _Decoded:
    """A page, upright; and its file's EXIF orientation, size and dots an inch, as stored."""

    image: Image.Image
    orientation: int
    full_size: tuple[int, int]
    dpi: tuple[float, float] | None
    plain_jpeg: bool

    @property
    def is_plain_jpeg(self) -> bool:
        """Whether the file's bytes show the page as it is: upright, in RGB or grey."""
        return self.plain_jpeg and self.orientation not in MIRRORED_OR_TURNED

    @property
    def rotation(self) -> int:
        return ROTATIONS.get(self.orientation, 0)

    @property
    def points(self) -> tuple[float | None, float | None]:
        """Width and height of the upright page in points; None without a resolution."""
        if self.dpi is None or min(self.dpi) <= 1:
            return None, None
        width, height = (
            side / float(one) * 72 for side, one in zip(self.full_size, self.dpi, strict=True)
        )
        return (height, width) if self.rotation in (90, 270) else (width, height)


def _cut(image: Image.Image, size: tuple[int, int], box: Box, scale: float, max_side: int) -> Crop:
    x, y = image.width / size[0], image.height / size[1]
    left, top = int(box.x1 * x), int(box.y1 * y)
    right, bottom = max(left + 1, round(box.x2 * x)), max(top + 1, round(box.y2 * y))
    cut = image.crop((left, top, right, bottom))
    side = min(max_side, max(1, round(max(cut.size) * scale)))
    if max(cut.size) > side:
        cut.thumbnail((side, side), Image.Resampling.LANCZOS)
    return Crop(encode(cut, FIGURE_QUALITY), *cut.size)


def _upright_rgb(image: Image.Image) -> Image.Image:
    """RGB on white, turned as EXIF says; deep greys become 8 bits by scaling, not by clipping."""
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I") or upright.mode == "F":
        return _eight_bits(upright).convert("RGB")
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        layer = upright.convert("RGBA")
        paper = Image.new("RGB", layer.size, "white")
        paper.paste(layer, mask=layer.getchannel("A"))
        return paper
    return upright.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Grey of 10, 12 or 16 bits, or floats, as 8 bits."""
    wide = image.convert("F")
    low, high = cast(tuple[float, float], wide.getextrema())
    if image.mode == "F":
        bottom, top = (low, high) if high > low else (0.0, 255.0)
    else:
        bottom, top = 0.0, next((one for one in GREY_RANGES if high <= one), high)
    scale = 255.0 / (top - bottom)
    return wide.point(lambda value: value * scale - bottom * scale).convert("L")

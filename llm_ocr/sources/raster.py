"""Operations on page images: JPEG encoding, scaling, rotation, ink ratio, crops."""

import io
import math
from dataclasses import dataclass

from PIL import Image

from llm_ocr.records import Box, ImagePolicy

FIGURE_QUALITY = 92
# Pages with a lower ink ratio than this are blank: about 40 pixels of a page of 1,400 x 1,900, less
# than one printed digit.
BLANK_INK = 1.5e-5
# The least difference between the luminances of ink and background.
INK_CONTRAST = 48
# Bytes of address space for a worker: it has about 300 MB before it renders anything (60 of them in
# use), and holds two copies of the largest image during a conversion.
BASE_MEMORY, MEMORY_PER_PIXEL = 512 << 20, 8


@dataclass(frozen=True)
class Crop:
    """A part of a page as a JPEG of `width` x `height` pixels."""

    jpeg: bytes
    width: int
    height: int


@dataclass(frozen=True)
class RenderLimits:
    """Limits for rendering a page.

    `max_pixels` limits the decoded pixels of a page's images, which are estimated before any is
    decoded; `timeout` is in seconds; `max_figure_side` is a crop's longest side in pixels. `memory`
    is the address space of a rendering process in bytes. `keep_metadata`: a JPEG that is stored
    unchanged keeps its EXIF and other metadata.
    """

    max_pixels: int = 178_956_970
    timeout: float = 120.0
    max_figure_side: int = 4096
    keep_metadata: bool = False

    @property
    def memory(self) -> int:
        return BASE_MEMORY + MEMORY_PER_PIXEL * self.max_pixels


def encode(image: Image.Image, quality: int) -> bytes:
    """An RGB (or RGBX) image as JPEG."""
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=quality)
    return sink.getvalue()


def fit_size(width: int, height: int, policy: ImagePolicy) -> tuple[int, int]:
    """The size of an image of `width` x `height` pixels after it was fitted to a policy."""
    side = max(width, height)
    scale = min(max(side, policy.smallest_side), policy.longest_side) / side
    return max(1, round(width * scale)), max(1, round(height * scale))


def upscale(image: Image.Image, smallest_side: int) -> Image.Image:
    """The image, enlarged if needed to a longest side of `smallest_side` pixels."""
    scale = smallest_side / max(image.size)
    if scale <= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BICUBIC)


QUARTERS = {
    90: Image.Transpose.ROTATE_270,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}


def rotate(image: Image.Image, degrees: int) -> Image.Image:
    """The image rotated clockwise by a multiple of 90 degrees."""
    turn = QUARTERS.get(degrees % 360)
    return image if turn is None else image.transpose(turn)


def ink_ratio(image: Image.Image) -> float:
    """The share of pixels (0..1) whose luminance is far from the most frequent one."""
    # Every third pixel of every third row is enough, and nine times as fast.
    size = (max(1, image.width // 3), max(1, image.height // 3))
    counts = image.resize(size, Image.Resampling.NEAREST).convert("L").histogram()
    paper = counts.index(max(counts))
    low, high = max(0, paper - INK_CONTRAST), paper + INK_CONTRAST + 1
    return 1 - sum(counts[low:high]) / (size[0] * size[1])


def to_pixels(box: Box, size: tuple[int, int], full: tuple[int, int]) -> tuple[int, int, int, int]:
    """A box on an image of `size` in whole pixels of an image of size `full`: inside it, and at
    least one pixel."""
    left, right = _span(box.x1, box.x2, full[0] / size[0], full[0])
    top, bottom = _span(box.y1, box.y2, full[1] / size[1], full[1])
    return left, top, right, bottom


def _span(start: float, end: float, scale: float, limit: int) -> tuple[int, int]:
    first = min(max(0, math.floor(start * scale + 0.5)), limit - 1)
    return first, min(max(first + 1, math.floor(end * scale + 0.5)), limit)

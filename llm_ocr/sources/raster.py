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
# Stored bytes of a page's image for each token of its text: a scan of 200 KB has about 1,000. Only
# the order of pages depends on it, in which factors of two count.
IMAGE_BYTES_PER_TOKEN = 200
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


def fit_size(
    width: float, height: float, policy: ImagePolicy, *, fills: bool = False
) -> tuple[int, int]:
    """The size of an image of `width` x `height` pixels after it was fitted to a policy; with
    `fills`, that of a page that is drawn and may be of any size: as large as the policy allows."""
    side = max(width, height)
    least = policy.longest_side if fills else policy.smallest_side
    scale = min(max(side, least), policy.longest_side) / side
    area = width * height * scale**2
    if policy.max_pixels and area > policy.max_pixels:
        scale *= math.sqrt(policy.max_pixels / area)
    elif area < policy.min_pixels:
        scale = min(scale * math.sqrt(policy.min_pixels / area), policy.longest_side / side)
    unit = policy.multiple_of
    if unit == 1:
        return max(1, round(width * scale)), max(1, round(height * scale))
    units = [max(1, round(length * scale / unit)) for length in (width, height)]
    area = units[0] * units[1] * unit**2
    if max(units) * unit > policy.longest_side or 0 < policy.max_pixels < area:
        units = [max(1, math.floor(length * scale / unit)) for length in (width, height)]
    return units[0] * unit, units[1] * unit


def fit(image: Image.Image, policy: ImagePolicy) -> Image.Image:
    """The image at the size that fits the policy."""
    size = fit_size(*image.size, policy)
    if size == image.size:
        return image
    if size[0] > image.width:
        return image.resize(size, Image.Resampling.BICUBIC)
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def squeeze(jpeg: bytes, side: int, quality: int) -> bytes:
    """An image as a square JPEG, whatever its proportions."""
    with Image.open(io.BytesIO(jpeg)) as stored:
        image = stored.convert("RGB")
    return encode(image.resize((side, side), Image.Resampling.BICUBIC), quality)


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

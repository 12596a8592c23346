"""Pixels of a page, whatever drew them: JPEG encoding, ink, crops."""

import io
from dataclasses import dataclass

from PIL import Image

# How far from the background's luminance a pixel must be to count as ink.
INK_CONTRAST = 48


@dataclass(frozen=True)
class Crop:
    """A part of a page as a JPEG of `width` x `height` pixels."""

    jpeg: bytes
    width: int
    height: int


@dataclass(frozen=True)
class RenderLimits:
    """Bounds on drawing a page: pixels that its images may decode to, seconds, a crop's side."""

    max_pixels: int = 178_956_970
    timeout: float = 120.0
    max_figure_side: int = 4096


def encode(image: Image.Image, quality: int) -> bytes:
    """An RGB image as JPEG."""
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=quality)
    return sink.getvalue()


def ink(image: Image.Image) -> float:
    """The share of pixels (0..1) whose luminance is far from the commonest one."""
    # Every third pixel of every third row is enough to tell, and nine times as fast.
    size = (max(1, image.width // 3), max(1, image.height // 3))
    counts = image.resize(size, Image.Resampling.NEAREST).convert("L").histogram()
    paper = counts.index(max(counts))
    low, high = max(0, paper - INK_CONTRAST), paper + INK_CONTRAST + 1
    return 1 - sum(counts[low:high]) / (size[0] * size[1])

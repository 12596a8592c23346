"""A page image as a model is shown it at a second look: smaller, or in strips between its lines."""

import io
from array import array
from dataclasses import dataclass
from itertools import pairwise

from PIL import Image, ImageChops

from llm_ocr.records import ImagePolicy
from llm_ocr.sources.raster import BLANK_INK, encode, enlarged, ink

# How far from the even cut a gap between lines is looked for, as a share of the page's height.
REACH = 0.06


@dataclass(frozen=True)
class Strip:
    """A part of the page over its whole width: a JPEG of `width` x `height` pixels, `scale` pixels
    of the page to one of its own, that begins at the page's row `top`."""

    jpeg: bytes
    width: int
    height: int
    top: int
    scale: float


def cut(jpeg: bytes, policy: ImagePolicy, *, scale: float = 1.0, bands: int = 1) -> list[Strip]:
    """The page at `scale`, in `bands` strips from top to bottom that cut no line if they can.

    Strips on which there is nothing are left out: a model invents what it does not see.
    """
    with Image.open(io.BytesIO(jpeg)) as stored:
        page = stored.convert("RGB")
    rows = [0, *_gaps(page, bands), page.height]
    edges = [(top, bottom) for top, bottom in pairwise(rows) if bottom > top]
    parts = [(top, page.crop((0, top, page.width, bottom))) for top, bottom in edges]
    inked = [(top, part) for top, part in parts if ink(part) >= BLANK_INK]
    return [_strip(part, top, scale, policy) for top, part in inked or parts]


def _strip(part: Image.Image, top: int, scale: float, policy: ImagePolicy) -> Strip:
    size = (max(1, round(part.width * scale)), max(1, round(part.height * scale)))
    shown = part if scale == 1.0 else part.resize(size, Image.Resampling.LANCZOS)
    shown = enlarged(shown, policy.smallest_side)
    jpeg = encode(shown, policy.jpeg_quality)
    return Strip(jpeg, *shown.size, top, part.width / shown.width)


def _gaps(page: Image.Image, bands: int) -> list[int]:
    """The rows at which to cut: the emptiest within reach of each even cut, or the nearest such."""
    # One column of what changes along each row: nothing does in a gap, be the paper light or dark.
    gray = page.convert("L")
    edges = ImageChops.difference(gray, ImageChops.offset(gray, 1, 0))
    means = edges.convert("F").resize((1, page.height), Image.Resampling.BOX)
    busy = array("f", means.tobytes())
    reach = int(page.height * REACH)
    cuts: list[int] = []
    for k in range(1, bands):
        even = page.height * k // bands
        near = range(max(1, even - reach), min(page.height - 1, even + reach) + 1)
        cuts.append(min(near, key=lambda row: (round(busy[row], 1), abs(row - even)), default=even))
    return cuts

"""Pages as a scanner would have made them of paper: images alone."""

import io
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
from PIL import Image, ImageFilter
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from benchmarks.pages.truth import Box, TruePage

DPI, JPEG_QUALITY, MOST_SKEW = 150, 45, 0.6
_ID = re.compile(rb"/ID\[<([0-9A-F]+)><[0-9A-F]+>\]")
# Enough for small print, and for pages that are small themselves.
IMAGES_DPI, IMAGES_SIDE = 200, 2400


def scanned(page: TruePage, pdf: bytes, chance: random.Random) -> tuple[TruePage, bytes]:
    """The page as an image in a PDF, with its boxes where the skew put them."""
    degrees = chance.uniform(-MOST_SKEW, MOST_SKEW)
    image = _rendered(pdf)
    paper = tuple(int(value) for value in np.asarray(image)[2, 2])
    image = image.rotate(-degrees, Image.Resampling.BICUBIC, fillcolor=paper)
    image = image.filter(ImageFilter.GaussianBlur(chance.uniform(0.4, 0.8)))
    if chance.random() < 0.6:
        image = image.convert("L").convert("RGB")
    data = io.BytesIO()
    _lit(image, chance).save(data, "JPEG", quality=JPEG_QUALITY, dpi=(DPI, DPI))
    boxes = [_turned(part.box, degrees, page) for block in page.blocks for part in block.parts]
    return page.moved(boxes), image_pdf(data.getvalue(), page.width, page.height)


def _rendered(pdf: bytes) -> Image.Image:
    document = pdfium.PdfDocument(pdf)
    image: Image.Image = document[0].render(scale=DPI / 72, rev_byteorder=True).to_pil()
    return image.convert("RGB")


def _lit(image: Image.Image, chance: random.Random) -> Image.Image:
    """Uneven light over the page, paper that isn't white, and noise."""
    noise = np.random.default_rng(chance.randrange(2**32))
    pixels = np.asarray(image, dtype=np.float32)
    high, wide = pixels.shape[:2]
    rows, columns = np.mgrid[0:high, 0:wide].astype(np.float32)
    angle = chance.uniform(0, 2 * math.pi)
    slope = (columns / wide - 0.5) * math.cos(angle) + (rows / high - 0.5) * math.sin(angle)
    light = 1.0 - chance.uniform(0.02, 0.2) * (slope + 0.5)
    tint = np.array([1.0, chance.uniform(0.97, 1.0), chance.uniform(0.92, 1.0)], np.float32)
    grain = noise.normal(0, chance.uniform(2.5, 8.0), (high, wide, 1)).astype(np.float32)
    seen = pixels * light[:, :, None] * tint + grain
    return Image.fromarray(np.clip(seen, 0, 255).astype(np.uint8))


def _turned(box: Box, degrees: float, page: TruePage) -> Box:
    """A box's hull after a turn around the page's middle, clockwise as it is seen."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    middle_x, middle_y = page.width / 2, page.height / 2
    corners = [(x - middle_x, y - middle_y) for x in box[::2] for y in box[1::2]]
    xs = [round(middle_x + x * cos - y * sin, 2) for x, y in corners]
    ys = [round(middle_y + x * sin + y * cos, 2) for x, y in corners]
    return min(xs), min(ys), max(xs), max(ys)


def as_images(path: Path) -> bytes:
    """A PDF's pages as images without loss, and nothing else."""
    data = io.BytesIO()
    canvas = Canvas(data, invariant=1)
    for page in pdfium.PdfDocument(path):
        wide, high = page.get_size()
        scale = max(IMAGES_DPI / 72, IMAGES_SIDE / max(wide, high))
        image = page.render(scale=scale, rev_byteorder=True).to_pil().convert("RGB")
        canvas.setPageSize((wide, high))
        canvas.drawImage(ImageReader(image), 0, 0, wide, high)
        canvas.showPage()
    canvas.save()
    return data.getvalue()


def image_pdf(jpeg: bytes, wide: float, high: float) -> bytes:
    """A PDF whose only page is this image."""
    data = io.BytesIO()
    canvas = Canvas(data, pagesize=(wide, high), invariant=1)
    canvas.drawImage(ImageReader(io.BytesIO(jpeg)), 0, 0, wide, high)
    canvas.showPage()
    canvas.save()
    return data.getvalue()


def turned(page: TruePage, pdf: bytes, degrees: int) -> tuple[TruePage, bytes]:
    """The page as it comes when the paper lay turned: shown by so many degrees clockwise.

    The boxes stay those of the upright page.
    """
    document = pdfium.PdfDocument(pdf)
    document[0].set_rotation(degrees)
    data = io.BytesIO()
    document.save(data)
    # pdfium gives the file another second ID each time.
    return replace(page, turned=degrees), _ID.sub(rb"/ID[<\1><\1>]", data.getvalue())

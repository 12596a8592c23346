"""Tile and rotate page images for a model, and map its boxes back to the stored page image."""

import io
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from PIL import Image, ImageChops

from llm_ocr.inference.model_item import PromptRequest
from llm_ocr.inference.responses import Answer
from llm_ocr.models.profile import ModelProfile
from llm_ocr.records import Box, ImagePolicy, PageImage, ParsedAnswer
from llm_ocr.sources.raster import BLANK_INK, encode, fit, ink_ratio, rotate

# How far from the even cut a gap between lines is looked for, as a share of the page's height.
REACH = 0.06


@dataclass(frozen=True)
class Tile:
    """A part of the page over its whole width: a JPEG of `width` x `height` pixels, each `scale`
    pixels of the page, from the page's row `top`."""

    jpeg: bytes
    width: int
    height: int
    top: int
    scale: float


def tile_page(
    jpeg: bytes, policy: ImagePolicy, *, scale: float = 1.0, bands: int = 1
) -> list[Tile]:
    """The page at `scale`, in `bands` strips from top to bottom that cut no line if they can.

    Strips on which there is nothing are left out: a model invents what it does not see.
    """
    with Image.open(io.BytesIO(jpeg)) as stored:
        page = stored.convert("RGB")
    rows = [0, *_gaps(page, bands), page.height]
    edges = [(top, bottom) for top, bottom in pairwise(rows) if bottom > top]
    parts = [(top, page.crop((0, top, page.width, bottom))) for top, bottom in edges]
    inked = [(top, part) for top, part in parts if ink_ratio(part) >= BLANK_INK]
    return [_strip(part, top, scale, policy) for top, part in inked or parts]


def _strip(part: Image.Image, top: int, scale: float, policy: ImagePolicy) -> Tile:
    size = (max(1, round(part.width * scale)), max(1, round(part.height * scale)))
    shown = part if scale == 1.0 else part.resize(size, Image.Resampling.LANCZOS)
    # Of a low strip, rounded sides would change the proportions.
    shown = fit(shown, replace(policy, multiple_of=1))
    jpeg = encode(shown, policy.jpeg_quality)
    return Tile(jpeg, *shown.size, top, part.width / shown.width)


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


def to_page_coordinates(
    profile: ModelProfile, question: PromptRequest, answer: Answer
) -> ParsedAnswer:
    """The answer's blocks, with boxes in pixels of the stored page image."""
    parsed = profile.read(answer.text, question.width, question.height)
    blocks = [replace(one, box=_moved(one.box, question)) for one in parsed.blocks]
    return ParsedAnswer(tuple(blocks), parsed.notes)


def merge_tiles(parts: Iterable[ParsedAnswer]) -> ParsedAnswer:
    """The blocks of all parts in order, and each note once."""
    several = list(parts)
    notes = dict.fromkeys(note for part in several for note in part.notes)
    return ParsedAnswer(tuple(block for part in several for block in part.blocks), tuple(notes))


def _moved(box: Box | None, question: PromptRequest) -> Box | None:
    if box is None:
        return None
    scale, top = question.scale, question.top
    return Box(box.x1 * scale, box.y1 * scale + top, box.x2 * scale, box.y2 * scale + top)


def swap_sides(question: PromptRequest) -> PromptRequest:
    """The question as if its image had been sent turned by a quarter."""
    return replace(question, width=question.height, height=question.width)


def rotate_page(page: PageImage, degrees: int, quality: int) -> PageImage:
    """The page rotated clockwise by 90, 180 or 270 degrees, and encoded again."""
    with Image.open(io.BytesIO(page.jpeg)) as stored:
        image = rotate(stored.convert("RGB"), degrees)
    points = (page.width_pt, page.height_pt)
    width_pt, height_pt = points if degrees % 180 == 0 else points[::-1]
    return replace(
        page,
        jpeg=encode(image, quality),
        width=image.width,
        height=image.height,
        width_pt=width_pt,
        height_pt=height_pt,
        rotation=(page.rotation + degrees) % 360,
    )

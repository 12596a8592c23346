"""Ink on a page's image that no block covers: text that may have been passed over."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image, ImageChops, ImageDraw

from llm_ocr.records import Box
from llm_ocr.sources.raster import INK_CONTRAST

# Longest side of the picture that ink is counted on, and of a cell of it, in pixels.
SIDE = 800
CELL = 8
# What is wider than so many pixels of it is no stroke of a letter, but a ground, or a shade.
WIDEST_STROKE = 12
# How far from its block a letter's ink may reach, as a share of the longest side.
MARGIN = 0.006
# The share of a cell's pixels that makes it inked.
INKED = 0.04
# A region is told from this share of the page's ink on; thinner ones are rules, or a scan's edge.
LEAST_SHARE = 0.01
THINNEST = 0.008

Pick = Callable[[Image.Image, Image.Image], Image.Image]


@dataclass(frozen=True)
class Coverage:
    """The share of a page's ink (0..1) that blocks cover, and the regions that they don't, in
    pixels of the stored image, largest first. 1 for a page without ink."""

    share: float
    regions: tuple[Box, ...] = ()


def coverage(jpeg: bytes, blocks: Sequence[Box]) -> Coverage:
    """How much of a page's ink lies in blocks. Raises OSError for a damaged image."""
    with Image.open(io.BytesIO(jpeg)) as picture:
        full = picture.size
        picture.draft("L", (SIDE, SIDE))
        gray = picture.convert("L")
    gray.thumbnail((SIDE, SIDE))
    mask = _ink(gray)
    total = _count(mask)
    if not total:
        return Coverage(1.0)
    across, down = gray.width / full[0], gray.height / full[1]
    draw, margin = ImageDraw.Draw(mask), MARGIN * max(gray.size)
    for box in blocks:
        corners = box.x1 * across - margin, box.y1 * down - margin
        draw.rectangle((*corners, box.x2 * across + margin, box.y2 * down + margin), fill=0)
    regions = _regions(mask, total)
    left = sum(count for _, count in regions)
    boxes = (Box(x1 / across, y1 / down, x2 / across, y2 / down) for (x1, y1, x2, y2), _ in regions)
    return Coverage(1 - left / total, tuple(boxes))


def _ink(gray: Image.Image) -> Image.Image:
    """White where there are strokes, dark on light or light on dark: what goes away when all light
    parts grow and shrink again, or all dark ones. Grounds and shades don't."""
    lighter, darker = ImageChops.lighter, ImageChops.darker
    on_light = ImageChops.subtract(_spread(_spread(gray, lighter, 1), darker, -1), gray)
    on_dark = ImageChops.subtract(gray, _spread(_spread(gray, darker, 1), lighter, -1))
    strokes = ImageChops.lighter(on_light, on_dark)
    return strokes.point([255 if value > INK_CONTRAST else 0 for value in range(256)])


def _spread(image: Image.Image, pick: Pick, way: int) -> Image.Image:
    """Each pixel as the lightest, or darkest, of those up to `WIDEST_STROKE` away to one side."""
    for across, down in ((way, 0), (0, way)):
        reach = 0
        while reach < WIDEST_STROKE:
            step = min(reach + 1, WIDEST_STROKE - reach)
            image = pick(image, ImageChops.offset(image, step * across, step * down))
            reach += step
    return image


def _count(mask: Image.Image) -> int:
    return mask.histogram()[255]


Corners = tuple[int, int, int, int]


def _regions(mask: Image.Image, total: int) -> list[tuple[Corners, int]]:
    """What is left of the ink, in regions of cells that touch, with their inked pixels; without
    specks, rules, and what lies along the image's edge."""
    cells = mask.reduce(CELL)
    inked = {
        (k % cells.width, k // cells.width)
        for k, value in enumerate(cells.tobytes())
        if value > 255 * INKED
    }
    found: list[tuple[Corners, int]] = []
    thinnest = THINNEST * max(mask.size)
    while inked:
        corners = _bounds(_touching(inked), mask.size)
        part = mask.crop(corners)
        count, inner = _count(part), part.getbbox()
        if inner is None or count < LEAST_SHARE * total:
            continue
        width, height = inner[2] - inner[0], inner[3] - inner[1]
        if min(width, height) >= thinnest and not _is_edge(corners, mask.size):
            found.append((corners, count))
    return sorted(found, key=lambda region: -region[1])


def _touching(inked: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """The cells of one region, taken out of `inked`; cells may be one apart, as words are."""
    waiting = [inked.pop()]
    region: list[tuple[int, int]] = []
    while waiting:
        column, row = waiting.pop()
        region.append((column, row))
        near = {(column + x, row + y) for x in (-2, -1, 0, 1, 2) for y in (-2, -1, 0, 1, 2)}
        waiting += near & inked
        inked -= near
    return region


def _bounds(region: Sequence[tuple[int, int]], size: tuple[int, int]) -> Corners:
    columns, rows = [cell[0] for cell in region], [cell[1] for cell in region]
    right, bottom = (max(columns) + 1) * CELL, (max(rows) + 1) * CELL
    return min(columns) * CELL, min(rows) * CELL, min(right, size[0]), min(bottom, size[1])


def _is_edge(corners: Corners, size: tuple[int, int]) -> bool:
    """Whether it is the shadow that a scanner leaves along a side."""
    x1, y1, x2, y2 = corners
    narrow, low = x2 - x1 < 0.05 * size[0], y2 - y1 < 0.05 * size[1]
    return (narrow and (x1 <= CELL or x2 >= size[0] - CELL)) or (
        low and (y1 <= CELL or y2 >= size[1] - CELL)
    )

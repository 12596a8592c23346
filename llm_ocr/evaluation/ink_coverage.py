"""Measure ink on a page image that no block covers: text that may have been missed."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image, ImageChops, ImageDraw

from llm_ocr.records import Box
from llm_ocr.sources.raster import INK_CONTRAST

# Longest side of the downscaled image in which ink is measured, and the side of a cell, in pixels.
SIDE = 800
CELL = 8
# Wider shapes (in pixels of it) are backgrounds or shades, not strokes of letters.
MAX_STROKE_WIDTH = 12
# How far ink may extend beyond its block, as a share of the longest side.
MARGIN = 0.006
# The share of inked pixels from which on a cell counts as inked.
MIN_CELL_INK = 0.04
# Regions with less of the page's ink are ignored; thinner ones are rules or edges of a scan.
MIN_REGION_INK = 0.01
MIN_REGION_SIDE = 0.008

Pick = Callable[[Image.Image, Image.Image], Image.Image]


@dataclass(frozen=True)
class InkCoverage:
    """The share of a page's ink (0..1) within blocks, 1 for a page without ink, and the regions of
    ink outside of blocks, in pixels of the stored image, largest first."""

    share: float
    regions: tuple[Box, ...] = ()


def measure_ink_coverage(jpeg: bytes, blocks: Sequence[Box]) -> InkCoverage:
    """Measure how much of a page's ink is within blocks. Raises OSError for a damaged image."""
    with Image.open(io.BytesIO(jpeg)) as picture:
        full = picture.size
        picture.draft("L", (SIDE, SIDE))
        gray = picture.convert("L")
    gray.thumbnail((SIDE, SIDE))
    mask = _ink_mask(gray)
    total = _count_ink(mask)
    if not total:
        return InkCoverage(1.0)
    across, down = gray.width / full[0], gray.height / full[1]
    draw, margin = ImageDraw.Draw(mask), MARGIN * max(gray.size)
    for box in blocks:
        corners = box.x1 * across - margin, box.y1 * down - margin
        draw.rectangle((*corners, box.x2 * across + margin, box.y2 * down + margin), fill=0)
    regions = _regions(mask, total)
    uncovered = sum(count for _, count in regions)
    boxes = (Box(x1 / across, y1 / down, x2 / across, y2 / down) for (x1, y1, x2, y2), _ in regions)
    return InkCoverage(1 - uncovered / total, tuple(boxes))


def _ink_mask(gray: Image.Image) -> Image.Image:
    """A mask of strokes, dark on light or light on dark: shapes that disappear in a morphological
    closing or opening. Backgrounds and shades don't."""
    lighter, darker = ImageChops.lighter, ImageChops.darker
    on_light = ImageChops.subtract(
        _spread_pixels(_spread_pixels(gray, lighter, 1), darker, -1), gray
    )
    on_dark = ImageChops.subtract(
        gray, _spread_pixels(_spread_pixels(gray, darker, 1), lighter, -1)
    )
    strokes = ImageChops.lighter(on_light, on_dark)
    return strokes.point([255 if value > INK_CONTRAST else 0 for value in range(256)])


def _spread_pixels(image: Image.Image, pick: Pick, direction: int) -> Image.Image:
    """Replace each pixel by the lightest (or darkest) one up to `MAX_STROKE_WIDTH` away in one
    direction."""
    for across, down in ((direction, 0), (0, direction)):
        reach = 0
        while reach < MAX_STROKE_WIDTH:
            step = min(reach + 1, MAX_STROKE_WIDTH - reach)
            image = pick(image, ImageChops.offset(image, step * across, step * down))
            reach += step
    return image


def _count_ink(mask: Image.Image) -> int:
    return mask.histogram()[255]


Corners = tuple[int, int, int, int]


def _regions(mask: Image.Image, total: int) -> list[tuple[Corners, int]]:
    """The regions of connected cells with ink, and their inked pixels; without specks, rules, and
    what runs along an edge of the image."""
    cells = mask.reduce(CELL)
    inked = {
        (k % cells.width, k // cells.width)
        for k, value in enumerate(cells.tobytes())
        if value > 255 * MIN_CELL_INK
    }
    found: list[tuple[Corners, int]] = []
    min_side = MIN_REGION_SIDE * max(mask.size)
    while inked:
        corners = _bounds(_take_region(inked), mask.size)
        part = mask.crop(corners)
        count, inner = _count_ink(part), part.getbbox()
        if inner is None or count < MIN_REGION_INK * total:
            continue
        width, height = inner[2] - inner[0], inner[3] - inner[1]
        if min(width, height) >= min_side and not _is_edge(corners, mask.size):
            found.append((corners, count))
    return sorted(found, key=lambda region: -region[1])


def _take_region(inked: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Remove one region from `inked` and return its cells; gaps of one cell connect, as between
    words."""
    pending = [inked.pop()]
    region: list[tuple[int, int]] = []
    while pending:
        column, row = pending.pop()
        region.append((column, row))
        near = {(column + x, row + y) for x in (-2, -1, 0, 1, 2) for y in (-2, -1, 0, 1, 2)}
        pending += near & inked
        inked -= near
    return region


def _bounds(region: Sequence[tuple[int, int]], size: tuple[int, int]) -> Corners:
    columns, rows = [cell[0] for cell in region], [cell[1] for cell in region]
    right, bottom = (max(columns) + 1) * CELL, (max(rows) + 1) * CELL
    return min(columns) * CELL, min(rows) * CELL, min(right, size[0]), min(bottom, size[1])


def _is_edge(corners: Corners, size: tuple[int, int]) -> bool:
    """Whether a region is the shadow that a scanner leaves along a side."""
    x1, y1, x2, y2 = corners
    narrow, low = x2 - x1 < 0.05 * size[0], y2 - y1 < 0.05 * size[1]
    return (narrow and (x1 <= CELL or x2 >= size[0] - CELL)) or (
        low and (y1 <= CELL or y2 >= size[1] - CELL)
    )

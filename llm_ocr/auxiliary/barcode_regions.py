"""Find where barcodes may be on a page, and cut these regions out level, enlarged and sharpened.

The bars of a linear code are many edges of one direction, unlike the strokes of letters; a matrix
code is a solid block of edges. Small images of them can be read again with more effort than a page.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.records import Box

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

# Regions are searched on a page that is reduced to this longer side, in pixels: A4 at 200 dpi. All
# lengths below are in these pixels.
SEARCH_SIDE = 2340
# The side of the squares whose slopes are averaged.
CELL = 4
# Edges are compared within squares of these sides: of the bars of a linear code, and of the modules
# of a matrix code, which are denser than lines of text.
LINEAR_WINDOW, MATRIX_WINDOW = 25, 11
# The share (0..1) by which edges of bars have one direction. Lines of text have up to 0.4.
COHERENCE = 0.55
# The squared slope of edges, in levels per pixel, above that of the paper's noise.
MIN_ENERGY = 25.0
# The shortest code across its bars, and the lowest bars.
MIN_LENGTH, MIN_HEIGHT = 60, 25
# The smallest matrix code, and the largest one that is searched for: the plain pass reads others.
MIN_MATRIX, MAX_MATRIX = 28, 600
# How many times longer than high a matrix code is; PDF417 codes are the longest. Lines of text are
# longer.
MAX_ASPECT = 5.0
# Edges of bars across a linear code, and the correlation of what is above and below its middle.
MIN_EDGES, MIN_CORRELATION = 16, 0.9
# Of one page: those of linear codes, then those with the strongest edges.
MAX_REGIONS = 12
# What is cut out besides a region, as a share of its sides: the quiet zone around a code.
MARGIN = 0.12
# How far a region is enlarged, unless it gets more pixels than this.
ENLARGEMENT, MAX_PIXELS = 3.0, 1_500_000
# Pixels of the page along bars of which the average is taken.
ALONG_BARS = 9
# Views: the radius of the blur that is undone, in pixels of the page, and how strongly.
SHARPENING = ((1.0, 1.5), (1.5, 2.5), (2.0, 4.0))


@dataclass(frozen=True)
class CodeRegion:
    """Where a code may be on a page, in its pixels: a rectangle that is turned by `angle` radians
    clockwise. If it `is_linear`, its width is across the bars."""

    x: float
    y: float
    width: float
    height: float
    angle: float
    is_linear: bool
    energy: float

    @property
    def length(self) -> float:
        return max(self.width, self.height)

    def contains(self, point: tuple[float, float]) -> bool:
        """Whether a point of the page is within it."""
        x, y = point[0] - self.x, point[1] - self.y
        cosine, sine = math.cos(self.angle), math.sin(self.angle)
        across, down = x * cosine + y * sine, y * cosine - x * sine
        return abs(across) <= self.width / 2 and abs(down) <= self.height / 2

    def to_page(self, point: tuple[float, float]) -> tuple[float, float]:
        """From pixels relative to the center of the level region to those of the page."""
        cosine, sine = math.cos(self.angle), math.sin(self.angle)
        across, down = point
        return self.x + across * cosine - down * sine, self.y + across * sine + down * cosine


@dataclass(frozen=True)
class View:
    """A region cut out level, larger by `factor`."""

    pixels: Pixels
    region: CodeRegion
    factor: float

    def to_page(self, point: tuple[float, float]) -> tuple[float, float]:
        height, width = self.pixels.shape
        across, down = point[0] - width / 2, point[1] - height / 2
        return self.region.to_page((across / self.factor, down / self.factor))


def find_regions(page: Pixels) -> list[CodeRegion]:
    """The regions of a gray page where codes may be."""
    factor = min(1.0, SEARCH_SIDE / max(page.shape))
    small = cv2.resize(page, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    smooth = np.asarray(cv2.GaussianBlur(small, (0, 0), 0.8), np.uint8)
    slopes = _Slopes(smooth)
    linear = [region for region in _find_linear(slopes) if _has_bars(smooth, region)]
    matrix = [
        region
        for region in _find_matrix(slopes)
        if not any(other.contains((region.x, region.y)) for other in linear)
    ]
    # Codes are more compact than words.
    matrix.sort(key=lambda region: -region.energy * region.width * region.height / region.length**2)
    linear.sort(key=lambda region: -region.energy)
    return [
        CodeRegion(
            region.x / factor,
            region.y / factor,
            region.width / factor,
            region.height / factor,
            region.angle,
            region.is_linear,
            region.energy,
        )
        for region in (*linear, *matrix)[:MAX_REGIONS]
    ]


def make_region(page: Pixels, box: Box) -> CodeRegion:
    """The region of a code that is in a box on a gray page, at the angle of its edges."""
    x1, y1 = max(0, math.floor(box.x1)), max(0, math.floor(box.y1))
    part = page[y1 : math.ceil(box.y2), x1 : math.ceil(box.x2)]
    slopes = _Slopes(np.asarray(cv2.GaussianBlur(part, (0, 0), 0.8), np.uint8))
    real, imaginary = float(slopes.real.sum()), float(slopes.imaginary.sum())
    energy = float((np.square(slopes.across) + np.square(slopes.down)).mean())
    is_linear = math.hypot(real, imaginary) > COHERENCE * energy * slopes.real.size
    cells = (slice(0, slopes.real.shape[0]), slice(0, slopes.real.shape[1]))
    angle = math.atan2(imaginary, real) / 2 if is_linear else slopes.fourfold_angle(cells)
    cosine, sine = abs(math.cos(angle)), abs(math.sin(angle))
    width, height = box.x2 - box.x1, box.y2 - box.y1
    return CodeRegion(
        (box.x1 + box.x2) / 2,
        (box.y1 + box.y2) / 2,
        width * cosine + height * sine,
        width * sine + height * cosine,
        angle,
        is_linear,
        energy,
    )


class _Slopes:
    """The slopes of a page, and averages over its cells: the squared slope, above that of the
    paper's noise, and the slopes as vectors of twice their angle, in which both sides of a bar have
    the same direction."""

    def __init__(self, page: Pixels) -> None:
        # Scharr's weights sum up to 32.
        across = np.asarray(cv2.Scharr(page, cv2.CV_32F, 1, 0, scale=1 / 32), np.float32)
        down = np.asarray(cv2.Scharr(page, cv2.CV_32F, 0, 1, scale=1 / 32), np.float32)
        self.across, self.down = across, down
        self.energy = _average(across * across + down * down)
        self.real = _average(across * across - down * down)
        self.imaginary = _average(2 * across * down)
        # Most of a page is paper.
        self.energy -= float(np.median(self.energy))

    def fourfold_angle(self, part: tuple[slice, slice]) -> float:
        """The angle of the edges in these cells, which have two directions at right angles: both
        are the same one at four times their angle."""
        rows, columns = (slice(CELL * one.start, CELL * one.stop) for one in part)
        vectors = self.across[rows, columns] + 1j * self.down[rows, columns]
        fourfold = (vectors**4 / np.maximum(np.abs(vectors) ** 2, 1e-6)).sum()
        return float(np.angle(fourfold)) / 4


def _average(values: Floats) -> Floats:
    """The averages over cells."""
    size = (max(1, values.shape[1] // CELL), max(1, values.shape[0] // CELL))
    return np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_AREA), np.float32)


def _find_linear(slopes: _Slopes) -> Iterator[CodeRegion]:
    window = (LINEAR_WINDOW // CELL, LINEAR_WINDOW // CELL)
    mean, real, imaginary = (
        np.asarray(cv2.blur(values, window), np.float32)
        for values in (slopes.energy, slopes.real, slopes.imaginary)
    )
    is_coherent = real * real + imaginary * imaginary > np.square(COHERENCE * mean)
    # Ruled lines, which would join codes with others, are as thick as the window.
    mask = _open(np.asarray((mean > MIN_ENERGY) & is_coherent, np.uint8), window[0] + 2)
    for part, inside in _components(mask, LINEAR_WINDOW):
        vertical = slopes.imaginary[part][inside].sum()
        angle = math.atan2(vertical, slopes.real[part][inside].sum()) / 2
        region = _bounding_region(part, inside, slopes.energy, angle, is_linear=True)
        if region.width >= MIN_LENGTH and region.height >= MIN_HEIGHT:
            yield region


def _find_matrix(slopes: _Slopes) -> Iterator[CodeRegion]:
    window = (round(MATRIX_WINDOW / CELL), round(MATRIX_WINDOW / CELL))
    mask = np.asarray(cv2.blur(slopes.energy, window) > MIN_ENERGY, np.uint8)
    for part, inside in _components(_open(mask, MIN_MATRIX // CELL), MIN_MATRIX):
        angle = slopes.fourfold_angle(part)
        region = _bounding_region(part, inside, slopes.energy, angle, is_linear=False)
        if region.length <= min(MAX_MATRIX, MAX_ASPECT * min(region.width, region.height)):
            yield region


def _open(mask: Pixels, side: int) -> Pixels:
    """A mask without what is thinner than so many cells."""
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    return np.asarray(cv2.morphologyEx(mask, cv2.MORPH_OPEN, kernel), np.uint8)


def _components(mask: Pixels, smallest: int) -> Iterator[tuple[tuple[slice, slice], Any]]:
    """The connected parts of a mask of cells: where each is, and its own mask there."""
    count, labels, boxes, _ = cv2.connectedComponentsWithStats(mask)
    for label in range(1, count):
        x, y, width, height, _ = boxes[label].tolist()
        if CELL * max(width, height) >= smallest:
            part = (slice(y, y + height), slice(x, x + width))
            yield part, labels[part] == label


def _bounding_region(
    part: tuple[slice, slice],
    inside: npt.NDArray[np.bool_],
    energy: Floats,
    angle: float,
    *,
    is_linear: bool,
) -> CodeRegion:
    """The rectangle with sides at `angle` around cells of the page, in pixels."""
    ys, xs = np.nonzero(inside)
    cosine, sine = math.cos(angle), math.sin(angle)
    across, down = xs * cosine + ys * sine, ys * cosine - xs * sine
    left, right = np.percentile(across, (0.5, 99.5)).tolist()
    top, bottom = np.percentile(down, (0.5, 99.5)).tolist()
    middle, level = (left + right) / 2, (top + bottom) / 2
    return CodeRegion(
        CELL * (middle * cosine - level * sine + part[1].start + 0.5),
        CELL * (middle * sine + level * cosine + part[0].start + 0.5),
        CELL * (right - left + 1),
        CELL * (bottom - top + 1),
        angle,
        is_linear,
        float(energy[part][inside].sum()),
    )


def _has_bars(page: Pixels, region: CodeRegion) -> bool:
    """Whether the region has many edges across, which are the same ones at half its heights."""
    level = _cut(page, region, (region.width, region.height), 1.0)
    rows = level.shape[0]
    # At the ends of slanting bars there is paper.
    halves = [level[rows // 6 : rows // 2], level[rows // 2 : rows - rows // 6]]
    profiles = [half.mean(axis=0) - cv2.blur(half, (31, 1)).mean(axis=0) for half in halves]
    both = profiles[0] + profiles[1]
    edges = int((np.diff(np.signbit(both[np.abs(both) > both.std() / 3])) != 0).sum())
    return edges >= MIN_EDGES and float(np.corrcoef(profiles)[0, 1]) >= MIN_CORRELATION


def make_views(page: Pixels, region: CodeRegion) -> Iterator[View]:
    """A region as it is, then sharpened, of a linear one after averages along its bars."""
    margin = MARGIN * max(region.width, region.height)
    width, height = region.width + 2 * margin, region.height + 2 * margin
    factor = max(1.0, min(ENLARGEMENT, math.sqrt(MAX_PIXELS / (width * height))))
    level = _cut(page, region, (width, height), factor)
    yield View(_round(level), region, factor)
    for radius, strength in SHARPENING:
        yield View(_sharpen(level, radius * factor, strength), region, factor)
    if region.is_linear:
        averaged = np.asarray(cv2.blur(level, (1, round(ALONG_BARS * factor))), np.float32)
        for radius, strength in SHARPENING:
            yield View(_sharpen(averaged, radius * factor, strength), region, factor)


def _cut(page: Pixels, region: CodeRegion, size: tuple[float, float], factor: float) -> Floats:
    """A rectangle of this size around a region's center, level and enlarged."""
    width, height = (max(1, round(side * factor)) for side in size)
    cosine, sine = math.cos(region.angle) / factor, math.sin(region.angle) / factor
    matrix = np.array(
        [
            [cosine, -sine, region.x - cosine * width / 2 + sine * height / 2],
            [sine, cosine, region.y - sine * width / 2 - cosine * height / 2],
        ]
    )
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    cut = cv2.warpAffine(
        page, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(cut, np.float32)


def _sharpen(pixels: Floats, radius: float, strength: float) -> Pixels:
    blurred = cv2.GaussianBlur(pixels, (0, 0), radius)
    return _round(np.asarray(pixels + strength * (pixels - blurred), np.float32))


def _round(pixels: Floats) -> Pixels:
    return np.clip(pixels, 0, 255).astype(np.uint8)

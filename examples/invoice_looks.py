"""A drawn page as a scanner or a camera would see it, and where its places went."""

import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import pypdfium2 as pdfium
from invoice_sheet import Rect
from PIL import Image, ImageChops, ImageFilter, ImageOps
from scanned_pages import scanned as through_a_scanner

Point = tuple[float, float]
Moved = Callable[[Rect], Rect]
SCAN_DPI, PHOTO_DPI = 150, 170
# A photograph's size in pixels.
WIDE, HIGH = 1500, 2080


def scanned(pdf: bytes, chance: random.Random) -> tuple[Image.Image, Moved]:
    """Gray, a little askew and soft, with grain."""
    skew = chance.choice((-1, 1)) * chance.uniform(0.2, 0.5)
    page = _rendered(pdf, SCAN_DPI).convert("L")
    image = through_a_scanner(page, skew=skew, noise=9, chance=chance)
    angle, (width, height) = math.radians(skew), page.size

    def moved(point: Point) -> Point:
        x, y = (point[0] - 0.5) * width, (point[1] - 0.5) * height
        turned = (
            x * math.cos(angle) - y * math.sin(angle),
            x * math.sin(angle) + y * math.cos(angle),
        )
        return turned[0] / width + 0.5, turned[1] / height + 0.5

    return image, lambda rect: _hull(moved, rect)


def photographed(pdf: bytes, chance: random.Random) -> tuple[Image.Image, Moved]:
    """On a dark table, from a slant, in uneven light, in color."""
    page = _rendered(pdf, PHOTO_DPI)
    corners = [
        (x * WIDE + chance.uniform(20, 60) * sx, y * HIGH + chance.uniform(20, 60) * sy)
        for x, y, sx, sy in ((0, 0, 1, 1), (1, 0, -1, 1), (1, 1, -1, -1), (0, 1, 1, -1))
    ]
    sheet = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    back = _homography(corners, [(x * page.width, y * page.height) for x, y in sheet])
    size, method = (WIDE, HIGH), Image.Transform.PERSPECTIVE
    coefficients = tuple(back.flatten()[:8])
    seen = page.transform(size, method, coefficients, Image.Resampling.BICUBIC)
    mask = Image.new("L", page.size, 255).transform(size, method, coefficients)
    paper = ImageOps.colorize(seen.convert("L"), (40, 38, 46), (247, 243, 234))
    paper = Image.blend(paper, seen, 0.35)
    table = Image.new("RGB", size, (92, 71, 55))
    photo = Image.composite(paper, table, mask).filter(ImageFilter.GaussianBlur(0.6))
    light = Image.frombytes("L", (3, 4), bytes(chance.randrange(196, 256) for _ in range(12)))
    light = light.resize(size, Image.Resampling.BICUBIC)
    photo = ImageChops.multiply(photo, Image.merge("RGB", (light, light, light)))
    forth = _homography(sheet, [(x / WIDE, y / HIGH) for x, y in corners])
    return photo, lambda rect: _hull(lambda point: _mapped(forth, point), rect)


def _rendered(pdf: bytes, dpi: int) -> Image.Image:
    with pdfium.PdfDocument(pdf) as document:
        image: Image.Image = document[0].render(scale=dpi / 72).to_pil()
        return image.convert("RGB")


def _homography(
    ones: Sequence[Point], others: Sequence[Point]
) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """The 3 x 3 matrix that takes four points to four others."""
    rows: list[list[float]] = []
    for (x, y), (u, v) in zip(ones, others, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    right = [value for point in others for value in point]
    solved = np.linalg.solve(np.array(rows), np.array(right))
    return np.append(solved, 1.0).reshape(3, 3)


def _mapped(matrix: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", point: Point) -> Point:
    x, y, w = matrix @ np.array([*point, 1.0])
    return float(x / w), float(y / w)


def _hull(moved: Callable[[Point], Point], rect: Rect) -> Rect:
    x1, y1, x2, y2 = rect
    points = [moved(point) for point in ((x1, y1), (x2, y1), (x2, y2), (x1, y2))]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return min(xs), min(ys), max(xs), max(ys)

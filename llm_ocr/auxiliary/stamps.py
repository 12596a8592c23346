"""Find stamps and postmarks on scans, and read their text.

A stamp is recognized by its ink: colored, within the size of stamps, and with a frame, a circle or
text that is aslant or has a date; black ones by their circle or a frame that is aslant. Text of a
ring is unwrapped before it is read, with the recognizer of the embedded engine.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.geometry import Rect
from llm_ocr.engines.embedded.words.recognize import Recognizer
from llm_ocr.records import AuxiliaryFinding, Box, FindingKind
from llm_ocr.text.dates import dates_in

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

SOURCE = "heuristics"
# The resolution at which stamps are searched, in pixels per mm (150 dpi); they are read at that of
# the scan.
SEARCH_SCALE = 6.0
# Ink is colored from this difference of its channels on (0..255), and dark from this difference to
# the paper on. JPEG and noise make differences of up to 30.
MIN_CHROMA, MIN_DARKNESS = 45, 70
# Ink of one stamp is at most so far apart, in mm.
GAP = 3.0
# The sides of stamps, in mm.
MIN_SIDE, MIN_LENGTH, MAX_LENGTH = 5.0, 11.0, 100.0
# A frame is at least so high, in mm: of a single line of text, all sides have ink. A black one has
# this share of the area within its outline.
MIN_FRAME, FRAME_AREA = 7.0, 0.88
MIN_RADIUS, MAX_RADIUS = 8.0, 26.0
# Filled with more ink than this share, it is a bar, a logo or a picture.
MAX_FILL = 0.5
# The shares of a circle, and of each side of a frame, that have ink. Worn stamps had 0.7 and more.
RING_COVERAGE, SIDE_COVERAGE = 0.62, 0.6
# A black circle has so much more ink than what is around it; in dense text there is none.
RING_CONTRAST = 0.3
# Text and black frames are a stamp's if they are so many degrees aslant; scans are by up to 1.
ASLANT = 1.7
# Lines of stamps that are read with less confidence are left out.
MIN_SCORE = 0.6
# Text without a frame is a stamp's if it is read this well; handwriting isn't.
UNFRAMED_SCORE = 0.8
# The ring of text lies between these shares of the radius.
RING_TEXT = (0.58, 0.97)
# Directions of a ring with less than this share of its strongest ink are a gap.
GAP_INK = 0.25
# All of 48 findings on the split develop of `benchmarks.stamps` were stamps: 49/50. This is
# multiplied by the confidence of the text.
CONFIDENCE = 0.98


@dataclass(frozen=True)
class Scan:
    """A page as RGB pixels, and how many of them are a millimeter."""

    pixels: Pixels
    scale: float


@dataclass(frozen=True)
class _Shape:
    """A stamp's place on a scan: its box, its form, and by how many degrees it is turned clockwise.

    `center` and `size` are those of the frame; a circle's size is its diameter. `chroma`: its ink
    is colored.
    """

    box: Box
    center: tuple[float, float]
    size: tuple[float, float]
    angle: float
    is_round: bool
    is_framed: bool
    has_color: bool


@cache
def load_recognizer() -> Recognizer:
    """The recognizer of the embedded engine, loaded once. Takes the extra cpu."""
    return Recognizer()


def find_stamps(scan: Scan) -> list[AuxiliaryFinding]:
    """The stamps and postmarks on a scan, from top to bottom, in its pixels."""
    found: list[AuxiliaryFinding] = []
    for shape in _find_shapes(scan):
        lines = _read(scan, shape)
        text = " ".join(line for line, _ in lines)
        if not shape.is_framed and not _is_stamp_text(lines, shape):
            continue
        if not shape.has_color and not text:
            # Black and without text, it is a part of a picture.
            continue
        score = float(np.mean([score for _, score in lines])) if lines else 0.5
        found.append(
            AuxiliaryFinding(
                kind=FindingKind.STAMP,
                value=text or None,
                box=shape.box,
                confidence=round(CONFIDENCE * score, 3),
                source=SOURCE,
                text=text or None,
                problem=None if text else "its text can't be read",
            )
        )
    return sorted(found, key=lambda finding: (finding.box.y1, finding.box.x1))


def read_stamp(scan: Scan, box: Box) -> list[tuple[str, float]]:
    """The lines of a stamp in a box on a scan, with their confidences: level, and unwrapped if they
    are along a circle."""
    margin = round(scan.scale)
    left, top = max(0, round(box.x1) - margin), max(0, round(box.y1) - margin)
    part = scan.pixels[top : round(box.y2) + margin, left : round(box.x2) + margin]
    around = Scan(np.ascontiguousarray(part), scan.scale)
    area = max(1.0, box.area)
    shapes = [shape for shape in _find_shapes(around) if shape.box.area > area / 2]
    return _read(around, shapes[0]) if shapes else _read_lines(around.pixels)


def _is_stamp_text(lines: Sequence[tuple[str, float]], shape: _Shape) -> bool:
    """Whether text without a frame is that of a stamp: neither a heading nor handwriting."""
    text = " ".join(line for line, _ in lines)
    if sum(map(str.isalnum, text)) < 4 or np.mean([score for _, score in lines]) < UNFRAMED_SCORE:
        return False
    return abs(shape.angle) >= ASLANT or any(dates_in(text))


def _find_shapes(scan: Scan) -> list[_Shape]:
    shrink = min(1.0, SEARCH_SCALE / scan.scale)
    small = cv2.resize(scan.pixels, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA)
    scale = scan.scale * shrink
    chroma, darkness = measure_ink(np.asarray(small, np.uint8))
    colored = np.asarray(chroma > MIN_CHROMA, np.uint8)
    dark = np.asarray(darkness > MIN_DARKNESS, np.uint8)
    shapes: list[_Shape] = []
    for shape in (*_colored_shapes(colored, scale), *_black_shapes(dark, colored, scale)):
        if not any(_overlap(shape.box, other.box) > 0.3 for other in shapes):
            shapes.append(shape)
    return [_enlarge(shape, 1 / shrink) for shape in shapes]


def measure_ink(pixels: Pixels) -> tuple[Pixels, Pixels]:
    """How colored each pixel is, and how much darker than the paper, whose tint is left out."""
    light = pixels.reshape(-1, 3)[pixels.reshape(-1, 3).min(axis=1) > 120]
    paper = np.median(light, axis=0) if len(light) else np.array([255.0] * 3)
    balanced = np.clip(pixels * (255 / np.maximum(paper, 1)), 0, 255).astype(np.uint8)
    # Thin lines would be lost with the noise of colors.
    smooth = np.asarray(cv2.medianBlur(balanced, 3), np.uint8)
    return smooth.max(axis=2) - smooth.min(axis=2), np.asarray(255 - balanced.max(axis=2), np.uint8)


def _colored_shapes(colored: Pixels, scale: float) -> Iterator[_Shape]:
    side = max(3, round(GAP * scale))
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    count, labels, boxes, _ = cv2.connectedComponentsWithStats(cv2.dilate(colored, kernel))
    for label in range(1, count):
        x, y, width, height, _ = boxes[label].tolist()
        if min(width, height) < MIN_SIDE * scale or max(width, height) < MIN_LENGTH * scale:
            continue
        if max(width, height) > MAX_LENGTH * scale:
            continue
        part = labels[y : y + height, x : x + width] == label
        ink = np.asarray(colored[y : y + height, x : x + width] * part, np.uint8)
        if ink.sum() > MAX_FILL * width * height:
            continue
        points = cv2.findNonZero(ink)
        if points is None or len(points) < 50:
            continue
        circle = _fit_circle(ink, points, scale)
        if circle is not None:
            (cx, cy), radius = circle
            yield _round_shape((cx + x, cy + y), radius, has_color=True)
            continue
        yield _framed_shape(ink, points, scale, (x, y))


def _fit_circle(
    ink: Pixels,
    points: Any,  # noqa: ANN401
    scale: float,
) -> tuple[tuple[float, float], float] | None:
    """Center and radius of the circle around the ink, if there is one."""
    (cx, cy), radius = cv2.minEnclosingCircle(points)
    if not MIN_RADIUS * scale <= radius <= MAX_RADIUS * scale:
        return None
    if _ring_coverage(ink, (cx, cy), radius) < RING_COVERAGE:
        return None
    return (cx, cy), radius


def _ring_coverage(ink: Pixels, center: tuple[float, float], radius: float) -> float:
    """The share of directions in which there is ink near a circle."""
    angles = np.deg2rad(np.arange(0, 360, 3))
    hit = np.zeros(len(angles), bool)
    for share in np.arange(0.92, 1.031, 0.015):
        xs = np.rint(center[0] + share * radius * np.cos(angles)).astype(int)
        ys = np.rint(center[1] + share * radius * np.sin(angles)).astype(int)
        inside = (xs >= 0) & (ys >= 0) & (xs < ink.shape[1]) & (ys < ink.shape[0])
        hit[inside] |= ink[ys[inside], xs[inside]] > 0
    return float(hit.mean())


def _stands_out(ink: Pixels, center: tuple[float, float], radius: float) -> bool:
    """Whether there is more ink along a circle than along one around it, unlike in dense text."""
    angles = np.deg2rad(np.arange(0, 360, 3))

    def coverage(share: float) -> float:
        hit = np.zeros(len(angles), bool)
        for near in (-0.015, 0.0, 0.015):
            xs = np.rint(center[0] + (share + near) * radius * np.cos(angles)).astype(int)
            ys = np.rint(center[1] + (share + near) * radius * np.sin(angles)).astype(int)
            inside = (xs >= 0) & (ys >= 0) & (xs < ink.shape[1]) & (ys < ink.shape[0])
            hit[inside] |= ink[ys[inside], xs[inside]] > 0
        return float(hit.mean())

    ring = max(coverage(share) for share in (0.96, 0.98, 1.0, 1.02))
    around = [coverage(share) for share in (1.1, 1.14, 1.18)]
    return ring - sum(around) / len(around) >= RING_CONTRAST


def _round_shape(center: tuple[float, float], radius: float, *, has_color: bool) -> _Shape:
    (x, y), size = center, (2 * radius, 2 * radius)
    box = Box(x - radius, y - radius, x + radius, y + radius)
    return _Shape(box, center, size, 0.0, True, True, has_color)


def _framed_shape(ink: Pixels, points: Any, scale: float, offset: tuple[int, int]) -> _Shape:  # noqa: ANN401
    """The shape of ink that may have a frame; else its lines of text say how it is turned."""
    (cx, cy), (width, height), angle = cv2.minAreaRect(points)
    width, height, angle = _lie_down(width, height, angle)
    is_framed = min(width, height) >= MIN_FRAME * scale and (
        _side_coverage(ink, (cx, cy), (width, height), angle, scale) >= SIDE_COVERAGE
    )
    if not is_framed:
        angle = _text_angle(ink, scale, angle)
    x, y = offset
    left, top, right, bottom = _bounds(points)
    box = Box(left + x, top + y, right + x, bottom + y)
    return _Shape(box, (cx + x, cy + y), (width, height), angle, False, is_framed, True)


def _lie_down(width: float, height: float, angle: float) -> tuple[float, float, float]:
    """A rectangle of OpenCV's with its longer side across, turned by -45 to 45 degrees where it
    isn't clearly upright."""
    while angle > 45:
        width, height, angle = height, width, angle - 90
    while angle <= -45:
        width, height, angle = height, width, angle + 90
    return width, height, angle


def _side_coverage(
    ink: Pixels,
    center: tuple[float, float],
    size: tuple[float, float],
    angle: float,
    scale: float,
) -> float:
    """The share of the side with the least ink of a rectangle, in a band of 1.2 mm."""
    corners = cv2.boxPoints((center, size, angle))
    thick = np.asarray(cv2.dilate(ink, np.ones((3, 3), np.uint8)), np.uint8)
    worst = 1.0
    middle = np.array(center, np.float32)
    for begin, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        steps = np.linspace(0.06, 0.94, 60)[:, None]
        line = begin * (1 - steps) + end * steps
        inward = middle - (begin + end) / 2
        inward = inward / max(1.0, float(np.linalg.norm(inward)))
        hit = np.zeros(60, bool)
        for depth in np.arange(-0.2, 1.3, 1 / scale):
            spots = np.rint(line + inward * depth * scale).astype(int)
            inside = (spots >= 0).all(axis=1)
            inside &= (spots[:, 0] < ink.shape[1]) & (spots[:, 1] < ink.shape[0])
            hit[inside] |= thick[spots[inside, 1], spots[inside, 0]] > 0
        worst = min(worst, float(hit.mean()))
    return worst


def _text_angle(ink: Pixels, scale: float, fallback: float) -> float:
    """How many degrees lines of text are turned clockwise: rows are told apart best at this one."""
    best, angle = -1.0, fallback
    height, width = ink.shape
    side = math.ceil(math.hypot(width, height))
    for degrees in np.arange(-20, 20.5, 1.0):
        matrix: Any = cv2.getRotationMatrix2D((width / 2, height / 2), float(degrees), 1.0)
        matrix[:, 2] += (side / 2 - width / 2, side / 2 - height / 2)
        profile = cv2.warpAffine(ink * 255, matrix, (side, side)).sum(axis=1, dtype=np.float64)
        sharpness = float(np.square(np.diff(profile)).sum())
        if sharpness > best:
            best, angle = sharpness, float(degrees)
    return angle


def _black_shapes(dark: Pixels, colored: Pixels, scale: float) -> Iterator[_Shape]:
    """Circles of dark ink, and frames that are aslant."""
    around = np.asarray(cv2.dilate(colored, np.ones((5, 5), np.uint8)), np.uint8)
    black = np.asarray(dark & (1 - around), np.uint8)
    # Circles are searched coarsely, and verified in full.
    coarse = 3.0 / scale
    size = (round(black.shape[1] * coarse), round(black.shape[0] * coarse))
    shrunk = cv2.resize(black * 255, size, interpolation=cv2.INTER_AREA)
    circles = cv2.HoughCircles(
        shrunk,
        cv2.HOUGH_GRADIENT_ALT,
        1.5,
        3 * MIN_RADIUS,
        param1=200,
        param2=0.6,
        minRadius=round(3 * MIN_RADIUS),
        maxRadius=round(3 * MAX_RADIUS),
    )
    for x, y, radius in [] if circles is None else circles.reshape(-1, circles.shape[-1])[:20, :3]:
        center = (float(x) / coarse, float(y) / coarse)
        size_found = float(radius) / coarse
        is_ring = _ring_coverage(black, center, size_found) >= RING_COVERAGE + 0.1
        if is_ring and _stands_out(black, center, size_found):
            yield _round_shape(center, size_found, has_color=False)
    closed = cv2.morphologyEx(black, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    contours, _ = cv2.findContours(closed, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    for contour in contours:
        if len(contour) < 2 * MIN_LENGTH * scale:
            continue
        (cx, cy), (width, height), angle = cv2.minAreaRect(contour)
        width, height, angle = _lie_down(width, height, angle)
        low, long = sorted((width / scale, height / scale))
        if low < MIN_FRAME or not MIN_LENGTH <= long <= MAX_LENGTH or abs(angle) < ASLANT:
            continue
        if cv2.contourArea(contour) < FRAME_AREA * width * height:
            # Lines of text that touch, or a part of a picture.
            continue
        x, y, right, bottom = (round(side) for side in _bounds(contour))
        part = np.asarray(black[y : bottom + 1, x : right + 1], np.uint8)
        inner = (cx - x, cy - y)
        if part.sum() > MAX_FILL * part.size:
            continue
        if _side_coverage(part, inner, (width, height), angle, scale) >= SIDE_COVERAGE + 0.15:
            box = Box(x, y, right, bottom)
            yield _Shape(box, (cx, cy), (width, height), angle, False, True, False)


def _enlarge(shape: _Shape, factor: float) -> _Shape:
    box, (cx, cy), (width, height) = shape.box, shape.center, shape.size
    return _Shape(
        Box(box.x1 * factor, box.y1 * factor, box.x2 * factor, box.y2 * factor),
        (cx * factor, cy * factor),
        (width * factor, height * factor),
        shape.angle,
        shape.is_round,
        shape.is_framed,
        shape.has_color,
    )


def _read(scan: Scan, shape: _Shape) -> list[tuple[str, float]]:
    """The lines of a stamp with their confidences, in reading order: those of a ring first."""
    if shape.is_round:
        disk = _cut(scan, shape, 1.06)
        return [*_read_ring(disk), *_read_lines(_mask_ring(disk))]
    return _read_lines(_cut(scan, shape, 1.0))


def _cut(scan: Scan, shape: _Shape, margin: float) -> Pixels:
    """A stamp with its text level, its ink dark on white, without what other ink is below."""
    width, height = (round(side * margin) + round(2 * scan.scale) for side in shape.size)
    matrix: Any = cv2.getRotationMatrix2D(shape.center, shape.angle, 1.0)
    matrix[:, 2] += (width / 2 - shape.center[0], height / 2 - shape.center[1])
    part: Any = cv2.warpAffine(
        scan.pixels, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    if not shape.has_color:
        return np.asarray(part, np.uint8)
    chroma = measure_ink(np.asarray(part, np.uint8))[0].astype(np.float32)
    strong = max(60.0, float(np.percentile(chroma, 97)))
    gray = 255 - np.clip((chroma - 15) / (strong - 15), 0, 1) * 230
    return np.asarray(np.repeat(gray[:, :, None], 3, axis=2), np.uint8)


def _read_lines(image: Pixels) -> list[tuple[str, float]]:
    """The lines on a level image, from top to bottom."""
    page = load_recognizer().page(image)
    lines = sorted(page.lines, key=lambda line: line.middle)
    return [(line.text, line.score) for line in lines if line.score >= MIN_SCORE]


def _mask_ring(disk: Pixels) -> Pixels:
    """What is within the ring of text, on white."""
    height, width = disk.shape[:2]
    radius = RING_TEXT[0] * min(height, width) / 2 / 1.06
    mask = np.zeros((height, width), np.uint8)
    cv2.circle(mask, (width // 2, height // 2), round(radius), 1, -1)
    white = np.full_like(disk, 255)
    masked = np.where(mask[:, :, None] > 0, disk, white)
    side = round(radius * 1.1)
    top, left = max(0, height // 2 - side), max(0, width // 2 - side)
    return np.ascontiguousarray(masked[top : top + 2 * side, left : left + 2 * side])


def _read_ring(disk: Pixels) -> list[tuple[str, float]]:
    """The text along a circle: that with its letters' tops outward, and that with them inward."""
    height, width = disk.shape[:2]
    radius = min(height, width) / 2
    around = round(2 * math.pi * radius)
    flags = cv2.WARP_POLAR_LINEAR | cv2.INTER_CUBIC | cv2.WARP_FILL_OUTLIERS
    polar = cv2.warpPolar(disk, (round(radius), around), (width / 2, height / 2), radius, flags)
    # Directions run to the right, the rim is at the top.
    band = np.asarray(polar, np.uint8).transpose(1, 0, 2)[::-1]
    begin = round(radius * (1 - RING_TEXT[1] / 1.06))
    band = band[begin : round(radius * (1 - RING_TEXT[0] / 1.06))]
    # Cut in the middle of the longest gap, which is no space between words.
    # The circles themselves are ink in every direction.
    ink = 255.0 - band.min(axis=2)
    ink = np.clip(ink - np.median(ink, axis=1, keepdims=True), 0, None)[band.shape[0] // 6 :]
    strength = np.convolve(ink.mean(axis=0), np.ones(5) / 5, "same")
    cut = _longest_gap(strength < GAP_INK * np.percentile(strength, 90))
    band = np.roll(band, -cut, axis=1)
    outward = [(line.rect, line.text, line.score) for line in _lines_of(band)]
    inward = [
        ((around - line.rect[2], 0.0, around - line.rect[0], 0.0), line.text, line.score)
        for line in _lines_of(np.ascontiguousarray(band[::-1, ::-1]))
    ]
    chosen: list[tuple[Rect, str, float]] = []
    for reading in sorted([*outward, *inward], key=lambda one: -one[2] * min(len(one[1]), 6)):
        rect, text, score = reading
        if score < MIN_SCORE + 0.1 or sum(map(str.isalnum, text)) < 3:
            continue
        if all(_shared_width(rect, other) < 0.3 * (rect[2] - rect[0]) for other, _, _ in chosen):
            chosen.append(reading)
    ordered = sorted(outward + inward, key=lambda one: (one in inward, one[0][0]))
    return [(text, score) for rect, text, score in ordered if (rect, text, score) in chosen]


def _longest_gap(is_empty: npt.NDArray[np.bool_]) -> int:
    """The middle of the longest run of true values around a circle; 0 if there is none."""
    best, middle, begin = 0, 0, 0
    twice = np.concatenate([is_empty, is_empty, [False]])
    for at, value in enumerate(twice.tolist()):
        if not value:
            if at - begin > best:
                best, middle = at - begin, (at + begin) // 2
            begin = at + 1
    return middle % len(is_empty)


def _shared_width(one: Rect, other: Rect) -> float:
    return min(one[2], other[2]) - max(one[0], other[0])


def _lines_of(image: Pixels) -> list[Any]:
    # The recognizer's detector needs some paper around the text.
    padded = cv2.copyMakeBorder(
        np.ascontiguousarray(image), 12, 12, 12, 12, cv2.BORDER_CONSTANT, value=(255, 255, 255)
    )
    return load_recognizer().lines(np.asarray(padded, np.uint8))


def _bounds(points: Any) -> tuple[float, float, float, float]:  # noqa: ANN401
    x, y, width, height = cv2.boundingRect(points)
    return float(x), float(y), float(x + width), float(y + height)


def _overlap(one: Box, other: Box) -> float:
    """The shared area, as a share of the smaller box."""
    width = min(one.x2, other.x2) - max(one.x1, other.x1)
    height = min(one.y2, other.y2) - max(one.y1, other.y1)
    return max(0.0, width) * max(0.0, height) / max(1.0, min(one.area, other.area))

"""What parts the cells of a table, found on its pixels: rules, which are thin dark lines, and the
edges of grounds, parts with a color of their own such as a dark head or shaded rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.geometry import Rect
from llm_ocr.engines.embedded.words.detect import Image, normalize_background

# How much wider than its letters a word's rectangle may be, in heights, and of its height how much
# is the size of its letters, where the recognizer gave it.
EXACT, ESTIMATED = 0.05, 0.2
LETTERS = 0.75
# How much darker than the paper on both sides of it a rule is (0..255).
DARKER = 14
# The thickest rule, in pixels; the gap between dashes of a broken one, in heights of a word.
THICKEST, DASH_GAP = 9, 0.32
# From this height of a word on, half of the pixels show the rules as well.
LARGE = 24
# A rule down of which this share goes through words, or that is short, may be stems of letters,
# which stand below each other with gaps: less than this share is dark.
STEMS, UNBROKEN = 0.4, 0.9
# Of a word's pixels, in percent, so many are darker than its paper; and a row of them is empty if
# none is darker than by this share of what its letters are.
PAPER, FAINT = 80, 0.3
# The shortest rules, in heights of a word: across it must not be a dash, down not a letter.
SHORTEST_ACROSS, SHORTEST_DOWN = 1.3, 1.15

# The window whose median is the ground, in heights of a word: letters fill less than half of it.
WINDOW = 0.8
# How much two grounds differ (0..255): light shades by about 12, noise and shadows by less.
STEP = 7
# An edge is no shorter than this, and not in more rows, in heights of a word.
SHORTEST_EDGE, LEVEL_EDGE = 4.0, 0.65
# Below this share of the paper's brightness a ground is dark, and what is printed on it light.
DARK = 0.6

Mask = npt.NDArray[np.uint8]
Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class RulingLine:
    """A line: where it is across its length, and where it starts and ends along it."""

    at: float
    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Rules:
    """A table's lines: `across` from left to right, `down` from top to bottom.

    `edges` are where one ground ends and another begins below it, as those of a dark head and of
    shaded rows: they part rows, but go through cells that stand over several.
    """

    across: tuple[RulingLine, ...] = ()
    down: tuple[RulingLine, ...] = ()
    edges: tuple[RulingLine, ...] = ()


NO_RULES = Rules()


def rules_in(
    image: Image, rect: Rect, words: Sequence[Rect], height: float, *, is_exact: bool
) -> Rules:
    """The rules within a rectangle; `height` is that of a usual word in it.

    Words that are not `is_exact`, but recognized, have rectangles larger than their letters.
    """
    left, top = max(0, int(rect[0])), max(0, int(rect[1]))
    crop = image[top : int(rect[3]) + 1, left : int(rect[2]) + 1]
    if min(crop.shape[:2]) < 4:
        return NO_RULES
    gray = normalize_background(np.asarray(cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY), dtype=np.uint8))
    scale = 1.0
    if height >= LARGE:
        scale = 0.5
        size = gray.shape[1] // 2, gray.shape[0] // 2
        gray = np.asarray(cv2.resize(gray, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    frame = _Frame(left, top, scale)
    tall = height * scale
    ground = _ground_of(gray, tall)
    gray = _as_on_paper(gray, ground)
    letters = [_letters(gray, box) for box in frame.insets(words, 0)]
    stems, shortest = _dark(gray, 1), SHORTEST_DOWN if is_exact else LETTERS * SHORTEST_DOWN
    boxes = frame.insets(words, EXACT if is_exact else ESTIMATED)
    upright = _long(stems, (int(shortest * tall), 1), boxes, tall)
    strokes = _dark(gray, 0)
    flat = _long(strokes, (1, int(SHORTEST_ACROSS * tall)), letters, tall)
    # Rules go on behind the rectangles of words, and through rules down.
    flat = _connected_to_seeds(
        _runs(strokes | upright, (1, int(SHORTEST_ACROSS * tall)), 1) | flat, flat
    )
    down = [
        rule
        for rule in frame.rules(upright, 2 * THICKEST, at=0, along=1)
        if frame.share(stems, rule) >= UNBROKEN
        or (rule.length >= SHORTEST_DOWN * height and not _goes_through(rule, words))
    ]
    across = frame.rules(flat, 2 * THICKEST, at=1, along=0)
    edges = frame.rules(_edges_across(ground, tall), LEVEL_EDGE * tall, at=1, along=0)
    return Rules(tuple(across), tuple(down), tuple(edges))


def _ground_of(gray: Mask, height: float) -> Mask:
    """What letters and rules are printed on, at each pixel; `height` is that of a usual word."""
    window = max(3, 2 * int(WINDOW * height / 2) + 1)
    return np.asarray(cv2.medianBlur(gray, window), dtype=np.uint8)


def _as_on_paper(gray: Mask, ground: Mask) -> Mask:
    """Pixels with what is light on a dark ground turned round, so that it is dark on light."""
    dark = ground < DARK * float(np.median(ground))
    return np.where(dark, 255 - gray, gray).astype(np.uint8)


def _edges_across(ground: Mask, height: float) -> Mask:
    """Where one ground ends and another begins below it: an edge parts rows as a rule does."""
    steps = np.zeros(ground.shape, np.uint8)
    above, below = ground[:-2].astype(np.int16), ground[2:].astype(np.int16)
    steps[1:-1] = np.abs(below - above) > STEP
    # A scan's edge wanders by a pixel.
    wide = cv2.dilate(steps, np.ones((3, 1), np.uint8))
    long = np.ones((1, max(3, int(SHORTEST_EDGE * height))), np.uint8)
    return np.asarray(cv2.morphologyEx(wide, cv2.MORPH_OPEN, long), np.uint8)


def _letters(gray: Mask, box: Box) -> Box:
    """The rows of a word's box that its letters fill: from its middle to where all is paper."""
    x1, y1, x2, y2 = box
    part = gray[y1:y2, x1:x2]
    if min(part.shape) < 3:
        return box
    paper = np.percentile(part, PAPER)
    empty = np.flatnonzero(part.min(axis=1) > paper - FAINT * (paper - part.min()))
    middle = (y2 - y1) // 2
    above, below = empty[empty < middle], empty[empty > middle]
    top = int(above[-1]) if len(above) else 0
    bottom = int(below[0]) + 1 if len(below) else y2 - y1
    return x1, y1 + top, x2, y1 + bottom


def _goes_through(rule: RulingLine, words: Sequence[Rect]) -> bool:
    """Whether a rule down goes through words: it may be the stems of letters below each other."""
    boxes = np.array(words, dtype=np.float64).reshape(-1, 4)
    inside = (boxes[:, 0] <= rule.at) & (rule.at <= boxes[:, 2])
    shared = np.minimum(boxes[:, 3], rule.end) - np.maximum(boxes[:, 1], rule.start)
    return bool(np.clip(shared[inside], 0, None).sum() >= STEMS * rule.length)


@dataclass(frozen=True)
class _Frame:
    """Where a crop is on its page, and how much smaller it is."""

    left: int
    top: int
    scale: float

    def insets(self, words: Iterable[Rect], margin: float) -> list[Box]:
        """Words less a margin on their left and right, in heights, in the crop's pixels."""
        found = []
        for x1, y1, x2, y2 in words:
            x = margin * (y2 - y1)
            sides = x1 + x - self.left, y1 - self.top, x2 - x - self.left, y2 - self.top
            left, top, right, bottom = (max(0, int(side * self.scale)) for side in sides)
            found.append((left, top, right, bottom))
        return found

    def share(self, dark: Mask, down: RulingLine) -> float:
        """How much of a rule down is dark (0..1)."""
        at = round((down.at - self.left) * self.scale)
        ends = (down.start - self.top, down.end - self.top)
        start, end = (round(place * self.scale) for place in ends)
        return float(dark[start:end, max(0, at - 1) : at + 2].max(axis=1).mean())

    def rules(self, mask: Mask, thickest: float, *, at: int, along: int) -> Iterable[RulingLine]:
        """What a mask shows in lines no thicker than `thickest` pixels, on the page."""
        found: Any = cv2.connectedComponentsWithStats(mask)
        origin = self.left, self.top
        for stats, center in zip(found[2][1:], found[3][1:], strict=True):
            if stats[2 + at] <= thickest:
                start = float(stats[along] / self.scale + origin[along])
                end = start + float(stats[2 + along] / self.scale)
                yield RulingLine(float(center[at] / self.scale + origin[at]), start, end)


def _dark(gray: Mask, axis: int) -> Mask:
    """What is darker than the paper on both sides; `axis` is 1 for lines that run down."""
    thin = np.ones((1, THICKEST + 2) if axis else (THICKEST + 2, 1), np.uint8)
    return (cv2.morphologyEx(gray, cv2.MORPH_BLACKHAT, thin) > DARKER).astype(np.uint8)


def _long(dark: Mask, kernel: tuple[int, int], letters: Sequence[Box], height: float) -> Mask:
    """What is dark and long, the letters aside; dashes are closed to one line."""
    apart = dark.copy()
    for x1, y1, x2, y2 in letters:
        if x2 > x1 and y2 > y1:
            apart[y1:y2, x1:x2] = 0
    return _runs(apart, kernel, max(3, round(DASH_GAP * height)))


def _runs(dark: Mask, kernel: tuple[int, int], gap: int) -> Mask:
    """What is dark over as many pixels as a kernel has, with gaps of `gap` pixels at most."""
    is_down = kernel[0] > kernel[1]
    # Noise and a small slope break a thin line: it may go on one pixel beside.
    wide = cv2.dilate(dark, np.ones((1, 3) if is_down else (3, 1), np.uint8))
    between = np.ones((gap, 1) if is_down else (1, gap), np.uint8)
    closed = cv2.morphologyEx(wide, cv2.MORPH_CLOSE, between)
    # What the crop cuts is no longer than what is seen of it: beyond the edge nothing is dark.
    opened: Any = cv2.morphologyEx(
        closed,
        cv2.MORPH_OPEN,
        np.ones(kernel, np.uint8),
        borderType=cv2.BORDER_CONSTANT,
        borderValue=0,
    )
    return np.asarray(opened)


def _connected_to_seeds(mask: Mask, seeds: Mask) -> Mask:
    """The connected parts of a mask that have a pixel of another one."""
    _, labels = cv2.connectedComponents(mask)
    reached = np.zeros(int(labels.max()) + 1, np.uint8)
    reached[labels[seeds > 0]] = 1
    reached[0] = 0
    return np.asarray(reached[labels], np.uint8)

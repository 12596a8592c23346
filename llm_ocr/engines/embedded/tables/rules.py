"""Rules, the thin dark lines of a table, found on the page's pixels."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.detect import Image, on_light_paper
from llm_ocr.engines.embedded.geometry import Rect

# How much darker than the paper on both sides of it a rule is (0..255).
DARKER = 14
# The thickest rule, in pixels; the gap between dashes of a broken one, in heights of a word.
THICKEST, DASH_GAP = 9, 0.32
# From this height of a word on, half of the pixels show the rules as well.
LARGE = 24
# Of a rule down less than this share may go through words.
STEMS = 0.4
# The shortest rules, in heights of a word: across it must not be a dash, down not a letter.
SHORTEST_ACROSS, SHORTEST_DOWN = 1.3, 1.15

Mask = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Rule:
    """A line: where it is across its length, and where it starts and ends along it."""

    at: float
    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Rules:
    """A table's lines: `across` from left to right, `down` from top to bottom."""

    across: tuple[Rule, ...] = ()
    down: tuple[Rule, ...] = ()


NO_RULES = Rules()


def rules_in(
    image: Image, rect: Rect, words: Sequence[Rect], height: float, margin: float
) -> Rules:
    """The rules within a rectangle; `height` is that of a usual word in it.

    `margin` is how much wider than its letters a word's rectangle may be, in heights.
    """
    left, top = max(0, int(rect[0])), max(0, int(rect[1]))
    crop = image[top : int(rect[3]) + 1, left : int(rect[2]) + 1]
    if min(crop.shape[:2]) < 4:
        return NO_RULES
    grey = on_light_paper(np.asarray(cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY), dtype=np.uint8))
    scale = 1.0
    if height >= LARGE:
        scale = 0.5
        size = grey.shape[1] // 2, grey.shape[0] // 2
        grey = np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    frame = _Frame(left, top, scale)
    tall = height * scale
    flat = _long(grey, (1, int(SHORTEST_ACROSS * tall)), frame.insets(words, (0, 0.1)), tall)
    upright = _long(grey, (int(SHORTEST_DOWN * tall), 1), frame.insets(words, (margin, 0)), tall)
    down = frame.rules(upright, at=0, along=1)
    return Rules(tuple(frame.rules(flat, at=1, along=0)), tuple(_not_stems(down, words)))


def _not_stems(down: Iterable[Rule], words: Sequence[Rect]) -> list[Rule]:
    """Rules down, less those that go through words: the stems of letters below each other."""
    boxes = np.array(words, dtype=np.float64).reshape(-1, 4)
    kept = []
    for rule in down:
        inside = (boxes[:, 0] <= rule.at) & (rule.at <= boxes[:, 2])
        shared = np.minimum(boxes[:, 3], rule.end) - np.maximum(boxes[:, 1], rule.start)
        if np.clip(shared[inside], 0, None).sum() < STEMS * rule.length:
            kept.append(rule)
    return kept


@dataclass(frozen=True)
class _Frame:
    """Where a crop is on its page, and how much smaller it is."""

    left: int
    top: int
    scale: float

    def insets(
        self, words: Iterable[Rect], share: tuple[float, float]
    ) -> list[tuple[int, int, int, int]]:
        """Words less a margin, in the crop's pixels: where there are letters and no rules."""
        found = []
        for x1, y1, x2, y2 in words:
            x, y = share[0] * (y2 - y1), share[1] * (y2 - y1)
            sides = x1 + x - self.left, y1 + y - self.top, x2 - x - self.left, y2 - y - self.top
            left, top, right, bottom = (max(0, int(side * self.scale)) for side in sides)
            found.append((left, top, right, bottom))
        return found

    def rules(self, mask: Mask, *, at: int, along: int) -> Iterable[Rule]:
        found: Any = cv2.connectedComponentsWithStats(mask)
        origin = self.left, self.top
        for stats, centre in zip(found[2][1:], found[3][1:], strict=True):
            if stats[2 + at] <= 2 * THICKEST:
                start = float(stats[along] / self.scale + origin[along])
                end = start + float(stats[2 + along] / self.scale)
                yield Rule(float(centre[at] / self.scale + origin[at]), start, end)


def _long(
    grey: Mask,
    kernel: tuple[int, int],
    letters: Sequence[tuple[int, int, int, int]],
    height: float,
) -> Mask:
    """What is thin across, dark and long; dashes are closed to one line."""
    is_down = kernel[0] > kernel[1]
    thin = np.ones((1, THICKEST + 2) if is_down else (THICKEST + 2, 1), np.uint8)
    dark = (cv2.morphologyEx(grey, cv2.MORPH_BLACKHAT, thin) > DARKER).astype(np.uint8)
    for x1, y1, x2, y2 in letters:
        if x2 > x1 and y2 > y1:
            dark[y1:y2, x1:x2] = 0
    # Noise and a small slope break a thin line: it may go on one pixel beside.
    wide = cv2.dilate(dark, np.ones((1, 3) if is_down else (3, 1), np.uint8))
    dash = max(3, round(DASH_GAP * height))
    gap = np.ones((dash, 1) if is_down else (1, dash), np.uint8)
    closed = cv2.morphologyEx(wide, cv2.MORPH_CLOSE, gap)
    return np.asarray(cv2.morphologyEx(closed, cv2.MORPH_OPEN, np.ones(kernel, np.uint8)))


def positions(rules: Iterable[Rule], near: float) -> list[float]:
    """Where rules are, those close to each other as one, weighed by their lengths."""
    groups: list[list[Rule]] = []
    for rule in sorted(rules, key=lambda rule: rule.at):
        if groups and rule.at - groups[-1][-1].at < near:
            groups[-1].append(rule)
        else:
            groups.append([rule])
    return [
        sum(rule.at * rule.length for rule in group) / sum(rule.length for rule in group)
        for group in groups
    ]


def covered(rules: Iterable[Rule], at: float, start: float, end: float, near: float) -> float:
    """The share of a stretch that rules at a position run along (0..1)."""
    pieces = sorted(
        (max(start, rule.start), min(end, rule.end)) for rule in rules if abs(rule.at - at) < near
    )
    total, reached = 0.0, start
    for first, last in pieces:
        total += max(0.0, last - max(first, reached))
        reached = max(reached, last)
    return total / max(1.0, end - start)

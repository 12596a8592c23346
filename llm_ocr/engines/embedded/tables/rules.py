"""Rules, the thin dark lines of a table, found on the page's pixels."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from llm_ocr.engines.embedded.geometry import Rect
from llm_ocr.engines.embedded.recognise import Image

# How much darker than the paper on both sides of it a rule is (0..255).
DARKER = 14
# Widths in pixels: the thickest rule, and the gaps between the dashes of a broken one.
THICKEST, DASH_GAP = 9, 7
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
    if min(crop.shape[:2]) < 2:
        return NO_RULES
    grey = cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY)
    across = _long(grey, (1, int(SHORTEST_ACROSS * height)), _insets(words, left, top, (0, 0.1)))
    down = _long(grey, (int(SHORTEST_DOWN * height), 1), _insets(words, left, top, (margin, 0)))
    return Rules(
        tuple(_rules(across, at=1, along=0, origin=(left, top))),
        tuple(_rules(down, at=0, along=1, origin=(left, top))),
    )


def _insets(
    words: Iterable[Rect], left: int, top: int, share: tuple[float, float]
) -> list[tuple[int, int, int, int]]:
    """Words less a margin, in the crop's pixels: where there are letters and no rules."""
    found = []
    for x1, y1, x2, y2 in words:
        tall = y2 - y1
        x, y = share[0] * tall, share[1] * tall
        found.append((int(x1 + x) - left, int(y1 + y) - top, int(x2 - x) - left, int(y2 - y) - top))
    return found


def _long(
    grey: Mask, kernel: tuple[int, int], letters: Sequence[tuple[int, int, int, int]]
) -> Mask:
    """What is thin across, dark and long; dashes are closed to one line."""
    is_down = kernel[0] > kernel[1]
    thin = np.ones((1, THICKEST + 2) if is_down else (THICKEST + 2, 1), np.uint8)
    dark = (cv2.morphologyEx(grey, cv2.MORPH_BLACKHAT, thin) > DARKER).astype(np.uint8)
    for x1, y1, x2, y2 in letters:
        if x2 > x1 and y2 > y1:
            dark[max(0, y1) : max(0, y2), max(0, x1) : max(0, x2)] = 0
    # Noise and a small slope break a thin line: it may go on one pixel beside.
    wide = cv2.dilate(dark, np.ones((1, 3) if is_down else (3, 1), np.uint8))
    gap = np.ones((DASH_GAP, 1) if is_down else (1, DASH_GAP), np.uint8)
    closed = cv2.morphologyEx(wide, cv2.MORPH_CLOSE, gap)
    return np.asarray(cv2.morphologyEx(closed, cv2.MORPH_OPEN, np.ones(kernel, np.uint8)))


def _rules(mask: Mask, *, at: int, along: int, origin: tuple[int, int]) -> Iterable[Rule]:
    found: Any = cv2.connectedComponentsWithStats(mask)
    for stats, centre in zip(found[2][1:], found[3][1:], strict=True):
        if stats[2 + at] > 2 * THICKEST:
            continue
        start = float(stats[along] + origin[along])
        yield Rule(float(centre[at] + origin[at]), start, start + float(stats[2 + along]))


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

"""Rectangles, words and lines on an image, in its pixels."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

# (x1, y1, x2, y2)
Rect = tuple[float, float, float, float]


@dataclass(frozen=True)
class Word:
    """A word, where it stands, and how probable its characters are (0..1); None where only its
    line's score is known."""

    rect: Rect
    text: str
    score: float | None = None

    @property
    def x(self) -> float:
        """Its middle between left and right."""
        return (self.rect[0] + self.rect[2]) / 2

    @property
    def y(self) -> float:
        """Its middle between top and bottom."""
        return (self.rect[1] + self.rect[3]) / 2


@dataclass(frozen=True)
class OcrLine:
    """A line of text with its confidence (0..1; 1 for what a text layer says).

    `slope` is how many pixels it sinks for each that it runs to the right. `thickness` is that of
    its strokes, to hold against other lines', 0 where it was not measured. `is_exact` is whether
    it comes from the page's text layer: then `bold` is known too, and else False. `vertical` text
    runs up or down.
    """

    text: str
    words: tuple[Word, ...]
    score: float
    slope: float = 0.0
    thickness: float = 0.0
    is_exact: bool = False
    bold: bool = False
    vertical: bool = False

    @cached_property
    def rect(self) -> Rect:
        return hull(word.rect for word in self.words)

    @cached_property
    def height(self) -> float:
        """The height of most of its words: an index makes no line higher."""
        return statistics.median(word.rect[3] - word.rect[1] for word in self.words)

    @property
    def width(self) -> float:
        return self.rect[2] - self.rect[0]

    @property
    def middle(self) -> float:
        return (self.rect[1] + self.rect[3]) / 2


def hull(rects: Iterable[Rect]) -> Rect:
    """The smallest rectangle around some."""
    x1, y1, x2, y2 = zip(*rects, strict=True)
    return min(x1), min(y1), max(x2), max(y2)


def area(rect: Rect) -> float:
    return max(0.0, rect[2] - rect[0]) * max(0.0, rect[3] - rect[1])


def overlap(one: Rect, other: Rect) -> float:
    """The area that two rectangles share."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


def lies_in(one: Rect, other: Rect, share: float) -> bool:
    """Whether more than a share of the smaller of two rectangles lies in the other."""
    return overlap(one, other) > share * min(area(one), area(other))


def shared_rows(one: Rect, other: Rect) -> float:
    """How many pixels two rectangles share in height; negative: the gap between them."""
    return min(one[3], other[3]) - max(one[1], other[1])


def shared_columns(one: Rect, other: Rect) -> float:
    """How many pixels two rectangles share in width; negative: the gap between them."""
    return min(one[2], other[2]) - max(one[0], other[0])


def apart(one: Rect, other: Rect) -> float:
    """How far two rectangles are from each other: down and across, in all."""
    return max(0.0, -shared_rows(one, other)) + max(0.0, -shared_columns(one, other))


def is_aligned(one: Rect, other: Rect, near: float) -> bool:
    """Whether rectangles have their left edges, their right edges or their middles in common, up to
    `near` pixels."""
    left, right = one[0] - other[0], one[2] - other[2]
    return min(abs(left), abs(right), abs(left + right) / 2) < near


def inside(line: OcrLine, rects: Sequence[Rect]) -> bool:
    """Whether most of a line is in one of some rectangles."""
    return any(overlap(line.rect, rect) > 0.6 * area(line.rect) for rect in rects)


def typical_height(lines: Sequence[OcrLine]) -> float:
    """The height of the lines that most of the text stands in."""
    return statistics.median(line.height for line in lines for _ in range(1 + len(line.text) // 10))

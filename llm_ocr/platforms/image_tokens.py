"""How many tokens an image is to a commercial API, by its provider's rule."""

import math
from dataclasses import dataclass
from typing import Protocol


class ImageRule(Protocol):
    """A provider's rule."""

    def tokens(self, width: int, height: int) -> int:
        """Of an image of so many pixels."""
        ...


@dataclass(frozen=True)
class Fixed:
    """The same for every image."""

    count: int

    def tokens(self, width: int, height: int) -> int:
        return self.count


@dataclass(frozen=True)
class Tiles:
    """So many for each square of `side` pixels that it takes to cover the image, and a base."""

    side: int
    each: int
    base: int = 0

    def tokens(self, width: int, height: int) -> int:
        return self.base + self.each * _patches(width, height, self.side)


@dataclass(frozen=True)
class FittedPatches:
    """Squares of `side` pixels. An image of more than `budget`, or longer than `longest`, is made
    as small as it takes, keeping its shape (Claude: platform.claude.com, "Images and vision")."""

    side: int
    budget: int
    longest: int
    weight: float = 1.0

    def tokens(self, width: int, height: int) -> int:
        if max(width, height) <= self.longest and _patches(width, height, self.side) <= self.budget:
            return math.ceil(self.weight * _patches(width, height, self.side))
        long, short = max(width, height), min(width, height)
        fits = 1
        for candidate in range(min(long, self.longest), 0, -1):
            patches = _patches(candidate, max(1, round(candidate * short / long)), self.side)
            if patches <= self.budget:
                fits = patches
                break
        return math.ceil(self.weight * fits)


@dataclass(frozen=True)
class WholePatches:
    """Squares of `side` pixels. An image of more than `budget` is scaled to that area, and on until
    a whole number of squares fits one of its sides (OpenAI: "Images and vision")."""

    side: int
    budget: int
    weight: float = 1.0

    def tokens(self, width: int, height: int) -> int:
        patches = _patches(width, height, self.side)
        if patches > self.budget:
            scale = math.sqrt(self.budget * self.side**2 / (width * height))
            across, down = width * scale / self.side, height * scale / self.side
            smaller = min(math.floor(across) / across, math.floor(down) / down)
            # Rounded, lest the last bit of a whole number makes it one square more.
            patches = math.ceil(round(across * smaller, 6)) * math.ceil(round(down * smaller, 6))
        return math.ceil(round(self.weight * patches, 6))


def _patches(width: int, height: int, side: int) -> int:
    return math.ceil(width / side) * math.ceil(height / side)

"""The price list of machines and commercial APIs, and the arithmetic of what they charge.

All money is US dollars. `price_files` reads the list from its file; `estimates` prices an input.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from llm_ocr.messages import CodedError

SECONDS_PER_HOUR = 3600.0


class UnknownPriceError(CodedError, ValueError):
    """The price list has no such price; the message names those that it has."""


@dataclass(frozen=True)
class Interval:
    """An expected value and the range in which it is likely to be."""

    low: float
    expected: float
    high: float

    def scale(self, factor: float) -> "Interval":
        """The interval multiplied by a factor that is not negative."""
        return Interval(self.low * factor, self.expected * factor, self.high * factor)

    def divide(self, divisor: "Interval") -> "Interval":
        """The quotient at its widest: the lowest by the highest, and the highest by the lowest."""
        return Interval(
            self.low / divisor.high, self.expected / divisor.expected, self.high / divisor.low
        )


@dataclass(frozen=True)
class Citation:
    """Where a figure is from, when it was read there, and a note. A `second_hand` figure was not
    read at its origin, but where others quote it."""

    url: str
    date: str
    note: str = ""
    second_hand: bool = False


@dataclass(frozen=True)
class Machine:
    """A machine that a task can rent: `gpus` GPUs of the kind `gpu` (None: no GPU)."""

    name: str
    gpu: str | None
    gpus: int
    price_per_hour: float
    source: Citation
    spot: bool = False


@dataclass(frozen=True)
class PlatformPrices:
    """The machines of a platform, and how it bills their time.

    `start_minutes` pass until a task reads its first page, and are billed. With `task_minutes` a
    task ends after that time, and another one resumes. `storage_gb_month` is the price of storing
    one GB for a month.
    """

    name: str
    title: str
    machines: Mapping[str, Machine]
    billing_seconds: float
    minimum_seconds: float
    start_minutes: float
    storage_gb_month: float
    task_minutes: float | None = None

    @property
    def gpus(self) -> tuple[str, ...]:
        """The kinds of GPU it has, in the order of its machines."""
        return tuple(
            dict.fromkeys(machine.gpu for machine in self.machines.values() if machine.gpu)
        )

    def machine(self, name: str) -> Machine:
        """The machine of that name, or the first with that GPU. Raises UnknownPriceError."""
        if name in self.machines:
            return self.machines[name]
        for machine in self.machines.values():
            if machine.gpu == name:
                return machine
        known = ", ".join([*self.gpus, *self.machines])
        raise UnknownPriceError(f"{self.title} has no price for {name!r}; it has {known}")

    def billed_hours(self, work_hours: float) -> float:
        """The billed time of a task that reads pages for `work_hours`, its starts included.

        A task that the platform ends in between starts again.
        """
        starts = 1
        if self.task_minutes is not None:
            useful = (self.task_minutes - self.start_minutes) / 60
            starts = max(1, math.ceil(work_hours / useful))
        seconds = (work_hours + starts * self.start_minutes / 60) * SECONDS_PER_HOUR
        return self.billed_seconds(seconds) / SECONDS_PER_HOUR

    def billed_seconds(self, seconds: float) -> float:
        """Seconds rounded up as they are billed."""
        step = self.billing_seconds
        # A float that is a whole number of steps but for its last bit is not one step more.
        steps = math.ceil(round(seconds / step, 6)) if step else seconds
        return max(self.minimum_seconds, steps * step if step else seconds)


class ImageTokenRule(Protocol):
    """A provider's rule of how many tokens an image is."""

    def tokens(self, width: int, height: int) -> int:
        """The tokens of an image of that size in pixels."""
        ...


@dataclass(frozen=True)
class FixedTokens:
    """The same number of tokens for every image."""

    count: int

    def tokens(self, width: int, height: int) -> int:
        return self.count


@dataclass(frozen=True)
class TokensPerTile:
    """`each` tokens for every square of `side` pixels needed to cover the image, plus a base."""

    side: int
    each: int
    base: int = 0

    def tokens(self, width: int, height: int) -> int:
        return self.base + self.each * _patches(width, height, self.side)


@dataclass(frozen=True)
class FittedPatches:
    """Squares of `side` pixels. An image of more than `budget`, or longer than `longest`, is scaled
    down to fit, keeping its shape (Claude: platform.claude.com, "Images and vision")."""

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
    """Squares of `side` pixels. An image of more than `budget` is scaled down to that area, then
    until a whole number of squares fits one of its sides (OpenAI: "Images and vision")."""

    side: int
    budget: int
    weight: float = 1.0

    def tokens(self, width: int, height: int) -> int:
        patches = _patches(width, height, self.side)
        if patches > self.budget:
            scale = math.sqrt(self.budget * self.side**2 / (width * height))
            across, down = width * scale / self.side, height * scale / self.side
            smaller = min(math.floor(across) / across, math.floor(down) / down)
            # Rounded, so that a whole number's last bit doesn't make it one square more.
            patches = math.ceil(round(across * smaller, 6)) * math.ceil(round(down * smaller, 6))
        return math.ceil(round(self.weight * patches, 6))


def _patches(width: int, height: int, side: int) -> int:
    return math.ceil(width / side) * math.ceil(height / side)


@dataclass(frozen=True)
class PageTiers:
    """A price per page: `(up to so many pages, dollars per 1,000)`, the last tier without limit."""

    tiers: Sequence[tuple[float, float]]

    def cost(self, pages: float) -> float:
        """The sum over all tiers, each tier's pages at its price."""
        total, start = 0.0, 0.0
        for end, per_thousand in self.tiers:
            inside = max(0.0, min(pages, end) - start)
            total += inside * per_thousand / 1000
            start = end
        return total


@dataclass(frozen=True)
class TokenPrice:
    """Dollars per million input and output tokens, and the tokens of an image. `batch` is the
    fraction of the price that the batch API charges."""

    input: float
    output: float
    image: ImageTokenRule
    batch: float = 1.0

    def cost(self, pages: float, page: "PageAssumptions", output_tokens: float) -> float:
        input_tokens = page.prompt_tokens + self.image.tokens(page.width, page.height)
        return pages * (input_tokens * self.input + output_tokens * self.output) / 1e6


@dataclass(frozen=True)
class ApiPrices:
    """A commercial API that reads pages, and its price."""

    name: str
    title: str
    price: PageTiers | TokenPrice
    source: Citation


@dataclass(frozen=True)
class PageAssumptions:
    """The page that prices per token assume, and the storage that its tables take.

    `output_spread` is the fraction by which one collection's answers may be shorter or longer.
    """

    width: int
    height: int
    prompt_tokens: int
    output_tokens: int
    output_spread: float
    stored_mb: float
    stored_months: float


@dataclass(frozen=True)
class PriceList:
    """The prices of all platforms and APIs."""

    page: PageAssumptions
    platforms: Mapping[str, PlatformPrices]
    apis: Mapping[str, ApiPrices] = field(default_factory=dict)

    def platform(self, name: str) -> PlatformPrices:
        """Raises UnknownPriceError."""
        if name not in self.platforms:
            known = ", ".join(self.platforms)
            raise UnknownPriceError(f"no prices for platform {name!r}; known platforms are {known}")
        return self.platforms[name]

    def price_per_hour(self, platform: str, machine: str) -> float:
        """Dollars per hour of a platform's machine, by its name or its GPU.

        Raises UnknownPriceError.
        """
        return self.platform(platform).machine(machine).price_per_hour

"""What machines and commercial APIs charge: the words of a price list, and their arithmetic.

All money is US dollars. `price_files` reads a list from its file; `offers` prices an input.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from llm_ocr.platforms.image_tokens import ImageRule

SECONDS_PER_HOUR = 3600.0


class NoSuchPriceError(ValueError):
    """Nothing has that price; the message says what there is."""


@dataclass(frozen=True)
class Interval:
    """What to expect, and between what it is likely to be."""

    low: float
    expected: float
    high: float

    def times(self, factor: float) -> "Interval":
        """Each of them times a factor that is not negative."""
        return Interval(self.low * factor, self.expected * factor, self.high * factor)

    def plus(self, more: float) -> "Interval":
        return Interval(self.low + more, self.expected + more, self.high + more)

    def over(self, divisor: "Interval") -> "Interval":
        """The quotient at its widest: the lowest over the highest, and the other way round."""
        return Interval(
            self.low / divisor.high, self.expected / divisor.expected, self.high / divisor.low
        )


@dataclass(frozen=True)
class Source:
    """Where a figure is from, when it was read there, and what there is to say of it. What is
    `second_hand` was not read there, but where others quote it."""

    url: str
    date: str
    note: str = ""
    second_hand: bool = False


@dataclass(frozen=True)
class Machine:
    """What a task runs on: `gpus` of the kind `gpu` (None: it has none), at a price an hour."""

    name: str
    gpu: str | None
    gpus: int
    price_per_hour: float
    source: Source
    spot: bool = False


@dataclass(frozen=True)
class Platform:
    """Where tasks run, and how their time is billed.

    `start_minutes` pass until a task asks about its first page, and are billed; with `task_minutes`
    a task ends after so many and another goes on. `storage_gb_month` is for a GB kept a month.
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
        """The kinds of GPU it has, those listed first before others."""
        return tuple(dict.fromkeys(one.gpu for one in self.machines.values() if one.gpu))

    def machine(self, wanted: str) -> Machine:
        """The machine of that name, or the first one with such a GPU. Raises NoSuchPriceError."""
        if wanted in self.machines:
            return self.machines[wanted]
        for one in self.machines.values():
            if one.gpu == wanted:
                return one
        known = ", ".join([*self.gpus, *self.machines])
        raise NoSuchPriceError(f"{self.title} has no price for {wanted!r}; there are {known}")

    def billed_hours(self, work_hours: float) -> float:
        """What is billed of a task that asks for so long, its starts included.

        A task that has to end in between starts again.
        """
        starts = 1
        if self.task_minutes is not None:
            useful = (self.task_minutes - self.start_minutes) / 60
            starts = max(1, math.ceil(work_hours / useful))
        seconds = (work_hours + starts * self.start_minutes / 60) * SECONDS_PER_HOUR
        return rounded_up(seconds, self) / SECONDS_PER_HOUR


@dataclass(frozen=True)
class PageTiers:
    """A price by the page: `(up to so many pages, dollars per 1,000)`, the last without an end."""

    tiers: Sequence[tuple[float, float]]

    def cost(self, pages: float) -> float:
        """Each tier's pages at its price."""
        total, begun = 0.0, 0.0
        for end, per_thousand in self.tiers:
            inside = max(0.0, min(pages, end) - begun)
            total += inside * per_thousand / 1000
            begun = end
        return total


@dataclass(frozen=True)
class TokenPrice:
    """Dollars for a million tokens in and out, and how many an image is. `batch` is the share of it
    that the batch API charges."""

    input: float
    output: float
    image: ImageRule
    batch: float = 1.0

    def cost(self, pages: float, page: "PageSize", output_tokens: float) -> float:
        asked = page.prompt_tokens + self.image.tokens(page.width, page.height)
        return pages * (asked * self.input + output_tokens * self.output) / 1e6


@dataclass(frozen=True)
class Api:
    """Someone who reads pages for money."""

    name: str
    title: str
    price: PageTiers | TokenPrice
    source: Source


@dataclass(frozen=True)
class PageSize:
    """What a page is taken for where it is priced by tokens, and what it takes to keep.

    `output_spread` is the share by which answers of one collection may be shorter or longer.
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
    """Everything that has a price."""

    page: PageSize
    platforms: Mapping[str, Platform]
    apis: Mapping[str, Api] = field(default_factory=dict)

    def platform(self, name: str) -> Platform:
        """Raises NoSuchPriceError."""
        if name not in self.platforms:
            known = ", ".join(self.platforms)
            raise NoSuchPriceError(f"no prices of a platform {name!r}; there are {known}")
        return self.platforms[name]

    def price_per_hour(self, platform: str, machine: str) -> float:
        """Dollars an hour of a platform's machine, by its name or its GPU.

        Raises NoSuchPriceError.
        """
        return self.platform(platform).machine(machine).price_per_hour


def rounded_up(seconds: float, platform: Platform) -> float:
    """Seconds as they are billed."""
    step = platform.billing_seconds
    # What is a whole number of steps but for the last bit is no step more.
    steps = math.ceil(round(seconds / step, 6)) if step else seconds
    return max(platform.minimum_seconds, steps * step if step else seconds)

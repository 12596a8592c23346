"""What reading so many pages would cost, on every platform and by every API."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm_ocr.platforms.prices import (
    Interval,
    Machine,
    NoSuchPriceError,
    Platform,
    PriceList,
    Source,
    TokenPrice,
)
from llm_ocr.platforms.survey import Survey
from llm_ocr.platforms.throughput import Speeds, Throughput


@dataclass(frozen=True)
class Offer:
    """A platform's machine for all pages, shared by some tasks.

    `gpu_hours` are those in which pages are asked about, of all tasks together; `wall_hours` are
    from a task's start to its end. `compute` has the starts in it, `start_cost` are they alone.
    """

    platform: str
    title: str
    machine: str
    gpu: str
    gpus: int
    spot: bool
    price_per_hour: float
    pages_per_minute: Interval
    gpu_hours: Interval
    wall_hours: Interval
    compute: Interval
    start_cost: float
    storage: Interval
    cost: Interval
    price_source: Source
    speed_source: Source


@dataclass(frozen=True)
class ApiOffer:
    """A commercial API for all pages; `batch` through its batch API, where it has one."""

    name: str
    title: str
    cost: Interval
    batch: Interval | None
    source: Source


@dataclass(frozen=True)
class Quote:
    """An input priced. `unmeasured` are GPUs that have a price and no measured speed."""

    survey: Survey
    model: str
    tasks: int
    offers: tuple[Offer, ...]
    apis: tuple[ApiOffer, ...]
    unmeasured: tuple[str, ...] = ()

    def of(self, platform: str) -> Offer:
        """The cheapest offer of a platform. Raises NoSuchPriceError."""
        for one in self.offers:
            if one.platform == platform:
                return one
        raise NoSuchPriceError(f"nothing of {platform} has both a price and a speed")


def quote(
    survey: Survey,
    prices: PriceList,
    speeds: Speeds,
    *,
    model: str,
    wanted: Sequence[str] = (),
    tasks: int = 1,
) -> Quote:
    """Price the pages of `survey`, the cheapest offer first.

    `wanted` are GPUs, or machines by name; all GPUs with one a machine where it is empty. Raises
    NoSuchPriceError where nothing has both a price and a speed.
    """
    machines = list(_machines(prices, wanted))
    offers = [
        offer(survey.pages, prices, platform, machine, speed, tasks)
        for platform, machine in machines
        if machine.gpu is not None and (speed := speeds.of(machine.gpu, model)) is not None
    ]
    unmeasured = dict.fromkeys(
        machine.gpu
        for _, machine in machines
        if machine.gpu is not None and speeds.of(machine.gpu, model) is None
    )
    if not offers:
        raise NoSuchPriceError(_no_speed(model, tuple(unmeasured), speeds))
    return Quote(
        survey=survey,
        model=model,
        tasks=tasks,
        offers=tuple(sorted(offers, key=lambda one: one.cost.expected)),
        apis=tuple(sorted(_apis(survey.pages, prices), key=lambda one: one.cost.expected)),
        unmeasured=tuple(unmeasured),
    )


def offer(
    pages: Interval,
    prices: PriceList,
    platform: Platform,
    machine: Machine,
    speed: Throughput,
    tasks: int,
) -> Offer:
    """The pages on one machine of each of `tasks` tasks, which end at the same time."""
    gpu_hours = pages.over(speed.pages_per_minute.times(60))
    work = gpu_hours.times(1 / (tasks * machine.gpus))
    price = tasks * machine.price_per_hour
    billed = Interval(
        *(platform.billed_hours(hours) for hours in (work.low, work.expected, work.high))
    )
    compute = billed.times(price)
    gigabytes = pages.times(prices.page.stored_mb / 1000)
    storage = gigabytes.times(platform.storage_gb_month * prices.page.stored_months)
    return Offer(
        platform=platform.name,
        title=platform.title,
        machine=machine.name,
        gpu=speed.gpu,
        gpus=machine.gpus,
        spot=machine.spot,
        price_per_hour=machine.price_per_hour,
        pages_per_minute=speed.pages_per_minute.times(machine.gpus),
        gpu_hours=gpu_hours,
        wall_hours=billed,
        compute=compute,
        start_cost=(billed.expected - work.expected) * price,
        storage=storage,
        cost=Interval(
            compute.low + storage.low,
            compute.expected + storage.expected,
            compute.high + storage.high,
        ),
        price_source=machine.source,
        speed_source=speed.source,
    )


def _machines(prices: PriceList, wanted: Sequence[str]) -> Iterator[tuple[Platform, Machine]]:
    """Of each platform the first machine with each GPU, as spot and not; or those named."""
    found = 0
    for platform in prices.platforms.values():
        seen: set[tuple[str, bool]] = set()
        for machine in platform.machines.values():
            if machine.gpu is None:
                continue
            kind = (machine.gpu, machine.spot)
            is_first = machine.gpus == 1 and kind not in seen
            seen |= {kind} if is_first else set()
            if machine.name in wanted or (is_first and (not wanted or machine.gpu in wanted)):
                found += 1
                yield platform, machine
    if not found:
        gpus = dict.fromkeys(gpu for one in prices.platforms.values() for gpu in one.gpus)
        raise NoSuchPriceError(
            f"no platform has a price for {', '.join(wanted)}; GPUs are {', '.join(gpus)}, "
            "or name a machine, as l40sx4"
        )


def _apis(pages: Interval, prices: PriceList) -> Iterator[ApiOffer]:
    page = prices.page
    for api in prices.apis.values():
        if not isinstance(api.price, TokenPrice):
            each = (api.price.cost(count) for count in (pages.low, pages.expected, pages.high))
            yield ApiOffer(api.name, api.title, Interval(*each), None, api.source)
            continue
        least, most = 1 - page.output_spread, 1 + page.output_spread
        cost = Interval(
            api.price.cost(pages.low, page, page.output_tokens * least),
            api.price.cost(pages.expected, page, page.output_tokens),
            api.price.cost(pages.high, page, page.output_tokens * most),
        )
        batch = cost.times(api.price.batch) if api.price.batch < 1 else None
        yield ApiOffer(api.name, api.title, cost, batch, api.source)


def _no_speed(model: str, gpus: Sequence[str], speeds: Speeds) -> str:
    known = speeds.gpus(model)
    on = f" on {', '.join(gpus)}" if gpus and known else ""
    there = f"; it was measured on {', '.join(known)}" if known else ""
    return (
        f"how fast {model} is{on} is not known{there}. Read some pages and take their speed with "
        "`llm-ocr plan --update-throughput RUN --throughput FILE`, or write it into such a file"
    )

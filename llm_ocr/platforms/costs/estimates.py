"""Estimates what reading an input costs: on every platform's machines, and through every API."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_ocr.batch.events import Notify, discard
from llm_ocr.messages import ProblemCode
from llm_ocr.platforms.costs.page_estimate import PageEstimate, estimate_pages
from llm_ocr.platforms.costs.price_files import load_prices
from llm_ocr.platforms.costs.prices import (
    Citation,
    Interval,
    Machine,
    PlatformPrices,
    PriceList,
    TokenPrice,
    UnknownPriceError,
)
from llm_ocr.platforms.costs.throughput import Throughput, ThroughputTable, load_throughput
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import absolute_input

# Documents of each kind whose pages are counted.
SAMPLE = 40


@dataclass(frozen=True)
class MachineEstimate:
    """All pages read on one kind of machine, shared by some tasks.

    `gpu_hours` is the time in which pages are read, of all tasks together; `wall_hours` is the time
    from a task's start to its end. `compute` includes `start_cost`, the cost of the tasks' starts.
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
    price_source: Citation
    speed_source: Citation


@dataclass(frozen=True)
class ApiEstimate:
    """All pages read by a commercial API; `batch` through its batch API, if it has one."""

    name: str
    title: str
    cost: Interval
    batch: Interval | None
    source: Citation


@dataclass(frozen=True)
class Estimate:
    """What reading an input costs. `unmeasured` are GPUs with a price and no measured speed.

    The names of its fields are the keys of `llm-ocr plan --json`.
    """

    survey: PageEstimate
    model: str
    tasks: int
    offers: tuple[MachineEstimate, ...]
    apis: tuple[ApiEstimate, ...]
    unmeasured: tuple[str, ...] = ()

    def cheapest(self, platform: str) -> MachineEstimate:
        """The cheapest machine of a platform. Raises UnknownPriceError."""
        for offer in self.offers:
            if offer.platform == platform:
                return offer
        raise UnknownPriceError(f"no machine of {platform} has both a price and a measured speed")


def estimate_costs(
    inputs: str | Path | Sequence[str | Path],
    settings: Settings | None = None,
    *,
    sample: int = SAMPLE,
    gpus: Sequence[str] = (),
    tasks: int = 1,
    notify: Notify | None = None,
) -> Estimate:
    """Estimate the cost of reading the inputs. `gpus` are GPUs or machines; empty means all.

    Raises TomlFileError, NoInputError, UnknownPriceError or StorageError.
    """
    chosen = settings or Settings()
    prices, throughput = load_prices(chosen.prices), load_throughput(chosen.throughput)
    paths = [inputs] if isinstance(inputs, str | Path) else inputs
    uris = [absolute_input(str(path)) for path in paths]
    counts = estimate_pages(uris, chosen, sample, notify or discard)
    return price_pages(counts, prices, throughput, model=chosen.model, gpus=gpus, tasks=tasks)


def price_per_hour(platform: str, machine: str, prices: Path | None = None) -> float:
    """US dollars per hour of a platform's machine, by its name (`a100-large`) or GPU (`a100`).

    `prices` is a user's price file, as in Settings. Raises TomlFileError or UnknownPriceError.
    """
    return load_prices(prices).price_per_hour(platform, machine)


def list_gpus(platform: str, prices: Path | None = None) -> tuple[str, ...]:
    """The GPUs that a platform has a price for. Raises what `price_per_hour` raises."""
    return load_prices(prices).platform(platform).gpus


def price_pages(
    counts: PageEstimate,
    prices: PriceList,
    throughput: ThroughputTable,
    *,
    model: str,
    gpus: Sequence[str] = (),
    tasks: int = 1,
) -> Estimate:
    """Price the counted pages, the cheapest machine first.

    `gpus` are GPUs, or machines by name; if it is empty, all GPUs, one per machine. Raises
    UnknownPriceError if nothing has both a price and a measured speed.
    """
    machines = list(select_machines(prices, gpus))
    offers = [
        price_machine(counts.pages, prices, platform, machine, speed, tasks)
        for platform, machine in machines
        if machine.gpu is not None and (speed := throughput.get(machine.gpu, model)) is not None
    ]
    unmeasured = dict.fromkeys(
        machine.gpu
        for _, machine in machines
        if machine.gpu is not None and throughput.get(machine.gpu, model) is None
    )
    if not offers:
        message = explain_missing_speed(model, tuple(unmeasured), throughput)
        raise UnknownPriceError(message, ProblemCode.NO_THROUGHPUT)
    return Estimate(
        survey=counts,
        model=model,
        tasks=tasks,
        offers=tuple(sorted(offers, key=lambda offer: offer.cost.expected)),
        apis=tuple(sorted(_price_apis(counts.pages, prices), key=lambda api: api.cost.expected)),
        unmeasured=tuple(unmeasured),
    )


def price_machine(
    pages: Interval,
    prices: PriceList,
    platform: PlatformPrices,
    machine: Machine,
    speed: Throughput,
    tasks: int,
) -> MachineEstimate:
    """The pages read by `tasks` tasks with a machine each, which all end at the same time."""
    gpu_hours = pages.divide(speed.pages_per_minute.scale(60))
    work = gpu_hours.scale(1 / (tasks * machine.gpus))
    price = tasks * machine.price_per_hour
    billed = Interval(
        *(platform.billed_hours(hours) for hours in (work.low, work.expected, work.high))
    )
    compute = billed.scale(price)
    gigabytes = pages.scale(prices.page.stored_mb / 1000)
    storage = gigabytes.scale(platform.storage_gb_month * prices.page.stored_months)
    return MachineEstimate(
        platform=platform.name,
        title=platform.title,
        machine=machine.name,
        gpu=speed.gpu,
        gpus=machine.gpus,
        spot=machine.spot,
        price_per_hour=machine.price_per_hour,
        pages_per_minute=speed.pages_per_minute.scale(machine.gpus),
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


def select_machines(
    prices: PriceList, names: Sequence[str]
) -> Iterator[tuple[PlatformPrices, Machine]]:
    """Each platform's first machine with each GPU, spot and on demand; or those that are named."""
    selected = 0
    for platform in prices.platforms.values():
        seen: set[tuple[str, bool]] = set()
        for machine in platform.machines.values():
            if machine.gpu is None:
                continue
            kind = (machine.gpu, machine.spot)
            is_first = machine.gpus == 1 and kind not in seen
            seen |= {kind} if is_first else set()
            if machine.name in names or (is_first and (not names or machine.gpu in names)):
                selected += 1
                yield platform, machine
    if not selected:
        gpus = dict.fromkeys(gpu for one in prices.platforms.values() for gpu in one.gpus)
        raise UnknownPriceError(
            f"no platform has a price for {', '.join(names)}; GPUs are {', '.join(gpus)}, "
            "or name a machine, such as l40sx4"
        )


def _price_apis(pages: Interval, prices: PriceList) -> Iterator[ApiEstimate]:
    page = prices.page
    for api in prices.apis.values():
        if not isinstance(api.price, TokenPrice):
            each = (api.price.cost(count) for count in (pages.low, pages.expected, pages.high))
            yield ApiEstimate(api.name, api.title, Interval(*each), None, api.source)
            continue
        least, most = 1 - page.output_spread, 1 + page.output_spread
        cost = Interval(
            api.price.cost(pages.low, page, page.output_tokens * least),
            api.price.cost(pages.expected, page, page.output_tokens),
            api.price.cost(pages.high, page, page.output_tokens * most),
        )
        batch = cost.scale(api.price.batch) if api.price.batch < 1 else None
        yield ApiEstimate(api.name, api.title, cost, batch, api.source)


def explain_missing_speed(model: str, gpus: Sequence[str], throughput: ThroughputTable) -> str:
    known = throughput.gpus(model)
    on = f" on {', '.join(gpus)}" if gpus and known else ""
    measured = f"; it was measured on {', '.join(known)}" if known else ""
    return (
        f"the speed of {model}{on} is not known{measured}. Run it on some pages, and give a "
        "file with the measured speed as `throughput`"
    )

"""Plans a service for a stream of documents: how many of what, and at which price.

    plan = plan_service(ServiceLoad(30_000, pages=8, within_seconds=600))

The fewest GPUs are chosen whose busiest hour stays below a utilization and within the time for 95%
of the documents (`latency`); then as many processes of the other tiers as that needs, from the CPU
seconds that `python -m benchmarks.scaling` measured (service.toml).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from llm_ocr.messages import ProblemCode
from llm_ocr.platforms.costs.estimates import explain_missing_speed, select_machines
from llm_ocr.platforms.costs.latency import (
    DocumentLatency,
    DocumentQueue,
    GpuReplica,
    documents_in_progress,
    replica_of,
)
from llm_ocr.platforms.costs.price_files import CitationToml, Fraction, load_prices
from llm_ocr.platforms.costs.prices import (
    Citation,
    Interval,
    Machine,
    PlatformPrices,
    UnknownPriceError,
)
from llm_ocr.platforms.costs.throughput import Throughput, load_throughput
from llm_ocr.platforms.costs.toml_files import TomlTable, load_packaged, validate
from llm_ocr.settings import Settings

SECONDS_PER_DAY, HOURS_PER_DAY, DAYS_PER_MONTH = 86_400.0, 24.0, 30.0
# The busiest hour of an office day: as if all documents arrived within 8 hours.
PEAK = 3.0
# Fewer requests for each GPU make pages faster and GPUs more expensive: shares of the most.
WINDOW_SHARES = (1.0, 0.5, 0.25, 0.125)
# The share of documents that must be done within the time.
PROMISED = 0.95
# More GPUs than this many times those that the throughput needs don't make documents faster.
MOST_SPARE = 4.0


class CapacityError(ValueError):
    """No number of GPUs processes documents in this time; the message says what would be."""


class TiersToml(CitationToml):
    gateway: PositiveFloat
    worker: PositiveFloat
    inference: PositiveFloat
    database: PositiveFloat
    storage: PositiveFloat
    database_kb: NonNegativeFloat
    storage_kb: NonNegativeFloat


class LatencyToml(CitationToml):
    gpu: str
    pages_per_minute: PositiveFloat
    page_seconds: PositiveFloat
    requests: PositiveInt


class LimitsToml(TomlTable):
    gpu_utilization: Fraction
    core_utilization: Fraction
    documents_in_progress: PositiveFloat
    requests_per_worker: PositiveInt
    least_processes: PositiveInt
    connections: PositiveInt
    core_per_hour: NonNegativeFloat


class ServiceToml(TomlTable):
    tiers: TiersToml
    latency: list[LatencyToml] = Field(min_length=1)
    limits: LimitsToml


@dataclass(frozen=True)
class ServiceLoad:
    """Documents per day and their pages, and the seconds within which 95% of them must be done.

    In the busiest hour `peak` times as many arrive as in the mean hour; 1: always the same number.
    """

    documents_per_day: float
    pages: float
    within_seconds: float
    peak: float = PEAK

    @property
    def pages_per_day(self) -> float:
        return self.documents_per_day * self.pages

    @property
    def peak_pages_per_second(self) -> float:
        return self.peak * self.pages_per_day / SECONDS_PER_DAY


@dataclass(frozen=True)
class Tiers:
    """Processes of the service, and what they need: cores of all tiers but the GPUs' and the
    storage's. Sizes are what a month of documents takes."""

    workers: int
    tasks: int
    gateways: int
    inference_processes: int
    database_cores: int
    database_connections: int
    database_gb_month: float
    storage_gb_month: float
    cores: int


@dataclass(frozen=True)
class ServiceOffer:
    """The service on one kind of machine: `replicas` GPUs, each with at most `window` requests.

    Utilizations are of the GPUs, in the busiest hour and in the mean one. `per_day` is the price of
    all machines and cores, day and night, with storage; its interval is that of the GPU's speed.
    """

    platform: str
    title: str
    machine: str
    gpu: str
    gpus: int
    price_per_hour: float
    replicas: int
    machines: int
    window: int
    peak_utilization: float
    mean_utilization: float
    latency: DocumentLatency
    tiers: Tiers
    per_day: Interval
    per_month: Interval
    per_thousand_pages: Interval
    price_source: Citation
    speed_source: Citation


@dataclass(frozen=True)
class ServicePlan:
    """A service for a load on each kind of machine, the cheapest first.

    The names of its fields are the keys of `llm-ocr plan --documents-per-day --json`. `unmeasured`
    are GPUs with a price and no measured speed, and `too_slow` those that can't keep the time.
    """

    load: ServiceLoad
    model: str
    offers: tuple[ServiceOffer, ...]
    unmeasured: tuple[str, ...]
    too_slow: tuple[str, ...]
    tier_source: Citation


@dataclass(frozen=True)
class _Fleet:
    """GPUs of one kind that keep the time at the peak."""

    replica: GpuReplica
    count: int
    utilization: float
    latency: DocumentLatency


@dataclass(frozen=True)
class _Fleets:
    """The GPUs at the expected speed, and their number at the highest and the lowest speed."""

    expected: _Fleet
    fewest: int
    most: int


def plan_service(
    load: ServiceLoad, settings: Settings | None = None, *, gpus: Sequence[str] = ()
) -> ServicePlan:
    """Plan the service on each machine. `gpus` are GPUs or machines; empty means all.

    Raises CapacityError, TomlFileError or UnknownPriceError.
    """
    chosen = settings or Settings()
    prices, throughput = load_prices(chosen.prices), load_throughput(chosen.throughput)
    costs = validate(ServiceToml, load_packaged("service.toml"), None)
    offers: list[ServiceOffer] = []
    unmeasured: dict[str, None] = {}
    shortest: dict[str, float] = {}
    fleets: dict[str, _Fleets | None] = {}
    for platform, machine in select_machines(prices, gpus):
        gpu = machine.gpu
        if gpu is None or (machine.spot and machine.name not in gpus):
            # A spot machine may be taken away while people wait.
            continue
        speed = throughput.get(gpu, chosen.model)
        if speed is None:
            unmeasured[gpu] = None
            continue
        if gpu not in fleets:
            fleets[gpu] = _plan_fleets(load, speed, costs)
        if (planned := fleets[gpu]) is None:
            shortest[gpu] = _shortest(load, speed, costs)
        else:
            offers.append(_price(load, planned, platform, machine, speed, costs))
    if not offers and shortest:
        raise CapacityError(_too_slow(load, shortest))
    if not offers:
        message = explain_missing_speed(chosen.model, tuple(unmeasured), throughput)
        raise UnknownPriceError(message, ProblemCode.NO_THROUGHPUT)
    tiers = costs.tiers
    return ServicePlan(
        load,
        chosen.model,
        tuple(sorted(offers, key=lambda offer: offer.per_day.expected)),
        tuple(unmeasured),
        tuple(shortest),
        Citation(tiers.source or "", tiers.date or "", tiers.note or ""),
    )


def _price(
    load: ServiceLoad,
    planned: _Fleets,
    platform: PlatformPrices,
    machine: Machine,
    speed: Throughput,
    costs: ServiceToml,
) -> ServiceOffer:
    fleet, tiers = planned.expected, _size_tiers(load, planned.expected, costs)
    cores = tiers.cores * costs.limits.core_per_hour * HOURS_PER_DAY
    stored = tiers.storage_gb_month * platform.storage_gb_month / DAYS_PER_MONTH

    def per_day(count: int) -> float:
        machines = math.ceil(count / machine.gpus)
        return machines * machine.price_per_hour * HOURS_PER_DAY + cores + stored

    price = Interval(per_day(planned.fewest), per_day(fleet.count), per_day(planned.most))
    return ServiceOffer(
        platform=platform.name,
        title=platform.title,
        machine=machine.name,
        gpu=speed.gpu,
        gpus=machine.gpus,
        price_per_hour=machine.price_per_hour,
        replicas=fleet.count,
        machines=math.ceil(fleet.count / machine.gpus),
        window=fleet.replica.window,
        peak_utilization=fleet.utilization,
        mean_utilization=fleet.utilization / load.peak,
        latency=fleet.latency,
        tiers=tiers,
        per_day=price,
        per_month=price.scale(DAYS_PER_MONTH),
        per_thousand_pages=price.scale(1000 / load.pages_per_day),
        price_source=machine.source,
        speed_source=speed.source,
    )


def _plan_fleets(load: ServiceLoad, speed: Throughput, costs: ServiceToml) -> _Fleets | None:
    """The GPUs at the expected speed, and their number at the highest and the lowest one; None if
    they are too slow at the expected one.

    If they are too slow at the lowest speed only, the number is that of the throughput.
    """
    interval = speed.pages_per_minute
    expected = _plan_fleet(load, _replica(speed.gpu, interval.expected, costs), costs)
    if expected is None:
        return None
    fast = _plan_fleet(load, _replica(speed.gpu, interval.high, costs), costs)
    slow = _plan_fleet(load, _replica(speed.gpu, interval.low, costs), costs)
    in_proportion = math.ceil(expected.count * interval.expected / interval.low)
    return _Fleets(
        expected,
        fewest=min(expected.count, fast.count if fast else expected.count),
        most=max(expected.count, slow.count if slow else in_proportion),
    )


def _replica(gpu: str, pages_per_minute: float, costs: ServiceToml) -> GpuReplica:
    """A GPU of that speed: if it isn't the one of service.toml, pages take longer in proportion."""
    known = next((entry for entry in costs.latency if entry.gpu == gpu), costs.latency[0])
    page_seconds = known.page_seconds * known.pages_per_minute / pages_per_minute
    return replica_of(pages_per_minute, page_seconds, known.requests)


def _plan_fleet(load: ServiceLoad, replica: GpuReplica, costs: ServiceToml) -> _Fleet | None:
    """The fewest GPUs that keep the time, with as many requests each as that allows."""
    best: _Fleet | None = None
    for candidate in _windows(replica):
        for count in _counts(load, candidate, costs.limits.gpu_utilization):
            if best is not None and count >= best.count:
                break
            utilization = load.peak_pages_per_second / (count * candidate.pages_per_second)
            queue = DocumentQueue(candidate, count, load.pages, utilization)
            if queue.share_within(load.within_seconds) >= PROMISED:
                best = _Fleet(candidate, count, utilization, queue.latency())
                break
    return best


def _windows(replica: GpuReplica) -> Iterator[GpuReplica]:
    for share in WINDOW_SHARES:
        yield replica.with_window(max(1, round(share * replica.window)))


def _counts(load: ServiceLoad, replica: GpuReplica, limit: float) -> Iterator[int]:
    """Numbers of GPUs, from those that the throughput needs; in steps of a twentieth."""
    needed = load.peak_pages_per_second / (limit * replica.pages_per_second)
    count = math.ceil(needed)
    while count <= max(MOST_SPARE, MOST_SPARE * needed):
        yield count
        count += max(1, count // 20)


def _shortest(load: ServiceLoad, speed: Throughput, costs: ServiceToml) -> float:
    """The seconds of 95% of documents that have all GPUs for themselves."""
    replica = _replica(speed.gpu, speed.pages_per_minute.expected, costs)
    replicas = math.ceil(load.pages / replica.window)
    return DocumentQueue(replica, replicas, load.pages, 0.0).latency().p95


def _size_tiers(load: ServiceLoad, fleet: _Fleet, costs: ServiceToml) -> Tiers:
    tiers, limits = costs.tiers, costs.limits
    rate = load.peak_pages_per_second

    def cores(seconds_per_page: float) -> float:
        return rate * seconds_per_page / limits.core_utilization

    def processes(seconds_per_page: float) -> int:
        return max(limits.least_processes, math.ceil(cores(seconds_per_page)))

    requests = fleet.count * fleet.replica.window
    workers = max(processes(tiers.worker), math.ceil(requests / limits.requests_per_worker))
    filling = documents_in_progress(fleet.replica, fleet.count, load.pages)
    tasks = math.ceil(limits.documents_in_progress * filling / workers)
    gateways, inference = processes(tiers.gateway), processes(tiers.inference)
    database_cores = math.ceil(cores(tiers.database))
    pages_per_month = load.pages_per_day * DAYS_PER_MONTH
    return Tiers(
        workers=workers,
        tasks=tasks,
        gateways=gateways,
        inference_processes=inference,
        database_cores=database_cores,
        # A worker uses a connection for each task, and three for itself.
        database_connections=workers * min(limits.connections, tasks + 3)
        + gateways * limits.connections,
        database_gb_month=pages_per_month * tiers.database_kb / 1e6,
        storage_gb_month=pages_per_month * tiers.storage_kb / 1e6,
        cores=workers + gateways + inference + database_cores,
    )


def _too_slow(load: ServiceLoad, shortest: dict[str, float]) -> str:
    gpu = min(shortest, key=lambda name: shortest[name])
    return (
        f"{load.within_seconds:,.0f} seconds (`within`) are too short for documents of "
        f"{load.pages:g} pages: on {gpu}, the fastest of {', '.join(shortest)}, 95% of them take "
        f"{shortest[gpu]:,.0f} seconds even if they never share a GPU. Allow more time, or choose "
        "another GPU or model"
    )

"""Reads the price list from `prices.toml` and a user's file that overrides it."""

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from llm_ocr.platforms.costs.prices import (
    SECONDS_PER_HOUR,
    ApiPrices,
    Citation,
    FittedPatches,
    FixedTokens,
    ImageTokenRule,
    Machine,
    PageAssumptions,
    PageTiers,
    PlatformPrices,
    PriceList,
    TokenPrice,
    TokensPerTile,
    WholePatches,
)
from llm_ocr.platforms.costs.toml_files import (
    TomlData,
    TomlFileError,
    TomlTable,
    deep_merge,
    load_packaged,
    read_toml,
    validate,
)

Fraction = Annotated[float, Field(ge=0, le=1)]


class CitationToml(TomlTable):
    source: str | None = None
    date: str | None = None
    note: str | None = None
    second_hand: bool | None = None


class PerSecondToml(TomlTable):
    gpu: NonNegativeFloat
    vcpu: NonNegativeFloat
    gib: NonNegativeFloat


class MachineToml(CitationToml):
    gpu: str | None = None
    gpus: PositiveInt = 1
    price_per_hour: NonNegativeFloat | None = None
    vcpus: PositiveFloat | None = None
    memory_gib: PositiveFloat | None = None
    spot: bool = False


class PlatformToml(CitationToml):
    title: str
    billing_seconds: NonNegativeFloat
    minimum_seconds: NonNegativeFloat = 0
    start_minutes: NonNegativeFloat
    task_minutes: PositiveFloat | None = None
    storage_gb_month: NonNegativeFloat
    second: PerSecondToml | None = None
    machines: dict[str, MachineToml]


class PatchesToml(TomlTable):
    rule: Literal["patches"]
    side: PositiveInt
    budget: PositiveInt
    longest: PositiveInt = 1 << 16
    weight: PositiveFloat = 1.0
    steps: Literal["fit", "whole"]


class TilesToml(TomlTable):
    rule: Literal["tiles"]
    side: PositiveInt
    each: PositiveInt
    base: int = 0


class FixedToml(TomlTable):
    rule: Literal["fixed"]
    tokens: PositiveInt


ImageToml = Annotated[PatchesToml | TilesToml | FixedToml, Field(discriminator="rule")]


class ApiToml(CitationToml):
    title: str
    input: NonNegativeFloat | None = None
    output: NonNegativeFloat | None = None
    batch: Fraction = 1.0
    image: ImageToml | None = None
    per_thousand_pages: list[list[NonNegativeFloat]] | None = None


class PageToml(TomlTable):
    width: PositiveInt
    height: PositiveInt
    prompt_tokens: Annotated[int, Field(ge=0)]
    output_tokens: PositiveInt
    output_spread: Fraction
    stored_mb: NonNegativeFloat
    stored_months: NonNegativeFloat


class PriceListToml(TomlTable):
    page: PageToml
    platforms: dict[str, PlatformToml]
    apis: dict[str, ApiToml]


def load_prices(path: Path | None = None) -> PriceList:
    """The package's prices, replaced or completed by those of the file at `path`.

    Raises TomlFileError.
    """
    tables = load_packaged("prices.toml")
    if path is not None:
        tables = deep_merge(tables, _with_citations(read_toml(path), path))
    table = validate(PriceListToml, tables, path)
    where = str(path or "llm_ocr")
    return PriceList(
        PageAssumptions(**table.page.model_dump()),
        {name: _platform(name, platform, where) for name, platform in table.platforms.items()},
        {name: _api(name, api, where) for name, api in table.apis.items()},
    )


def _with_citations(tables: TomlData, path: Path) -> TomlData:
    """The user's tables, whose prices cite that file unless they name another source."""
    citation = {"source": str(path), "date": "", "note": "", "second_hand": False}
    cited = dict(tables)
    if isinstance(apis := tables.get("apis"), dict):
        cited["apis"] = {name: _with_defaults(citation, api) for name, api in apis.items()}
    if isinstance(platforms := tables.get("platforms"), dict):
        cited["platforms"] = {
            name: _cite_machines(citation, platform) for name, platform in platforms.items()
        }
    return cited


def _cite_machines(citation: TomlData, platform: Any) -> Any:  # noqa: ANN401
    if not isinstance(platform, dict) or not isinstance(platform.get("machines"), dict):
        return platform
    machines = {
        name: _with_defaults(citation, machine) for name, machine in platform["machines"].items()
    }
    return {**platform, "machines": machines}


def _with_defaults(defaults: TomlData, table: Any) -> Any:  # noqa: ANN401
    return {**defaults, **table} if isinstance(table, dict) else table


def _platform(name: str, table: PlatformToml, where: str) -> PlatformPrices:
    return PlatformPrices(
        name=name,
        title=table.title,
        machines={
            key: Machine(
                name=key,
                gpu=machine.gpu,
                gpus=machine.gpus,
                price_per_hour=_price(f"{where}: platforms.{name}.machines.{key}", table, machine),
                source=_source(machine, table),
                spot=machine.spot,
            )
            for key, machine in table.machines.items()
        },
        billing_seconds=table.billing_seconds,
        minimum_seconds=table.minimum_seconds,
        start_minutes=table.start_minutes,
        storage_gb_month=table.storage_gb_month,
        task_minutes=_task_minutes(f"{where}: platforms.{name}", table),
    )


def _price(what: str, platform: PlatformToml, machine: MachineToml) -> float:
    if machine.price_per_hour is not None:
        return machine.price_per_hour
    second = platform.second
    if second is None or machine.vcpus is None or machine.memory_gib is None:
        raise TomlFileError(
            f"{what}: give price_per_hour, or vcpus and memory_gib if the platform has prices per "
            "second"
        )
    gpus = machine.gpus * second.gpu if machine.gpu else 0.0
    per_second = gpus + machine.vcpus * second.vcpu + machine.memory_gib * second.gib
    return per_second * SECONDS_PER_HOUR


def _task_minutes(what: str, table: PlatformToml) -> float | None:
    if table.task_minutes is not None and table.task_minutes <= table.start_minutes:
        raise TomlFileError(f"{what}: task_minutes must be larger than start_minutes")
    return table.task_minutes


def _source(table: CitationToml, default: CitationToml | None = None) -> Citation:
    cited = table if table.source is not None or default is None else default
    return Citation(
        cited.source or "", cited.date or "", cited.note or "", cited.second_hand or False
    )


def _api(name: str, table: ApiToml, where: str) -> ApiPrices:
    what = f"{where}: apis.{name}"
    by_page, by_token = table.per_thousand_pages, (table.input, table.output, table.image)
    if by_page is not None and by_token == (None, None, None):
        return ApiPrices(name, table.title, _tiers(what, by_page), _source(table))
    if by_page is None and None not in by_token:
        assert table.input is not None
        assert table.output is not None
        assert table.image is not None
        image = _image(table.image)
        price = TokenPrice(table.input, table.output, image, table.batch)
        return ApiPrices(name, table.title, price, _source(table))
    raise TomlFileError(f"{what}: give either per_thousand_pages, or input, output and image")


def _tiers(what: str, tiers: list[list[float]]) -> PageTiers:
    ends = [tier[0] for tier in tiers[:-1]]
    is_valid = tiers and len(tiers[-1]) == 1 and all(len(tier) == 2 for tier in tiers[:-1])
    if not is_valid or ends != sorted(set(ends)):
        raise TomlFileError(
            f"{what}.per_thousand_pages: write [[pages, price], ..., [price]], with pages ascending"
        )
    last = (math.inf, tiers[-1][0])
    return PageTiers((*((tier[0], tier[1]) for tier in tiers[:-1]), last))


def _image(table: PatchesToml | TilesToml | FixedToml) -> ImageTokenRule:
    if isinstance(table, FixedToml):
        return FixedTokens(table.tokens)
    if isinstance(table, TilesToml):
        return TokensPerTile(table.side, table.each, table.base)
    if table.steps == "whole":
        return WholePatches(table.side, table.budget, table.weight)
    return FittedPatches(table.side, table.budget, table.longest, table.weight)

"""The price list: `prices.toml`, with a user's file laid over it."""

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from llm_ocr.platforms.image_tokens import FittedPatches, Fixed, ImageRule, Tiles, WholePatches
from llm_ocr.platforms.prices import (
    SECONDS_PER_HOUR,
    Api,
    Machine,
    PageSize,
    PageTiers,
    Platform,
    PriceList,
    Source,
    TokenPrice,
)
from llm_ocr.platforms.tables import (
    Table,
    TableFileError,
    Tables,
    checked,
    from_file,
    laid_over,
    own,
)

Share = Annotated[float, Field(ge=0, le=1)]


class SourceTable(Table):
    source: str | None = None
    date: str | None = None
    note: str | None = None
    second_hand: bool | None = None


class SecondTable(Table):
    gpu: NonNegativeFloat
    vcpu: NonNegativeFloat
    gib: NonNegativeFloat


class MachineTable(SourceTable):
    gpu: str | None = None
    gpus: PositiveInt = 1
    price_per_hour: NonNegativeFloat | None = None
    vcpus: PositiveFloat | None = None
    memory_gib: PositiveFloat | None = None
    spot: bool = False


class PlatformTable(SourceTable):
    title: str
    billing_seconds: NonNegativeFloat
    minimum_seconds: NonNegativeFloat = 0
    start_minutes: NonNegativeFloat
    task_minutes: PositiveFloat | None = None
    storage_gb_month: NonNegativeFloat
    second: SecondTable | None = None
    machines: dict[str, MachineTable]


class PatchesTable(Table):
    rule: Literal["patches"]
    side: PositiveInt
    budget: PositiveInt
    longest: PositiveInt = 1 << 16
    weight: PositiveFloat = 1.0
    steps: Literal["fit", "whole"]


class TilesTable(Table):
    rule: Literal["tiles"]
    side: PositiveInt
    each: PositiveInt
    base: int = 0


class FixedTable(Table):
    rule: Literal["fixed"]
    tokens: PositiveInt


ImageTable = Annotated[PatchesTable | TilesTable | FixedTable, Field(discriminator="rule")]


class ApiTable(SourceTable):
    title: str
    input: NonNegativeFloat | None = None
    output: NonNegativeFloat | None = None
    batch: Share = 1.0
    image: ImageTable | None = None
    per_thousand_pages: list[list[NonNegativeFloat]] | None = None


class PageTable(Table):
    width: PositiveInt
    height: PositiveInt
    prompt_tokens: Annotated[int, Field(ge=0)]
    output_tokens: PositiveInt
    output_spread: Share
    stored_mb: NonNegativeFloat
    stored_months: NonNegativeFloat


class PricesTable(Table):
    page: PageTable
    platforms: dict[str, PlatformTable]
    apis: dict[str, ApiTable]


def load_prices(path: Path | None = None) -> PriceList:
    """The package's prices, and what the file at `path` says instead or besides.

    Raises TableFileError.
    """
    tables = own("prices.toml")
    if path is not None:
        tables = laid_over(tables, _signed(from_file(path), path))
    table = checked(PricesTable, tables, path)
    where = str(path or "llm_ocr")
    return PriceList(
        PageSize(**table.page.model_dump()),
        {name: _platform(name, one, where) for name, one in table.platforms.items()},
        {name: _api(name, one, where) for name, one in table.apis.items()},
    )


def _signed(given: Tables, path: Path) -> Tables:
    """The user's tables: what they price is from that file, if they don't say otherwise."""
    mine = {"source": str(path), "date": "", "note": "", "second_hand": False}
    signed = dict(given)
    if isinstance(apis := given.get("apis"), dict):
        signed["apis"] = {name: _under(mine, api) for name, api in apis.items()}
    if isinstance(platforms := given.get("platforms"), dict):
        signed["platforms"] = {name: _machines(mine, one) for name, one in platforms.items()}
    return signed


def _machines(mine: Tables, platform: Any) -> Any:  # noqa: ANN401
    if not isinstance(platform, dict) or not isinstance(platform.get("machines"), dict):
        return platform
    machines = {name: _under(mine, one) for name, one in platform["machines"].items()}
    return {**platform, "machines": machines}


def _under(mine: Tables, table: Any) -> Any:  # noqa: ANN401
    return {**mine, **table} if isinstance(table, dict) else table


def _platform(name: str, table: PlatformTable, where: str) -> Platform:
    return Platform(
        name=name,
        title=table.title,
        machines={
            machine: Machine(
                name=machine,
                gpu=one.gpu,
                gpus=one.gpus,
                price_per_hour=_price(f"{where}: platforms.{name}.machines.{machine}", table, one),
                source=_source(one, table),
                spot=one.spot,
            )
            for machine, one in table.machines.items()
        },
        billing_seconds=table.billing_seconds,
        minimum_seconds=table.minimum_seconds,
        start_minutes=table.start_minutes,
        storage_gb_month=table.storage_gb_month,
        task_minutes=_task_minutes(f"{where}: platforms.{name}", table),
    )


def _price(what: str, platform: PlatformTable, machine: MachineTable) -> float:
    if machine.price_per_hour is not None:
        return machine.price_per_hour
    second = platform.second
    if second is None or machine.vcpus is None or machine.memory_gib is None:
        raise TableFileError(
            f"{what}: give price_per_hour, or vcpus and memory_gib where the platform has prices "
            "by the second"
        )
    gpus = machine.gpus * second.gpu if machine.gpu else 0.0
    each = gpus + machine.vcpus * second.vcpu + machine.memory_gib * second.gib
    return each * SECONDS_PER_HOUR


def _task_minutes(what: str, table: PlatformTable) -> float | None:
    if table.task_minutes is not None and table.task_minutes <= table.start_minutes:
        raise TableFileError(f"{what}: task_minutes leave no time after start_minutes")
    return table.task_minutes


def _source(table: SourceTable, beneath: SourceTable | None = None) -> Source:
    said = table if table.source is not None or beneath is None else beneath
    return Source(said.source or "", said.date or "", said.note or "", said.second_hand or False)


def _api(name: str, table: ApiTable, where: str) -> Api:
    what = f"{where}: apis.{name}"
    by_page, by_token = table.per_thousand_pages, (table.input, table.output, table.image)
    if by_page is not None and by_token == (None, None, None):
        return Api(name, table.title, _tiers(what, by_page), _source(table))
    if by_page is None and None not in by_token:
        assert table.input is not None
        assert table.output is not None
        assert table.image is not None
        image = _image(table.image)
        price = TokenPrice(table.input, table.output, image, table.batch)
        return Api(name, table.title, price, _source(table))
    raise TableFileError(f"{what}: give either per_thousand_pages, or input, output and image")


def _tiers(what: str, given: list[list[float]]) -> PageTiers:
    ends = [one[0] for one in given[:-1]]
    is_right = given and len(given[-1]) == 1 and all(len(one) == 2 for one in given[:-1])
    if not is_right or ends != sorted(set(ends)):
        raise TableFileError(
            f"{what}.per_thousand_pages: write [[pages, price], ..., [price]], pages rising"
        )
    last = (math.inf, given[-1][0])
    return PageTiers((*((one[0], one[1]) for one in given[:-1]), last))


def _image(table: PatchesTable | TilesTable | FixedTable) -> ImageRule:
    if isinstance(table, FixedTable):
        return Fixed(table.tokens)
    if isinstance(table, TilesTable):
        return Tiles(table.side, table.each, table.base)
    if table.steps == "whole":
        return WholePatches(table.side, table.budget, table.weight)
    return FittedPatches(table.side, table.budget, table.longest, table.weight)

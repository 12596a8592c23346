"""An input looked into and priced: what `llm-ocr plan` and notebooks ask for."""

from collections.abc import Sequence
from pathlib import Path

from llm_ocr.pipeline.events import Notify, ignore
from llm_ocr.pipeline.planning import absolute
from llm_ocr.platforms.offers import Quote, quote
from llm_ocr.platforms.price_files import load_prices
from llm_ocr.platforms.survey import survey
from llm_ocr.platforms.throughput import load_speeds
from llm_ocr.settings import Settings

# Documents of each kind that are looked into.
SAMPLE = 40


def plan_input(
    inputs: str | Path | Sequence[str | Path],
    settings: Settings | None = None,
    *,
    sample: int = SAMPLE,
    gpus: Sequence[str] = (),
    tasks: int = 1,
    notify: Notify | None = None,
) -> Quote:
    """What reading the inputs would cost; `gpus` are GPUs or machines, all where none is named.

    Raises TableFileError, NoInputError, NoSuchPriceError or StorageError.
    """
    chosen = settings or Settings()
    prices, speeds = load_prices(chosen.prices), load_speeds(chosen.throughput)
    several = [inputs] if isinstance(inputs, str | Path) else inputs
    found = survey([absolute(str(one)) for one in several], chosen, sample, notify or ignore)
    return quote(found, prices, speeds, model=chosen.model, wanted=gpus, tasks=tasks)


def price_per_hour(platform: str, machine: str, prices: Path | None = None) -> float:
    """Dollars an hour of a platform's machine, by its name (`a100-large`) or its GPU (`a100`).

    `prices` is a user's file, as Settings has it. Raises TableFileError or NoSuchPriceError.
    """
    return load_prices(prices).price_per_hour(platform, machine)


def gpus_of(platform: str, prices: Path | None = None) -> tuple[str, ...]:
    """The GPUs that a platform has a price for. Raises as `price_per_hour`."""
    return load_prices(prices).platform(platform).gpus

"""How many pages a minute a GPU reads: `throughput.toml`, and after it a user's own file."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat

from llm_ocr.platforms.prices import Interval, Source
from llm_ocr.platforms.tables import Table, TableFileError, checked, from_file, own

# GPUs by what NVIDIA calls them, more exact names before those that are part of them.
_NAMES = (
    ("a100-40", re.compile(r"\bA100\b.*40\s?GB", re.IGNORECASE)),
    ("rtx-pro-6000", re.compile(r"\bRTX PRO 6000\b", re.IGNORECASE)),
    *(
        (name, re.compile(rf"\b{name}\b", re.IGNORECASE))
        for name in ("h200", "h100", "b200", "a100", "l40s", "l40", "l4", "a10g", "a10", "t4")
    ),
)


class MeasuredTable(Table):
    gpu: str
    model: str
    pages_per_minute: PositiveFloat
    low: PositiveFloat | None = None
    high: PositiveFloat | None = None
    source: str = ""
    date: str = ""


class ThroughputTable(Table):
    spread: Annotated[float, Field(ge=0, lt=1)] = 0.3
    measured: list[MeasuredTable] = Field(default_factory=list)


@dataclass(frozen=True)
class Throughput:
    """Pages a minute that one GPU reads of a model."""

    gpu: str
    model: str
    pages_per_minute: Interval
    source: Source


@dataclass(frozen=True)
class Speeds:
    """What is known, by GPU and model."""

    known: Mapping[tuple[str, str], Throughput]

    def of(self, gpu: str, model: str) -> Throughput | None:
        return self.known.get((gpu, model))

    def gpus(self, model: str) -> tuple[str, ...]:
        """Those that the model was measured on."""
        return tuple(gpu for gpu, other in self.known if other == model)


def load_speeds(path: Path | None = None) -> Speeds:
    """The package's figures, and those of the file at `path`, which win. Raises TableFileError."""
    base = checked(ThroughputTable, own("throughput.toml"), None)
    found = _read(base, "")
    if path is not None:
        found += _read(checked(ThroughputTable, from_file(path), path), str(path))
    return Speeds({(one.gpu, one.model): one for one in found})


def _read(table: ThroughputTable, where: str) -> list[Throughput]:
    found: list[Throughput] = []
    for one in table.measured:
        speed = one.pages_per_minute
        low = one.low if one.low is not None else speed * (1 - table.spread)
        high = one.high if one.high is not None else speed * (1 + table.spread)
        if not low <= speed <= high:
            raise TableFileError(
                f"{where or 'llm_ocr'}: measured: {one.gpu} with {one.model}: low {low:g}, "
                f"pages_per_minute {speed:g} and high {high:g} are not in this order"
            )
        source = Source(one.source or where, one.date)
        found.append(Throughput(one.gpu, one.model, Interval(low, speed, high), source))
    return found


def gpu_named(name: str) -> str | None:
    """The GPU's short name, as in the files: `NVIDIA A100-SXM4-80GB` is `a100`. None: unknown."""
    return next((short for short, pattern in _NAMES if pattern.search(name)), None)


def as_toml(measured: Sequence[Throughput]) -> str:
    """Entries to be appended to a user's file."""
    return "".join(
        "\n[[measured]]\n"
        f'gpu = "{one.gpu}"\n'
        f'model = "{one.model}"\n'
        f"pages_per_minute = {one.pages_per_minute.expected:.1f}\n"
        f"low = {one.pages_per_minute.low:.1f}\n"
        f"high = {one.pages_per_minute.high:.1f}\n"
        f'source = "{_quoted(one.source.url)}"\n'
        f'date = "{one.source.date}"\n'
        for one in measured
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')

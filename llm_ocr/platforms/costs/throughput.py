"""Pages per minute of GPUs: `throughput.toml`, a user's file, and what a user's runs measured."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat

from llm_ocr.batch.destination import open_destination
from llm_ocr.messages import pluralize
from llm_ocr.platforms.costs.prices import Citation, Interval
from llm_ocr.platforms.costs.toml_files import (
    TomlFileError,
    TomlTable,
    load_packaged,
    read_toml,
    validate,
)
from llm_ocr.report.sessions import SessionLog, read_sessions
from llm_ocr.report.status import NoRunError
from llm_ocr.settings import Settings

# GPUs by NVIDIA's names; a more specific name comes before one that is part of it.
_NAMES = (
    ("a100-40", re.compile(r"\bA100\b.*40\s?GB", re.IGNORECASE)),
    ("rtx-pro-6000", re.compile(r"\bRTX PRO 6000\b", re.IGNORECASE)),
    *(
        (name, re.compile(rf"\b{name}\b", re.IGNORECASE))
        for name in ("h200", "h100", "b200", "a100", "l40s", "l40", "l4", "a10g", "a10", "t4")
    ),
)
# Most of a shorter session is the engine's start.
LEAST_PAGES = 100
# The least spread around a mean of few sessions: pages of other collections differ.
LEAST_SPREAD = 0.1
# `vLLM 0.32.0 on 2 x NVIDIA L4`
_GPUS = re.compile(r"(\d+) x ([^,]+)")
HEAD = "# Pages per minute measured by your own runs, added by `llm-ocr plan`.\n"


class NoThroughputError(ValueError):
    """The runs measured no throughput; the message says why."""


class MeasurementToml(TomlTable):
    gpu: str
    model: str
    pages_per_minute: PositiveFloat
    low: PositiveFloat | None = None
    high: PositiveFloat | None = None
    source: str = ""
    date: str = ""


class ThroughputToml(TomlTable):
    spread: Annotated[float, Field(ge=0, lt=1)] = 0.3
    measured: list[MeasurementToml] = Field(default_factory=list)


@dataclass(frozen=True)
class Throughput:
    """Pages per minute of one GPU with a model."""

    gpu: str
    model: str
    pages_per_minute: Interval
    source: Citation


@dataclass(frozen=True)
class ThroughputTable:
    """All known throughputs, by GPU and model."""

    known: Mapping[tuple[str, str], Throughput]

    def get(self, gpu: str, model: str) -> Throughput | None:
        return self.known.get((gpu, model))

    def gpus(self, model: str) -> tuple[str, ...]:
        """The GPUs that the model was measured on."""
        return tuple(gpu for gpu, other in self.known if other == model)


@dataclass(frozen=True)
class _Measurement:
    """Pages and GPU minutes of one session."""

    gpu: str
    model: str
    pages: int
    minutes: float
    run: str

    @property
    def speed(self) -> float:
        return self.pages / self.minutes


def load_throughput(path: Path | None = None) -> ThroughputTable:
    """The package's figures, overridden by those of the file at `path`. Raises TomlFileError."""
    known = _read(validate(ThroughputToml, load_packaged("throughput.toml"), None), "")
    if path is not None:
        known += _read(validate(ThroughputToml, read_toml(path), path), str(path))
    return ThroughputTable({(entry.gpu, entry.model): entry for entry in known})


def observed_throughput(
    runs: Sequence[str], settings: Settings, gpu: str | None = None
) -> list[Throughput]:
    """The throughput of each GPU and model that the runs' sessions measured.

    `gpu` is assumed where a session doesn't know it, as with a server that llm_ocr did not start.
    Raises NoRunError, NoThroughputError, StorageError.
    """
    measured: list[_Measurement] = []
    for run in runs:
        records = read_sessions(open_destination(run, settings).store)
        if not records:
            raise NoRunError(f"{run} holds no run with sessions; start one with `llm-ocr run`")
        measured += [entry for record in records for entry in _measurements(record, run, gpu)]
    if not measured:
        raise NoThroughputError(
            f"no session of {', '.join(runs)} read at least {LEAST_PAGES} pages on a known GPU; "
            "if the run used a server that was already running, name its GPU with `gpu`"
        )
    groups: defaultdict[tuple[str, str], list[_Measurement]] = defaultdict(list)
    for entry in measured:
        groups[entry.gpu, entry.model].append(entry)
    return [_mean(group) for group in groups.values()]


def append_throughput(path: Path, measured: Sequence[Throughput]) -> None:
    """Append the figures to a file, which is created if it doesn't exist. Raises TomlFileError."""
    path = path.expanduser()
    if path.exists():
        load_throughput(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        head = "" if path.exists() else HEAD
        with path.open("a", encoding="utf-8") as file:
            file.write(head + to_toml(measured))
    except OSError as error:
        raise TomlFileError(f"{path}: can't be written ({error.strerror})") from error


def gpu_short_name(name: str) -> str | None:
    """The GPU's short name, as in the files: `NVIDIA A100-SXM4-80GB` is `a100`. None: unknown."""
    return next((short for short, pattern in _NAMES if pattern.search(name)), None)


def to_toml(measured: Sequence[Throughput]) -> str:
    """Entries to append to a user's file."""
    return "".join(
        "\n[[measured]]\n"
        f'gpu = "{entry.gpu}"\n'
        f'model = "{entry.model}"\n'
        f"pages_per_minute = {entry.pages_per_minute.expected:.1f}\n"
        f"low = {entry.pages_per_minute.low:.1f}\n"
        f"high = {entry.pages_per_minute.high:.1f}\n"
        f'source = "{_escape(entry.source.url)}"\n'
        f'date = "{entry.source.date}"\n'
        for entry in measured
    )


def _read(table: ThroughputToml, where: str) -> list[Throughput]:
    known: list[Throughput] = []
    for entry in table.measured:
        speed = entry.pages_per_minute
        low = entry.low if entry.low is not None else speed * (1 - table.spread)
        high = entry.high if entry.high is not None else speed * (1 + table.spread)
        if not low <= speed <= high:
            raise TomlFileError(
                f"{where or 'llm_ocr'}: measured: {entry.gpu} with {entry.model}: low {low:g}, "
                f"pages_per_minute {speed:g} and high {high:g} are not in ascending order"
            )
        source = Citation(entry.source or where, entry.date)
        known.append(Throughput(entry.gpu, entry.model, Interval(low, speed, high), source))
    return known


def _measurements(record: SessionLog, run: str, gpu: str | None) -> Iterable[_Measurement]:
    if not record.seconds or record.pages < LEAST_PAGES or "extract" not in record.readers:
        return
    count, kind = _gpus(record, gpu)
    if kind is not None:
        model = str(record.readers["extract"]["profile"])
        minutes = record.seconds / 60 * count
        yield _Measurement(kind, model, record.pages, minutes, run)


def _gpus(record: SessionLog, default: str | None) -> tuple[int, str | None]:
    """How many GPUs read, and of which kind; None if there were several kinds, or it is unknown."""
    counts: dict[str, int] = {}
    for engine in record.engines:
        for count, name in _GPUS.findall(engine):
            kind = gpu_short_name(name) or name.strip()
            counts[kind] = max(counts.get(kind, 0), int(count))
    if len(counts) == 1:
        [(kind, number)] = counts.items()
        return number, kind
    return 1, None if counts else default


def _mean(group: Sequence[_Measurement]) -> Throughput:
    """The mean of all sessions, between the slowest and the fastest of them."""
    speed = sum(entry.pages for entry in group) / sum(entry.minutes for entry in group)
    speeds = [entry.speed for entry in group]
    low = min([*speeds, speed * (1 - LEAST_SPREAD)])
    high = max([*speeds, speed * (1 + LEAST_SPREAD)])
    runs = ", ".join(dict.fromkeys(entry.run for entry in group))
    pages = sum(entry.pages for entry in group)
    source = Citation(f"{pluralize(pages, 'page')} of {runs}", datetime.now(UTC).date().isoformat())
    return Throughput(group[0].gpu, group[0].model, Interval(low, speed, high), source)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')

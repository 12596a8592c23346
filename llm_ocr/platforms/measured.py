"""What one's own runs measured: pages a minute of a GPU, from their sessions."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from llm_ocr.messages import counted
from llm_ocr.pipeline.destination import destination_of
from llm_ocr.platforms.prices import Interval, Source
from llm_ocr.platforms.tables import TableFileError
from llm_ocr.platforms.throughput import Throughput, as_toml, gpu_named, load_speeds
from llm_ocr.report.sessions import SessionRecord, read_sessions
from llm_ocr.report.status import NoRunError
from llm_ocr.settings import Settings

# Of shorter sessions most time is the engine's start.
LEAST_PAGES = 100
# At least so much around a mean of few sessions: pages of other collections differ.
LEAST_SPREAD = 0.1
# `vLLM 0.32.0 on 2 x NVIDIA L4`
_GPUS = re.compile(r"(\d+) x ([^,]+)")
HEAD = "# Pages a minute that runs of one's own measured, added by `llm-ocr plan`.\n"


class NothingMeasuredError(ValueError):
    """The runs tell no speed; the message says why."""


@dataclass(frozen=True)
class _Session:
    """Pages and minutes of one session, a GPU."""

    gpu: str
    model: str
    pages: int
    minutes: float
    run: str

    @property
    def speed(self) -> float:
        return self.pages / self.minutes


def measured(runs: Sequence[str], settings: Settings, gpu: str | None = None) -> list[Throughput]:
    """The speed of each GPU and model that the runs' sessions tell of.

    `gpu` is what read where a session doesn't say, as with a server that ran already. Raises
    NoRunError, NothingMeasuredError, StorageError.
    """
    found: list[_Session] = []
    for run in runs:
        records = read_sessions(destination_of(run, settings).store)
        if not records:
            raise NoRunError(f"{run} holds no run with sessions; start one with `llm-ocr run`")
        found += [one for record in records for one in _of(record, run, gpu)]
    if not found:
        raise NothingMeasuredError(
            f"no session of {', '.join(runs)} read {LEAST_PAGES} pages or more on a GPU that it "
            "names; give --gpu where a server that ran already was asked"
        )
    together: defaultdict[tuple[str, str], list[_Session]] = defaultdict(list)
    for one in found:
        together[one.gpu, one.model].append(one)
    return [_joined(several) for several in together.values()]


def add_to(path: Path, found: Sequence[Throughput]) -> None:
    """Append the speeds to a file, which is made if it isn't there. Raises TableFileError."""
    path = path.expanduser()
    if path.exists():
        load_speeds(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        head = "" if path.exists() else HEAD
        with path.open("a", encoding="utf-8") as file:
            file.write(head + as_toml(found))
    except OSError as error:
        raise TableFileError(f"{path}: can't be written ({error.strerror})") from error


def _of(record: SessionRecord, run: str, gpu: str | None) -> Iterable[_Session]:
    if not record.seconds or record.pages < LEAST_PAGES or "extract" not in record.readers:
        return
    count, kind = _gpus(record, gpu)
    if kind is not None:
        model = str(record.readers["extract"]["profile"])
        minutes = record.seconds / 60 * count
        yield _Session(kind, model, record.pages, minutes, run)


def _gpus(record: SessionRecord, given: str | None) -> tuple[int, str | None]:
    """How many GPUs read, and of which kind; None where several kinds did, or nobody knows."""
    counts: dict[str, int] = {}
    for engine in record.engines:
        for count, name in _GPUS.findall(engine):
            kind = gpu_named(name) or name.strip()
            counts[kind] = max(counts.get(kind, 0), int(count))
    if len(counts) == 1:
        [(kind, number)] = counts.items()
        return number, kind
    return 1, None if counts else given


def _joined(several: Sequence[_Session]) -> Throughput:
    """All sessions together, from the slowest to the fastest of them."""
    speed = sum(one.pages for one in several) / sum(one.minutes for one in several)
    speeds = [one.speed for one in several]
    low = min([*speeds, speed * (1 - LEAST_SPREAD)])
    high = max([*speeds, speed * (1 + LEAST_SPREAD)])
    runs = ", ".join(dict.fromkeys(one.run for one in several))
    pages = sum(one.pages for one in several)
    source = Source(f"{counted(pages, 'page')} of {runs}", datetime.now(UTC).date().isoformat())
    first = several[0]
    return Throughput(first.gpu, first.model, Interval(low, speed, high), source)

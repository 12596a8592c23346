"""A run's events as a progress bar, as plain lines where there is no terminal, or as JSON lines."""

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from llm_ocr.pipeline.events import Event, ItemsDone, Note, Notify, StageEnded, StageStarted
from llm_ocr.records import PageStatus
from llm_ocr.report.summary import STATUS_STYLES

# Seconds between the lines that stand for a progress bar where there is no terminal.
LINE_SECONDS = 10.0
ITEM_NAMES = {
    "plan": "documents",
    "copy": "files",
    "extract": "pages",
    "describe": "descriptions",
    "assemble": "documents",
    "parse": "records",
}


@contextmanager
def watch(console: Console, json_logs: bool) -> Iterator[Notify]:
    """Show what the `Notify` yielded is told, and what is logged, on `console`."""
    if json_logs:
        with _logging(JsonHandler(console.file)):
            yield JsonLines(console.file).notify
    elif console.is_terminal:
        with _bars(console) as progress, _logging(_rich_handler(console)):
            yield Bars(progress).notify
    else:
        with _logging(_rich_handler(console)):
            yield Lines(console).notify


class Tally:
    """Items of one stage by status, and how fast they come in this session."""

    def __init__(self, stage: str, expected: int) -> None:
        self.stage, self.expected = stage, expected
        self.statuses: dict[str, int] = {}
        self.fresh = 0
        self._started = time.monotonic()

    def add(self, event: ItemsDone) -> None:
        self.statuses[event.status] = self.statuses.get(event.status, 0) + event.count
        self.fresh += event.count if event.fresh else 0

    @property
    def done(self) -> int:
        return sum(self.statuses.values())

    @property
    def speed(self) -> float:
        """Items a second in this session."""
        return self.fresh / max(1e-9, time.monotonic() - self._started)

    def as_dict(self) -> Mapping[str, object]:
        return {
            "stage": self.stage,
            "done": self.done,
            "expected": self.expected,
            "per_second": round(self.speed, 3),
            "statuses": self.statuses,
        }


class Bars:
    """A bar a stage, with statuses and speed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tally = Tally("", 0)
        self._bar = TaskID(0)

    def notify(self, event: Event) -> None:
        match event:
            case StageStarted(stage, expected):
                self._tally = Tally(stage, expected)
                self._bar = self._progress.add_task(stage, total=expected, tally=self._tally)
            case ItemsDone():
                self._tally.add(event)
                self._progress.update(self._bar, completed=self._tally.done)
            case StageEnded(_, items):
                self._progress.update(self._bar, total=items, completed=items)
            case Note(text):
                self._progress.console.print(Text(text, "dim"))


class Lines:
    """A line when a stage begins and ends, and every `LINE_SECONDS` between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tally = Tally("", 0)
        self._next = 0.0

    def notify(self, event: Event) -> None:
        match event:
            case StageStarted(stage, expected):
                self._tally = Tally(stage, expected)
                self._next = time.monotonic() + LINE_SECONDS
            case ItemsDone():
                self._tally.add(event)
                if time.monotonic() >= self._next:
                    self._next = time.monotonic() + LINE_SECONDS
                    self._line()
            case StageEnded():
                self._line()
            case Note(text):
                self._console.print(text, highlight=False)

    def _line(self) -> None:
        tally = self._tally
        statuses = ", ".join(f"{count:,} {status}" for status, count in tally.statuses.items())
        name = ITEM_NAMES.get(tally.stage, "items")
        self._console.print(
            f"{tally.stage}: {tally.done:,} of {tally.expected:,} {name} "
            f"({statuses or 'none'}), {tally.speed:.2f}/s",
            highlight=False,
        )


class JsonLines:
    """The same, as JSON lines."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._tally = Tally("", 0)
        self._next = 0.0

    def notify(self, event: Event) -> None:
        match event:
            case StageStarted(stage, expected):
                self._tally = Tally(stage, expected)
                self._next = time.monotonic() + LINE_SECONDS
                self._write("stage_started", self._tally.as_dict())
            case ItemsDone():
                self._tally.add(event)
                if time.monotonic() >= self._next:
                    self._next = time.monotonic() + LINE_SECONDS
                    self._write("progress", self._tally.as_dict())
            case StageEnded():
                self._write("stage_ended", self._tally.as_dict())
            case Note(text):
                self._write("note", {"message": text})

    def _write(self, kind: str, fields: Mapping[str, object]) -> None:
        line = {"time": datetime.now(UTC).isoformat(), "event": kind, **fields}
        print(json.dumps(line), file=self._file, flush=True)


class JsonHandler(logging.Handler):
    """Log records as JSON lines."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__()
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "event": "log",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        print(json.dumps(line), file=self._file, flush=True)


class _StatusColumn(ProgressColumn):
    """Counts by status, in their colours, and the speed."""

    def render(self, task: Task) -> Text:
        tally: Tally = task.fields["tally"]
        counts = [
            (f"{count:,} {status} ", STATUS_STYLES[PageStatus(status)])
            for status, count in tally.statuses.items()
        ]
        return Text.assemble(*counts, (f"{tally.speed:.2f}/s", "bold"))


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:>8}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        _StatusColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def _rich_handler(console: Console) -> logging.Handler:
    return RichHandler(console=console, show_path=False, show_time=False, markup=False)


@contextmanager
def _logging(handler: logging.Handler) -> Iterator[None]:
    logger = logging.getLogger("llm_ocr")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)

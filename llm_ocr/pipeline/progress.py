"""Show a run's progress: bars on a terminal, timed lines elsewhere, JSON lines, or a block of text
in a notebook."""

import json
import logging
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
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

from llm_ocr.messages import pluralize
from llm_ocr.pipeline.events import (
    Event,
    ItemsDone,
    Note,
    Notify,
    StageEnded,
    StageStarted,
    discard,
)
from llm_ocr.records import PageStatus
from llm_ocr.report.summary import STATUS_STYLES

# Seconds without a line, where there is no terminal, after which one says what is going on.
LINE_SECONDS = 10.0
# Seconds between two looks of a notebook's block.
BLOCK_SECONDS = 1.0
# Notes that a notebook's block shows: the last ones.
NOTES_SHOWN = 12
ITEM_NAMES = {
    "plan": "document",
    "copy": "file",
    "extract": "page",
    "describe": "description",
    "assemble": "document",
    "parse": "record",
}


@contextmanager
def shown(notify: Notify | None, wanted: bool = True) -> Iterator[Notify]:
    """`notify`, or where it is None what shows progress: in a notebook a block of text, on a
    terminal bars on standard error, nothing elsewhere and where it isn't `wanted`."""
    if notify is not None:
        yield notify
    elif wanted and _in_notebook():
        block = NotebookBlock()
        with _ticking(block.show, BLOCK_SECONDS):
            yield block.notify
        block.show()
    elif wanted and sys.stderr.isatty():
        with watch(Console(stderr=True), False) as bars:
            yield bars
    else:
        yield discard


@contextmanager
def watch(console: Console, json_logs: bool, seconds: float = LINE_SECONDS) -> Iterator[Notify]:
    """Show what the `Notify` yielded is told, and what is logged, on `console`: as bars, or where
    it is no terminal as lines, one after `seconds` without any."""
    if json_logs:
        lines = JsonLines(console.file, seconds)
        with _logging(JsonHandler(console.file)), _ticking(lines.tick, seconds / 10):
            yield lines.notify
    elif console.is_terminal:
        with _bars(console) as progress, _logging(_rich_handler(console)):
            bars = Bars(progress)
            try:
                yield bars.notify
            finally:
                bars.end()
    else:
        plain = Lines(console, seconds)
        with _logging(_rich_handler(console)), _ticking(plain.tick, seconds / 10):
            yield plain.notify


class Tally:
    """Items of one stage by status, and how fast they come in this session."""

    def __init__(self, stage: str, expected: int) -> None:
        self.stage, self.expected = stage, expected
        self.statuses: dict[str, int] = {}
        self.fresh = 0
        self._started = time.monotonic()
        self._ended: float | None = None

    def add(self, event: ItemsDone) -> None:
        self.statuses[event.status] = self.statuses.get(event.status, 0) + event.count
        self.fresh += event.count if event.fresh else 0

    @property
    def done(self) -> int:
        return sum(self.statuses.values())

    @property
    def seconds(self) -> float:
        return (self._ended or time.monotonic()) - self._started

    def end(self) -> None:
        """Stop counting seconds."""
        self._ended = time.monotonic()

    @property
    def speed(self) -> float:
        """Items a second in this session."""
        return self.fresh / max(1e-9, self.seconds)

    def as_dict(self) -> Mapping[str, object]:
        return {
            "stage": self.stage,
            "done": self.done,
            "expected": self.expected,
            "per_second": round(self.speed, 3),
            "statuses": self.statuses,
        }

    def __str__(self) -> str:
        statuses = ", ".join(f"{count:,} {status}" for status, count in self.statuses.items())
        items = pluralize(self.expected, ITEM_NAMES.get(self.stage, "item"))
        return (
            f"{self.stage}: {self.done:,} of {items} ({statuses or 'none'}), {self.speed:.2f}/s, "
            f"{self.seconds:.0f} s"
        )


class Bars:
    """A bar a stage, with statuses and speed; between stages one that only moves."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tally = Tally("", 0)
        self._bar: TaskID | None = None
        self._waiting: TaskID | None = None
        self._wait("starting")

    def notify(self, event: Event) -> None:
        match event:
            case StageStarted(stage, expected):
                self._end_waiting()
                self._tally = Tally(stage, expected)
                self._bar = self._progress.add_task(stage, total=expected, tally=self._tally)
            case ItemsDone() if self._bar is not None:
                self._tally.add(event)
                self._progress.update(self._bar, completed=self._tally.done)
            case StageEnded(_, items) if self._bar is not None:
                self._tally.end()
                self._progress.update(self._bar, total=items, completed=items)
                self._bar = None
            case Note(text):
                self._progress.console.print(Text(text, "dim"))
                if self._bar is None:
                    self._wait("working")

    def _wait(self, word: str) -> None:
        self._end_waiting()
        self._waiting = self._progress.add_task(word, total=None, tally=None)

    def _end_waiting(self) -> None:
        if self._waiting is not None:
            self._progress.remove_task(self._waiting)
            self._waiting = None

    def end(self) -> None:
        """Leave the stages' bars alone."""
        self._end_waiting()


class _Watched:
    """The state of a run from its events and the clock. Events come from several threads."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._tally: Tally | None = None
        self._doing, self._doing_since = "starting", time.monotonic()
        self._said = time.monotonic()

    def notify(self, event: Event) -> None:
        with self._lock:
            match event:
                case StageStarted(stage, expected):
                    self._tally = Tally(stage, expected)
                    self._doing = ""
                    self._began(self._tally)
                case ItemsDone() if self._tally is not None:
                    self._tally.add(event)
                case StageEnded() if self._tally is not None:
                    self._ended(self._tally)
                    self._tally = None
                    self._do("working")
                case Note(text):
                    self._noted(text)
                    self._do(text)

    def tick(self) -> None:
        """Say what is going on, if nothing was said for so many seconds."""
        with self._lock:
            if time.monotonic() < self._said + self._seconds:
                return
            self._said = time.monotonic()
            # Until the first item comes, what was said last is what all wait for.
            if self._tally is not None and (self._tally.fresh or not self._doing):
                self._going_on(self._tally)
            else:
                self._waiting(self._doing, time.monotonic() - self._doing_since)

    def _do(self, what: str) -> None:
        self._doing, self._doing_since = what, time.monotonic()

    def _began(self, tally: Tally) -> None:
        pass

    def _ended(self, tally: Tally) -> None:
        raise NotImplementedError

    def _going_on(self, tally: Tally) -> None:
        raise NotImplementedError

    def _noted(self, text: str) -> None:
        raise NotImplementedError

    def _waiting(self, what: str, seconds: float) -> None:
        raise NotImplementedError


class Lines(_Watched):
    """A line at the end of each stage, and after so many seconds without one; none twice."""

    def __init__(self, console: Console, seconds: float = LINE_SECONDS) -> None:
        super().__init__(seconds)
        self._console = console
        self._last = ""

    def _ended(self, tally: Tally) -> None:
        self._line(str(tally))

    def _going_on(self, tally: Tally) -> None:
        self._line(str(tally))

    def _noted(self, text: str) -> None:
        self._line(text)

    def _waiting(self, what: str, seconds: float) -> None:
        before = f"{self._tally.stage}: " if self._tally is not None else ""
        self._line(f"{before}{what}, for {seconds:.0f} s now")

    def _line(self, text: str) -> None:
        if text != self._last:
            self._last, self._said = text, time.monotonic()
            self._console.print(text, highlight=False, soft_wrap=True)
            self._console.file.flush()


class JsonLines(_Watched):
    """The same, as JSON lines."""

    def __init__(self, file: IO[str], seconds: float = LINE_SECONDS) -> None:
        super().__init__(seconds)
        self._file = file

    def _began(self, tally: Tally) -> None:
        self._write("stage_started", tally.as_dict())

    def _ended(self, tally: Tally) -> None:
        self._write("stage_ended", tally.as_dict())

    def _going_on(self, tally: Tally) -> None:
        self._write("progress", tally.as_dict())

    def _noted(self, text: str) -> None:
        self._write("note", {"message": text})

    def _waiting(self, what: str, seconds: float) -> None:
        self._write("waiting", {"message": what, "seconds": round(seconds)})

    def _write(self, kind: str, fields: Mapping[str, object]) -> None:
        self._said = time.monotonic()
        line = {"time": datetime.now(UTC).isoformat(), "event": kind, **fields}
        print(json.dumps(line), file=self._file, flush=True)


class NotebookBlock:
    """A block of text in a notebook, shown again as it changes: a line a stage, the last notes."""

    def __init__(self) -> None:
        from IPython.display import display

        self._display: Callable[..., object] = display
        self._id = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._stages: list[str] = []
        self._notes: list[str] = []
        self._tally: Tally | None = None
        self._is_shown = False

    def notify(self, event: Event) -> None:
        with self._lock:
            match event:
                case StageStarted(stage, expected):
                    self._tally = Tally(stage, expected)
                case ItemsDone() if self._tally is not None:
                    self._tally.add(event)
                case StageEnded() if self._tally is not None:
                    self._stages.append(str(self._tally))
                    self._tally = None
                case Note(text):
                    self._notes = [*self._notes, text][-NOTES_SHOWN:]

    def show(self) -> None:
        """Show it as it is now."""
        with self._lock:
            now = [str(self._tally)] if self._tally is not None else []
            text = "\n".join([*self._notes, *self._stages, *now])
        if text:
            self._display(
                {"text/plain": text}, raw=True, display_id=self._id, update=self._is_shown
            )
            self._is_shown = True


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
    """Counts by status, in their colors, and the speed."""

    def render(self, task: Task) -> Text:
        tally: Tally | None = task.fields["tally"]
        if tally is None:
            return Text()
        counts = [
            (f"{count:,} {status} ", STATUS_STYLES[PageStatus(status)])
            for status, count in tally.statuses.items()
        ]
        return Text.assemble(*counts, (f"{tally.speed:.2f}/s", "bold"))


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this; IPython in a terminal has none."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


@contextmanager
def _ticking(tick: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call `tick` every so many seconds, from a thread: lines come also while all others wait."""
    ended = threading.Event()

    def go() -> None:
        while not ended.wait(seconds):
            tick()

    thread = threading.Thread(target=go, name="llm-ocr-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


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

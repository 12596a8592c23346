"""Show a run's progress: bars on a terminal, timed lines elsewhere, JSON lines, or a block of text
in a notebook."""

import json
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO

from rich.console import Console
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

from llm_ocr.batch.events import (
    Event,
    ItemsDone,
    Note,
    Notify,
    StageEnded,
    StageStarted,
    discard,
)
from llm_ocr.messages import pluralize
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
    "compare": "page",
    "judge": "verdict",
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
    """Show the events that the yielded `Notify` receives on `console`: as bars, or where it is no
    terminal as lines (JSON, with `json_logs`), one after `seconds` without any."""
    if console.is_terminal and not json_logs:
        with _bars(console) as progress:
            bars = Bars(progress)
            try:
                yield bars.notify
            finally:
                bars.end()
    else:
        lines = JsonLines(console.file, seconds) if json_logs else Lines(console, seconds)
        with _ticking(lines.tick, seconds / 10):
            yield lines.notify


class Tally:
    """Items of one stage by status, and how fast they come in this session."""

    def __init__(self, stage: str, expected: int) -> None:
        self.stage, self._expected = stage, expected
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
    def expected(self) -> int:
        """Pages of a file that isn't opened to plan a run are estimated: there may be more."""
        return max(self._expected, self.done)

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


class ProgressView:
    """Follows a run by its events, which come from several threads; subclasses show it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tally: Tally | None = None

    def notify(self, event: Event) -> None:
        with self._lock:
            match event:
                case StageStarted(stage, expected):
                    self._tally = Tally(stage, expected)
                    self._start_stage(self._tally)
                case ItemsDone() if self._tally is not None:
                    self._tally.add(event)
                    self._show_items(self._tally)
                case StageEnded(_, items) if self._tally is not None:
                    tally, self._tally = self._tally, None
                    tally.end()
                    self._end_stage(tally, items)
                case Note(text):
                    self._show_note(text)

    def _start_stage(self, tally: Tally) -> None:
        pass

    def _show_items(self, tally: Tally) -> None:
        pass

    def _end_stage(self, tally: Tally, items: int) -> None:
        raise NotImplementedError

    def _show_note(self, text: str) -> None:
        raise NotImplementedError


class Bars(ProgressView):
    """A bar a stage, with statuses and speed; between stages one that only moves."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress
        self._waiting: TaskID | None = None
        self._bar = self._wait("starting")

    def _start_stage(self, tally: Tally) -> None:
        self.end()
        self._bar = self._progress.add_task(tally.stage, total=tally.expected, tally=tally)

    def _show_items(self, tally: Tally) -> None:
        self._progress.update(self._bar, total=tally.expected, completed=tally.done)

    def _end_stage(self, tally: Tally, items: int) -> None:
        self._progress.update(self._bar, total=items, completed=items)

    def _show_note(self, text: str) -> None:
        self._progress.console.print(Text(text, "dim"))
        if self._tally is None:
            self._wait("working")

    def _wait(self, word: str) -> TaskID:
        self.end()
        self._waiting = self._progress.add_task(word, total=None, tally=None)
        return self._waiting

    def end(self) -> None:
        """Leave only the bars of stages."""
        if self._waiting is not None:
            self._progress.remove_task(self._waiting)
            self._waiting = None


class TimedLines(ProgressView):
    """A line for each note, at the start and the end of each stage, and after so many seconds
    without one; subclasses write it."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._doing, self._doing_since = "starting", time.monotonic()
        self._written_at = time.monotonic()

    def tick(self) -> None:
        """Write what is going on, if nothing was written for so many seconds."""
        with self._lock:
            now = time.monotonic()
            if now < self._written_at + self._seconds:
                return
            self._written_at, tally = now, self._tally
            # Until the first item comes, the last note is what all wait for.
            if tally is not None and (tally.fresh or not self._doing):
                self._write("progress", str(tally), tally.as_dict())
                return
            seconds = now - self._doing_since
            stage = "" if tally is None else f"{tally.stage}: "
            text = f"{stage}{self._doing}, for {seconds:.0f} s now"
            self._write("waiting", text, {"message": self._doing, "seconds": round(seconds)})

    def _start_stage(self, tally: Tally) -> None:
        self._doing = ""
        self._write("stage_started", "", tally.as_dict())

    def _end_stage(self, tally: Tally, items: int) -> None:
        self._write("stage_ended", str(tally), tally.as_dict())
        self._doing, self._doing_since = "working", time.monotonic()

    def _show_note(self, text: str) -> None:
        self._write("note", text, {"message": text})
        self._doing, self._doing_since = text, time.monotonic()

    def _write(self, kind: str, text: str, fields: Mapping[str, object]) -> None:
        """Write what happened: `text` for people ("": nothing), `fields` for programs."""
        raise NotImplementedError


class Lines(TimedLines):
    """Plain lines, none twice in a row."""

    def __init__(self, console: Console, seconds: float) -> None:
        super().__init__(seconds)
        self._console = console
        self._last = ""

    def _write(self, kind: str, text: str, fields: Mapping[str, object]) -> None:
        if text and text != self._last:
            self._last, self._written_at = text, time.monotonic()
            self._console.print(text, highlight=False, soft_wrap=True)
            self._console.file.flush()


class JsonLines(TimedLines):
    """JSON lines."""

    def __init__(self, file: IO[str], seconds: float) -> None:
        super().__init__(seconds)
        self._file = file

    def _write(self, kind: str, text: str, fields: Mapping[str, object]) -> None:
        self._written_at = time.monotonic()
        line = {"time": datetime.now(UTC).isoformat(), "event": kind, **fields}
        print(json.dumps(line), file=self._file, flush=True)


class NotebookBlock(ProgressView):
    """A block of text in a notebook, shown again as it changes: a line a stage, the last notes."""

    def __init__(self) -> None:
        from IPython.display import display

        super().__init__()
        self._display: Callable[..., object] = display
        self._id = uuid.uuid4().hex
        self._stages: list[str] = []
        self._notes: list[str] = []
        self._is_shown = False

    def _end_stage(self, tally: Tally, items: int) -> None:
        self._stages.append(str(tally))

    def _show_note(self, text: str) -> None:
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

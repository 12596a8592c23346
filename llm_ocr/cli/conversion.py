"""What `llm-ocr convert` does: convert documents one by one, print or write them, and say how."""

import itertools
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from llm_ocr.cli.advice import explain, explain_fact, show_options
from llm_ocr.cli.output import show_logs, warn
from llm_ocr.document.converter import Converter
from llm_ocr.exit_codes import ExitCode
from llm_ocr.export.document import ExportError, document_of_result
from llm_ocr.export.formats import (
    CONVERT_FORMATS,
    SPECS,
    DocumentFormat,
    ExportOptions,
    export_files,
)
from llm_ocr.export.run import export_options, source_reader
from llm_ocr.export.source import DocumentSource, SourceReader
from llm_ocr.messages import pluralize
from llm_ocr.records import DocumentResult, PageError, PageStatus
from llm_ocr.report.document_files import document_files, rename_document, render_document
from llm_ocr.settings import Settings
from llm_ocr.sources.inputs import NoInputError
from llm_ocr.sources.names import name_key
from llm_ocr.sources.web import is_url, redact_url
from llm_ocr.storage.store import StorageError, Store, open_store


def convert_all(
    inputs: Sequence[str], given: dict[str, Any], formats: tuple[str, ...], out: str | None
) -> set[ExitCode]:
    """Convert each input; one that fails doesn't stop the others. Returns the exit codes of those
    that failed."""
    settings = Settings(**given)
    exports = [DocumentFormat(name) for name in formats if name in CONVERT_FORMATS]
    formats = tuple(name for name in formats if name not in CONVERT_FORMATS)
    options = export_options(settings, exports)
    store = None if out is None else open_store(out)
    console = Console(stderr=True)
    progress, names, codes = _Progress(console), _NameRegistry(), set[ExitCode]()
    with (
        _stop_on_signals(),
        show_logs(console),
        Converter(settings, notify=progress.note, on_item=progress.count) as converter,
        source_reader(settings) as reader,
    ):
        for source in inputs:
            try:
                with progress.show(source):
                    result = converter.convert(source)
            except (NoInputError, StorageError) as error:
                progress.error(error)
                is_usage = isinstance(error, NoInputError)
                codes.add(ExitCode.USAGE if is_usage else ExitCode.STORAGE)
                continue
            paths: list[str] = []
            if store is not None and result.doc_id:
                result = names.make_unique(result)
                for path, content in document_files(result, formats):
                    store.put(path, content)
                    paths.append(path)
            elif store is None and formats:
                _print_document(result, formats[0])
            if exports and result.status is not PageStatus.FAILED:
                original = _Original(source, reader, settings)
                try:
                    paths += _export(result, original, exports, options, store)
                except (ExportError, PageError) as error:
                    progress.error(error)
                    codes.add(ExitCode.FAILED_PAGES)
            progress.summarize(result, out, [path for path in paths if "/" not in path])
            if not _is_complete(result):
                codes.add(ExitCode.FAILED_PAGES)
    return codes


@dataclass(frozen=True)
class _Original:
    """An input, which is opened again if an export needs it."""

    address: str
    reader: SourceReader
    settings: Settings

    def open(self) -> DocumentSource:
        return self.reader.open(self.address, self.settings.url_policy)


def _export(
    result: DocumentResult,
    original: _Original,
    exports: Sequence[DocumentFormat],
    options: ExportOptions,
    store: Store | None,
) -> list[str]:
    """Write a document in these formats, or print it if there is no store. Returns the paths of
    the files that were written last. Raises ExportError and PageError."""
    source = original.open() if {DocumentFormat.PDF, DocumentFormat.PDFA} & set(exports) else None
    document = document_of_result(result, source)
    paths = []
    for one in exports:
        for file in export_files(document, one, options):
            content = b"".join(file.content)
            if store is None:
                sys.stdout.buffer.write(content)
            else:
                store.put(f"{result.name}{file.suffix}", content)
        paths.append(f"{result.name}{SPECS[one].suffix}")
    sys.stdout.buffer.flush()
    for note in dict.fromkeys(document.notes):
        warn(f"{result.name}: {note}")
    return paths


class _Progress:
    """What happens, on standard error: on a terminal also while it happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._source = ""
        self._counts: Counter[str] = Counter()
        self._started = 0.0

    @contextmanager
    def show(self, source: str) -> Iterator[None]:
        """Show the progress of one document until the block ends."""
        self._source, self._started = _name_source(source), time.monotonic()
        self._counts.clear()
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(self._describe()) as self._status:
            yield
        self._status = None

    def count(self, step: str, status: PageStatus) -> None:
        """Count an item that a step has processed."""
        self._counts[step] += 1
        if self._status is not None:
            self._status.update(self._describe())

    def note(self, line: str) -> None:
        """Print a line about an engine."""
        self._print(show_options(line))

    def error(self, error: Exception) -> None:
        """Print why an input can't be converted."""
        self._print(explain(error))

    def summarize(self, result: DocumentResult, out: str | None, paths: Sequence[str]) -> None:
        """Print what became of a document, and what is wrong with it."""
        seconds = time.monotonic() - self._started
        for message in _problems(result):
            self._print(message)
        pages = sum(page.page_number > 0 for page in result.pages)
        counts = [pluralize(pages, "page"), pluralize(len(result.figures), "figure")]
        line = f"{self._source}: {result.status}, {', '.join(counts)}, {seconds:.1f} s"
        if out is not None and paths:
            line += f"; {', '.join(f'{out}/{path}' for path in paths)}"
        elif out is None and result.figures:
            line += "; figures are saved only with --out"
        self._print(line)

    def _describe(self) -> str:
        done = (
            pluralize(self._counts[step], noun)
            for step, noun in (("extract", "page"), ("describe", "figure"), ("parse", "record"))
            if self._counts[step]
        )
        return escape(f"{self._source}: {', '.join(done) or 'reading'}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class _NameRegistry:
    """Gives each document a name of its own, so that no file replaces another."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def make_unique(self, result: DocumentResult) -> DocumentResult:
        names = (f"{result.name}-{number}" for number in itertools.count(2))
        candidates = itertools.chain([result.name], names)
        name = next(name for name in candidates if name_key(name) not in self._taken)
        self._taken.add(name_key(name))
        return rename_document(result, name)


def _name_source(source: str) -> str:
    """An input as it may be printed."""
    return redact_url(source) if is_url(source) else source


def _problems(result: DocumentResult) -> Iterator[str]:
    """What is wrong with a document, its pages and its records, each once."""
    outcomes = [*(page.outcome for page in result.pages), *(one.outcome for one in result.records)]
    errors = [(outcome.error, outcome.error_code) for outcome in outcomes]
    errors.insert(0, (result.error, result.error_code))
    yield from dict.fromkeys(explain_fact(error, code) for error, code in errors if error)


def _is_complete(result: DocumentResult) -> bool:
    """Whether all of it was read, and each record was made."""
    lacking = (PageStatus.FAILED, PageStatus.TRUNCATED)
    statuses = (result.status, *(record.status for record in result.records))
    return not any(status in lacking for status in statuses)


def _print_document(result: DocumentResult, format_name: str) -> None:
    """Print a document and nothing else, in UTF-8 whatever the locale."""
    if format_name == "json" or result.status is not PageStatus.FAILED:
        sys.stdout.buffer.write(render_document(result, format_name))
        sys.stdout.buffer.flush()


@contextmanager
def _stop_on_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the command with their exit code, after its engines."""

    def terminate(number: int, frame: FrameType | None) -> None:
        # A second one is not waited for.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise typer.Exit(ExitCode.TERMINATED)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt as error:
        warn("Stopped: the document in progress was not converted")
        raise typer.Exit(ExitCode.INTERRUPTED) from error
    finally:
        signal.signal(signal.SIGTERM, before)

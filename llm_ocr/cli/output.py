"""Print the progress and the results of commands, and turn errors into exit codes."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from llm_ocr import logs
from llm_ocr.cli.advice import explain, explain_fact, show_options
from llm_ocr.cli.options import cluster_options
from llm_ocr.exit_codes import ExitCode
from llm_ocr.service.settings import LogSettings, ProcessLogSettings

if TYPE_CHECKING:
    from rich.console import Console

    from llm_ocr.batch.events import Notify
    from llm_ocr.report.summary import Summary


def parse_list(given: dict[str, Any], name: str, default: str) -> list[str]:
    """Remove a repeatable option from `given` and return its values, each of which may be a
    comma-separated list."""
    values: list[str] = given.pop(name, None) or [default]
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def run_command(
    given: dict[str, Any],
    json_logs: bool,
    out: str,
    work: "Callable[..., Summary]",
    *,
    asks: bool = True,
) -> None:
    """Do `work` on the run at `out`; show its progress, its summary and its outputs.

    `work` takes the settings for the machine or cluster that was chosen, and as keywords `notify`,
    `executor` and `stop`. `asks`: whether a model is needed.
    """
    from llm_ocr.cli.signals import stop_on_signals
    from llm_ocr.platforms.ray import select_executor
    from llm_ocr.report.summary import render_summary
    from llm_ocr.settings import Settings

    console, cluster = stdout(), cluster_options(given)
    with handle_errors():
        settings = Settings(**given)
        with (
            show_progress(console, json_logs) as notify,
            select_executor(cluster, out, settings, notify, asks=asks) as (chosen, executor),
            # After the executor: Ray installs its own signal handlers.
            stop_on_signals(settings.stop_seconds) as stop,
        ):
            summary = work(chosen, notify=notify, executor=executor, stop=stop)
        if not json_logs:
            console.print(render_summary(summary, explain_fact))
            for uri, content in _outputs(summary.out):
                console.print(f"{uri}  {content}", highlight=False, soft_wrap=True)
    if summary.failed_ratio > settings.max_failed_ratio:
        raise typer.Exit(ExitCode.FAILED_PAGES)


@contextmanager
def show_progress(console: "Console", json_logs: bool = False) -> "Iterator[Notify]":
    """Show on `console` the events that the yielded `Notify` receives, and what is logged."""
    from llm_ocr.batch.progress import watch

    with show_logs(console, json_logs), watch(console, json_logs) as notify:
        yield _showing_options(notify)


@contextmanager
def show_logs(console: "Console", json_logs: bool = False) -> Iterator[None]:
    """Show the warnings and errors that are logged on `console`."""
    from rich.logging import RichHandler

    handler: logging.Handler
    if json_logs:
        handler = logging.StreamHandler(console.file)
        handler.setFormatter(logs.JsonFormatter(_with_options, {"event": "log"}))
    else:
        handler = RichHandler(console=console, show_path=False, show_time=False, markup=False)
        handler.setFormatter(_OptionsFormatter("%(message)s"))
    logger = logging.getLogger("llm_ocr")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _OptionsFormatter(logging.Formatter):
    """Messages with options in place of settings' names."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _with_options(super().formatMessage(record))


def _with_options(message: str) -> str:
    return explain_fact(message, None)


def configure_logs(given: dict[str, Any]) -> None:
    """Make the logs of this process of the service JSON, if the option in `given` or the
    environment wants that. Raises ValidationError."""
    own = {name: given[name] for name in LogSettings.model_fields if name in given}
    if ProcessLogSettings(**own).json_logs:
        logs.use_json_logs(_with_options)


def _showing_options(notify: "Notify") -> "Notify":
    """`notify`, with options in place of settings' names in notes."""
    from llm_ocr.batch.events import Event, Note

    def tell(event: Event) -> None:
        notify(Note(show_options(event.text)) if isinstance(event, Note) else event)

    return tell


def _outputs(out: str) -> Iterator[tuple[str, str]]:
    """The URIs of a run's outputs for users, with a description of each."""
    from llm_ocr.storage.store import open_store

    store = open_store(out)
    for name, content in (
        ("index.html", "viewer: pages next to their Markdown"),
        ("markdown", "one Markdown file per document, plus its figures"),
        ("records", "records as JSON lines, CSV and Parquet"),
        ("data", "tables as Parquet"),
    ):
        if store.exists(name) or any(True for _ in store.list(name)):
            yield f"{store.uri}/{name}", content


def stdout() -> "Console":
    """A console on standard output."""
    from rich.console import Console

    return Console(stderr=False)


@contextmanager
def handle_errors() -> Iterator[None]:
    """Print an expected error as a message and exit with its code. An unexpected error is a bug:
    its traceback is shown."""
    from pydantic import ValidationError

    from llm_ocr.batch.interruption import BudgetExceededError, StoppedError
    from llm_ocr.batch.partition import InvalidPartitionError
    from llm_ocr.batch.retry import UnknownStatusError
    from llm_ocr.document.figure_tasks import UnknownTaskError
    from llm_ocr.env_file import EnvFileError
    from llm_ocr.evaluation.judgment import UnknownJudgeError
    from llm_ocr.evaluation.predictions import NothingToEvaluateError
    from llm_ocr.export.document import ExportError
    from llm_ocr.inference.responses import EngineFailedError, WrongServerError
    from llm_ocr.messages import MissingExtraError
    from llm_ocr.parsing.schema import SchemaError
    from llm_ocr.platforms.base import InvalidStageError, InvalidTargetError, PlatformError
    from llm_ocr.platforms.batch_job import BatchJobError
    from llm_ocr.platforms.cluster import ClusterError
    from llm_ocr.platforms.costs.capacity import CapacityError
    from llm_ocr.platforms.costs.prices import UnknownPriceError
    from llm_ocr.platforms.costs.throughput import NoThroughputError
    from llm_ocr.platforms.costs.toml_files import TomlFileError
    from llm_ocr.report.status import NoRunError
    from llm_ocr.sources.inputs import NoInputError
    from llm_ocr.storage.store import RunInUseError, StorageError
    from llm_ocr.tables.counts import CountMismatchError
    from llm_ocr.tables.plan import SettingsMismatchError

    try:
        yield
    except ValidationError as error:
        for problem in error.errors():
            option = "--" + "-".join(str(part) for part in problem["loc"]).replace("_", "-")
            message = show_options(problem["msg"].removeprefix("Value error, "))
            # A problem of several options together names them itself.
            warn(f"{option}: {message}" if problem["loc"] else message)
        raise typer.Exit(ExitCode.USAGE) from error
    except MissingExtraError as error:
        # First: it may also be an error of an engine, a store or a platform.
        warn(explain(error))
        raise typer.Exit(ExitCode.USAGE) from error
    except (
        BatchJobError,
        CapacityError,
        EnvFileError,
        ExportError,
        NoInputError,
        NoRunError,
        InvalidTargetError,
        UnknownPriceError,
        InvalidPartitionError,
        InvalidStageError,
        UnknownStatusError,
        UnknownTaskError,
        NoThroughputError,
        NothingToEvaluateError,
        SchemaError,
        SettingsMismatchError,
        TomlFileError,
        UnknownJudgeError,
        RunInUseError,
    ) as error:
        warn(explain(error))
        raise typer.Exit(ExitCode.USAGE) from error
    except WrongServerError as error:
        warn(explain(error))
        raise typer.Exit(ExitCode.USAGE) from error
    except EngineFailedError as error:
        warn(f"The engine failed: {explain(error)}")
        raise typer.Exit(ExitCode.ENGINE) from error
    except (ClusterError, PlatformError) as error:
        warn(explain(error))
        raise typer.Exit(ExitCode.ENGINE) from error
    except (StorageError, CountMismatchError) as error:
        warn(f"Stopped: {explain(error)}")
        raise typer.Exit(ExitCode.STORAGE) from error
    except BudgetExceededError as error:
        warn(f"Stopped: {explain(error)}")
        raise typer.Exit(ExitCode.BUDGET) from error
    except KeyboardInterrupt as error:
        warn("Stopped: rerun the same command to resume the run")
        raise typer.Exit(ExitCode.INTERRUPTED) from error
    except StoppedError as error:
        warn(f"Stopped: {explain(error)}")
        code = ExitCode.TERMINATED if error.preempted else ExitCode.INTERRUPTED
        raise typer.Exit(code) from error


def warn(message: str, level: int = logging.ERROR) -> None:
    """Print a message on standard error; where logs are JSON, as a record of this level."""
    print(logs.format_message(message, level), file=sys.stderr, flush=True)  # noqa: T201

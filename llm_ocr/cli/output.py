"""What a command prints, and the exit code it ends with."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from llm_ocr.exit_codes import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from llm_ocr.pipeline.events import Notify
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings


def parse_list(given: dict[str, Any], name: str, default: str) -> list[str]:
    """The values of a repeatable option, each of which may be comma-separated; removes it from
    `given`."""
    values: list[str] = given.pop(name, None) or [default]
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def run_command(
    given: dict[str, Any], json_logs: bool, work: "Callable[[Settings, Notify], Summary]"
) -> None:
    """Do `work` with the given settings; show its progress, its summary and its outputs."""
    from llm_ocr.pipeline.progress import watch
    from llm_ocr.report.summary import render_summary
    from llm_ocr.settings import Settings

    console = stdout()
    with handle_errors():
        settings = Settings(**given)
        with watch(console, json_logs) as notify:
            summary = work(settings, notify)
        if not json_logs:
            console.print(render_summary(summary))
            for place, content in _outputs(summary.out):
                console.print(f"{place}  {content}", highlight=False, soft_wrap=True)
    if summary.failed_ratio > settings.max_failed_ratio:
        raise typer.Exit(ExitCode.FAILED_PAGES)


def _outputs(out: str) -> Iterator[tuple[str, str]]:
    """The outputs of a run that people open, and what each is."""
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
    """Print expected errors as one message and exit with their code; an unexpected one is a bug,
    and its traceback is shown."""
    from pydantic import ValidationError

    from llm_ocr.env_file import EnvFileError
    from llm_ocr.evaluation.predictions import NothingToEvaluateError
    from llm_ocr.inference.replies import EngineFailedError, WrongServerError
    from llm_ocr.messages import MissingExtraError
    from llm_ocr.parsing.schema import SchemaError
    from llm_ocr.pipeline.figure_tasks import UnknownTaskError
    from llm_ocr.pipeline.interruption import BudgetExceededError, StoppedError
    from llm_ocr.pipeline.partition import InvalidPartitionError
    from llm_ocr.pipeline.retrying import UnknownStatusError
    from llm_ocr.platforms.base import InvalidStageError, InvalidTargetError, PlatformError
    from llm_ocr.platforms.batch_job import BatchJobError
    from llm_ocr.platforms.cluster import ClusterError
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
            message = problem["msg"].removeprefix("Value error, ")
            # A problem of several options together names them itself.
            warn(f"{option}: {message}" if problem["loc"] else message)
        raise typer.Exit(ExitCode.USAGE) from error
    except MissingExtraError as error:
        # First: it may also be an error of an engine, a store or a platform.
        warn(str(error))
        raise typer.Exit(ExitCode.USAGE) from error
    except (
        BatchJobError,
        EnvFileError,
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
        RunInUseError,
    ) as error:
        warn(str(error))
        raise typer.Exit(ExitCode.USAGE) from error
    except WrongServerError as error:
        warn(str(error))
        raise typer.Exit(ExitCode.USAGE) from error
    except EngineFailedError as error:
        warn(f"The engine failed: {error}")
        raise typer.Exit(ExitCode.ENGINE) from error
    except (ClusterError, PlatformError) as error:
        warn(str(error))
        raise typer.Exit(ExitCode.ENGINE) from error
    except (StorageError, CountMismatchError) as error:
        warn(f"Stopped: {error}")
        raise typer.Exit(ExitCode.STORAGE) from error
    except BudgetExceededError as error:
        warn(f"Stopped: {error}")
        raise typer.Exit(ExitCode.BUDGET) from error
    except KeyboardInterrupt as error:
        warn("Stopped: rerun the same command to resume the run")
        raise typer.Exit(ExitCode.INTERRUPTED) from error
    except StoppedError as error:
        warn(f"Stopped: {error}")
        code = ExitCode.TERMINATED if error.preempted else ExitCode.INTERRUPTED
        raise typer.Exit(code) from error


def warn_event(event: object) -> None:
    """Print an event on standard error, where no progress is shown."""
    warn(str(getattr(event, "text", event)))


def warn(message: str) -> None:
    """Print a message on standard error."""
    print(message, file=sys.stderr)  # noqa: T201

"""What a command shows of its work, and how it ends when that fails."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from llm_ocr.pipeline.events import Notify
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings


def listed(given: dict[str, Any], name: str, default: str) -> list[str]:
    """The values of an option that takes several, with commas or given again."""
    values: list[str] = given.pop(name, None) or [default]
    return [one.strip() for value in values for one in value.split(",") if one.strip()]


def show(
    given: dict[str, Any], json_logs: bool, work: "Callable[[Settings, Notify], Summary]"
) -> None:
    """Do `work` with the settings that were given, show it, and the summary it ends with."""
    from llm_ocr.pipeline.progress import watch
    from llm_ocr.report.summary import render_summary
    from llm_ocr.settings import Settings

    _load_pyarrow_without_pandas()
    console = terminal()
    with errors():
        settings = Settings(**given)
        with watch(console, json_logs) as notify:
            summary = work(settings, notify)
        if not json_logs:
            console.print(render_summary(summary))
            for place, what in _outputs(summary.out):
                console.print(f"{place}  {what}", highlight=False, soft_wrap=True)
    if summary.failed_ratio > settings.max_failed_ratio:
        raise typer.Exit(1)


def _load_pyarrow_without_pandas() -> None:
    """Load pyarrow such that its first array does not load pandas, which takes a second where it is
    installed. What imports pandas later, as a user's schema may, still gets it."""
    import pyarrow

    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)
        try:
            pyarrow.array([], pyarrow.null())
        finally:
            sys.meta_path.remove(_NoPandas)


class _NoPandas(MetaPathFinder):
    """Finds no pandas, whether it is installed or not."""

    @classmethod
    def find_spec(cls, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def _outputs(out: str) -> Iterator[tuple[str, str]]:
    """What a run left for people to open."""
    from llm_ocr.storage.store import open_store

    store = open_store(out)
    for name, what in (
        ("index.html", "the viewer: pages beside their Markdown"),
        ("markdown", "one Markdown file a document, with its figures"),
        ("records", "the records, as JSON lines, CSV and Parquet"),
        ("data", "the tables, as Parquet"),
    ):
        if store.exists(name) or any(True for _ in store.list(name)):
            yield f"{store.uri}/{name}", what


def terminal() -> "Console":
    from rich.console import Console

    return Console(stderr=False)


@contextmanager
def errors() -> Iterator[None]:
    """Expected errors as one message and an exit code; anything else is a bug and shows whole."""
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
    from llm_ocr.sources.open import NoInputError
    from llm_ocr.storage.store import RunInUseError, StorageError
    from llm_ocr.tables.counts import CountMismatchError
    from llm_ocr.tables.plan import SettingsMismatchError

    try:
        yield
    except ValidationError as error:
        for problem in error.errors():
            option = "--" + "-".join(str(part) for part in problem["loc"]).replace("_", "-")
            said = problem["msg"].removeprefix("Value error, ")
            # What several options say together names them itself.
            say(f"{option}: {said}" if problem["loc"] else said)
        raise typer.Exit(2) from error
    except MissingExtraError as error:
        # Before the errors of engines, stores and platforms, of which each kind is one.
        say(str(error))
        raise typer.Exit(2) from error
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
        say(str(error))
        raise typer.Exit(2) from error
    except WrongServerError as error:
        say(str(error))
        raise typer.Exit(2) from error
    except EngineFailedError as error:
        say(f"The engine failed: {error}")
        raise typer.Exit(3) from error
    except (ClusterError, PlatformError) as error:
        say(str(error))
        raise typer.Exit(3) from error
    except (StorageError, CountMismatchError) as error:
        say(f"Stopped: {error}")
        raise typer.Exit(4) from error
    except BudgetExceededError as error:
        say(f"Stopped: {error}")
        raise typer.Exit(5) from error
    except KeyboardInterrupt as error:
        say("Stopped: the same command goes on")
        raise typer.Exit(130) from error
    except StoppedError as error:
        say(f"Stopped: {error}")
        raise typer.Exit(143 if error.preempted else 130) from error


def note(event: object) -> None:
    """Show an event where nothing else is shown."""
    say(str(getattr(event, "text", event)))


def say(message: str) -> None:
    """Tell a message on standard error."""
    print(message, file=sys.stderr)  # noqa: T201

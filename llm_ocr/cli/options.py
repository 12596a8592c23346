"""The options of the commands: those of settings, generated from them, and the few others."""

import inspect
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args

import typer
from annotated_types import Ge, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from llm_ocr.cli.advice import name_options_of, show_options
from llm_ocr.env_file import ENV_FILE as VARIABLE
from llm_ocr.settings import (
    CheckSettings,
    CostSettings,
    DescribeSettings,
    EngineSettings,
    EstimateSettings,
    ExportSettings,
    FallbackSettings,
    MetricsSettings,
    ModelSettings,
    OutputSettings,
    PageSettings,
    ParseSettings,
    RenderSettings,
    RequestSettings,
    RunSettings,
    ServerSettings,
    SettingsGroup,
    Trait,
    UrlSettings,
)

# Options by the name of their parameter, as typer takes them.
Options = Mapping[str, Any]

# What most runs need: first on a help page, the others in sections below.
COMMON = {
    "base_url", "describe", "engine", "executor", "limit", "model", "pages",
}  # fmt: skip
# Link texts are kept: help pages are plain text.
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_DEFAULT = re.compile(r" \(default: (.+)\)\.$")


def settings_options(group: type[SettingsGroup], without: Collection[str] = ()) -> dict[str, Any]:
    """An option for each setting of a group."""
    return {
        name: _option(name, field, group.title)
        for name, field in group.model_fields.items()
        if name not in without and Trait.NO_OPTION not in field.metadata
    }


def split_description(field: FieldInfo) -> tuple[str, str]:
    """What a setting means, as Markdown without a period at its end, and its default in words."""
    text = show_options(field.description or "")
    found = _DEFAULT.search(text)
    if found is not None:
        return text[: found.start()], found[1]
    value = field.default.value if isinstance(field.default, Enum) else field.default
    if isinstance(value, bool):
        value = "on" if value else "off"
    elif isinstance(value, int | float):
        value = f"{value:,}".removesuffix(".0")
    return text.removesuffix("."), str(value)


def help_text(field: FieldInfo) -> str:
    """The help text of an option, with its default unless that is none or off."""
    meaning, default = (_LINK.sub(r"\1", part) for part in split_description(field))
    return f"{meaning}." if default in ("none", "off") else f"{meaning} (default: {default})."


def flags(name: str, field: FieldInfo) -> list[str]:
    """The flags of an option, such as `--limit`, `--public`, `--markdown/--no-markdown`."""
    flag = name.replace("_", "-")
    is_switch = bool in _types(field)
    return [f"--{flag}/--no-{flag}" if is_switch and field.default is not False else f"--{flag}"]


def _option(name: str, field: FieldInfo, section: str) -> Any:  # noqa: ANN401
    """Options default to None: what isn't given comes from the environment or the env file."""
    [kind] = _types(field)
    if Trait.REPEATABLE in field.metadata:
        kind = list[str]
    elif kind is SecretStr:
        kind = str
    low: Any = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), None)
    high: Any = next((bound.le for bound in field.metadata if isinstance(bound, Le)), None)
    panel = None if name in COMMON else section
    declared: Any = typer.Option(
        *flags(name, field), help=help_text(field), rich_help_panel=panel, min=low, max=high
    )
    return Annotated[kind | None, declared]


def _types(field: FieldInfo) -> list[Any]:
    """The type of a setting without None."""
    return [
        kind for kind in get_args(field.annotation) or (field.annotation,) if kind is not NoneType
    ]


PAGES = {**settings_options(PageSettings), **settings_options(RenderSettings)}
URLS = settings_options(UrlSettings)
MODEL = settings_options(ModelSettings)
SERVER = settings_options(ServerSettings)
ENGINE = settings_options(EngineSettings)
FALLBACK = settings_options(FallbackSettings)
REQUESTS = {
    **settings_options(RequestSettings),
    **FALLBACK,
    **settings_options(MetricsSettings),
}
DESCRIBE = settings_options(DescribeSettings)
RECORD = {**settings_options(ParseSettings), **settings_options(CheckSettings)}
RUN = settings_options(RunSettings)
OUTPUT = {**settings_options(OutputSettings), **settings_options(CostSettings)}
ESTIMATES = settings_options(EstimateSettings)
EXPORT = settings_options(ExportSettings)


def _task_options() -> dict[str, Any]:
    """Those of the command `describe`, where --describe-task is --task."""
    options = settings_options(DescribeSettings, without=("describe", "describe_model"))
    text = help_text(DescribeSettings.model_fields["describe_task"])
    panel = DescribeSettings.title
    options["describe_task"] = Annotated[
        list[str] | None, typer.Option("--task", help=text, rich_help_panel=panel)
    ]
    return options


TASK = _task_options()

# Options that are no settings.
ENV_FILE: Options = {
    "env_file": Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="File of LLM_OCR_… settings, except commands and addresses (default: the one "
            "that LLM_OCR_ENV_FILE names, else none).",
        ),
    ],
}
_PAGES_TO_RETRY = "Pages to retry"
RETRY: Options = {
    "statuses": Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            help="Retry pages with these statuses, such as failed,truncated (default: failed).",
            rich_help_panel=_PAGES_TO_RETRY,
        ),
    ],
    "errors": Annotated[
        list[str] | None,
        typer.Option(
            "--error",
            help="Retry only pages with this error code; may be repeated.",
            rich_help_panel=_PAGES_TO_RETRY,
        ),
    ],
}
CLUSTER: Options = {
    "executor": Annotated[
        str | None,
        typer.Option(
            help="Where to run: ray (the cluster of RAY_ADDRESS, or a local one) or "
            "ray://HOST:10001 (default: in this process)."
        ),
    ],
    "engines": Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of engines on the cluster (default: as many as fit).",
            rich_help_panel="Ray",
        ),
    ],
    "gpus_per_engine": Annotated[
        int | None,
        typer.Option(
            min=0,
            help="GPUs per engine (default: 1 if the cluster has any).",
            rich_help_panel="Ray",
        ),
    ],
    "cpus_per_engine": Annotated[
        int | None,
        typer.Option(
            min=1,
            help="CPU cores per engine (default: 4, or up to 8 with a GPU).",
            rich_help_panel="Ray",
        ),
    ],
}
JsonLogs = Annotated[
    bool, typer.Option("--json-logs", help="Print logs and progress as JSON lines.")
]


def print_version(wanted: bool) -> None:
    """Print the version and exit, if `wanted`."""
    if wanted:
        from llm_ocr import __version__

        typer.echo(__version__)
        raise typer.Exit()


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=print_version, is_eager=True, help="Print the version and exit."
    ),
]


def cluster_options(given: dict[str, Any]) -> dict[str, Any]:
    """The options of `CLUSTER`, removed from `given`."""
    return {name: given.pop(name) for name in CLUSTER if name in given}


@contextmanager
def _use_env_file(path: Path | None) -> Iterator[None]:
    """Read settings from this file, too; for None the file in the environment applies."""
    before = os.environ.get(VARIABLE)
    if path is not None:
        os.environ[VARIABLE] = str(path.absolute())
    try:
        yield
    finally:
        if path is not None:
            del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def with_options(*groups: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of `groups` to a command, which receives those that are set as `given`."""
    options = {name: declared for group in groups for name, declared in group.items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command).parameters
        own = [parameter for name, parameter in signature.items() if name != "given"]
        added = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=declared
            )
            for name, declared in options.items()
        ]

        @wraps(command)
        def call(**arguments: Any) -> None:  # noqa: ANN401
            given = {name: arguments[name] for name in options if arguments[name] is not None}
            with name_options_of(arguments["context"]), _use_env_file(given.pop("env_file", None)):
                command(
                    **{parameter.name: arguments[parameter.name] for parameter in own}, given=given
                )

        keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        context = inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )
        # Once: a command may take it itself.
        by_name = {parameter.name: parameter for parameter in (context, *keyword_only, *added)}
        parameters = list(by_name.values())
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return decorate

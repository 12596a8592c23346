"""`llm-ocr registry`: publish models, and set aliases such as `production` to their versions."""

import getpass
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.help import Commands
from llm_ocr.cli.options import settings_options, with_options
from llm_ocr.cli.output import warn
from llm_ocr.exit_codes import ExitCode
from llm_ocr.service.settings import RegistrySettings, StateSettings

if TYPE_CHECKING:
    from llm_ocr.service.registry import ModelRegistry, ModelVersion

_STATE = settings_options(StateSettings)
LOCATION = {name: _STATE[name] for name in ("database", "storage")} | settings_options(
    RegistrySettings
)

registry = Commands(
    help="Publish, promote and roll back models of the service.", no_args_is_help=True
)
Given = dict[str, Any]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a model.")]
Author = Annotated[
    str | None,
    typer.Option(
        "--by", metavar="PERSON", help="Who does it, for the history (default: your account)."
    ),
]
Reason = Annotated[str, typer.Option(help="Why, for the history.")]


@registry.command()
@with_options(LOCATION)
def publish(
    name: Name,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder with its files.")],
    given: Given,
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="What it was made from; repeat for more."),
    ] = None,
    by: Author = None,
) -> None:
    """Store a folder as a version of a model, and print NAME/VERSION.

    \b
    Examples:
      llm-ocr registry publish page-classifier index/ --tag data=s3://bucket/may
      llm-ocr registry promote page-classifier/0c5e12f3a9b1 staging --reason trial
    """
    tags = dict(_parse_tag(word) for word in tag or [])
    with open_model_registry(given) as models:
        version = models.publish(name, folder, by=by or getpass.getuser(), tags=tags)
        _print_reference(version)


@registry.command()
@with_options(LOCATION)
def promote(
    reference: Annotated[
        str, typer.Argument(metavar="NAME/VERSION", help="A version, or NAME@ALIAS.")
    ],
    alias: Annotated[str, typer.Argument(help="development, staging, production or your own.")],
    given: Given,
    reason: Reason,
    by: Author = None,
) -> None:
    """Set an alias to a version; documents that have begun keep the version they began with."""
    with open_model_registry(given) as models:
        found = models.resolve(reference)
        change = models.promote(
            found.name, found.version, alias, by=by or getpass.getuser(), reason=reason
        )
        _print_change(change.name, change.alias, change.previous, change.version)


@registry.command()
@with_options(LOCATION)
def rollback(
    reference: Annotated[str, typer.Argument(metavar="NAME@ALIAS", help="An alias of a model.")],
    given: Given,
    reason: Reason,
    by: Author = None,
) -> None:
    """Set an alias to the version that it had before the current one."""
    with open_model_registry(given) as models:
        from llm_ocr.service.registry import parse_reference

        name, _, alias = parse_reference(reference)
        change = models.rollback(name, alias, by=by or getpass.getuser(), reason=reason)
        _print_change(change.name, change.alias, change.previous, change.version)


@registry.command()
@with_options(LOCATION)
def resolve(
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="NAME@ALIAS or NAME/VERSION.")
    ],
    given: Given,
    download: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Download its files below this folder, verified."),
    ] = None,
) -> None:
    """Print the NAME/VERSION that an alias means now, or where its files were downloaded to."""
    with open_model_registry(given) as models:
        version = models.resolve(reference)
        if download is None:
            _print_reference(version)
        else:
            typer.echo(models.download(version, download))


@registry.command()
@with_options(LOCATION)
def history(name: Name, given: Given) -> None:
    """Print what was published and what aliases were set to, by whom, when and why."""
    with open_model_registry(given) as models:
        lines = [
            (version.created_at, f"published {version.version}", version.created_by, _tags(version))
            for version in models.versions(name)
        ]
        for change in models.history(name):
            what = f"{change.alias} = {change.version}"
            lines.append((change.changed_at, what, change.changed_by, change.reason))
        if not lines:
            warn(f"There is no model {name}")
            raise typer.Exit(ExitCode.USAGE)
        for when, what, by, why in sorted(lines):
            typer.echo(f"{when:%Y-%m-%d %H:%M:%S}  {what}  {by}  {why}".rstrip())


@contextmanager
def open_model_registry(given: Given) -> "Iterator[ModelRegistry]":
    """The registry that the options name. Expected errors end the command."""
    from llm_ocr.cli.service import open_service

    with open_service(given) as (settings, database):
        from llm_ocr.service.registry import RegistryError
        from llm_ocr.service.store_registry import open_registry
        from llm_ocr.storage.store import open_store

        try:
            yield open_registry(database, open_store(settings.storage), settings.registry)
        except RegistryError as error:
            warn(str(error))
            raise typer.Exit(ExitCode.USAGE) from error


def _parse_tag(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not (key and equals):
        raise typer.BadParameter(f"{word!r}: give KEY=VALUE", param_hint="--tag")
    return key, value


def _print_reference(version: "ModelVersion") -> None:
    typer.echo(version.reference)


def _print_change(name: str, alias: str, previous: str | None, version: str) -> None:
    before = f" (before: {previous})" if previous else ""
    typer.echo(f"{name}@{alias} is {version} now{before}")


def _tags(version: "ModelVersion") -> str:
    return json.dumps(dict(version.tags)) if version.tags else ""

"""`llm-ocr pipelines`: check, list and show the pipelines of the service."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from llm_ocr.cli.help import Commands
from llm_ocr.cli.output import handle_errors, warn
from llm_ocr.exit_codes import ExitCode
from llm_ocr.messages import CodedError, MissingExtraError, how_to_install

pipelines = Commands(help="Check, list or show the service's pipelines.", no_args_is_help=True)

Folder = Annotated[
    Path | None,
    typer.Option(
        "--pipelines",
        envvar="LLM_OCR_PIPELINES",
        help="Folder of pipelines in YAML, in addition to the built-in ones (default: none).",
    ),
]


@pipelines.command("check")
def check_(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Pipeline files, or folders of them.")
    ],
) -> None:
    """Check pipeline files: report each problem with its line, and exit with 2 if there is one."""
    is_wrong = False
    with _usage_errors():
        from llm_ocr.service.pipelines import (
            InvalidPipelineError,
            PipelineCatalog,
            check_schemas,
            load_pipeline_file,
            pipeline_files,
        )

        for path in paths:
            found = []
            for file in pipeline_files(path) if path.is_dir() else [path]:
                try:
                    pipeline = load_pipeline_file(file)
                    check_schemas(pipeline, str(file))
                    found.append((file, pipeline))
                except InvalidPipelineError as error:
                    is_wrong = True
                    warn(str(error))
            catalog = PipelineCatalog.load(path) if path.is_dir() and not is_wrong else None
            for file, pipeline in found:
                # The revision of one that splits scans includes those of other pipelines.
                known = pipeline if catalog is None else catalog.by_name(pipeline.name)
                typer.echo(f"{file}: {known.name} {known.revision}")
    if is_wrong:
        raise typer.Exit(ExitCode.USAGE)


@pipelines.command("list")
def list_(folder: Folder = None) -> None:
    """List the pipelines: name, revision, types of documents, steps and description."""
    with _usage_errors():
        from llm_ocr.service.pipelines import PipelineCatalog

        for pipeline in sorted(PipelineCatalog.load(folder), key=lambda pipeline: pipeline.name):
            types, steps = ", ".join(pipeline.types), " > ".join(pipeline.step_names)
            typer.echo(f"{pipeline.name}  {pipeline.revision}  {types}  {steps}")
            if pipeline.description:
                typer.echo(f"    {pipeline.description}")


@pipelines.command("show")
def show_(
    name: Annotated[str, typer.Argument(help="Name of a pipeline.")], folder: Folder = None
) -> None:
    """Print a pipeline as YAML, for instance to adapt it."""
    with _usage_errors():
        import yaml

        from llm_ocr.service.pipelines import PipelineCatalog

        pipeline = PipelineCatalog.load(folder).by_name(name)
        typer.echo(f"# Revision {pipeline.revision}")
        typer.echo(
            yaml.safe_dump(pipeline.as_dict(), sort_keys=False, allow_unicode=True), nl=False
        )


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Report errors of pipelines and their names as usage errors."""
    with handle_errors():
        try:
            yield
        except ModuleNotFoundError as error:
            problem = f"pipelines need the package {error.name}, which is not installed"
            raise MissingExtraError(f"{problem}: {how_to_install('service')}") from error
        except MissingExtraError:
            raise
        except CodedError as error:
            warn(str(error))
            raise typer.Exit(ExitCode.USAGE) from error

"""`llm-ocr submit`: submit documents to a service, wait for the results and save them."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llm_ocr.cli.advice import explain
from llm_ocr.cli.output import handle_errors, show_logs, warn
from llm_ocr.exit_codes import ExitCode
from llm_ocr.service.settings import DEFAULT_URL, KEY_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llm_ocr.batch.interruption import CancellationToken
    from llm_ocr.documents import Document
    from llm_ocr.service.submission import Submission, SubmissionProgress, SubmittedFile

# Seconds to exit after SIGTERM.
STOP_SECONDS = 10.0
STOPPED = "Stopped: rerun the same command to resume"


ServiceUrl = Annotated[str, typer.Option(help="URL of the service.", envvar=URL_VARIABLE)]
ServiceKey = Annotated[
    str | None,
    typer.Option(
        help=f"API key; better set {KEY_VARIABLE}.", envvar=KEY_VARIABLE, show_default=False
    ),
]


def submit(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Files, folders, quoted globs, or lists of paths as @files.txt.",
        ),
    ],
    to: ServiceUrl = DEFAULT_URL,
    key: ServiceKey = None,
    type_: Annotated[
        str | None,
        typer.Option(
            "--type", help="Type of the documents, which selects their pipeline (default: none)."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the documents are finished.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for NAME.md, NAME.json and figures/ of each document, with --wait.",
        ),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Metadata to keep with each document; may be repeated."
        ),
    ] = None,
    priority: Annotated[
        int, typer.Option(help="Documents with a higher priority are processed first.")
    ] = 0,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Retry documents that failed before."),
    ] = False,
) -> None:
    """Submit documents to a service and, with --wait, save their results. Rerun it to resume.

    Documents that were submitted before, with the same file and options, are not submitted again.
    Prints a line for each document: its id, state and name.

    \b
    Examples:
      llm-ocr submit scans/ --wait --out results/
      llm-ocr submit bill.pdf --type invoice --wait --out results/
      llm-ocr submit letter.pdf --to http://ocr.example:8300 --priority 5
    """
    if out is not None and not wait:
        raise typer.BadParameter("results are only saved with --wait", param_hint="--out")
    with handle_service_errors(to):
        from llm_ocr.service.submission import Submission

        submission = Submission(
            type_, priority, _parse_metadata(metadata or []), out, wait, retry_failed
        )
        outcomes = _submit(_local_files(files), submission, to, key)
    if any(outcome.is_failed for outcome in outcomes):
        raise typer.Exit(ExitCode.FAILED_PAGES)


@contextmanager
def handle_service_errors(url: str) -> "Iterator[None]":
    """End the command at expected errors, also those of a service."""
    with handle_errors():
        from llm_ocr.service.client import ServiceAccessError, ServiceUnreachableError

        try:
            yield
        except ServiceAccessError as error:
            warn(f"{url} refused the API key: {explain(error)}; set {KEY_VARIABLE}")
            raise typer.Exit(ExitCode.USAGE) from error
        except ServiceUnreachableError as error:
            warn(f"{explain(error)}; start the service with `llm-ocr serve`, or check --to")
            raise typer.Exit(ExitCode.ENGINE) from error


def _parse_metadata(values: Sequence[str]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for name, equals, value in pairs:
        if not name or not equals:
            raise typer.BadParameter(
                f"{name}{equals}{value}: use the form NAME=VALUE", param_hint="--metadata"
            )
    return {name: value for name, _, value in pairs}


def _local_files(inputs: Sequence[str]) -> "list[Document]":
    from llm_ocr.sources.inputs import NoInputError, list_documents
    from llm_ocr.sources.listing import is_remote

    for source in inputs:
        if is_remote(source):
            problem = "submit takes local files; to read from a bucket, start a gateway with"
            raise NoInputError(f"{source}: {problem} `watch`")
    return list_documents(inputs)


def _submit(
    files: "Sequence[Document]", submission: "Submission", to: str, key: str | None
) -> "list[SubmittedFile]":
    from llm_ocr.cli.signals import stop_on_signals
    from llm_ocr.service.client import ServiceClient
    from llm_ocr.service.submission import submit_files

    def print_end(outcome: "SubmittedFile") -> None:
        typer.echo(f"{outcome.id or '-'}  {outcome.state}  {outcome.name}")
        if outcome.error:
            warn(f"{outcome.name}: {outcome.error}")

    async def run(stop: "CancellationToken") -> "list[SubmittedFile]":
        async with ServiceClient(to, key, notify=notify) as client:
            work = submit_files(client, files, submission, on_change=on_change, on_end=print_end)
            return await stop.guard(work)

    with _show_progress() as (on_change, notify), stop_on_signals(STOP_SECONDS, STOPPED) as stop:
        return asyncio.run(run(stop))


@contextmanager
def _show_progress() -> (
    "Iterator[tuple[Callable[[SubmissionProgress], None], Callable[[str], None]]]"
):
    """Show progress on standard error: counts on a terminal, and messages, each once."""
    from rich.console import Console

    console = Console(stderr=True)
    shown: set[str] = set()

    def notify(text: str) -> None:
        if text not in shown:
            shown.add(text)
            warn(text)

    with show_logs(console):
        if not console.is_terminal:
            yield lambda progress: None, notify
            return
        with console.status("uploading") as status:

            def on_change(progress: "SubmissionProgress") -> None:
                counts = (f"{count:,} {name}" for name, count in progress.states.items() if count)
                status.update(f"{progress.total:,} documents: {', '.join(counts)}")

            yield on_change, notify

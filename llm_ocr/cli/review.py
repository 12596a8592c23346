"""`llm-ocr review`: export what reviewers corrected, and report how good confidences are."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.help import Commands
from llm_ocr.cli.options import settings_options, with_options
from llm_ocr.cli.output import warn
from llm_ocr.messages import pluralize
from llm_ocr.service.settings import StateSettings

if TYPE_CHECKING:
    from llm_ocr.service.review.desk import OpenReview, ReviewDesk
    from llm_ocr.service.review.exports import ConfidenceReport
    from llm_ocr.service.review.reviews import ReviewState

_STATE = settings_options(StateSettings)
LOCATION = {name: _STATE[name] for name in ("database", "storage")}

review = Commands(help="Export corrections of reviewers, and evaluate confidences.")
Given = dict[str, Any]
Tenant = Annotated[str, typer.Option(help="Whose documents.")]


class ExportFormat(StrEnum):
    """The format of exported corrections."""

    CSV = "csv"
    EVAL = "eval"
    CLASSIFIER_EXAMPLES = "classifier-examples"


@review.command()
@with_options(LOCATION)
def export(
    given: Given,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="File to write, for csv and eval.")
    ] = None,
    format: Annotated[
        ExportFormat,
        typer.Option(
            help="csv: every edit; eval: tests for `llm-ocr eval --tests`; classifier-examples: "
            "pages by class for `llm-ocr classifier fit`."
        ),
    ] = ExportFormat.CSV,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="New folder to write, for classifier-examples."),
    ] = None,
    tenant: Tenant = "default",
) -> None:
    """Write what reviewers did: every edit as CSV, tests for llm-ocr eval, or examples of classes.

    \b
    Examples:
      llm-ocr review export corrections.csv
      llm-ocr review export tests.jsonl --format eval
      llm-ocr review export --format classifier-examples --out examples/
    """
    if format is ExportFormat.CLASSIFIER_EXAMPLES:
        if file is not None or out is None:
            raise typer.BadParameter(
                f"{format} is a folder: give it as --out, and no FILE", param_hint="--out"
            )
        _export_examples(given, tenant, out)
        return
    if file is None or out is not None:
        raise typer.BadParameter(f"{format} is a file: give FILE, and no --out", param_hint="FILE")
    from llm_ocr.service.review.exports import corrections_csv, evaluation_tests
    from llm_ocr.service.review.reviews import ReviewState

    is_csv = format is ExportFormat.CSV
    states = (ReviewState.OPEN, ReviewState.APPROVED, ReviewState.REJECTED)
    with _open_reviews(given, tenant, states if is_csv else states[1:2]) as (reviews, _):
        if is_csv:
            text = corrections_csv(reviews)
        else:
            text = "".join(f"{line}\n" for line in evaluation_tests(reviews))
        file.write_text(text, "utf-8")
        typer.echo(f"{file}: {max(0, text.count(chr(10)) - is_csv):,} lines")


@review.command()
@with_options(LOCATION)
def report(
    given: Given,
    only_random: Annotated[
        bool,
        typer.Option(
            "--only-random",
            help="Only documents that were reviewed at random (`sample`) or because all are.",
        ),
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write JSON here.")] = None,
    tenant: Tenant = "default",
) -> None:
    """Print how often people changed values, by the model's confidence, per field."""
    from llm_ocr.service.review.exports import report_confidence
    from llm_ocr.service.review.reviews import ReviewState

    with _open_reviews(given, tenant, (ReviewState.APPROVED,)) as (reviews, _):
        found = report_confidence(reviews, only_unbiased=only_random)
    _print_report(found)
    if json_file is not None:
        rows = [vars(row) for row in found.rows]
        content = {"documents": found.documents, "random": found.unbiased, "rows": rows}
        json_file.write_text(json.dumps(content, indent=2) + "\n")


def _export_examples(given: Given, tenant: str, folder: Path) -> None:
    from llm_ocr.service.review.exports import write_examples
    from llm_ocr.service.review.reviews import ReviewState

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise typer.BadParameter(
            f"{folder} exists already: give a new folder, so that it has no pages whose class has "
            "changed since",
            param_hint="--out",
        )
    with _open_reviews(given, tenant, (ReviewState.APPROVED,)) as (reviews, desk):
        counts = write_examples(reviews, desk, tenant, folder)
    if not counts:
        warn("No approved document has a page whose class a reviewer has set or confirmed")
    for name, count in sorted(counts.items()):
        typer.echo(f"{folder / name}: {pluralize(count, 'page')}")


def _print_report(found: "ConfidenceReport") -> None:
    if not found.rows:
        warn("There are no approved documents to report on")
        return
    typer.echo(f"{found.documents:,} approved documents, {found.unbiased:,} of them random")
    for row in found.of():
        typer.echo(
            f"at {row.threshold:g} you review {row.reviewed_share:.1%} of the values and miss "
            f"{row.missed_share:.1%}"
        )
    typer.echo("")
    typer.echo(f"{'field':32} {'values':>7} {'changed':>8} {'review at 0.8':>14} {'missed':>7}")
    for row in found.rows:
        if row.threshold == 0.8:
            typer.echo(
                f"{row.field:32} {row.values:7,} {row.changed / row.values:8.1%} "
                f"{row.reviewed_share:14.1%} {row.missed_share:7.1%}"
            )
    if found.unbiased < found.documents:
        warn(
            "Documents that were chosen for their low confidence don't show what a threshold "
            "misses elsewhere: review a sample, and use --only-random"
        )


@contextmanager
def _open_reviews(
    given: Given, tenant: str, states: "tuple[ReviewState, ...]"
) -> "Iterator[tuple[Iterator[OpenReview], ReviewDesk]]":
    from llm_ocr.cli.service import open_service

    with open_service(given) as (settings, database):
        from llm_ocr.service.review.desk import ReviewDesk
        from llm_ocr.service.review.exports import open_reviews
        from llm_ocr.storage.store import open_store

        desk = ReviewDesk(database, open_store(settings.storage))
        yield open_reviews(database, desk, tenant, states), desk

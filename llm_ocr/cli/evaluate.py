"""`llm-ocr eval`: measure the quality of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llm_ocr.cli.output import handle_errors, show_progress, stdout, warn
from llm_ocr.exit_codes import ExitCode

if TYPE_CHECKING:
    from llm_ocr.evaluation.predictions import Predictions
    from llm_ocr.evaluation.runner import EvaluationResult, References

# Problems to print; the JSON file has all.
MAX_PROBLEMS = 20
DEFAULT_SAMPLE = 50


def evaluate(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run's --out, or a folder of NAME_pgN.md files by any tool."
        ),
    ],
    tests: Annotated[
        list[str] | None,
        typer.Option(
            help="olmOCR-bench JSONL, OmniDocBench JSON, ground truth as .md or .txt, or a folder "
            "of such files; may be repeated."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Compare with this run, page by page.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Without --tests: number of random pages to check (default: 50)."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for the sample.")] = 0,
    include_headers_footers: Annotated[
        bool,
        typer.Option(
            "--include-headers-footers",
            help="Treat running headers, footers and page numbers as body text.",
        ),
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="File to write all results to (default: in the run)."),
    ] = None,
    html_file: Annotated[
        Path | None,
        typer.Option(
            "--html",
            help="File to write the failures to, next to their pages (default: in the run).",
        ),
    ] = None,
) -> None:
    """Measure the quality of a run: with tests, ground truth, another run, or a sample of pages."""
    from rich.console import Console

    from llm_ocr.batch.events import Note
    from llm_ocr.evaluation import runner
    from llm_ocr.evaluation.predictions import open_predictions
    from llm_ocr.evaluation.reporters import files, text

    if tests and sample is not None:
        raise typer.BadParameter(
            "--tests checks every page that has tests: remove --sample",
            param_hint="--sample",
        )
    console = stdout()
    with handle_errors():
        # On standard error: standard output may be redirected to a file.
        with show_progress(Console(stderr=True)) as notify:
            notify(Note(f"measuring {run}"))
            predictions = open_predictions(run, include_headers_footers)
            other = open_predictions(against, include_headers_footers) if against else None
            references = runner.load_references(tests) if tests else None
            results = _evaluate(predictions, other, references, sample or DEFAULT_SAMPLE, seed)
        for result in results:
            console.print(text.render(result), highlight=False)
        problems = runner.collect_problems(results)
        for problem in problems[:MAX_PROBLEMS]:
            warn(str(problem))
        if len(problems) > MAX_PROBLEMS:
            warn(f"... and {len(problems) - MAX_PROBLEMS:,} more")
        for path, what in files.write_reports(results, predictions, other, json_file, html_file):
            console.print(f"{path}  {what}", highlight=False, soft_wrap=True)
    if problems:
        raise typer.Exit(ExitCode.FAILED_PAGES)


def _evaluate(
    predictions: "Predictions",
    other: "Predictions | None",
    references: "References | None",
    sample: int,
    seed: int,
) -> "list[EvaluationResult]":
    from llm_ocr.evaluation import runner

    if references is None:
        if other is None:
            return [runner.evaluate_sample(predictions, sample, seed)]
        return [runner.compare_without_references(predictions, other, sample, seed)]
    if other is None:
        return [*runner.evaluate(predictions, references)]
    return [*runner.compare(predictions, other, references)]

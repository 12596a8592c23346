"""`llm-ocr eval`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llm_ocr.cli.showing import errors, say, terminal

if TYPE_CHECKING:
    from llm_ocr.evaluation.predictions import Predictions
    from llm_ocr.evaluation.runner import EvaluationResult, References

# Problems that are printed; the JSON file has all.
MAX_PROBLEMS = 20
SAMPLE = 50


def evaluate(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run's --out, or a folder of NAME_pgN.md of any tool."
        ),
    ],
    tests: Annotated[
        list[str] | None,
        typer.Option(
            help="olmOCR-bench's JSONL, ground truth as .md or .txt, OmniDocBench's JSON, or a "
            "folder of them. May be repeated."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Another run to compare with, page by page.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Pages to look at without --tests, at random (default: 50)."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --sample: another one draws others.")] = 0,
    include_headers_footers: Annotated[
        bool, typer.Option(help="Count running headers, footers and page numbers as text.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="File for all results (default: in the run).")
    ] = None,
    html_file: Annotated[
        Path | None,
        typer.Option("--html", help="File for failures, beside their pages (default: in the run)."),
    ] = None,
) -> None:
    """Measure a run: by tests, ground truth, another run, or a sample of its pages alone."""
    from rich.console import Console

    from llm_ocr.evaluation import runner
    from llm_ocr.evaluation.predictions import open_predictions
    from llm_ocr.evaluation.reporters import files, text
    from llm_ocr.pipeline.events import Note
    from llm_ocr.pipeline.progress import watch

    if tests and sample is not None:
        raise typer.BadParameter(
            "with --tests, every page that has some is read: leave --sample out",
            param_hint="--sample",
        )
    console = terminal()
    with errors():
        # On standard error: the figures on standard output may go into a file.
        with watch(Console(stderr=True), False) as notify:
            notify(Note(f"measuring {run}"))
            predictions = open_predictions(run, include_headers_footers)
            other = open_predictions(against, include_headers_footers) if against else None
            references = runner.load_references(tests) if tests else None
            results = _evaluate(predictions, other, references, sample or SAMPLE, seed)
        for result in results:
            console.print(text.render(result), highlight=False)
        problems = runner.collect_problems(results)
        for problem in problems[:MAX_PROBLEMS]:
            say(str(problem))
        if len(problems) > MAX_PROBLEMS:
            say(f"and {len(problems) - MAX_PROBLEMS:,} more of that kind")
        for path, what in files.write_reports(results, predictions, other, json_file, html_file):
            console.print(f"{path}  {what}", highlight=False, soft_wrap=True)
    if problems:
        raise typer.Exit(1)


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

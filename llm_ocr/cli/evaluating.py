"""`llm-ocr eval`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llm_ocr.cli.showing import errors, say, terminal

if TYPE_CHECKING:
    from llm_ocr.evaluation.asking import Given, Result
    from llm_ocr.evaluation.readings import Readings

# Problems that are told; the JSON file has all.
MOST_TOLD = 20
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

    from llm_ocr.evaluation import asking, files, printing
    from llm_ocr.evaluation.readings import open_readings
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
            readings = open_readings(run, include_headers_footers)
            other = open_readings(against, include_headers_footers) if against else None
            given = asking.load(tests) if tests else None
            results = _results(readings, other, given, sample or SAMPLE, seed)
        for result in results:
            console.print(printing.render(result), highlight=False)
        problems = asking.problems_of(results)
        for problem in problems[:MOST_TOLD]:
            say(str(problem))
        if len(problems) > MOST_TOLD:
            say(f"and {len(problems) - MOST_TOLD:,} more of that kind")
        for place, what in files.write(results, readings, other, json_file, html_file):
            console.print(f"{place}  {what}", highlight=False, soft_wrap=True)
    if problems:
        raise typer.Exit(1)


def _results(
    readings: "Readings", other: "Readings | None", given: "Given | None", sample: int, seed: int
) -> "list[Result]":
    from llm_ocr.evaluation import asking

    if given is None:
        if other is None:
            return [asking.look_at(readings, sample, seed)]
        return [asking.compare_without(readings, other, sample, seed)]
    if other is None:
        return [*asking.evaluate(readings, given)]
    return [*asking.compare(readings, other, given)]

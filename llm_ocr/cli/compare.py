"""`llm-ocr compare`: compare two runs of the same pages, without ground truth."""

import json
from typing import Annotated, Any

import typer

from llm_ocr.cli.options import ENGINE, ENV_FILE, SERVER, settings_options, with_options
from llm_ocr.cli.output import handle_errors, show_progress, stdout
from llm_ocr.exit_codes import ExitCode
from llm_ocr.settings import RequestSettings

# The judge is the model that the server or engine serves.
_SERVER = {name: option for name, option in SERVER.items() if name != "served_model"}
Location = Annotated[
    str, typer.Argument(help="A run's --out, or a folder of NAME_pgN.md files by any tool.")
]


@with_options(_SERVER, ENGINE, settings_options(RequestSettings), ENV_FILE)
def compare(
    run_a: Location,
    run_b: Location,
    given: dict[str, Any],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder (or s3://, gs://, hf://) for index.html, comparison.json and the judge's "
            "verdicts (default: evaluation/compared-with-NAME in RUN_A, if that is a folder).",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Compare this number of random pages (default: all)."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Random seed for the sample and the judge's orders.")
    ] = 0,
    pages: Annotated[
        int, typer.Option(min=0, help="Pages in index.html, the most different ones.")
    ] = 50,
    include_headers_footers: Annotated[
        bool,
        typer.Option(
            "--include-headers-footers",
            help="Treat running headers, footers and page numbers as body text.",
        ),
    ] = False,
    judge: Annotated[
        str | None,
        typer.Option(
            help="Ask a vision model which text is better, in both orders: a model profile, or the "
            "name of a model on --base-url (default: none)."
        ),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print the content of comparison.json.")
    ] = False,
) -> None:
    """Compare two runs of the same pages without ground truth: agreement, differences, costs.

    Agreement doesn't say which run is better. A vision model can judge that with --judge: it sees
    each page's image and both texts, in both orders, without knowing which run they are from. Run
    the same command again to resume an interrupted judging.

    \b
    Examples:
      llm-ocr compare out/deepseek out/olmocr
      llm-ocr compare out/a s3://bucket/b --sample 500 --out out/comparison
      llm-ocr compare out/a out/b --judge qwen3-vl-8b --base-url http://gpu/v1
    """
    from rich.console import Console

    from llm_ocr.batch.compare_runs import compare as compare_runs
    from llm_ocr.batch.comparison_files import render_comparison
    from llm_ocr.cli.signals import stop_on_signals
    from llm_ocr.settings import Settings

    with handle_errors():
        settings = Settings(**given)
        # Progress goes to standard error: standard output may be redirected.
        with (
            show_progress(Console(stderr=True)) as notify,
            stop_on_signals(settings.stop_seconds) as stop,
        ):
            comparison = compare_runs(
                run_a,
                run_b,
                out,
                sample=sample,
                seed=seed,
                pages_shown=pages,
                include_headers_footers=include_headers_footers,
                judge=judge,
                settings=settings,
                notify=notify,
                stop=stop,
            )
    if json_output:
        typer.echo(json.dumps(comparison.as_dict(), ensure_ascii=False, indent=1))
    else:
        console = stdout()
        console.print(render_comparison(comparison), highlight=False)
        for path in comparison.files:
            console.print(path, highlight=False, soft_wrap=True)
    if comparison.judgment is not None and comparison.judgment.failures:
        raise typer.Exit(ExitCode.FAILED_PAGES)

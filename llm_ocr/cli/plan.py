"""`llm-ocr plan`: estimate the cost of an input, and update the speeds that estimates use."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.advice import explain_fact
from llm_ocr.cli.options import ENV_FILE, ESTIMATES, MODEL, PAGES, with_options
from llm_ocr.cli.output import handle_errors, parse_list, show_progress, stdout

if TYPE_CHECKING:
    from llm_ocr.settings import Settings

Given = dict[str, Any]
_PAGES = {name: PAGES[name] for name in ("pages", "password", "render_workers")}
_GPU = {
    "gpu": Annotated[
        list[str] | None,
        typer.Option(help="GPUs (a100,l40s,l4) or machines (l40sx4) to price (default: all)."),
    ]
}
_STAGING = {
    "staging": Annotated[
        str | None, typer.Option(help="The --staging of the run that --update-throughput names.")
    ]
}


@with_options(_PAGES, {"model": MODEL["model"]}, ESTIMATES, _GPU, _STAGING, ENV_FILE)
def plan(
    given: Given,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT...", help="Inputs, as for `llm-ocr run`."),
    ] = None,
    sample_documents: Annotated[
        int, typer.Option(min=2, help="Number of documents of each kind whose pages are counted.")
    ] = 40,
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks that share the work.")] = 1,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    update_throughput: Annotated[
        list[str] | None,
        typer.Option(help="Add the speed of this run to the --throughput file; may be repeated."),
    ] = None,
) -> None:
    """Estimate the cost of an input on every platform, side by side."""
    from llm_ocr.settings import Settings

    gpus = parse_list(given, "gpu", "")
    with handle_errors():
        settings = Settings(**given)
        if update_throughput:
            _update(update_throughput, settings, gpus)
        if inputs:
            _plan(inputs, settings, gpus, sample_documents, tasks, json_output)
        elif not update_throughput:
            raise typer.BadParameter("give an INPUT to estimate, or a run as --update-throughput")


def _plan(
    inputs: list[str],
    settings: "Settings",
    gpus: list[str],
    sample: int,
    tasks: int,
    json_output: bool,
) -> None:
    import json

    from rich.console import Console

    from llm_ocr.platforms.costs.estimate_table import render_estimate
    from llm_ocr.platforms.costs.estimates import estimate_costs

    with show_progress(Console(stderr=True)) as notify:
        estimate = estimate_costs(
            inputs, settings, sample=sample, gpus=gpus, tasks=tasks, notify=notify
        )
    if json_output:
        typer.echo(json.dumps(asdict(estimate), indent=2))
    else:
        console = stdout()
        tables = render_estimate(estimate, console.width, explain_fact, details="--json")
        console.print(tables, highlight=False)


def _update(runs: list[str], settings: "Settings", gpus: list[str]) -> None:
    from llm_ocr.platforms.costs.throughput import append_throughput, observed_throughput

    if settings.throughput is None:
        raise typer.BadParameter("--update-throughput requires --throughput, the file to write")
    if len(gpus) > 1:
        raise typer.BadParameter(
            "with --update-throughput, give one --gpu: the one that the runs used"
        )
    measured = observed_throughput(runs, settings, gpus[0] if gpus else None)
    append_throughput(settings.throughput, measured)
    for entry in measured:
        speed = entry.pages_per_minute
        stdout().print(
            f"{settings.throughput}: {entry.model} on {entry.gpu}, {speed.expected:.1f} pages/min "
            f"({speed.low:.1f}-{speed.high:.1f}), {entry.source.url}",
            highlight=False,
            soft_wrap=True,
        )

"""`llm-ocr plan`: estimate the cost of an input or of a service, and update the speeds that this
uses."""

import re
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
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?")
_UNIT_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}
SERVICE = "Plan of a service"


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
    documents_per_day: Annotated[
        int | None,
        typer.Option(
            min=1,
            rich_help_panel=SERVICE,
            help="Instead of INPUT: plan a service for so many documents a day.",
        ),
    ] = None,
    pages_per_document: Annotated[
        float, typer.Option(min=1, rich_help_panel=SERVICE, help="Pages of a document.")
    ] = 1,
    within: Annotated[
        str,
        typer.Option(
            rich_help_panel=SERVICE,
            help="Time in which 95% of the documents must be done: 90s, 10m, 1h.",
        ),
    ] = "10m",
    peak: Annotated[
        float,
        typer.Option(
            min=1,
            max=24,
            rich_help_panel=SERVICE,
            help="Documents of the busiest hour, as a multiple of those of the mean hour.",
        ),
    ] = 3,
) -> None:
    """Estimate the cost of an input on every platform, side by side, or that of a service."""
    from llm_ocr.settings import Settings

    gpus = parse_list(given, "gpu", "")
    with handle_errors():
        settings = Settings(**given)
        if update_throughput:
            _update(update_throughput, settings, gpus)
        if documents_per_day is not None:
            if inputs:
                raise typer.BadParameter("give either an INPUT or --documents-per-day")
            seconds = _parse_duration(within)
            _plan_service(
                documents_per_day, pages_per_document, seconds, peak, settings, gpus, json_output
            )
        elif inputs:
            _plan(inputs, settings, gpus, sample_documents, tasks, json_output)
        elif not update_throughput:
            raise typer.BadParameter(
                "give an INPUT to estimate, --documents-per-day for a service, or a run as "
                "--update-throughput"
            )


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


def _plan_service(
    documents: int,
    pages: float,
    within: float,
    peak: float,
    settings: "Settings",
    gpus: list[str],
    json_output: bool,
) -> None:
    import json

    from llm_ocr.platforms.costs.capacity import ServiceLoad, plan_service
    from llm_ocr.platforms.costs.capacity_table import render_plan

    planned = plan_service(ServiceLoad(documents, pages, within, peak), settings, gpus=gpus)
    if json_output:
        typer.echo(json.dumps(asdict(planned), indent=2))
    else:
        console = stdout()
        console.print(render_plan(planned, console.width, details="--json"), highlight=False)


def _parse_duration(text: str) -> float:
    """Seconds of a duration, such as 10m. Raises BadParameter."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise typer.BadParameter(f"--within {text}: give a time, such as 90s, 10m or 1h")
    return float(found[1]) * _UNIT_SECONDS[found[2]]


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

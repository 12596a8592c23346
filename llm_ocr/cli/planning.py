"""`llm-ocr plan`: what reading an input would cost, and where the speeds come from."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.options import ENV_FILE, MODEL, PAGES, PRICES, takes
from llm_ocr.cli.showing import errors, listed, terminal

if TYPE_CHECKING:
    from llm_ocr.settings import Settings

Given = dict[str, Any]
_PAGES = {name: PAGES[name] for name in ("pages", "password", "render_workers")}
_GPU = {
    "gpu": Annotated[
        list[str] | None,
        typer.Option(help="GPUs (a100,l40s,l4) or machines (l40sx4); default: all."),
    ]
}
_OWN = {
    "staging": Annotated[
        str | None, typer.Option(help="The --staging of the run of --update-throughput.")
    ]
}


@takes(_PAGES, {"model": MODEL["model"]}, PRICES, _GPU, _OWN, ENV_FILE)
def plan(
    given: Given,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT...", help="What to read, as `llm-ocr run` takes it."),
    ] = None,
    sample_documents: Annotated[
        int, typer.Option(min=2, help="Documents of each kind to count the pages of.")
    ] = 40,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks that share the work.")] = 1,
    json_output: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    update_throughput: Annotated[
        list[str] | None,
        typer.Option(
            help="A run whose speed is added to the file of --throughput; may be repeated."
        ),
    ] = None,
) -> None:
    """Estimate what reading an input costs on every platform, side by side."""
    from llm_ocr.settings import Settings

    gpus = listed(given, "gpu", "")
    with errors():
        settings = Settings(**given)
        if update_throughput:
            _update(update_throughput, settings, gpus)
        if inputs:
            _plan(inputs, settings, gpus, sample_documents, tasks, json_output)
        elif not update_throughput:
            raise typer.BadParameter("name what to read, or a run as --update-throughput")


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

    from llm_ocr.pipeline.progress import watch
    from llm_ocr.platforms.costs.estimate_table import render_estimate
    from llm_ocr.platforms.costs.estimates import estimate_costs

    with watch(Console(stderr=True), False) as notify:
        estimate = estimate_costs(
            inputs, settings, sample=sample, gpus=gpus, tasks=tasks, notify=notify
        )
    if json_output:
        typer.echo(json.dumps(asdict(estimate), indent=2))
    else:
        console = terminal()
        console.print(render_estimate(estimate, console.width), highlight=False)


def _update(runs: list[str], settings: "Settings", gpus: list[str]) -> None:
    from llm_ocr.platforms.costs.throughput import append_throughput, observed_throughput

    if settings.throughput is None:
        raise typer.BadParameter("--update-throughput needs the file to write, as --throughput")
    if len(gpus) > 1:
        raise typer.BadParameter("with --update-throughput, --gpu is the one that the runs used")
    measured = observed_throughput(runs, settings, gpus[0] if gpus else None)
    append_throughput(settings.throughput, measured)
    for entry in measured:
        speed = entry.pages_per_minute
        terminal().print(
            f"{settings.throughput}: {entry.model} on {entry.gpu}, {speed.expected:.1f} pages/min "
            f"({speed.low:.1f}-{speed.high:.1f}), {entry.source.url}",
            highlight=False,
            soft_wrap=True,
        )

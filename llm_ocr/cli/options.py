"""The options of the commands: each declared once, named as the field of `Settings` it sets."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from llm_ocr.env_file import ENV_FILE as VARIABLE
from llm_ocr.records import TextLayerUse


def print_version(wanted: bool) -> None:
    """Print the version and exit, if `wanted`."""
    if wanted:
        from llm_ocr import __version__

        typer.echo(__version__)
        raise typer.Exit()


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=print_version, is_eager=True, help="Print the version and exit."
    ),
]
JsonLogs = Annotated[bool, typer.Option("--json-logs", help="Logs and progress as JSON lines.")]
Options = Mapping[str, Any]

# Of each command that has settings: for as long as it runs, what `LLM_OCR_ENV_FILE` names.
ENV_FILE: Options = {
    "env_file": Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="File of LLM_OCR_… settings, but for commands and addresses (default: "
            "LLM_OCR_ENV_FILE, else none).",
        ),
    ],
}
PAGES: Options = {
    "pages": Annotated[str | None, typer.Option(help="Pages of each document, as 1-5,9.")],
    "limit": Annotated[
        int | None, typer.Option(min=1, help="Documents (or rows) to read: the first ones.")
    ],
    "sample": Annotated[
        int | None, typer.Option(min=1, help="Documents (or rows) to read: a random sample.")
    ],
    "seed": Annotated[
        int | None, typer.Option(help="Seed of --sample: another one draws others (default: 0).")
    ],
    "password": Annotated[
        str | None, typer.Option(help="Opens encrypted PDFs; safer as LLM_OCR_PASSWORD.")
    ],
    "render_workers": Annotated[
        int | None, typer.Option(min=1, help="Processes that render pages.")
    ],
    "render_timeout": Annotated[float | None, typer.Option(help="Seconds to render one page.")],
    "max_pixels": Annotated[
        int | None, typer.Option(min=1, help="Most pixels that a page's images may decode to.")
    ],
    "text_layer": Annotated[
        TextLayerUse | None,
        typer.Option(
            help="Use of a PDF's own text: where it can be trusted, not at all, or nothing else."
        ),
    ],
    "min_agreement": Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Agreement with the page below which an answer is doubted; 0: none is.",
        ),
    ],
}
MODEL: Options = {
    "model": Annotated[
        str | None, typer.Option(help="Model profile (`llm-ocr models`), or a TOML or YAML file.")
    ],
    "revision": Annotated[str | None, typer.Option(help="Commit of the weights on the Hub.")],
}
VLLM: Options = {
    "vllm": Annotated[str | None, typer.Option(help="vLLM's command, by name or path.")],
    "vllm_args": Annotated[
        str | None, typer.Option(help="More arguments for `vllm serve`; they override llm_ocr's.")
    ],
    "weights": Annotated[
        Path | None, typer.Option(help="Folder with the weights, instead of the Hub.")
    ],
    "tensor_parallel": Annotated[
        int | None, typer.Option(min=1, help="GPUs that share one copy of the model.")
    ],
}
SERVER: Options = {
    "base_url": Annotated[
        str | None, typer.Option(help="A server that is already running, as http://host:8000/v1.")
    ],
    "api_key": Annotated[
        str | None, typer.Option(help="Key for --base-url; safer as LLM_OCR_API_KEY.")
    ],
    "served_model": Annotated[str | None, typer.Option(help="The model's name on the server.")],
}
LAUNCH: Options = {
    "engine": Annotated[
        str | None,
        typer.Option(
            help="vllm, embedded (runs on the CPU), or auto: vLLM where it and a GPU are found."
        ),
    ],
    "engine_threads": Annotated[
        int | None, typer.Option(min=1, help="Cores of the embedded engine.")
    ],
    "ready_timeout": Annotated[
        float | None, typer.Option(help="Seconds that an engine or server may take to start.")
    ],
}
ASKING: Options = {
    "concurrency": Annotated[
        int | None, typer.Option(min=1, help="Requests in flight (default: adapts to the server).")
    ],
    "request_timeout": Annotated[
        float | None, typer.Option(help="Seconds that one answer may take.")
    ],
    "busy_timeout": Annotated[
        float | None,
        typer.Option(min=0, help="Seconds to wait for a server that says it is busy (429, 503)."),
    ],
    "skip_model_check": Annotated[
        bool | None,
        typer.Option("--skip-model-check", help="Start without testing the server on known pages."),
    ],
    "fallback": Annotated[
        str | None,
        typer.Option(
            help="What reads a page that the model can't: auto, text-layer, embedded or none."
        ),
    ],
    "fallback_base_url": Annotated[
        str | None, typer.Option(help="A server to ask about pages that the model can't read.")
    ],
    "fallback_model": Annotated[
        str | None, typer.Option(help="Model profile of --fallback-base-url.")
    ],
    "metrics_port": Annotated[
        int | None, typer.Option(min=0, help="Port of Prometheus metrics; 0 takes a free one.")
    ],
    "metrics_host": Annotated[
        str | None, typer.Option(help="Address that the metrics listen on; 0.0.0.0: all.")
    ],
}
# Of a task of one's own, and what its name is elsewhere than in `describe`.
OWN_TASK: Options = {
    "task_prompt": Annotated[
        str | None, typer.Option(help="A prompt of your own about each figure: text or @FILE.")
    ],
    "task_schema": Annotated[
        str | None,
        typer.Option(
            help="Schema of --task-prompt's answers: JSON Schema, Python file or module:Class."
        ),
    ],
    "classes": Annotated[
        list[str] | None,
        typer.Option(help="Classes of the task classify: chart,photo,logo and so on."),
    ],
    "min_figure_area": Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Smallest figure to ask about, as a share of its page."),
    ],
}
TASKS = "describe, caption, data, classify; with commas, or repeat the option"
TASK: Options = {
    "describe_task": Annotated[
        list[str] | None, typer.Option("--task", help=f"{TASKS} (default: describe).")
    ],
    **OWN_TASK,
}
RECORD: Options = {
    "parse_model": Annotated[
        str | None, typer.Option(help="Model profile for the records, if not --model.")
    ],
    "record_per": Annotated[
        str | None,
        typer.Option(help="One record per document (default) or per page."),
    ],
    "input_mode": Annotated[
        str | None,
        typer.Option(help="What the model sees: image, text, or both (default)."),
    ],
    "redo": Annotated[
        list[str] | None,
        typer.Option(help="Redo records with these statuses: failed,truncated."),
    ],
    "drop_unverified": Annotated[
        bool | None,
        typer.Option("--drop-unverified", help="Leave out values that the page doesn't show."),
    ],
}
DESCRIBE: Options = {
    "describe_model": Annotated[
        str | None, typer.Option(help="Model profile for the figures, if not --model.")
    ],
    "describe": Annotated[
        bool | None, typer.Option("--describe/--no-describe", help="Describe the figures.")
    ],
    "describe_task": Annotated[
        list[str] | None, typer.Option(help=f"What to ask about figures: {TASKS}.")
    ],
    **OWN_TASK,
}
RETRY: Options = {
    "status": Annotated[
        list[str] | None,
        typer.Option(help="Statuses of the pages, as failed,truncated (default: failed)."),
    ],
    "error": Annotated[
        list[str] | None, typer.Option(help="Only pages with this error code; may be repeated.")
    ],
}
OUTPUT: Options = {
    "staging": Annotated[
        str | None,
        typer.Option(
            help="Where a run to hf://datasets/… keeps its work (default: a bucket beside it)."
        ),
    ],
    "markdown": Annotated[
        bool | None,
        typer.Option(
            "--markdown/--no-markdown",
            help="Write a Markdown file per document (default: up to 10,000).",
        ),
    ],
    "viewer_pages": Annotated[
        int | None, typer.Option(min=0, help="Pages in index.html, problems first; 0 for none.")
    ],
    "source_license": Annotated[
        str | None, typer.Option(help="The documents' license, for the dataset card.")
    ],
    "price_per_hour": Annotated[
        float | None,
        typer.Option(min=0, help="US dollars that this machine costs per hour, to report costs."),
    ],
    "max_cost": Annotated[
        float | None,
        typer.Option(help="US dollars after which the run stops, with --price-per-hour."),
    ],
}
PRICES: Options = {
    "prices": Annotated[
        Path | None, typer.Option(help="TOML file of prices that override the package's.")
    ],
    "throughput": Annotated[
        Path | None, typer.Option(help="TOML file of speeds that override the package's.")
    ],
}
RUN: Options = {
    "public": Annotated[
        bool | None,
        typer.Option("--public", help="Make a new hf://datasets/… public, not private."),
    ],
    "shard_index": Annotated[
        int | None, typer.Option(min=0, help="This worker's number among --shard-count, from 0.")
    ],
    "shard_count": Annotated[
        int | None, typer.Option(min=1, help="Workers that share the run's shards.")
    ],
    "steal_work": Annotated[
        bool | None,
        typer.Option("--steal-work", help="When its own shards are done, take over others'."),
    ],
    "shard_pages": Annotated[
        int | None, typer.Option(min=1, help="Pages per shard, the unit of work that is committed.")
    ],
    "flush_seconds": Annotated[
        float | None, typer.Option(help="Seconds after which finished pages are saved.")
    ],
    "time_limit": Annotated[
        float | None, typer.Option(help="Seconds after which to stop, to be resumed later.")
    ],
    "max_failed_ratio": Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of failed pages above which to exit with 1."),
    ],
}
# Not fields of `Settings`: where the run happens.
CLUSTER: Options = {
    "executor": Annotated[
        str | None,
        typer.Option(help="Run on Ray: ray (RAY_ADDRESS, or a local one) or ray://HOST:10001."),
    ],
    "engines": Annotated[
        int | None, typer.Option(min=1, help="Engines on the cluster (default: as many as fit).")
    ],
    "gpus_per_engine": Annotated[
        int | None, typer.Option(min=0, help="GPUs per engine (default: 1 if there are any).")
    ],
    "cpus_per_engine": Annotated[
        int | None, typer.Option(min=1, help="CPUs per engine (default: 4, or up to 8 with a GPU).")
    ],
}

# What most runs need: first on a help page, the others in sections below.
COMMON = {
    "base_url", "describe", "engine", "executor", "limit", "model", "pages",
}  # fmt: skip


def in_sections(titled: Mapping[str, Options]) -> None:
    """Put options, but the common ones, below titles on the help pages of all commands."""
    for title, options in titled.items():
        for name, kind in options.items():
            if name not in COMMON:
                kind.__metadata__[0].rich_help_panel = title


in_sections(
    {
        "Pages and rendering": PAGES,
        "Model and server": {**MODEL, **SERVER, **LAUNCH},
        "vLLM": VLLM,
        "Requests, fallback and metrics": ASKING,
        "Figures": DESCRIBE,
        "Pages to ask again": RETRY,
        "Records": RECORD,
        "Several workers, limits and stops": RUN,
        "Ray": CLUSTER,
        "Outputs and costs": {**OUTPUT, **PRICES},
    }
)


def cluster_options(given: dict[str, Any]) -> dict[str, Any]:
    """The options of `CLUSTER`, removed from `given`."""
    return {name: given.pop(name) for name in CLUSTER if name in given}


@contextmanager
def _env_file(path: Path | None) -> Iterator[None]:
    """Let all settings come from this file too; None leaves it to the environment."""
    before = os.environ.get(VARIABLE)
    if path is not None:
        os.environ[VARIABLE] = str(path.absolute())
    try:
        yield
    finally:
        if path is not None:
            del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def takes(*groups: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `groups`: those that were set reach it as `given`."""
    options = {name: kind for group in groups for name, kind in group.items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command).parameters
        kept = [one for name, one in own.items() if name != "given"]
        extra = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in options.items()
        ]

        @wraps(command)
        def called(**arguments: Any) -> None:  # noqa: ANN401
            names = [name for name in options if arguments[name] is not None]
            given = {name: arguments[name] for name in names}
            with _env_file(given.pop("env_file", None)):
                command(**{one.name: arguments[one.name] for one in kept}, given=given)

        keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in kept]
        called.__signature__ = inspect.Signature([*keyword, *extra])  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in (*keyword, *extra)}
        return called

    return decorate

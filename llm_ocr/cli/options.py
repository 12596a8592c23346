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
        int | None, typer.Option(min=1, help="Documents (or rows) to read: some, by chance.")
    ],
    "seed": Annotated[int | None, typer.Option(help="Chooses others with --sample (0).")],
    "password": Annotated[
        str | None, typer.Option(help="Opens encrypted PDFs; better set as LLM_OCR_PASSWORD.")
    ],
    "render_workers": Annotated[int | None, typer.Option(min=1, help="Processes that draw pages.")],
    "render_timeout": Annotated[float | None, typer.Option(help="Seconds to draw one page.")],
    "max_pixels": Annotated[
        int | None, typer.Option(min=1, help="Pixels that a page's images may decode to.")
    ],
    "text_layer": Annotated[
        TextLayerUse | None,
        typer.Option(help="A PDF's own text: used where it can be trusted, not at all, or alone."),
    ],
    "min_agreement": Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Agreement with a PDF's own text below which to ask again."
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
        str | None, typer.Option(help="Arguments for `vllm serve`; they win over llm_ocr's.")
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
        str | None, typer.Option(help="A server that runs already, as http://host:8000/v1.")
    ],
    "api_key": Annotated[str | None, typer.Option(help="Its key; better set as LLM_OCR_API_KEY.")],
    "served_model": Annotated[str | None, typer.Option(help="The model's name on the server.")],
}
LAUNCH: Options = {
    "engine": Annotated[
        str | None,
        typer.Option(help="auto, vllm or embedded; auto: vLLM where it and a GPU are."),
    ],
    "engine_threads": Annotated[
        int | None, typer.Option(min=1, help="Cores of the embedded engine.")
    ],
    "ready_timeout": Annotated[
        float | None, typer.Option(help="Seconds for an engine or server to answer a page.")
    ],
}
ASKING: Options = {
    "concurrency": Annotated[
        int | None, typer.Option(min=1, help="Requests in flight (default: found while running).")
    ],
    "request_timeout": Annotated[float | None, typer.Option(help="Seconds for one answer.")],
    "busy_timeout": Annotated[
        float | None,
        typer.Option(min=0, help="Seconds to wait for a server that says it is busy (429, 503)."),
    ],
    "skip_check": Annotated[
        bool | None, typer.Option("--skip-check", help="Don't ask about known pages first.")
    ],
    "fallback": Annotated[
        str | None,
        typer.Option(help="Who reads what no model can: auto, text-layer, embedded or none."),
    ],
    "fallback_base_url": Annotated[
        str | None, typer.Option(help="A server that is asked about pages the model can't read.")
    ],
    "fallback_model": Annotated[str | None, typer.Option(help="The profile of its model.")],
    "metrics_port": Annotated[
        int | None, typer.Option(min=0, help="Port of Prometheus metrics; 0 takes a free one.")
    ],
    "metrics_host": Annotated[
        str | None, typer.Option(help="Where that listens; 0.0.0.0 for all interfaces.")
    ],
}
# Of a task of one's own, and what its name is elsewhere than in `describe`.
OWN_TASK: Options = {
    "task_prompt": Annotated[
        str | None, typer.Option(help="A prompt of your own about each figure: text or @FILE.")
    ],
    "task_schema": Annotated[
        str | None,
        typer.Option(help="A schema for its answers: a JSON Schema, a Python file, module:Class."),
    ],
    "classes": Annotated[
        list[str] | None, typer.Option(help="For classify: chart,photo,logo and so on.")
    ],
    "min_figure_area": Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of its page below which a figure is skipped."),
    ],
}
TASKS = "describe, caption, data, classify; with commas or given again"
TASK: Options = {
    "describe_task": Annotated[
        list[str] | None, typer.Option("--task", help=f"{TASKS} (default: describe).")
    ],
    **OWN_TASK,
}
RECORD: Options = {
    "parse_model": Annotated[str | None, typer.Option(help="Another profile for the records.")],
    "record_per": Annotated[
        str | None, typer.Option("--per", help="What a record is of: document (default) or page.")
    ],
    "record_from": Annotated[
        str | None,
        typer.Option("--from", help="What the model is shown: image, text, or both (default)."),
    ],
    "record_again": Annotated[
        list[str] | None,
        typer.Option("--again", help="Make records again that are failed, truncated or both."),
    ],
    "drop_unsupported": Annotated[
        bool | None,
        typer.Option("--drop-unsupported", help="Leave out values that the page does not show."),
    ],
}
DESCRIBE: Options = {
    "describe_model": Annotated[str | None, typer.Option(help="Another profile for the figures.")],
    "describe": Annotated[
        bool | None, typer.Option("--describe/--no-describe", help="Describe the figures.")
    ],
    "describe_task": Annotated[
        list[str] | None, typer.Option(help=f"What is asked about figures: {TASKS}.")
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
        typer.Option(help="Where a run to hf://datasets/… works (default: a bucket beside it)."),
    ],
    "markdown": Annotated[
        bool | None,
        typer.Option(
            "--markdown/--no-markdown", help="A Markdown file a document (default: up to 10,000)."
        ),
    ],
    "viewer_pages": Annotated[
        int | None, typer.Option(min=0, help="Pages in index.html, problems first; 0 for none.")
    ],
    "source_license": Annotated[
        str | None, typer.Option(help="The documents' licence, for the dataset card.")
    ],
    "price_per_hour": Annotated[
        float | None, typer.Option(min=0, help="US dollars an hour of this machine, to tell costs.")
    ],
    "max_cost": Annotated[
        float | None,
        typer.Option(help="US dollars after which the run stops, with --price-per-hour."),
    ],
}
PRICES: Options = {
    "prices": Annotated[
        Path | None, typer.Option(help="TOML file of prices, over those of the package.")
    ],
    "throughput": Annotated[
        Path | None, typer.Option(help="TOML file of speeds, over those of the package.")
    ],
}
RUN: Options = {
    "public": Annotated[
        bool | None,
        typer.Option("--public", help="Make a new hf://datasets/… public, not private."),
    ],
    "shard_index": Annotated[
        int | None, typer.Option(min=0, help="Which of --shard-count workers this is, from 0.")
    ],
    "shard_count": Annotated[
        int | None, typer.Option(min=1, help="Workers that share the run's shards.")
    ],
    "until_complete": Annotated[
        bool | None,
        typer.Option("--until-complete", help="Then do what other workers have not done yet."),
    ],
    "shard_pages": Annotated[int | None, typer.Option(min=1, help="Pages in a shard.")],
    "part_seconds": Annotated[
        float | None, typer.Option(help="Seconds after which finished pages are staged.")
    ],
    "time_limit": Annotated[
        float | None, typer.Option(help="Seconds after which it stops, to go on another time.")
    ],
    "max_failed_ratio": Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of failed pages that fails the run."),
    ],
}
# Not fields of `Settings`: where the run happens.
CLUSTER: Options = {
    "on": Annotated[
        str | None,
        typer.Option(help="ray (RAY_ADDRESS, or a local one), or a cluster's ray://HOST:10001."),
    ],
    "engines": Annotated[
        int | None, typer.Option(min=1, help="Engines on it (default: as many as have room).")
    ],
    "gpus_per_engine": Annotated[
        int | None, typer.Option(min=0, help="GPUs of each (default: 1 where there are some).")
    ],
    "cpus_per_engine": Annotated[
        int | None, typer.Option(min=1, help="CPUs of each (default: 4, or up to 8 with a GPU).")
    ],
}


def where_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options of `CLUSTER`, taken out of those that were given."""
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

"""Implementation of `llm-ocr serve inference`: run the router, or check its configuration."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import typer

from llm_ocr.cli.output import configure_logs, handle_errors, warn
from llm_ocr.engines.supervisor import GRACE
from llm_ocr.exit_codes import ExitCode
from llm_ocr.router.config import (
    InvalidRouterConfigError,
    RouterConfig,
    load_config,
    single_model_config,
)
from llm_ocr.service.settings import LogSettings

STOPPING = "Stopping: waiting for the requests in progress; press Ctrl-C again to stop immediately"
STOPPED = "Stopped immediately: requests in progress were cut off"
Given = dict[str, Any]


def serve_inference(given: Given, path: Path | None, host: str, port: int, *, check: bool) -> None:
    """Run the router of a configuration file, or of one model; with `check` only print its
    routes."""
    own = {name: given.pop(name) for name in LogSettings.model_fields if name in given}
    if (path is None) == ("model" not in given) or (path is not None and given):
        raise typer.BadParameter("give either --config, or --model and options of its engine")
    with handle_errors():
        configure_logs(own)
        try:
            if path is not None:
                config = load_config(path)
            else:
                from llm_ocr.settings import Settings

                config = single_model_config(Settings(**given, base_url=None))
            if check:
                typer.echo("\n".join(_describe_routes(config)))
            else:
                _run(config, host, port)
        except InvalidRouterConfigError as error:
            warn(str(error))
            raise typer.Exit(ExitCode.USAGE) from error


def _describe_routes(config: RouterConfig) -> Iterator[str]:
    """A line for each name that requests may use, with the shares of models, then a line for each
    replica."""
    for name, shares in config.routes().items():
        targets = ", ".join(
            model if share == 1 else f"{model} {share:.1%}" for model, share in shares.items()
        )
        yield f"{name} -> {targets}"
    for name, model in config.models.items():
        for k, replica in enumerate(model.replicas):
            gpus = f" on GPUs {replica.gpus}" if replica.gpus else ""
            yield f"{name}/{k}: {replica.base_url or f'{replica.engine}{gpus}'}"


def _run(config: RouterConfig, host: str, port: int) -> None:
    from llm_ocr.cli.service import announce_url, create_listener, notify, run_until_signal
    from llm_ocr.router.serving import run_router

    listener = create_listener(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}/v1"

    run_until_signal(
        "llm-ocr-inference",
        # Then engines have as long to end as their supervisors give them.
        config.drain_seconds + GRACE,
        partial(run_router, config, listener, notify=notify, on_ready=partial(announce_url, url)),
        stopping=STOPPING,
        stopped=STOPPED,
    )

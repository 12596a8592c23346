"""`llm-ocr serve`: start the service's processes, manage its API keys, migrate its database."""

from pathlib import Path
from typing import Annotated, Any

import typer

from llm_ocr.cli.help import Commands
from llm_ocr.cli.options import (
    ENGINE,
    ENV_FILE,
    FALLBACK,
    MODEL,
    SERVER,
    settings_options,
    with_options,
)
from llm_ocr.service.settings import (
    GatewaySettings,
    LogSettings,
    OidcSettings,
    StateSettings,
    WorkerSettings,
)
from llm_ocr.settings import MetricsSettings, RenderSettings, RequestSettings

STATE = settings_options(StateSettings)
DATABASE = {"database": STATE["database"]}
# What all processes have.
PROCESS = {**settings_options(MetricsSettings), **settings_options(LogSettings)}
GATEWAY = {**settings_options(GatewaySettings), **settings_options(OidcSettings)}
WORKER = {
    **settings_options(WorkerSettings),
    **MODEL,
    **SERVER,
    **ENGINE,
    **settings_options(RequestSettings),
    **FALLBACK,
    **settings_options(RenderSettings),
}
Given = dict[str, Any]
Tenant = Annotated[str, typer.Option(help="Tenant that the key gives access to.")]

serve = Commands(no_args_is_help=False)
key = Commands(help="Manage API keys: create, list, revoke.", no_args_is_help=True)


@serve.callback(invoke_without_command=True)
@with_options(STATE, GATEWAY, WORKER, PROCESS, ENV_FILE)
def _serve_all(context: typer.Context, given: Given) -> None:
    """Run the whole service in one process: gateway, worker and engine.

    Keeps its state in the folder service/ and listens on 127.0.0.1. On the first start it creates
    an API key and prints it. For several machines, start `serve gateway` and `serve worker` with a
    PostgreSQL database and a bucket.

    \b
    Examples:
      llm-ocr serve
      llm-ocr serve --base-url http://gpu-box:8000/v1 --tasks 10
      llm-ocr serve gateway --database postgresql://… --storage s3://bucket/service
      llm-ocr serve worker --database postgresql://… --storage s3://bucket/service
    """
    if context.invoked_subcommand is not None:
        if given:
            name = context.invoked_subcommand
            raise typer.BadParameter(
                f"put the options after the command: llm-ocr serve {name} [OPTIONS]"
            )
        return
    from llm_ocr.cli.service import serve_all

    serve_all(given)


@serve.command()
@with_options(STATE, GATEWAY, PROCESS, ENV_FILE)
def gateway(given: Given) -> None:
    """Run a gateway: accepts documents over HTTP and from watched folders, and serves results."""
    from llm_ocr.cli.service import serve_gateway

    serve_gateway(given)


@serve.command()
@with_options(STATE, WORKER, PROCESS, ENV_FILE)
def worker(given: Given) -> None:
    """Run a worker, which processes queued documents; start as many as you like."""
    from llm_ocr.cli.service import serve_worker

    serve_worker(given)


@serve.command()
@with_options(MODEL, ENGINE, settings_options(LogSettings), ENV_FILE)
def inference(
    given: Given,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration in YAML: models, replicas and aliases."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")
    ] = 8400,
    check: Annotated[
        bool, typer.Option("--check", help="Check the configuration, print its routes and exit.")
    ] = False,
) -> None:
    """Run an inference tier: one address for many models and their replicas.

    Starts engines and watches them, or passes requests to servers that run already.

    \b
    Examples:
      llm-ocr serve inference --model deepseek-ocr
      llm-ocr serve inference --config inference.yaml --check
      llm-ocr serve inference --config inference.yaml --host 0.0.0.0
    """
    from llm_ocr.cli.inference import serve_inference

    serve_inference(given, config, host, port, check=check)


@serve.command()
@with_options(DATABASE)
def migrate(given: Given) -> None:
    """Create or update the database's tables; each start of a process does the same."""
    from llm_ocr.cli.service import migrate_database

    migrate_database(given)


@key.command()
@with_options(DATABASE)
def create(
    given: Given,
    tenant: Tenant = "default",
    scopes: Annotated[
        str,
        typer.Option(
            help="Scopes, comma-separated: documents:write, documents:read, review, admin."
        ),
    ] = "documents:write,documents:read",
    name: Annotated[str, typer.Option(help="Name of the key, for your own use.")] = "",
    days: Annotated[
        int | None, typer.Option(min=1, help="Days until it expires (default: never).")
    ] = None,
) -> None:
    """Create an API key and print it. It can't be shown again."""
    from llm_ocr.cli.service import print_new_key

    print_new_key(given, tenant, scopes, name, days)


@key.command("list")
@with_options(DATABASE)
def list_(given: Given) -> None:
    """List the API keys, without their secrets."""
    from llm_ocr.cli.service import list_keys

    list_keys(given)


@key.command()
@with_options(DATABASE)
def revoke(
    key_id: Annotated[
        str, typer.Argument(metavar="KEY", help="The key, or its id as `key list` prints it.")
    ],
    given: Given,
) -> None:
    """Revoke an API key, with immediate effect."""
    from llm_ocr.cli.service import revoke_key

    revoke_key(given, key_id)


serve.add_typer(key, name="key")

"""Implementation of `llm-ocr serve`: run the service's processes and manage its API keys."""

import asyncio
import logging
import shlex
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import typer

from llm_ocr import logs, tracing
from llm_ocr.batch.interruption import CancellationToken, StoppedError
from llm_ocr.cli.advice import explain, show_options
from llm_ocr.cli.output import configure_logs, handle_errors, show_logs, warn
from llm_ocr.cli.signals import stop_on_signals
from llm_ocr.exit_codes import ExitCode
from llm_ocr.messages import MissingExtraError, how_to_install, pluralize
from llm_ocr.service.settings import DEFAULT_URL, KEY_VARIABLE, ServiceSettings

if TYPE_CHECKING:
    from llm_ocr.service.database import Database
    from llm_ocr.service.metrics import ProcessMetrics
    from llm_ocr.settings import Settings

# Seconds to exit after SIGTERM, in addition to `drain_seconds`.
STOP_SECONDS = 2.0
# The key that the first start creates: everything but administration.
FIRST_KEY_SCOPES = ("documents:write", "documents:read", "review")
FIRST_KEY_NAME = "created on the first start"
PACKAGES = ("alembic", "fastapi", "python_multipart", "sqlalchemy", "uvicorn")
STOPPING = (
    "Stopping: unfinished documents return to the queue; press Ctrl-C again to stop immediately"
)
STOPPED = "Stopped immediately: another worker resumes the documents in progress"
Given = dict[str, Any]


def serve_all(given: Given) -> None:
    """Run a gateway and a worker in this process. Creates an API key if there is none."""
    with open_service(given) as (settings, database):
        from llm_ocr.service.access import create_key
        from llm_ocr.service.serving import run_gateway, run_worker
        from llm_ocr.storage.store import open_store

        engine_settings, store = _engine_settings(given), open_store(settings.storage)
        listener = create_listener(settings.host, settings.port)
        # After listening: if the port is in use, no key must be created and then not printed.
        key = None
        if not _has_key(database):
            key = create_key(database, scopes=FIRST_KEY_SCOPES, name=FIRST_KEY_NAME)
        url = _url(settings, listener)

        def print_url() -> None:
            announce_url(url)
            if key or not logs.are_json():
                typer.echo(_first_steps(url, key) if key else _key_hint(given))

        with _serve_metrics(settings) as metrics:
            own = database, store, settings
            run_until_signal(
                "llm-ocr",
                settings.drain_seconds,
                partial(run_gateway, *own, metrics, listener, on_ready=print_url),
                partial(run_worker, *own, engine_settings, metrics, notify=notify),
            )


def serve_gateway(given: Given) -> None:
    """Run a gateway. Without an API key it refuses to listen on addresses other than loopback."""
    with open_service(given) as (settings, database):
        from llm_ocr.service.access import require_key
        from llm_ocr.service.serving import run_gateway
        from llm_ocr.storage.store import open_store

        require_key(database, settings.host)
        store, has_key = open_store(settings.storage), _has_key(database)
        listener = create_listener(settings.host, settings.port)

        def print_url() -> None:
            announce_url(_url(settings, listener))
            if not has_key:
                create = _command("key create", given)
                announce(f"There is no API key yet; create one with: {create}")

        with _serve_metrics(settings) as metrics:
            own = database, store, settings, metrics
            run_until_signal(
                "llm-ocr-gateway",
                settings.drain_seconds,
                partial(run_gateway, *own, listener, on_ready=print_url),
            )


def serve_worker(given: Given) -> None:
    """Run a worker."""
    with open_service(given) as (settings, database):
        from llm_ocr.service.serving import run_worker
        from llm_ocr.storage.store import open_store

        engine_settings, store = _engine_settings(given), open_store(settings.storage)
        tasks = pluralize(settings.tasks, "document")
        hint = "" if logs.are_json() else "  (press Ctrl-C to stop)"
        warn(f"Processing up to {tasks} at the same time{hint}", logging.INFO)
        with _serve_metrics(settings) as metrics:
            own = database, store, settings, engine_settings, metrics
            working = partial(run_worker, *own, notify=notify)
            run_until_signal("llm-ocr-worker", settings.drain_seconds, working)


def migrate_database(given: Given) -> None:
    """Create or update the database's tables."""
    with open_service(given) as (_, database):
        announce(f"{database.name}: the tables are up to date")


def print_new_key(given: Given, tenant: str, scopes: str, name: str, days: int | None) -> None:
    """Create a key and print it to standard output, without anything else."""
    with open_service(given) as (_, database):
        from llm_ocr.service.access import create_key

        key_scopes = [scope.strip() for scope in scopes.split(",") if scope.strip()]
        typer.echo(create_key(database, tenant, key_scopes, name=name, expires_in_days=days))
        warn("Save this key: it can't be shown again", logging.INFO)


def list_keys(given: Given) -> None:
    """Print a line for each key."""
    with open_service(given) as (_, database):
        from llm_ocr.service import access

        for key in access.list_keys(database):
            scopes, created = ",".join(key.scopes), f"created {key.created_at:%Y-%m-%d}"
            expiry = f"expires {key.expires_at:%Y-%m-%d}" if key.expires_at else "never expires"
            expiry = f"revoked {key.revoked_at:%Y-%m-%d}" if key.revoked_at else expiry
            columns = (key.id, key.tenant, scopes, created, expiry, key.name)
            typer.echo("  ".join(columns).rstrip())


def revoke_key(given: Given, key_id: str) -> None:
    """Revoke a key, given in full or by its id."""
    with open_service(given) as (_, database):
        from llm_ocr.service import access

        access.revoke_key(database, key_id)
        typer.echo(f"Revoked {key_id}")


@contextmanager
def open_service(given: Given) -> "Iterator[tuple[ServiceSettings, Database]]":
    """The settings and the database, with up-to-date tables. Ends the command at expected errors.
    Other values in `given` are ignored."""
    with handle_errors():
        _require_packages()
        from llm_ocr.service.access import AccessError
        from llm_ocr.service.database import Database, DatabaseError
        from llm_ocr.service.oidc import OidcSettingsError
        from llm_ocr.service.pipelines import InvalidPipelineError

        configure_logs(given)
        own = {name: given[name] for name in ServiceSettings.model_fields if name in given}
        settings = ServiceSettings(**own)
        try:
            database = Database(settings.database.get_secret_value())
            database.migrate()
            yield settings, database
            database.close()
        except DatabaseError as error:
            warn(f"Stopped: {explain(error)}")
            raise typer.Exit(ExitCode.STORAGE) from error
        except (AccessError, InvalidPipelineError, OidcSettingsError) as error:
            warn(explain(error))
            raise typer.Exit(ExitCode.USAGE) from error


def _require_packages() -> None:
    for package in PACKAGES:
        if find_spec(package) is None:
            problem = f"the service needs the package {package}, which is not installed"
            raise MissingExtraError(f"{problem}: {how_to_install('service')}")


def run_until_signal(
    service: str,
    drain_seconds: float,
    *parts: Any,  # noqa: ANN401
    stopping: str = STOPPING,
    stopped: str = STOPPED,
) -> None:
    """Run parts of the service until a signal arrives, then let them drain. `service` names this
    process in traces. The messages are for the first and for a second signal."""

    async def run_parts(stop: CancellationToken) -> None:
        stop_event = asyncio.Event()

        async def stop_when_requested() -> None:
            with suppress(StoppedError):
                await stop.wait()
            warn(stopping, logging.INFO)
            stop_event.set()

        waiting = asyncio.create_task(stop_when_requested())
        try:
            async with asyncio.TaskGroup() as group:
                for part in parts:
                    group.create_task(part(stop=stop_event))
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        finally:
            waiting.cancel()

    from rich.console import Console

    with (
        _start_tracing(service),
        nullcontext() if logs.are_json() else show_logs(Console(stderr=True)),
        stop_on_signals(drain_seconds + STOP_SECONDS, stopped) as stop,
    ):
        asyncio.run(run_parts(stop))


@contextmanager
def _start_tracing(service: str) -> Iterator[None]:
    """Record traces, if the environment says where to send them."""
    with ExitStack() as stack:
        if tracing.wants_tracing():
            try:
                stack.enter_context(tracing.start_tracing(service))
            except ImportError:
                variables = " or ".join(tracing.ENDPOINT_VARIABLES)
                problem = f"No traces, though {variables} is set"
                warn(f"{problem}: {how_to_install('otel')}", logging.WARNING)
        yield


@contextmanager
def _serve_metrics(settings: ServiceSettings) -> "Iterator[ProcessMetrics]":
    """The metrics of this process, served if the settings want that."""
    from llm_ocr.service.metrics import ProcessMetrics

    metrics = ProcessMetrics()
    with ExitStack() as stack:
        if settings.metrics_port is not None:
            serving = metrics.serve(settings.metrics_host, settings.metrics_port)
            try:
                url = stack.enter_context(serving)
            except OSError as error:
                place = f"{settings.metrics_host}:{settings.metrics_port}"
                warn(f"--metrics-port: can't listen on {place}: {error.strerror}", logging.ERROR)
                raise typer.Exit(ExitCode.USAGE) from error
            warn(f"Metrics and health checks: {url}/metrics, /livez and /readyz", logging.INFO)
        yield metrics


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def notify(text: str) -> None:
    """Print what an engine does."""
    warn(show_options(text), logging.INFO)


def announce(text: str) -> None:
    """Print a line on standard output, or log it where logs are JSON: these are mostly collected
    together with standard output."""
    if logs.are_json():
        warn(text, logging.INFO)
    else:
        typer.echo(text)


def announce_url(url: str) -> None:
    """Print, or log, where this process listens."""
    announce(f"listening at {url}" if logs.are_json() else f"{url}  (press Ctrl-C to stop)")


def _engine_settings(given: Given) -> "Settings":
    from llm_ocr.settings import Settings

    own = ServiceSettings.model_fields
    return Settings(**{name: value for name, value in given.items() if name not in own})


def _has_key(database: "Database") -> bool:
    from llm_ocr.service.access import list_keys

    return any(key.revoked_at is None for key in list_keys(database))


def create_listener(host: str, port: int) -> socket.socket:
    """A socket that listens at an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        warn(f"--port: can't listen on {host}:{port}: {error.strerror}", logging.ERROR)
        raise typer.Exit(ExitCode.USAGE) from error


def _url(settings: ServiceSettings, listener: socket.socket) -> str:
    if settings.public_url:
        return settings.public_url
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listener.getsockname()[1]}"


def _first_steps(url: str, key: str) -> str:
    to = "" if url == DEFAULT_URL else f" --to {url}"
    return f"""
API key (save it: it can't be shown again):
  export {KEY_VARIABLE}={key}

Then, in another shell:
  llm-ocr submit report.pdf{to} --wait --out results/
  curl -H "Authorization: Bearer ${KEY_VARIABLE}" -H "Prefer: wait=30" \\
    -F "files=@report.pdf" {url}/v1/documents:upload
"""


def _key_hint(given: Given) -> str:
    return (
        "Use the API key that was printed on the first start, or create another one with: "
        f"{_command('key create', given)}"
    )


def _command(name: str, given: Given) -> str:
    """A command line of `llm-ocr serve` for the same database."""
    words = ["llm-ocr", "serve", *name.split()]
    if "database" in given:
        # Without the address if it may contain a password.
        words += ["--database", "DATABASE" if "@" in given["database"] else given["database"]]
    return shlex.join(words)

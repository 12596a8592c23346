"""`llm-ocr check` and `llm-ocr engine`: a server or an engine without a run."""

from typing import Annotated, Any

import typer

from llm_ocr.cli.options import ENGINE, ENV_FILE, MODEL, SERVER, with_options
from llm_ocr.cli.output import handle_errors, show_progress, stdout, warn
from llm_ocr.exit_codes import ExitCode


@with_options(MODEL, SERVER, ENGINE, ENV_FILE)
def check(given: dict[str, Any]) -> None:
    """Test a server, or an engine started for the test, on known pages."""
    from llm_ocr.batch.events import Note
    from llm_ocr.document.configure import step_target
    from llm_ocr.engines.commands import check_target
    from llm_ocr.settings import Settings

    console = stdout()
    with handle_errors():
        with show_progress(console) as notify:
            settings = Settings(**given)
            target = step_target(settings, "extract")
            base_url, findings = check_target(
                settings, target, settings.log_dir, lambda text: notify(Note(text))
            )
        console.print(base_url)
        for finding in findings:
            result = (
                f"[red]{finding.problem}[/]"
                if finding.problem
                else f"as expected, {finding.seconds:.1f} s"
            )
            console.print(f"  {finding.probe}: {result}", highlight=False)
    if any(finding.problem for finding in findings):
        raise typer.Exit(ExitCode.USAGE)


@with_options(MODEL, ENGINE, ENV_FILE)
def engine(
    given: dict[str, Any],
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 127.0.0.1 accepts only this machine.")
    ] = "127.0.0.1",
    model_name: Annotated[
        str | None, typer.Option(help="Model name that the embedded engine reports.")
    ] = None,
    print_command: Annotated[
        bool,
        typer.Option(
            "--print-command",
            help="Print the engine's command, with a reason for each argument, and exit.",
        ),
    ] = False,
) -> None:
    """Start an engine alone, for curl or --base-url; press Ctrl-C to stop it."""
    import os

    from llm_ocr.document.configure import step_target
    from llm_ocr.engines.commands import describe_command
    from llm_ocr.engines.targets import engine_command
    from llm_ocr.settings import Settings

    with handle_errors():
        settings = Settings(**given)
        if print_command:
            typer.echo(describe_command(settings, host, port))
            return
        target = step_target(settings, "extract")
        command = engine_command(settings, target, warn, model_name)
    argv = [*command.argv, "--host", host, "--port", str(port)]
    stdout().print(f"{command.name} will be available at http://{host}:{port}/v1.")
    os.execve(argv[0], argv, {**os.environ, **command.env})

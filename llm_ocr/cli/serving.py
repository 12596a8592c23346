"""`llm-ocr check` and `llm-ocr engine`: a server without a run."""

from typing import Annotated, Any

import typer

from llm_ocr.cli.options import ENV_FILE, LAUNCH, MODEL, SERVER, VLLM, takes
from llm_ocr.cli.showing import errors, note, terminal


@takes(MODEL, SERVER, LAUNCH, VLLM, ENV_FILE)
def check(given: dict[str, Any]) -> None:
    """Test a server, or an engine started for the test, on known pages."""
    from llm_ocr.pipeline.engine_commands import check_target
    from llm_ocr.pipeline.progress import watch
    from llm_ocr.settings import Settings

    console = terminal()
    with errors():
        with watch(console, False) as notify:
            where, findings = check_target(Settings(**given), notify)
        console.print(where)
        for one in findings:
            said = f"[red]{one.problem}[/]" if one.problem else f"as expected, {one.seconds:.1f} s"
            console.print(f"  {one.probe}: {said}", highlight=False)
    if any(finding.problem for finding in findings):
        raise typer.Exit(2)


@takes(MODEL, LAUNCH, VLLM, ENV_FILE)
def engine(
    given: dict[str, Any],
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 127.0.0.1: only this machine.")
    ] = "127.0.0.1",
    model_name: Annotated[
        str | None, typer.Option(help="Model name that the embedded engine serves.")
    ] = None,
    print_command: Annotated[
        bool,
        typer.Option(
            "--print-command", help="Only print the command, with a reason for each argument."
        ),
    ] = False,
) -> None:
    """Start only an engine, for use with curl or --base-url; Ctrl-C ends it."""
    import os

    from llm_ocr.pipeline.engine_commands import describe_command, engine_command
    from llm_ocr.settings import Settings

    with errors():
        settings = Settings(**given)
        if print_command:
            typer.echo(describe_command(settings, host, port))
            return
        command = engine_command(settings, note, model_name)
    argv = [*command.argv, "--host", host, "--port", str(port)]
    terminal().print(f"{command.name} answers at http://{host}:{port}/v1 once it is ready.")
    os.execve(argv[0], argv, {**os.environ, **command.env})

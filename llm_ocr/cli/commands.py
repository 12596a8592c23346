"""The commands of `llm-ocr`. Each imports what only it needs, so that all start quickly.

Exit codes are in `llm_ocr.exit_codes`.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.advice import explain_fact
from llm_ocr.cli.batch_job import run_batch_job
from llm_ocr.cli.classifier import classifier
from llm_ocr.cli.compare import compare
from llm_ocr.cli.convert import convert
from llm_ocr.cli.engine import check, engine
from llm_ocr.cli.evaluate import evaluate
from llm_ocr.cli.export import export
from llm_ocr.cli.help import Commands
from llm_ocr.cli.launch import jobs, launch
from llm_ocr.cli.listings import models, schemas
from llm_ocr.cli.mcp import mcp
from llm_ocr.cli.options import (
    CLUSTER,
    DESCRIBE,
    ENGINE,
    ENV_FILE,
    MODEL,
    OUTPUT,
    PAGES,
    REQUESTS,
    RETRY,
    RUN,
    SERVER,
    TASK,
    JsonLogs,
    Version,
    print_version,
    with_options,
)
from llm_ocr.cli.output import handle_errors, parse_list, run_command, show_progress, stdout
from llm_ocr.cli.parse import parse
from llm_ocr.cli.pipelines import pipelines
from llm_ocr.cli.plan import plan
from llm_ocr.cli.registry import registry
from llm_ocr.cli.review import review
from llm_ocr.cli.serve import serve
from llm_ocr.cli.status import service
from llm_ocr.cli.submit import submit
from llm_ocr.messages import pluralize

if TYPE_CHECKING:
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings

app = Commands(
    name="llm-ocr",
    help="Turn document pages into Markdown, figures and structured records, with open models.",
    epilog="`llm-ocr COMMAND --help` shows a command's options. Settings can also be environment "
    "variables, such as LLM_OCR_MODEL, or lines of an --env-file.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help="Files, folders, datasets, quoted globs, or lists of paths as @files.txt.",
    ),
]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="The --out of an existing run: a folder, s3://, gs:// or hf://."
    ),
]
Out = Annotated[
    str,
    typer.Option(
        "--out", "-o", help="Output location, new or existing run: a folder, s3://, gs:// or hf://."
    ),
]
Given = dict[str, Any]
# Sections of commands in `llm-ocr --help`.
READ = "Read documents"
REWORK = "Continue or rework a run"
INSPECT = "Inspect a run"
CLOUD = "Costs and cloud jobs"
MODELS = "Models, engines and schemas"
SERVICE = "The service"


@app.callback()
def _main(version: Version = False) -> None:
    pass


@app.command(section=READ)
@with_options(PAGES, MODEL, DESCRIBE, SERVER, ENGINE, REQUESTS, RUN, OUTPUT, CLUSTER, ENV_FILE)
def run(
    inputs: Inputs,
    out: Out,
    given: Given,
    update: Annotated[
        bool, typer.Option("--update", help="Add new documents found in the inputs.")
    ] = False,
    json_logs: JsonLogs = False,
) -> None:
    """Extract, describe and assemble documents; run the same command again to resume."""
    stages = ("extract", "describe", "assemble")
    _execute(given, json_logs, inputs=inputs, out=out, stages=stages, update=update)


@app.command(section=READ)
@with_options(PAGES, MODEL, SERVER, ENGINE, REQUESTS, RUN, OUTPUT, CLUSTER, ENV_FILE)
def extract(inputs: Inputs, out: Out, given: Given, json_logs: JsonLogs = False) -> None:
    """Extract pages only: Markdown, blocks and figures, without descriptions and documents."""
    _execute(given, json_logs, inputs=inputs, out=out, stages=("extract",))


@app.command(section=REWORK)
@with_options(TASK, MODEL, SERVER, ENGINE, REQUESTS, OUTPUT, CLUSTER, ENV_FILE)
def describe(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Describe the figures of an existing run; `assemble` then adds the texts to its documents."""
    _execute(given, json_logs, inputs=None, out=out, stages=("describe",))


app.command(section=READ)(parse)
app.command(section=READ)(convert)


@app.command(section=REWORK)
@with_options(OUTPUT, CLUSTER, ENV_FILE)
def assemble(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Join the pages of an existing run into documents, using the descriptions available so far."""
    _execute(given, json_logs, inputs=None, out=out, stages=("assemble",))


@app.command(section=REWORK)
@with_options(MODEL, SERVER, ENGINE, REQUESTS, RETRY, RUN, OUTPUT, CLUSTER, ENV_FILE)
def retry(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Retry failed or low-quality pages; the better result is kept."""
    from llm_ocr.batch import maintenance

    statuses, errors = parse_list(given, "statuses", "failed"), parse_list(given, "errors", "")

    def work(settings: "Settings", **how: Any) -> "Summary":  # noqa: ANN401
        return maintenance.retry(out, settings, statuses=statuses, errors=errors, **how)

    run_command(given, json_logs, out, work)


@app.command(section=REWORK)
@with_options(MODEL, RUN, OUTPUT, CLUSTER, ENV_FILE)
def reparse(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Parse the stored answers again with newer parsers, without a model or a GPU."""
    from llm_ocr.batch import maintenance

    def work(settings: "Settings", **how: Any) -> "Summary":  # noqa: ANN401
        return maintenance.reparse(out, settings, **how)

    run_command(given, json_logs, out, work, asks=False)


@app.command(section=REWORK)
@with_options({"staging": OUTPUT["staging"]}, ENV_FILE)
def compact(
    out: Run,
    given: Given,
    file_mb: Annotated[int, typer.Option(min=1, help="Maximum size of a file, in MB.")] = 512,
    json_logs: JsonLogs = False,
) -> None:
    """Merge the small Parquet files of a finished run into larger ones."""
    from llm_ocr.batch.compacting import compact_run
    from llm_ocr.settings import Settings

    console = stdout()
    with handle_errors():
        with show_progress(console, json_logs) as notify:
            done = compact_run(out, Settings(**given), file_mb=file_mb, notify=notify)
        for table, files in ({} if json_logs else done.before).items():
            console.print(
                f"{done.out}/data/{table}: {pluralize(files, 'file')}, now {done.after[table]:,}"
            )


app.command("eval", section=INSPECT)(evaluate)
app.command(section=INSPECT)(export)
app.command(section=INSPECT)(compare)
app.command(section=MODELS)(check)
app.command(section=MODELS)(engine)
app.command(section=CLOUD)(plan)
app.command("launch", section=CLOUD)(launch)
app.command("run-batch-job", section=CLOUD)(run_batch_job)
app.add_typer(jobs, name="jobs", rich_help_panel=CLOUD)


app.add_typer(serve, name="serve", rich_help_panel=SERVICE)
app.command(section=SERVICE)(submit)
app.command(section=SERVICE)(mcp)
app.add_typer(service, name="service", rich_help_panel=SERVICE)
app.add_typer(pipelines, name="pipelines", rich_help_panel=SERVICE)
app.add_typer(registry, name="registry", rich_help_panel=SERVICE)
app.add_typer(review, name="review", rich_help_panel=SERVICE)
app.add_typer(classifier, name="classifier", rich_help_panel=SERVICE)


app.command(section=MODELS)(models)
app.command(section=MODELS)(schemas)


@app.command(section=INSPECT)
@with_options({"staging": OUTPUT["staging"]}, ENV_FILE)
def status(
    out: Run,
    given: Given,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the progress of a run, pages by status, speed and time left; works on any machine."""
    import json
    from dataclasses import asdict

    from llm_ocr.report.status import read_status, render_status
    from llm_ocr.settings import Settings

    with handle_errors():
        status_of_run = read_status(out, Settings(**given).staging)
        if json_output:
            typer.echo(json.dumps(asdict(status_of_run), indent=2))
        else:
            stdout().print(render_status(status_of_run, explain_fact))


@app.command(section=INSPECT)
def view(
    out: Run,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the viewer in a browser.")] = True,
) -> None:
    """Serve a run's folder on 127.0.0.1 and open its viewer; press Ctrl-C to stop."""
    from llm_ocr.report.viewer_server import serve_viewer

    with handle_errors():
        serve_viewer(out, port, browser, stdout().print)


@app.command(section=MODELS)
def version() -> None:
    """Print the version, like --version."""
    print_version(True)


def _execute(
    given: dict[str, Any],
    json_logs: bool,
    *,
    inputs: list[str] | None,
    out: str,
    stages: tuple[str, ...],
    update: bool = False,
) -> None:
    from llm_ocr.batch import worker

    def work(settings: "Settings", **how: Any) -> "Summary":  # noqa: ANN401
        if inputs is None:
            return worker.resume(out, settings, stages=stages, **how)
        return worker.run(inputs, out, settings, stages=stages, update=update, **how)

    run_command(given, json_logs, out, work, asks=stages != ("assemble",))


def main() -> None:
    """The `llm-ocr` command."""
    app(prog_name="llm-ocr")

"""The command line: thin, no logic of its own. Heavy imports wait for the command that needs them.

Exit codes: 0 everything balanced (failed pages are reported), 1 more than --max-failed-ratio of
the pages failed, or some of the tests that `eval` was given can't be used, 2 wrong usage, no input,
or a server that refuses every page or answers otherwise than the model's profile says, 3 the
engine, the cluster or the platform failed, 4 storage failed or counts don't balance, 5 --max-cost
is spent, 130 stopped by Ctrl-C, 143 preempted by SIGTERM.
Platforms retry 3, 4 and 143.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.batch_job import run_batch_job
from llm_ocr.cli.evaluating import evaluate
from llm_ocr.cli.help import Commands
from llm_ocr.cli.launching import jobs, launch
from llm_ocr.cli.options import (
    ASKING,
    CLUSTER,
    DESCRIBE,
    ENV_FILE,
    LAUNCH,
    MODEL,
    OUTPUT,
    PAGES,
    RETRY,
    RUN,
    SERVER,
    TASK,
    VLLM,
    JsonLogs,
    Version,
    cluster_options,
    print_version,
    takes,
)
from llm_ocr.cli.parsing import parse
from llm_ocr.cli.planning import plan
from llm_ocr.cli.schemas import schemas
from llm_ocr.cli.serving import check, engine
from llm_ocr.cli.showing import errors, listed, show, terminal
from llm_ocr.messages import counted

if TYPE_CHECKING:
    from llm_ocr.pipeline.events import Notify
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings

app = Commands(
    name="llm-ocr",
    help="Document pages to Markdown, figures with captions, and documents, with open models.",
    epilog="`llm-ocr COMMAND --help` shows a command's options. Settings can also stand in the "
    "environment, as LLM_OCR_MODEL, or in --env-file.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help="Files, folders, datasets, globs in quotes, or lists as @files.txt.",
    ),
]
Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="An earlier run's --out: a folder, s3://, gs:// or hf://."),
]
Out = Annotated[
    str,
    typer.Option(
        "--out", "-o", help="Where the run is kept, or resumed: a folder, s3://, gs://, hf://."
    ),
]
Given = dict[str, Any]
# What the commands are for: the titles of their sections in `llm-ocr --help`.
READ = "Read documents"
LATER = "Work on a run"
LOOK = "Look at a run"
CLOUD = "Costs and clouds"
MODELS = "Models, engines and schemas"


@app.callback()
def _main(version: Version = False) -> None:
    pass


@app.command(section=READ)
@takes(PAGES, MODEL, DESCRIBE, SERVER, LAUNCH, VLLM, ASKING, RUN, OUTPUT, CLUSTER, ENV_FILE)
def run(
    inputs: Inputs,
    out: Out,
    given: Given,
    update: Annotated[
        bool, typer.Option("--update", help="Add the documents that are new in the inputs.")
    ] = False,
    json_logs: JsonLogs = False,
) -> None:
    """Read documents: extract, describe, assemble; the same command resumes a stopped run."""
    stages = ("extract", "describe", "assemble")
    _execute(given, json_logs, inputs=inputs, out=out, stages=stages, update=update)


@app.command(section=READ)
@takes(PAGES, MODEL, SERVER, LAUNCH, VLLM, ASKING, RUN, OUTPUT, CLUSTER, ENV_FILE)
def extract(inputs: Inputs, out: Out, given: Given, json_logs: JsonLogs = False) -> None:
    """Read pages only: Markdown, blocks and figure crops, no descriptions or documents."""
    _execute(given, json_logs, inputs=inputs, out=out, stages=("extract",))


@app.command(section=LATER)
@takes(TASK, MODEL, SERVER, LAUNCH, VLLM, ASKING, OUTPUT, CLUSTER, ENV_FILE)
def describe(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Ask about the figures of an earlier run; `assemble` then adds it to the documents."""
    _execute(given, json_logs, inputs=None, out=out, stages=("describe",))


app.command(section=READ)(parse)


@app.command(section=LATER)
@takes(OUTPUT, CLUSTER, ENV_FILE)
def assemble(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Join the pages of an earlier run into documents, with their figures' descriptions."""
    _execute(given, json_logs, inputs=None, out=out, stages=("assemble",))


@app.command(section=LATER)
@takes(MODEL, SERVER, LAUNCH, VLLM, ASKING, RETRY, RUN, OUTPUT, CLUSTER, ENV_FILE)
def retry(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Ask again about pages that failed or were cut; the better of both readings is kept."""
    from llm_ocr.pipeline import maintenance

    statuses, errors = listed(given, "status", "failed"), listed(given, "error", "")
    cluster = cluster_options(given)

    def work(settings: "Settings", notify: "Notify") -> "Summary":
        from llm_ocr.platforms.ray import select_executor

        with select_executor(cluster, out, settings, notify) as (chosen, executor):
            return maintenance.retry(
                out, chosen, statuses=statuses, errors=errors, notify=notify, executor=executor
            )

    show(given, json_logs, work)


@app.command(section=LATER)
@takes(MODEL, RUN, OUTPUT, CLUSTER, ENV_FILE)
def reparse(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Parse the stored answers again with this version's parsers, without a model or a GPU."""
    from llm_ocr.pipeline import maintenance

    cluster = cluster_options(given)

    def work(settings: "Settings", notify: "Notify") -> "Summary":
        from llm_ocr.platforms.ray import select_executor

        with select_executor(cluster, out, settings, notify, asks=False) as (chosen, executor):
            return maintenance.reparse(out, chosen, notify=notify, executor=executor)

    show(given, json_logs, work)


@app.command(section=LATER)
@takes({"staging": OUTPUT["staging"]}, ENV_FILE)
def compact(
    out: Run,
    given: Given,
    file_mb: Annotated[int, typer.Option(min=1, help="Largest size of a file, in MB.")] = 512,
    json_logs: JsonLogs = False,
) -> None:
    """Merge the small files of a finished run's tables into larger ones."""
    from llm_ocr.pipeline.compacting import compact_run
    from llm_ocr.pipeline.progress import watch
    from llm_ocr.settings import Settings

    console = terminal()
    with errors():
        with watch(console, json_logs) as notify:
            done = compact_run(out, Settings(**given), file_mb=file_mb, notify=notify)
        for table, files in ({} if json_logs else done.before).items():
            console.print(
                f"{done.out}/data/{table}: {counted(files, 'file')}, now {done.after[table]:,}"
            )


app.command("eval", section=LOOK)(evaluate)
app.command(section=MODELS)(check)
app.command(section=MODELS)(engine)
app.command(section=CLOUD)(plan)
app.command("launch", section=CLOUD)(launch)
app.command("run-batch-job", section=CLOUD)(run_batch_job)
app.add_typer(jobs, name="jobs", rich_help_panel=CLOUD)


@app.command(section=MODELS)
def models(
    json_output: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the model profiles: parameters, license, GPU memory, and what each returns."""
    import json

    from llm_ocr.models.catalog import all_profiles
    from llm_ocr.report.models import profile_facts, render_profiles

    with errors():
        profiles = all_profiles()
        if json_output:
            typer.echo(json.dumps([profile_facts(one) for one in profiles.values()], indent=2))
        else:
            terminal().print(render_profiles(profiles))


app.command(section=MODELS)(schemas)


@app.command(section=LOOK)
@takes({"staging": OUTPUT["staging"]}, ENV_FILE)
def status(
    out: Run,
    given: Given,
    json_output: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show a run's progress, pages by status, speed and time left, from any machine."""
    import json
    from dataclasses import asdict

    from llm_ocr.report.status import read_status, render_status
    from llm_ocr.settings import Settings

    with errors():
        found = read_status(out, Settings(**given).staging)
        if json_output:
            typer.echo(json.dumps(asdict(found), indent=2))
        else:
            terminal().print(render_status(found))


@app.command(section=LOOK)
def view(
    out: Run,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
) -> None:
    """Serve a run's folder on 127.0.0.1 and open its viewer; Ctrl-C ends it."""
    from llm_ocr.report.viewer_server import serve

    with errors():
        serve(out, port, browser, terminal().print)


@app.command(section=MODELS)
def version() -> None:
    """Print the version, as --version does."""
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
    from llm_ocr.pipeline import worker
    from llm_ocr.platforms.ray import select_executor

    cluster = cluster_options(given)

    def work(settings: "Settings", notify: "Notify") -> "Summary":
        asks = stages != ("assemble",)
        with select_executor(cluster, out, settings, notify, asks=asks) as (chosen, executor):
            if inputs is None:
                return worker.resume(out, chosen, stages=stages, notify=notify, executor=executor)
            return worker.run(
                inputs, out, chosen, stages=stages, update=update, notify=notify, executor=executor
            )

    show(given, json_logs, work)


def main() -> None:
    """The `llm-ocr` command."""
    app(prog_name="llm-ocr")

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
    takes,
    where_of,
)
from llm_ocr.cli.parsing import parse
from llm_ocr.cli.planning import plan
from llm_ocr.cli.schemas import schemas
from llm_ocr.cli.serving import check, engine
from llm_ocr.cli.showing import errors, listed, show, terminal

if TYPE_CHECKING:
    from llm_ocr.pipeline.events import Notify
    from llm_ocr.report.summary import Summary
    from llm_ocr.settings import Settings

app = typer.Typer(
    name="llm-ocr",
    help="Document pages to Markdown, figures with captions, and documents, with open models.",
    epilog="Settings can also stand in the environment, as LLM_OCR_MODEL, or in --env-file.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its help pages take as long to import as everything else together
    context_settings={"help_option_names": ["-h", "--help"]},
)

Inputs = Annotated[
    list[str],
    typer.Argument(help="Files, folders, datasets, globs in quotes, or lists as @files.txt."),
]
Run = Annotated[
    str, typer.Argument(help="Where an earlier run is: a folder, s3://, gs:// or hf://.")
]
Out = Annotated[
    str,
    typer.Option(
        "--out", "-o", help="Where the run goes, or goes on: a folder, s3://, gs://, hf://."
    ),
]
Given = dict[str, Any]


app.command()(plan)


@app.command()
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
    """Extract, describe and assemble; the same command goes on with a run that was stopped."""
    stages = ("extract", "describe", "assemble")
    _execute(given, json_logs, inputs=inputs, out=out, stages=stages, update=update)


@app.command()
@takes(PAGES, MODEL, SERVER, LAUNCH, VLLM, ASKING, RUN, OUTPUT, CLUSTER, ENV_FILE)
def extract(inputs: Inputs, out: Out, given: Given, json_logs: JsonLogs = False) -> None:
    """Pages to Markdown, blocks and figure crops, without descriptions and documents."""
    _execute(given, json_logs, inputs=inputs, out=out, stages=("extract",))


@app.command()
@takes(TASK, MODEL, SERVER, LAUNCH, VLLM, ASKING, OUTPUT, CLUSTER, ENV_FILE)
def describe(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Ask about the figures of an earlier run; `assemble` then puts it into the documents."""
    _execute(given, json_logs, inputs=None, out=out, stages=("describe",))


app.command()(parse)


@app.command()
@takes(OUTPUT, CLUSTER, ENV_FILE)
def assemble(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Join the pages of an earlier run to documents, with what is described by now."""
    _execute(given, json_logs, inputs=None, out=out, stages=("assemble",))


@app.command()
@takes(MODEL, SERVER, LAUNCH, VLLM, ASKING, RETRY, RUN, OUTPUT, CLUSTER, ENV_FILE)
def retry(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Ask again about pages that ended badly; the better of both readings stands."""
    from llm_ocr.pipeline import operating

    statuses, errors = listed(given, "status", "failed"), listed(given, "error", "")
    on = where_of(given)

    def work(settings: "Settings", notify: "Notify") -> "Summary":
        from llm_ocr.platforms.places import crew_at

        with crew_at(on, out, settings, notify) as (chosen, hire):
            return operating.retry(
                out, chosen, statuses=statuses, errors=errors, notify=notify, hire=hire
            )

    show(given, json_logs, work)


@app.command()
@takes(MODEL, RUN, OUTPUT, CLUSTER, ENV_FILE)
def reparse(out: Run, given: Given, json_logs: JsonLogs = False) -> None:
    """Read the stored answers with this version's parsers, without a model or a GPU."""
    from llm_ocr.pipeline import operating

    on = where_of(given)

    def work(settings: "Settings", notify: "Notify") -> "Summary":
        from llm_ocr.platforms.places import crew_at

        with crew_at(on, out, settings, notify, asks=False) as (chosen, hire):
            return operating.reparse(out, chosen, notify=notify, hire=hire)

    show(given, json_logs, work)


@app.command()
@takes({"staging": OUTPUT["staging"]}, ENV_FILE)
def compact(
    out: Run,
    given: Given,
    file_mb: Annotated[int, typer.Option(min=1, help="How large a file may get, in MB.")] = 512,
    json_logs: JsonLogs = False,
) -> None:
    """Merge the small files of a finished run's tables, for those who open them."""
    from llm_ocr.cli.progress import watch
    from llm_ocr.pipeline.compacting import compact_run
    from llm_ocr.settings import Settings

    console = terminal()
    with errors():
        with watch(console, json_logs) as notify:
            done = compact_run(out, Settings(**given), file_mb=file_mb, notify=notify)
        for table, files in ({} if json_logs else done.before).items():
            console.print(f"{done.out}/data/{table}: {files:,} files, now {done.after[table]:,}")


app.command()(check)
app.command()(engine)
app.command("launch")(launch)
app.command("run-batch-job")(run_batch_job)
app.add_typer(jobs, name="jobs")


@app.command()
def models(
    json_output: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """The model profiles: parameters, licence, GPU memory, and what each gives."""
    import json

    from llm_ocr.models.catalogue import all_profiles
    from llm_ocr.report.models import profile_facts, render_profiles

    with errors():
        profiles = all_profiles()
        if json_output:
            typer.echo(json.dumps([profile_facts(one) for one in profiles.values()], indent=2))
        else:
            terminal().print(render_profiles(profiles))


app.command()(schemas)
app.command("eval")(evaluate)


@app.command()
@takes({"staging": OUTPUT["staging"]}, ENV_FILE)
def status(
    out: Run,
    given: Given,
    json_output: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Shards, pages by status, speed and time left of a run, at any time and from any machine."""
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


@app.command()
def view(
    out: Run,
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
) -> None:
    """Serve a run's folder on 127.0.0.1 and open its viewer; Ctrl-C ends it."""
    from llm_ocr.report.serve import serve

    with errors():
        serve(out, port, browser, terminal().print)


@app.command()
def version() -> None:
    """The version of llm_ocr."""
    from llm_ocr import __version__

    typer.echo(__version__)


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
    from llm_ocr.platforms.places import crew_at

    on = where_of(given)

    def work(settings: "Settings", notify: "Notify") -> "Summary":
        asks = stages != ("assemble",)
        with crew_at(on, out, settings, notify, asks=asks) as (chosen, hire):
            if inputs is None:
                return worker.resume(out, chosen, stages=stages, notify=notify, hire=hire)
            return worker.run(
                inputs, out, chosen, stages=stages, update=update, notify=notify, hire=hire
            )

    show(given, json_logs, work)


def main() -> None:
    """The `llm-ocr` command."""
    app()

"""`llm-ocr launch` and `llm-ocr jobs`: runs as cloud jobs."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.advice import show_options
from llm_ocr.cli.help import Commands
from llm_ocr.cli.options import (
    DESCRIBE,
    ENGINE,
    ENV_FILE,
    ESTIMATES,
    MODEL,
    OUTPUT,
    PAGES,
    RECORD,
    REQUESTS,
    RETRY,
    SERVER,
    Options,
    settings_options,
    with_options,
)
from llm_ocr.cli.output import handle_errors, parse_list, stdout, warn
from llm_ocr.exit_codes import ExitCode
from llm_ocr.settings import RunSettings

if TYPE_CHECKING:
    from llm_ocr.platforms.base import GpuType, Job, Platform

jobs = Commands(help="Manage cloud jobs: list, logs, wait, cancel.", no_args_is_help=True)

_PANEL = "Platform"


def _platform_option(text: str) -> Any:  # noqa: ANN401
    return Annotated[str | None, typer.Option(help=text, rich_help_panel=_PANEL)]


PLACE: Options = {
    "namespace": _platform_option("hf-jobs: the user or organization that pays."),
    "region": _platform_option("sagemaker, aws-batch, cloud-run: the region of the job."),
    "project": _platform_option("cloud-run: the Google Cloud project."),
    "role": _platform_option("sagemaker: ARN of the execution role."),
    "queue": _platform_option("aws-batch: the job queue."),
    "definition": _platform_option("aws-batch: the job definition."),
    "instance": _platform_option("Machine type (default: the usual one for --gpu)."),
    "service_account": _platform_option("cloud-run: e-mail of the account that tasks run as."),
    "wheel": _platform_option("hf-jobs: a wheel of llm_ocr to install, not the released one."),
}
# The platform tells each task which part of the run is its own.
SHARED = settings_options(RunSettings, without=("shard_index", "shard_count"))
PlatformName = Annotated[
    str, typer.Argument(metavar="PLATFORM", help="hf-jobs, sagemaker, cloud-run or aws-batch.")
]
PRICE_LIST = {"prices": ESTIMATES["prices"]}
JobId = Annotated[
    str, typer.Argument(metavar="JOB", help="Job id, as `launch` and `jobs list` print it.")
]
Given = dict[str, Any]


def _open(platform: str, given: Given) -> "Platform":
    """The platform, with the options of `PLACE` removed from `given`."""
    from llm_ocr.platforms.registry import open_platform, platform_config

    config = platform_config(given)
    for name in PLACE:
        given.pop(name, None)
    return open_platform(platform, config)


def submit(
    platform: PlatformName,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="Inputs at s3://, gs:// or hf://; or one existing run."
        ),
    ],
    given: Given,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Output location: s3://, gs:// or hf://.")
    ] = None,
    stage: Annotated[
        str,
        typer.Option(
            help="Command that the tasks run: run or extract (read documents); describe, assemble, "
            "retry or reparse (take a run); parse (takes either)."
        ),
    ] = "run",
    schema: Annotated[
        str | None,
        typer.Option(help="parse: a built-in schema, schema.py, schema.json or module:Class."),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="run: add new documents found in the inputs.")
    ] = False,
    tasks: Annotated[int, typer.Option(min=1, help="Number of machines that share the work.")] = 1,
    gpu: Annotated[
        str | None,
        typer.Option(help="GPU: a100, l40s, l4 or none (default: the platform's first)."),
    ] = None,
    timeout: Annotated[
        int, typer.Option(min=1, help="Minutes allowed for one task.", rich_help_panel=_PANEL)
    ] = 240,
    image: Annotated[
        str | None,
        typer.Option(help="Container image (default: the platform's).", rich_help_panel=_PANEL),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the requests without sending them.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the job ends.")] = False,
) -> None:
    """Submit a run as a cloud job; run the same command again to resume an unfinished run."""
    import json
    from dataclasses import asdict

    from llm_ocr.platforms.launching import (
        LaunchRequest,
        check_budget,
        check_launch,
        create_job,
        with_price_per_hour,
    )
    from llm_ocr.platforms.uploads import upload, upload_request
    from llm_ocr.storage.hub_address import run_uri

    with handle_errors():
        statuses, codes = (parse_list(given, name, "") for name in RETRY)
        request = LaunchRequest(stage, inputs, out, schema, update, statuses, codes)
        check_launch(request)
        service = _open(platform, given)
        chosen = _gpu(gpu, service, stage)
        settings = with_price_per_hour(given, service, chosen, given.pop("prices", None))
        spec, files = create_job(
            request, settings, gpu=chosen, tasks=tasks, timeout=timeout * 60, image=image
        )
        if dry_run:
            requests = [*map(upload_request, files), *service.requests(spec)]
            typer.echo(json.dumps([asdict(each) for each in requests], indent=2))
            for word, how in service.placeholders.items():
                warn(f"{word} is a placeholder: {show_options(how)}")
            if spec.secrets:
                warn(f"Secrets that the tasks need, not shown: {', '.join(sorted(spec.secrets))}")
            return
        run = request.run
        check_budget(run, settings)
        upload(files, run_uri(run, settings.get("staging")).rstrip("/"))
        job_id = service.submit(spec)
        stdout().print(
            f"{job_id} submitted. To follow it:\n  llm-ocr jobs wait {platform} {job_id}\n"
            f"  llm-ocr status {run}",
            highlight=False,
            soft_wrap=True,
        )
        if wait:
            _wait(service, job_id)


def list_(platform: PlatformName, given: Given) -> None:
    """List the jobs that llm-ocr submitted, newest first."""
    with handle_errors():
        for job in _open(platform, given).list_jobs():
            typer.echo(_line(job))


def logs(
    platform: PlatformName,
    job: JobId,
    given: Given,
    task: Annotated[int, typer.Option(min=0, help="Index of the task.")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing until the job ends.")
    ] = False,
) -> None:
    """Print the log of one task of a job."""
    with handle_errors():
        for line in _open(platform, given).logs(job, task, follow=follow):
            typer.echo(line)


def wait_(platform: PlatformName, job: JobId, given: Given) -> None:
    """Wait until a job ends; exit with 0 if all its tasks succeeded, else with 3."""
    with handle_errors():
        _wait(_open(platform, given), job)


def cancel(platform: PlatformName, job: JobId, given: Given) -> None:
    """Cancel a job; what its tasks have saved is kept."""
    with handle_errors():
        _open(platform, given).cancel(job)


def _gpu(name: str | None, platform: "Platform", stage: str) -> "GpuType | None":
    from llm_ocr.platforms.base import GpuType, InvalidTargetError

    if name == "none" or (name is None and stage in ("assemble", "reparse")):
        return None
    known = [gpu.value for gpu in platform.gpus]
    if name is not None and name not in known:
        raise InvalidTargetError(f"--gpu {name}: {platform.name} has {', '.join(known)}, or none")
    return GpuType(name or known[0])


def _wait(platform: "Platform", job_id: str) -> None:
    from llm_ocr.platforms.base import JobState, wait

    done = wait(platform, job_id, lambda job: typer.echo(_line(job)))
    for task in done.tasks:
        if task.message and task.state is not JobState.SUCCEEDED:
            typer.echo(f"task {task.index}: {show_options(task.message)}", err=True)
    if done.state is not JobState.SUCCEEDED:
        raise typer.Exit(ExitCode.ENGINE)


def _line(job: "Job") -> str:
    counts: dict[str, int] = {}
    for task in job.tasks:
        counts[task.state] = counts.get(task.state, 0) + 1
    tasks = ", ".join(f"{count} {state}" for state, count in counts.items())
    parts = (job.id, job.state, tasks, show_options(job.message), job.url)
    return "  ".join(part for part in parts if part)


launch = with_options(
    *(PAGES, MODEL, DESCRIBE, RECORD, SERVER, ENGINE, REQUESTS, SHARED, OUTPUT),
    *(RETRY, PRICE_LIST, PLACE, ENV_FILE),
)(submit)
jobs.command("list")(with_options(PLACE)(list_))
jobs.command()(with_options(PLACE)(logs))
jobs.command("wait")(with_options(PLACE)(wait_))
jobs.command()(with_options(PLACE)(cancel))

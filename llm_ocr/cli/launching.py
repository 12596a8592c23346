"""`llm-ocr launch` and `llm-ocr jobs`: runs as jobs in a cloud."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_ocr.cli.help import Commands
from llm_ocr.cli.options import (
    ASKING,
    DESCRIBE,
    ENV_FILE,
    LAUNCH,
    MODEL,
    OUTPUT,
    PAGES,
    PRICES,
    RECORD,
    RETRY,
    RUN,
    SERVER,
    VLLM,
    Options,
    in_sections,
    takes,
)
from llm_ocr.cli.showing import errors, listed, say, terminal

if TYPE_CHECKING:
    from llm_ocr.platforms.base import GpuType, Job, Platform

jobs = Commands(help="The jobs in a cloud: list, logs, wait, cancel.", no_args_is_help=True)

PLACE: Options = {
    "namespace": Annotated[
        str | None, typer.Option(help="hf-jobs: the user or organization that pays.")
    ],
    "region": Annotated[
        str | None, typer.Option(help="sagemaker, aws-batch, cloud-run: where the job runs.")
    ],
    "project": Annotated[str | None, typer.Option(help="cloud-run: the Google Cloud project.")],
    "role": Annotated[str | None, typer.Option(help="sagemaker: ARN of the execution role.")],
    "queue": Annotated[str | None, typer.Option(help="aws-batch: the job queue.")],
    "definition": Annotated[str | None, typer.Option(help="aws-batch: the job definition.")],
    "instance": Annotated[
        str | None, typer.Option(help="The machine's type, if not the usual one for --gpu.")
    ],
    "service_account": Annotated[
        str | None, typer.Option(help="cloud-run: the e-mail of the account the tasks run as.")
    ],
    "wheel": Annotated[
        str | None, typer.Option(help="hf-jobs: a wheel of llm_ocr to use, not the released one.")
    ],
}
in_sections({"Platform": PLACE})
# Which part of the run a task does, its platform says.
SHARED = {name: kind for name, kind in RUN.items() if name not in ("shard_index", "shard_count")}
Where = Annotated[
    str, typer.Argument(metavar="PLATFORM", help="hf-jobs, sagemaker, cloud-run or aws-batch.")
]
LIST = {"prices": PRICES["prices"]}
JobId = Annotated[
    str, typer.Argument(metavar="JOB", help="As `launch` printed it, and `jobs list` does.")
]
Given = dict[str, Any]


def _open(platform: str, given: Given) -> "Platform":
    """The platform, with the options of `PLACE` taken out of `given`."""
    from llm_ocr.platforms.registry import open_platform, platform_config

    config = platform_config(given)
    for name in PLACE:
        given.pop(name, None)
    return open_platform(platform, config)


def start(
    platform: Where,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="What to read, as s3://, gs:// or hf://; or one run."
        ),
    ],
    given: Given,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Where the run goes: s3://, gs://, hf://.")
    ] = None,
    stage: Annotated[
        str,
        typer.Option(
            help="run or extract, which read documents; describe, assemble, retry, reparse, which "
            "take a run; parse, which takes either."
        ),
    ] = "run",
    schema: Annotated[
        str | None,
        typer.Option(help="parse: a built-in, schema.py, schema.json, or module:Class."),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="run: add the documents that are new in the inputs.")
    ] = False,
    tasks: Annotated[int, typer.Option(min=1, help="Machines that share the shards.")] = 1,
    gpu: Annotated[
        str | None, typer.Option(help="a100, l40s, l4, or none (default: the platform's).")
    ] = None,
    timeout: Annotated[
        int, typer.Option(min=1, help="Minutes that a task may take.", rich_help_panel="Platform")
    ] = 240,
    image: Annotated[
        str | None, typer.Option(help="The container's image.", rich_help_panel="Platform")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the requests and send none.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end.")] = False,
) -> None:
    """Submit a run as a job; the same command resumes a run that is not finished."""
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

    with errors():
        statuses, codes = (listed(given, name, "") for name in RETRY)
        request = LaunchRequest(stage, inputs, out, schema, update, statuses, codes)
        check_launch(request)
        where = _open(platform, given)
        chosen = _gpu(gpu, where, stage)
        settings = with_price_per_hour(given, where, chosen, given.pop("prices", None))
        spec, files = create_job(
            request, settings, gpu=chosen, tasks=tasks, timeout=timeout * 60, image=image
        )
        if dry_run:
            requests = [*map(upload_request, files), *where.requests(spec)]
            typer.echo(json.dumps([asdict(one) for one in requests], indent=2))
            for word, how in where.placeholders.items():
                say(f"{word} stands for what is not known here: {how}")
            if spec.secrets:
                say(f"secrets that the tasks need, not shown: {', '.join(sorted(spec.secrets))}")
            return
        run = request.run
        check_budget(run, settings)
        upload(files, run_uri(run, settings.get("staging")).rstrip("/"))
        job_id = where.submit(spec)
        terminal().print(
            f"{job_id} is submitted; follow it with\n  llm-ocr jobs wait {platform} {job_id}\n"
            f"  llm-ocr status {run}",
            highlight=False,
            soft_wrap=True,
        )
        if wait:
            _wait(where, job_id)


def list_(platform: Where, given: Given) -> None:
    """The jobs that llm-ocr submitted, newest first."""
    with errors():
        for job in _open(platform, given).list_jobs():
            typer.echo(_line(job))


def logs(
    platform: Where,
    job: JobId,
    given: Given,
    task: Annotated[int, typer.Option(min=0, help="Which of its tasks.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Until it ends.")] = False,
) -> None:
    """What a task of a job printed."""
    with errors():
        for line in _open(platform, given).logs(job, task, follow=follow):
            typer.echo(line)


def wait_(platform: Where, job: JobId, given: Given) -> None:
    """Wait for a job's end; the exit code is 0 if all of it succeeded, else 3."""
    with errors():
        _wait(_open(platform, given), job)


def cancel(platform: Where, job: JobId, given: Given) -> None:
    """Stop a job; what its tasks have finished stays."""
    with errors():
        _open(platform, given).cancel(job)


def _gpu(said: str | None, platform: "Platform", stage: str) -> "GpuType | None":
    from llm_ocr.platforms.base import GpuType, InvalidTargetError

    if said == "none" or (said is None and stage in ("assemble", "reparse")):
        return None
    known = [gpu.value for gpu in platform.gpus]
    if said is not None and said not in known:
        raise InvalidTargetError(
            f"--gpu {said}: {platform.name} has {', '.join(known)}; or give none"
        )
    return GpuType(said or known[0])


def _wait(platform: "Platform", job_id: str) -> None:
    from llm_ocr.platforms.base import JobState, wait

    done = wait(platform, job_id, lambda job: typer.echo(_line(job)))
    for task in done.tasks:
        if task.message and task.state is not JobState.SUCCEEDED:
            typer.echo(f"task {task.index}: {task.message}", err=True)
    if done.state is not JobState.SUCCEEDED:
        raise typer.Exit(3)


def _line(job: "Job") -> str:
    counts: dict[str, int] = {}
    for task in job.tasks:
        counts[task.state] = counts.get(task.state, 0) + 1
    tasks = ", ".join(f"{count} {state}" for state, count in counts.items())
    return "  ".join(part for part in (job.id, job.state, tasks, job.message, job.url) if part)


launch = takes(
    *(PAGES, MODEL, DESCRIBE, RECORD, SERVER, LAUNCH, VLLM, ASKING, SHARED, OUTPUT),
    *(RETRY, LIST, PLACE, ENV_FILE),
)(start)
jobs.command("list")(takes(PLACE)(list_))
jobs.command()(takes(PLACE)(logs))
jobs.command("wait")(takes(PLACE)(wait_))
jobs.command()(takes(PLACE)(cancel))

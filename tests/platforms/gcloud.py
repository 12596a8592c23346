"""`gcloud`'s commands about jobs, read as gcloud reads them, and done by Google's client.

gcloud is neither on PyPI nor in Debian, so that it can't be run here. Its options are those of its
reference (https://cloud.google.com/sdk/gcloud/reference/run/jobs/create, read in November 2026);
what they become is what gcloud 528 was seen to send for them.
"""

import argparse
import re
import shlex
from dataclasses import dataclass
from typing import NoReturn

import google.auth
from google.auth.transport.requests import AuthorizedSession
from google.cloud import run_v2
from google.protobuf.duration_pb2 import Duration

from llm_ocr.platforms.cloud_run import SCOPES

CREATE = ("run", "jobs", "create")
EXECUTE = ("run", "jobs", "execute")
SCHEDULE = ("scheduler", "jobs", "create", "http")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


@dataclass(frozen=True)
class Scheduled:
    """A job of Cloud Scheduler: what it asks, when, and as whom."""

    name: str
    location: str
    schedule: str
    uri: str
    method: str
    account: str

    def fire(self, server: str) -> int:
        """Ask it now, of `server` instead of Google's; the status of the answer.

        The token is that of whoever tests, who may do what the account may.
        """
        credentials, _ = google.auth.default(scopes=SCOPES)
        here = self.uri.replace("https://run.googleapis.com", server)
        answer = AuthorizedSession(credentials).request(self.method, here, timeout=60)
        return int(answer.status_code)


def options(line: str, verb: tuple[str, ...]) -> argparse.Namespace:
    """The options of a command. Raises ValueError for what is not that one, or has others."""
    program, *words = shlex.split(line)
    if program != "gcloud" or tuple(words[: len(verb)]) != verb:
        raise ValueError(f"{line!r} is not gcloud {' '.join(verb)}")
    return {CREATE: _create, EXECUTE: _execute, SCHEDULE: _schedule}[verb]().parse_args(
        words[len(verb) :]
    )


def job(line: str) -> tuple[str, str, run_v2.Job]:
    """The region, the name and the job that `gcloud run jobs create` makes."""
    given = options(line, CREATE)
    limits = {"cpu": given.cpu, "memory": given.memory}
    container = run_v2.Container(
        image=given.image,
        args=given.args.split(","),
        env=[run_v2.EnvVar(name=name, value=value) for name, value in _pairs(given.set_env_vars)],
        resources=run_v2.ResourceRequirements(
            limits=limits | ({"nvidia.com/gpu": given.gpu} if given.gpu else {})
        ),
    )
    task = run_v2.TaskTemplate(
        containers=[container],
        max_retries=given.max_retries,
        timeout=Duration(seconds=_seconds(given.task_timeout)),
        service_account=given.service_account,
        gpu_zonal_redundancy_disabled=not given.gpu_zonal_redundancy,
    )
    if given.gpu_type:
        task.node_selector = run_v2.NodeSelector(accelerator=given.gpu_type)
    # Without --parallelism as many at once as can be.
    template = run_v2.ExecutionTemplate(task_count=given.tasks, template=task)
    return given.region, given.job, run_v2.Job(template=template)


def scheduled(line: str) -> Scheduled:
    """What `gcloud scheduler jobs create http` makes."""
    given = options(line, SCHEDULE)
    if not re.fullmatch(r"\S+( \S+){4}", given.schedule):
        raise ValueError(f"{given.schedule!r} has not the five fields of a schedule")
    return Scheduled(
        name=given.job,
        location=given.location,
        schedule=given.schedule,
        uri=given.uri,
        method=given.http_method,
        account=given.oauth_service_account_email,
    )


def _create() -> argparse.ArgumentParser:
    parser = _parser()
    for name in ("region", "image", "service-account", "cpu", "memory", "task-timeout", "args"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("gpu", "gpu-type", "set-env-vars"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--max-retries", type=int, default=3)
    parser.add_argument("--gpu-zonal-redundancy", action=argparse.BooleanOptionalAction)
    return parser


def _execute() -> argparse.ArgumentParser:
    parser = _parser()
    parser.add_argument("--region", required=True)
    parser.add_argument("--wait", action="store_true")
    return parser


def _schedule() -> argparse.ArgumentParser:
    parser = _parser()
    for name in ("location", "schedule", "uri", "oauth-service-account-email"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--http-method", default="POST")
    parser.add_argument("--time-zone", default="Etc/UTC")
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parser() -> argparse.ArgumentParser:
    # gcloud takes no shortened options either.
    parser = _Parser(allow_abbrev=False, add_help=False)
    parser.add_argument("job")
    return parser


def _pairs(text: str) -> list[tuple[str, str]]:
    found = (one.split("=", 1) for one in text.split(",") if one)
    return [(name, value) for name, value in found]


def _seconds(duration: str) -> int:
    """`50m`; a number alone is seconds."""
    return int(duration.rstrip("smhd")) * UNITS.get(duration[-1], 1)

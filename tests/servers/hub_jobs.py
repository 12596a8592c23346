"""The Hub's jobs: what is asked for is looked at as the Hub does, and its command is really run.

https://huggingface.co/docs/huggingface_hub/guides/jobs. A container is a process group with a copy
of its image's folder; a volume is a folder that it alone sees, by a mount namespace of its own
(`unshare`). Labels, retries, timeouts, cancelling and logs are as the Hub's client knows them; what
the Hub says in its messages is not known from there, and the words are these tests' own.
"""

import asyncio
import json
import os
import re
import secrets
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.servers.containers import Container
from tests.servers.hub_buckets import Buckets
from tests.servers.hub_repositories import paged
from tests.servers.hub_state import USER, Hub, now, refuse

DEFAULT_SECONDS = 30 * 60
LABEL = re.compile(r"[a-zA-Z0-9._-]*")
SCHEDULE = re.compile(r"@(annually|yearly|monthly|weekly|daily|hourly)|\S+( \S+){4}")
OVER = ("COMPLETED", "ERROR", "CANCELED", "DELETED")
# Seconds between two looks at a log that is followed.
POLL_SECONDS = 0.1


@dataclass
class RunningJob:
    """A job as it was asked for, and what became of it."""

    id: str
    owner: str
    asked: Mapping[str, Any]
    folder: Path
    created: str = field(default_factory=now)
    stage: str = "SCHEDULING"
    message: str | None = None
    # One after the other; more than one where it was tried again.
    attempts: list[Container] = field(default_factory=list)

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = self.asked.get("labels", {})
        return labels

    def kill(self) -> None:
        """SIGKILL to all processes of the container that runs."""
        self.attempts[-1].send(signal.SIGKILL)

    def lines(self) -> list[str]:
        return [line for one in self.attempts for line in one.lines()]

    def end(self, stage: str, message: str | None = None) -> None:
        if self.stage not in OVER:
            self.stage, self.message = stage, message

    def as_dict(self) -> Mapping[str, Any]:
        kept = ("dockerImage", "command", "arguments", "environment", "flavor", "labels", "volumes")
        return {
            "id": self.id,
            "createdAt": self.created,
            "owner": {"id": self.owner, "name": self.owner, "type": "user"},
            "initiator": {"type": "user", "id": USER, "name": USER},
            "status": {"stage": self.stage, "message": self.message},
            "retry": self.asked.get("attempts", 1) - 1,
            # Their names alone: nobody is told a secret again.
            "secrets": dict.fromkeys(self.asked.get("secrets", {})),
            **{key: self.asked[key] for key in kept if key in self.asked},
        }


@dataclass
class ScheduledJob:
    """A job that the Hub starts by the clock; here, when it is triggered. `last` is the id of the
    newest one that it started."""

    id: str
    owner: str
    asked: Mapping[str, Any]
    last: str = ""

    def as_dict(self) -> Mapping[str, Any]:
        spec = {**self.asked["jobSpec"]}
        spec["secrets"] = list(spec.get("secrets", {}))
        return {
            "id": self.id,
            "createdAt": now(),
            "jobSpec": spec,
            "schedule": self.asked["schedule"],
            "suspend": self.asked.get("suspend", False),
            "concurrency": self.asked.get("concurrency", False),
            "status": {"lastJob": {"id": self.last, "at": now()} if self.last else None},
            "owner": {"id": self.owner, "name": self.owner, "type": "user"},
        }


class Jobs:
    """The routes of jobs; `base` is what every container of this Hub has in its environment."""

    def __init__(self, hub: Hub, buckets: Buckets, folder: Path) -> None:
        self._hub, self._buckets, self._folder = hub, buckets, folder
        self.base: Mapping[str, str] = {}
        self._running: set[asyncio.Task[None]] = set()

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/jobs/hardware", self._hardware)
        router.add_post("/api/jobs/{owner}", self._create)
        router.add_get("/api/jobs/{owner}", self._list)
        router.add_get("/api/jobs/{owner}/{id}", self._inspect)
        router.add_post("/api/jobs/{owner}/{id}/cancel", self._cancel)
        router.add_get("/api/jobs/{owner}/{id}/logs", self._logs)
        router.add_post("/api/scheduled-jobs/{owner}", self._schedule)
        router.add_get("/api/scheduled-jobs/{owner}", self._scheduled)
        router.add_post("/api/scheduled-jobs/{owner}/{id}/run", self._trigger)

    async def stop(self) -> None:
        """End what still runs."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _hardware(self, request: web.Request) -> web.Response:
        unit = {"unitCostMicroUSD": 500, "unitCostUSD": 0.0005, "unitLabel": "minute"}
        sizes = {"cpu": "2 vCPU", "ram": "16 GB", "accelerator": None, **unit}
        return web.json_response(
            [{"name": one, "prettyName": one, **sizes} for one in sorted(_flavors())]
        )

    async def _create(self, request: web.Request) -> web.Response:
        self._may_use(request)
        return web.json_response(self._start(request, await request.json()).as_dict())

    async def _schedule(self, request: web.Request) -> web.Response:
        self._may_use(request)
        asked = await request.json()
        self._check(asked["jobSpec"])
        if not SCHEDULE.fullmatch(asked["schedule"]):
            refuse(400, "", '"schedule" must be a CRON expression')
        scheduled = ScheduledJob(secrets.token_hex(12), request.match_info["owner"], asked)
        self._hub.scheduled[scheduled.id] = scheduled
        return web.json_response(scheduled.as_dict())

    async def _scheduled(self, request: web.Request) -> web.Response:
        self._may_use(request)
        return web.json_response([one.as_dict() for one in self._hub.scheduled.values()])

    async def _trigger(self, request: web.Request) -> web.Response:
        self._may_use(request)
        found = self._hub.scheduled.get(request.match_info["id"])
        if found is None:
            refuse(404, "", "Scheduled job not found")
        last = self._hub.jobs.get(found.last)
        if last and last.stage not in OVER and not found.asked.get("concurrency"):
            refuse(409, "", "The scheduled job is already running")
        job = self._start(request, found.asked["jobSpec"])
        found.last = job.id
        return web.json_response(job.as_dict())

    def _start(self, request: web.Request, asked: Mapping[str, Any]) -> RunningJob:
        self._check(asked)
        self._hub.credit -= 1
        name = secrets.token_hex(12)
        job = RunningJob(name, request.match_info["owner"], asked, self._folder / name)
        self._hub.jobs[name] = job
        task = asyncio.create_task(self._run(job))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return job

    def _check(self, asked: Mapping[str, Any]) -> None:
        """What the Hub refuses."""
        if self._hub.credit <= 0:
            refuse(402, "", "Pre-paid credit balance is insufficient")
        if asked.get("flavor") not in _flavors():
            refuse(400, "", '"flavor" must be one of those that GET /api/jobs/hardware lists')
        for label in asked.get("labels", {}).items():
            if not all(LABEL.fullmatch(part) for part in label):
                refuse(400, "", f'"labels" must match {LABEL.pattern}')
        if len(asked.get("command", [])) == 0 or asked.get("attempts", 1) < 1:
            refuse(400, "", '"command" must not be empty, "attempts" must be at least 1')

    async def _list(self, request: web.Request) -> web.Response:
        self._may_use(request)
        stages = request.query.getall("stage", [])
        labels = [tuple(one.split("=", 1)) for one in request.query.getall("label", [])]
        found = [
            job.as_dict()
            for job in reversed(self._hub.jobs.values())
            if job.owner == request.match_info["owner"]
            and (not stages or job.stage in stages)
            and set(labels) <= set(job.labels.items())
        ]
        return paged(request, [dict(one) for one in found])

    async def _inspect(self, request: web.Request) -> web.Response:
        return web.json_response(self._job(request).as_dict())

    async def _cancel(self, request: web.Request) -> web.Response:
        job = self._job(request)
        job.end("CANCELED")
        if job.attempts:
            job.attempts[-1].send(signal.SIGTERM)
        return web.json_response(job.as_dict())

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        job = self._job(request)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        sent = 0
        while True:
            is_over = job.stage in OVER
            lines = job.lines()
            for line in lines[sent:]:
                event = json.dumps({"timestamp": now(), "data": line})
                await stream.write(f"data: {event}\n\n".encode())
            sent = len(lines)
            if is_over:
                return stream
            await asyncio.sleep(POLL_SECONDS)

    def _may_use(self, request: web.Request) -> None:
        if self._hub.token(request) is None:
            refuse(401, "", "Invalid username or password.")
        if request.match_info["owner"] != USER:
            refuse(404, "", "Namespace not found")
        if request.method == "POST":
            self._hub.may_write(request)

    def _job(self, request: web.Request) -> RunningJob:
        self._may_use(request)
        found = self._hub.jobs.get(request.match_info["id"])
        if found is None:
            refuse(404, "", "Job not found")
        return found

    async def _run(self, job: RunningJob) -> None:
        image = self._hub.images.get(job.asked["dockerImage"])
        if image is None:
            job.end("ERROR", f"Failed to pull image {job.asked['dockerImage']}: not found")
            return
        given = {**self.base, **job.asked["environment"], **job.asked.get("secrets", {})}
        command = [*self._mounting(job), *job.asked["command"], *job.asked["arguments"]]
        seconds = job.asked.get("timeoutSeconds", DEFAULT_SECONDS)
        code = 0
        for number in range(job.asked.get("attempts", 1)):
            root, log = job.folder / f"root-{number}", job.folder / f"log-{number}"
            known = await asyncio.to_thread(image.start, root)
            if job.stage in OVER:
                return
            known = {**known, "JOB_ID": job.id, "HF_HOME": str(root / ".cache")}
            job.attempts.append(Container(command, {**given, **known}, log, seconds))
            job.stage = "RUNNING"
            code = await job.attempts[-1].run()
            if job.attempts[-1].timed_out:
                job.end("ERROR", "Job timeout")
            if code == 0:
                job.end("COMPLETED")
            if job.stage in OVER:
                return
        job.end("ERROR", f"Job failed with exit code: {code}")

    def _mounting(self, job: RunningJob) -> list[str]:
        """What sees to it that a container's command sees its volumes."""
        steps = []
        for number, volume in enumerate(job.asked.get("volumes", [])):
            folder = job.folder / f"volume-{number}"
            self._buckets.copy_to(folder, volume["source"], volume.get("path", ""))
            place = Path(volume["mountPath"])
            options = "bind,ro" if volume.get("readOnly") else "bind"
            steps += [
                f"mount -t tmpfs none {place.parent}",
                f"mkdir {place}",
                f"mount -o {options} {folder} {place}",
            ]
        if not steps:
            return []
        who = [] if os.geteuid() == 0 else ["--map-root-user"]
        return ["unshare", "--mount", *who, "sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh"]


def _flavors() -> frozenset[str]:
    """The machines that the client knows. It reads the environment when it is imported: not yet."""
    from huggingface_hub import JobHardware

    return frozenset(one.value for one in JobHardware)

"""Cloud Run's Admin API for jobs, over REST, parsed with the real protos; and what goes with it:
tokens, and the logs. The containers' commands really run, as processes."""

import asyncio
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

from aiohttp import web
from google.cloud import run_v2
from google.protobuf import json_format
from google.protobuf.message import Message

from tests.servers.cloud_logging import BadFilterError, Logs
from tests.servers.cloud_run_executions import Machines, Running, now
from tests.servers.cloud_run_rules import Refused, check
from tests.servers.google_accounts import PROJECT, Accounts

REGION = "us-central1"
TYPE = "type.googleapis.com/google.cloud.run.v2"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class CloudRunServer:
    """What a project has: `images` with their entry points, accounts, jobs; and the `bodies` of all
    requests."""

    machines: Machines
    url: str = ""
    accounts: Accounts = field(default_factory=Accounts)
    images: dict[str, list[str]] = field(default_factory=dict)
    service_accounts: set[str] = field(default_factory=set)
    gpus: int = 3
    jobs: dict[str, run_v2.Job] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    logs: Logs = field(default_factory=Logs)
    bodies: list[bytes] = field(default_factory=list)

    def attempts(self, job: str) -> list[int]:
        """How often each task of a job has begun."""
        found = (one for one in self.running.values() if one.execution.job == job)
        last = list(found)[-1]
        return [len(last.attempts.get(index, ())) for index in range(last.execution.task_count)]

    def printed(self) -> str:
        """All that containers printed."""
        files = sorted(self.machines.folder.rglob("*.log"))
        return "\n".join(one.read_text(errors="replace") for one in files)

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._check])
        route, place = application.router, "/v2/projects/{project}/locations/{location}"
        route.add_post("/token", self.accounts.token)
        route.add_post("/v2/entries:list", self._entries)
        route.add_post(f"{place}/jobs", self._create)
        route.add_get(f"{place}/jobs", self._list)
        route.add_get(f"{place}/jobs/{{job}}", self._get)
        route.add_delete(f"{place}/jobs/{{job}}", self._delete)
        route.add_post(f"{place}/jobs/{{job}}:run", self._start)
        execution = f"{place}/jobs/{{job}}/executions/{{execution}}"
        route.add_get(execution, self._execution)
        route.add_post(f"{execution}:cancel", self._cancel)
        route.add_get(f"{execution}/tasks", self._tasks)
        return application

    async def end(self) -> None:
        """Leave nothing behind."""
        for one in self.running.values():
            await one.kill()

    @web.middleware
    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.bodies.append(str(request.rel_url).encode() + b"\n" + await request.read())
        try:
            if request.path != "/token":
                self._check_caller(request)
            return await handler(request)
        except Refused as error:
            said = {"code": error.status, "status": error.code, "message": str(error)}
            return web.json_response({"error": said}, status=error.status)

    def _check_caller(self, request: web.Request) -> None:
        if not self.accounts.knows(request.headers.get("Authorization", "")):
            raise Refused(
                401,
                "UNAUTHENTICATED",
                "Request had invalid authentication credentials. Expected OAuth 2 access token, "
                "login cookie or other valid authentication credential.",
            )
        project = request.match_info.get("project", PROJECT)
        if project != PROJECT:
            raise Refused(
                403,
                "PERMISSION_DENIED",
                f"Permission 'run.jobs.create' denied on resource 'projects/{project}' (or "
                "resource may not exist).",
            )

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.text()
        try:
            job = run_v2.Job.from_json(body, ignore_unknown_fields=False)
        except json_format.ParseError as error:
            raise Refused(400, "INVALID_ARGUMENT", str(error)) from error
        parent, _, _ = request.path.removeprefix("/v2/").rpartition("/")
        job.name = f"{parent}/jobs/{request.query['jobId']}"
        if job.name in self.jobs:
            raise Refused(409, "ALREADY_EXISTS", f"Resource '{job.name}' already exists.")
        check(job, request.query["jobId"], request.match_info["location"])
        job.uid, job.generation, job.create_time = secrets.token_hex(8), 1, now()
        self.jobs[job.name] = job
        wrong = self._missing(job)
        return _operation("Job", job, error=wrong)

    def _missing(self, job: run_v2.Job) -> str:
        """What the job names and the project has not."""
        task = job.template.template
        container = task.containers[0]
        if container.image not in self.images:
            return f"Image '{container.image}' not found."
        if task.service_account and task.service_account not in self.service_accounts:
            return f"Service account {task.service_account} does not exist."
        for number, one in enumerate(container.env):
            secret = one.value_source.secret_key_ref.secret
            if secret and secret not in self.machines.secrets:
                return (
                    f"spec.template.spec.containers[0].env[{number}].value_from.secret_key_ref."
                    f"name: Secret projects/1/secrets/{secret}/versions/latest was not found"
                )
        return ""

    async def _start(self, request: web.Request) -> web.Response:
        job = self._job(request, ":run")
        gpus = "nvidia.com/gpu" in job.template.template.containers[0].resources.limits
        if gpus and job.template.parallelism > self.gpus:
            raise Refused(
                429,
                "RESOURCE_EXHAUSTED",
                "Quota exceeded for total allowable count of GPUs per project per region.",
            )
        entry = self.images[job.template.template.containers[0].image]
        running = self.machines.begin(job, entry)
        self.running[running.execution.name] = running
        return _operation("Execution", running.execution, is_done=False)

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(_json(self._seen(self._job(request))))

    async def _list(self, request: web.Request) -> web.Response:
        place = request.path.removeprefix("/v2/")
        found = [self._seen(job) for name, job in self.jobs.items() if name.startswith(place)]
        return web.json_response({"jobs": [_json(job) for job in found]})

    async def _delete(self, request: web.Request) -> web.Response:
        job = self._job(request)
        del self.jobs[job.name]
        return _operation("Job", job)

    async def _execution(self, request: web.Request) -> web.Response:
        return web.json_response(_json(self._run_of(request).execution))

    async def _tasks(self, request: web.Request) -> web.Response:
        running = self._run_of(request, "/tasks")
        return web.json_response({"tasks": [_json(one) for one in running.tasks]})

    async def _cancel(self, request: web.Request) -> web.Response:
        running = self._run_of(request, ":cancel")
        running.cancel()
        return _operation("Execution", running.execution, is_done=False)

    async def _entries(self, request: web.Request) -> web.Response:
        for one in self.running.values():
            self.logs.gather(one.execution.name.split("/")[3], one)
        try:
            return web.json_response(self.logs.find(await request.json()))
        except BadFilterError as error:
            raise Refused(400, "INVALID_ARGUMENT", str(error)) from error

    def _job(self, request: web.Request, verb: str = "") -> run_v2.Job:
        name = request.path.removeprefix("/v2/").removesuffix(verb)
        if name not in self.jobs:
            raise Refused(404, "NOT_FOUND", f"Resource '{name}' was not found")
        return self.jobs[name]

    def _run_of(self, request: web.Request, verb: str = "") -> Running:
        name = request.path.removeprefix("/v2/").removesuffix(verb)
        if name not in self.running:
            raise Refused(404, "NOT_FOUND", f"Resource '{name}' was not found")
        return self.running[name]

    def _seen(self, job: run_v2.Job) -> run_v2.Job:
        """The job, with its newest execution."""
        status = run_v2.ExecutionReference.CompletionStatus
        for one in self.running.values():
            if not one.execution.name.startswith(f"{job.name}/"):
                continue
            completed = status.EXECUTION_RUNNING
            if one.execution.completion_time:
                failed = one.execution.failed_count
                completed = status.EXECUTION_FAILED if failed else status.EXECUTION_SUCCEEDED
                completed = status.EXECUTION_CANCELLED if one.is_cancelled else completed
            job.latest_created_execution = run_v2.ExecutionReference(
                name=one.execution.name.rpartition("/")[2], completion_status=completed
            )
        return job


def _json(message: Any) -> dict[str, Any]:  # noqa: ANN401 - of proto-plus, without a common type
    pb: Message = type(message).pb(message)
    done: dict[str, Any] = json_format.MessageToDict(pb)
    return done


def _operation(
    kind: str,
    message: Any,  # noqa: ANN401 - of proto-plus
    *,
    is_done: bool = True,
    error: str = "",
) -> web.Response:
    place = "/".join(message.name.split("/")[:4])
    told = {"@type": f"{TYPE}.{kind}", **_json(message)}
    name = f"{place}/operations/{secrets.token_hex(8)}"
    operation: dict[str, Any] = {"name": name, "metadata": told, "done": is_done}
    if error:
        operation["error"] = {"code": 5, "message": error}
    elif is_done:
        operation["response"] = told
    return web.json_response(operation)


@contextmanager
def serving_cloud_run(folder: Path, network: Mapping[str, str]) -> Iterator[CloudRunServer]:
    """A project, in a thread; `network` is what its containers find around them."""
    server = CloudRunServer(Machines(folder, network))
    ready: Queue[str] = Queue()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        runner = web.AppRunner(server.application(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.put(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await ended.wait()
        await server.end()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        server.url = ready.get(timeout=10)
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


def client_environment(server: CloudRunServer, folder: Path) -> dict[str, str]:
    """The variables of who launches there."""
    return {
        "GOOGLE_APPLICATION_CREDENTIALS": str(
            server.accounts.key_file(folder / "key.json", server.url)
        ),
        "GOOGLE_CLOUD_PROJECT": PROJECT,
        "CLOUDSDK_RUN_REGION": REGION,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_RUN": server.url,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": server.url,
    }

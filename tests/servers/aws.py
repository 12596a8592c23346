"""AWS on this machine: SageMaker's processing jobs, Batch, CloudWatch Logs and Secrets Manager.

What boto3 asks of them, by HTTP: https://docs.aws.amazon.com/general/latest/gr/. Requests are held
against botocore's own models of the services: unknown fields, missing ones, lengths and patterns,
and enums, which clients don't check. Containers are processes. Buckets are those of another server
(S3), which jobs and clients share.
"""

import asyncio
import base64
import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Any

import botocore.session
from aiohttp import web
from botocore.model import OperationModel, ServiceModel, Shape, StructureShape
from botocore.validate import ParamValidator

from tests.servers.s3 import KEY

ACCOUNT, REGION = "123456789012", "us-east-1"
# Keys of a sign-in that has ended.
EXPIRED = "EXPIRED"
# What requests call the services in X-Amz-Target, where botocore calls them something else.
TARGETS = {
    "SageMaker": "sagemaker",
    "Logs_20140328": "logs",
    "AmazonEC2ContainerRegistry_V20150921": "ecr",
}
REGISTRY_PASSWORD = "password-of-the-registry"
Body = dict[str, Any]
Answer = Callable[[Body], Body]


@cache
def model_of(service: str) -> ServiceModel:
    """As botocore has it."""
    return botocore.session.get_session().get_service_model(service)


class RefusedError(Exception):
    """An error as the service sends it."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


@dataclass
class Account:
    """What there is on the platform, and what was asked of it.

    `images`: entry points by name; others can't be pulled. `repositories`: ECR's. `quotas`:
    instances by type, where there is a limit. `sold_out`: types that are not to be had. `regions`:
    of buckets that are not in REGION. `second`: how long a second of a job's time limit takes here.
    """

    folder: Path
    environment: Mapping[str, str]
    images: dict[str, tuple[str, ...]] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    repositories: set[str] = field(default_factory=set)
    quotas: dict[str, int] = field(default_factory=dict)
    sold_out: set[str] = field(default_factory=set)
    regions: dict[str, str] = field(default_factory=dict)
    second: float = 1.0
    # Log group -> stream -> file.
    logs: dict[str, dict[str, Path]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def container_environment(self) -> dict[str, str]:
        """What a role gives a container: here, keys, and where the services are."""
        return {**self.environment, "AWS_ENDPOINT_URL_SECRETS_MANAGER": self.url}

    def client_environment(self) -> dict[str, str]:
        """What boto3 needs to find all this."""
        names = ("SAGEMAKER", "BATCH", "CLOUDWATCH_LOGS", "SECRETS_MANAGER", "ECR")
        return {**self.environment, **{f"AWS_ENDPOINT_URL_{name}": self.url for name in names}}

    def in_image(self, command: Sequence[str]) -> list[str]:
        """What lies in an image's environment lies in that of the tests here."""
        prefix = "/opt/llm-ocr/"
        return [
            f"{sys.prefix}/{one.removeprefix(prefix)}" if one.startswith(prefix) else one
            for one in command
        ]

    def secret(self, name: str) -> str:
        """By its name or ARN."""
        known = name.rpartition(":secret:")[2]
        if known not in self.secrets:
            raise RefusedError(
                "ResourceNotFoundException", "Secrets Manager can't find the specified secret."
            )
        return self.secrets[known]


def check(operation: OperationModel, body: Body) -> None:
    """Raises RefusedError where a body is not what the service's model says."""
    shape = operation.input_shape
    assert shape is not None
    report = ParamValidator().validate(body, shape)
    problems = [report.generate_report()] if report.has_errors() else []
    problems += list(_wrong(shape, body, ""))
    if problems:
        raise RefusedError(
            "ValidationException",
            f"{len(problems)} validation error detected: {'; '.join(problems)}",
        )


def _wrong(shape: Shape, value: Any, path: str) -> Iterator[str]:  # noqa: ANN401
    """Unknown fields, and values that an enum, a length or a pattern doesn't allow."""
    said = f"Value '{value}' at '{path}' failed to satisfy constraint: Member must"
    if isinstance(shape, StructureShape):
        for name, one in value.items():
            if name not in shape.members:
                yield f"Unknown parameter '{path}.{name}'"
                continue
            place = f"{path}.{name[0].lower()}{name[1:]}".lstrip(".")
            yield from _wrong(shape.members[name], one, place)
        return
    limits = shape.metadata
    size = value if shape.type_name == "integer" else len(value) if _has_length(value) else None
    if size is not None and size > limits.get("max", size):
        yield f"{said} be at most {limits['max']}"
    if shape.type_name == "list":
        for one in value:
            yield from _wrong(shape.member, one, path)
    if shape.type_name != "string":
        return
    if limits.get("enum") and value not in limits["enum"]:
        yield f"{said} satisfy enum value set: [{', '.join(limits['enum'][:5])}, …]"
    pattern = limits.get("pattern", "")
    # Patterns are Java's; \p classes are left out.
    if pattern and "\\p" not in pattern and not re.fullmatch(pattern, value):
        yield f"{said} satisfy regular expression pattern: {pattern}"


def _has_length(value: object) -> bool:
    return isinstance(value, str | list | dict)


class Services:
    """Routes requests: `operations` are by service and operation, as botocore names them."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._operations: dict[tuple[str, str], Answer] = {}
        self.add("logs", "GetLogEvents", self._log_events)
        self.add("logs", "DescribeLogStreams", self._log_streams)
        self.add("secretsmanager", "DescribeSecret", self._describe_secret)
        self.add("secretsmanager", "GetSecretValue", self._secret_value)
        self.add("ecr", "GetAuthorizationToken", self._registry_token)
        self.add("ecr", "DescribeRepositories", self._describe_repositories)
        self.add("ecr", "CreateRepository", self._create_repository)

    def add(self, service: str, operation: str, answer: Answer) -> None:
        self._operations[service, operation] = answer

    async def handle(self, request: web.Request) -> web.Response:
        text = (await request.read()).decode()
        self.account.asked.append(text)
        try:
            self._check_key(request)
            service, operation = self._named(request)
            answer = self._operations[service, operation]
            body = json.loads(text or "{}")
            check(model_of(service).operation_model(operation), body)
            return web.json_response(answer(body))
        except RefusedError as error:
            return web.json_response(
                {"__type": error.code, "message": error.message},
                status=error.status,
                headers={"x-amzn-ErrorType": error.code},
            )

    async def head_bucket(self, request: web.Request) -> web.Response:
        """For clients whose AWS_ENDPOINT_URL_S3 is this server: where a bucket is."""
        region = self.account.regions.get(request.match_info["bucket"])
        if region is None:
            return web.Response(status=404)
        return web.Response(headers={"x-amz-bucket-region": region})

    def _check_key(self, request: web.Request) -> None:
        found = re.search(r"Credential=([^/]+)/", request.headers.get("Authorization", ""))
        if found is None:
            raise RefusedError("MissingAuthenticationTokenException", "Missing Token", 403)
        if found[1] == EXPIRED:
            raise RefusedError(
                "ExpiredTokenException", "The security token included in the request is expired"
            )
        if found[1] != KEY:
            raise RefusedError(
                "UnrecognizedClientException",
                "The security token included in the request is invalid.",
                403,
            )

    def _named(self, request: web.Request) -> tuple[str, str]:
        if target := request.headers.get("X-Amz-Target"):
            prefix, _, operation = target.partition(".")
            return TARGETS.get(prefix, prefix), operation
        # Batch's operations have paths.
        return next(
            (service, operation)
            for service, operation in self._operations
            if model_of(service).operation_model(operation).http["requestUri"] == request.path
        )

    def _log_events(self, body: Body) -> Body:
        group = self.account.logs.get(body["logGroupName"], {})
        file = group.get(body["logStreamName"])
        if file is None:
            raise RefusedError(
                "ResourceNotFoundException", "The specified log stream does not exist."
            )
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        begin = int(body.get("nextToken", "f/0").removeprefix("f/"))
        page = lines[begin : begin + 1000]
        end = f"f/{begin + len(page)}"
        events = [{"timestamp": 0, "message": line, "ingestionTime": 0} for line in page]
        return {"events": events, "nextForwardToken": end, "nextBackwardToken": f"b/{begin}"}

    def _log_streams(self, body: Body) -> Body:
        group = self.account.logs.get(body["logGroupName"])
        if group is None:
            raise RefusedError(
                "ResourceNotFoundException", "The specified log group does not exist."
            )
        prefix = body.get("logStreamNamePrefix", "")
        return {
            "logStreams": [{"logStreamName": name} for name in group if name.startswith(prefix)]
        }

    def _describe_secret(self, body: Body) -> Body:
        self.account.secret(body["SecretId"])
        return {"Name": body["SecretId"]}

    def _secret_value(self, body: Body) -> Body:
        return {"Name": body["SecretId"], "SecretString": self.account.secret(body["SecretId"])}

    def _registry_token(self, body: Body) -> Body:
        token = base64.b64encode(f"AWS:{REGISTRY_PASSWORD}".encode()).decode()
        return {"authorizationData": [{"authorizationToken": token}]}

    def _describe_repositories(self, body: Body) -> Body:
        for name in body["repositoryNames"]:
            if name not in self.account.repositories:
                raise RefusedError(
                    "RepositoryNotFoundException",
                    f"The repository with name '{name}' does not exist in the registry",
                )
        return {"repositories": [_repository(name) for name in body["repositoryNames"]]}

    def _create_repository(self, body: Body) -> Body:
        name = body["repositoryName"]
        if name in self.account.repositories:
            raise RefusedError(
                "RepositoryAlreadyExistsException",
                f"The repository with name '{name}' already exists in the registry",
            )
        self.account.repositories.add(name)
        return {"repository": _repository(name)}


def _repository(name: str) -> Body:
    return {
        "repositoryName": name,
        "repositoryUri": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/{name}",
    }


@dataclass
class Running:
    """Jobs that are under way, ended with the server."""

    tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(_done(work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def end(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def _done(work: Callable[[], Awaitable[None]]) -> None:
    await work()


@contextmanager
def serving(services: Services, running: Running) -> Iterator[None]:
    """A thread serves them; the account then has the server's URL."""
    ready: Queue[str] = Queue()
    loop, ended = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/{path:.*}", services.handle)
        app.router.add_head("/{bucket}", services.head_bucket)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.put(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await ended.wait()
        await running.end()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        services.account.url = ready.get(timeout=10)
        yield
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()

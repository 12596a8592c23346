"""The router's HTTP API: passes requests to replicas, and answers for those that it can't pass on.

The body of a request is passed on as it came. Only where the replica knows the model by another
name than the client, that name is replaced.
"""

import hashlib
import hmac
import json
import logging
import random
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from llm_ocr import logs, tracing
from llm_ocr.inference.request import ROUTING_KEY_HEADER, SERVED_MODEL_HEADER
from llm_ocr.router.metrics import RouterMetrics
from llm_ocr.router.replicas import NoReplicaError, Replica, ReplicaSet

log = logging.getLogger(__name__)

MAX_BODY = 256 << 20
REQUEST_ID_HEADER, REPLICA_HEADER = "X-Request-Id", "X-Replica"
# Headers that are passed on. A client's key is for the router, not for the replicas.
REQUEST_HEADERS = (
    *("Content-Type", "Accept", "Accept-Encoding", "traceparent", "tracestate"),
    # For a replica that is a router, too.
    ROUTING_KEY_HEADER,
)
RESPONSE_HEADERS = ("Content-Type", "Content-Encoding", "Retry-After")
# Statuses that may mean that a replica is broken. 503 with Retry-After only says that it is busy.
FAILURE_STATUS = frozenset({500, 502, 503, 504})
ENDPOINTS = ("/chat/completions", "/completions", "/embeddings")
_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
_MODEL = re.compile(rb'"model"\s*:\s*("[^"\\]*")')


class RequestError(Exception):
    """A request can't be answered; the response is an error object of OpenAI's API."""

    def __init__(
        self, status: int, message: str, code: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after

    def response(self) -> web.Response:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": None, "code": self.code}
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return web.json_response({"error": error}, status=self.status, headers=headers)


class _ReplicaLostError(Exception):
    """A replica died, or was unreachable, before anything of its response was passed on."""


@dataclass(frozen=True)
class _RoutedRequest:
    """A request, the name that it gives its model, and the model that was chosen."""

    request: web.Request
    request_id: str
    path: str
    body: bytes
    name: str
    replicas: ReplicaSet

    @property
    def is_alias(self) -> bool:
        return self.name != self.replicas.model

    def body_for(self, replica: Replica) -> bytes:
        """The body with the replica's name for the model."""
        if self.name == replica.served_model:
            return self.body
        return rename_model(self.body, replica.served_model)


class Router:
    """The routes of the API, over sets of replicas by model.

    `routes` are the shares of models by the names that requests may use; `session` sends requests
    to replicas.
    """

    def __init__(
        self,
        sets: Mapping[str, ReplicaSet],
        routes: Mapping[str, Mapping[str, float]],
        session: aiohttp.ClientSession,
        metrics: RouterMetrics,
        api_key: str | None = None,
    ) -> None:
        self._sets, self._routes, self._session, self._metrics = sets, routes, session, metrics
        metrics.sets = list(sets.values())
        self._api_key = api_key
        self._capacity = sum(one.capacity for one in sets.values())
        self._started = int(time.time())
        self.open_requests = 0
        self.is_draining = False

    def application(self) -> web.Application:
        application = web.Application(client_max_size=MAX_BODY)
        for path in ENDPOINTS:
            application.router.add_post(f"/v1{path}", self._answer)
        application.router.add_get("/v1/models", self._models)
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._report)
        application.router.add_route("*", "/{path:.*}", self._unknown_path)
        return application

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        request_id = request.headers.get(REQUEST_ID_HEADER, "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = uuid.uuid4().hex
        model, began = "", time.monotonic()
        failure: dict[str, str | None] | None = None
        self.open_requests += 1
        about = {"http.request.method": "POST", "http.route": request.path}
        parent = request.headers.get(tracing.HEADER)
        with tracing.span(f"POST {request.path}", about, parent=parent, kind="server") as span:
            try:
                self._admit(request)
                routed = await self._route(request, request_id)
                model = routed.replicas.model
                response = await self._forward(routed)
            except RequestError as error:
                response = error.response()
                response.headers[REQUEST_ID_HEADER] = request_id
                failure = {"code": error.code, "message": str(error)}
                if error.status >= 500:
                    span.fail(str(error))
            finally:
                self.open_requests -= 1
            seconds = round(time.monotonic() - began, 4)
            values = {"request_id": request_id, "model": model or None, "seconds": seconds}
            _log_response(request, response, error=failure, **values)
            span.set(
                {
                    "llm_ocr.request.id": request_id,
                    "llm_ocr.model": model,
                    "http.response.status_code": response.status,
                }
            )
        self._metrics.count_response(model, response.status)
        return response

    def _admit(self, request: web.Request) -> None:
        """Raise RequestError for a request whose body needn't be read."""
        self._authenticate(request)
        if self.is_draining:
            message = "this process is shutting down: send the request again"
            raise RequestError(503, message, "shutting_down", retry_after=1)
        if self.open_requests > self._capacity:
            self._metrics.count_rejection("", "queue_full")
            raise RequestError(503, "all replicas are busy", "queue_full", retry_after=1)

    def _authenticate(self, request: web.Request) -> None:
        if self._api_key is None:
            return
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, f"Bearer {self._api_key}".encode()):
            raise RequestError(401, "the API key is missing or wrong", "invalid_api_key")

    async def _route(self, request: web.Request, request_id: str) -> _RoutedRequest:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            message = f"the body has more than {MAX_BODY:,} bytes"
            raise RequestError(413, message, "body_too_large") from error
        name = requested_model(body)
        if name not in self._routes:
            known = ", ".join(self._routes)
            message = f"the model {name!r} does not exist; use one of {known}"
            raise RequestError(404, message, "model_not_found")
        model = choose_model(name, self._routes[name], request.headers.get(ROUTING_KEY_HEADER))
        path = request.path.removeprefix("/v1")
        return _RoutedRequest(request, request_id, path, body, name, self._sets[model])

    async def _forward(self, routed: _RoutedRequest) -> web.StreamResponse:
        """The response of a replica; that of another one if the first one dies before it answers.
        Raises RequestError."""
        failed: Replica | None = None
        model = routed.replicas.model
        for is_last in (False, True):
            try:
                async with routed.replicas.lease(failed) as replica:
                    failed = replica
                    about = {"llm_ocr.replica": replica.name}
                    with tracing.child_span("send to replica", about, kind="client"):
                        return await self._send(routed, replica)
            except NoReplicaError as error:
                self._metrics.count_rejection(model, error.reason)
                raise RequestError(503, str(error), error.reason, error.retry_after) from error
            except TimeoutError as error:
                message = f"{model} did not answer in time"
                raise RequestError(504, message, "timeout") from error
            except _ReplicaLostError as error:
                if is_last:
                    raise RequestError(502, str(error), "replica_lost") from error
                self._metrics.count_resend(model)
        raise AssertionError("the second attempt returns or raises")

    async def _send(self, routed: _RoutedRequest, replica: Replica) -> web.StreamResponse:
        """Send the request to a replica. Raises TimeoutError or _ReplicaLostError if the client has
        got nothing yet."""
        sent_at = time.monotonic()
        given = routed.request.headers
        headers = {name: given[name] for name in REQUEST_HEADERS if name in given}
        headers |= {**replica.headers, REQUEST_ID_HEADER: routed.request_id}
        if (parent := tracing.traceparent()) is not None:
            headers[tracing.HEADER] = parent
        passed: web.StreamResponse | None = None
        try:
            async with self._session.post(
                f"{replica.base_url}{routed.path}", data=routed.body_for(replica), headers=headers
            ) as reply:
                if reply.content_type != "text/event-stream":
                    content = await reply.read()
                    passed = web.Response(body=content, status=reply.status)
                    passed.headers.update(self._response_headers(routed, replica, reply))
                else:
                    async for chunk in reply.content.iter_any():
                        if passed is None:
                            passed = web.StreamResponse(status=reply.status)
                            passed.headers.update(self._response_headers(routed, replica, reply))
                            await passed.prepare(routed.request)
                        await passed.write(chunk)
        except (TimeoutError, aiohttp.ClientError, ConnectionError) as error:
            # `write` raises ConnectionError if the client has left.
            if passed is None or not isinstance(error, ConnectionError):
                replica.record_failure(is_down=isinstance(error, aiohttp.ClientConnectorError))
            if passed is None:
                if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                    raise
                message = f"{replica.name}: {error or type(error).__name__}"
                raise _ReplicaLostError(message) from error
            # What is missing must not look like the end.
            if routed.request.transport is not None:
                routed.request.transport.abort()
            return passed
        if passed is None:
            replica.record_failure()
            raise _ReplicaLostError(f"{replica.name} sent an empty stream")
        replica.metrics.seconds.observe(time.monotonic() - sent_at)
        if reply.status not in FAILURE_STATUS:
            replica.record_success()
        elif "Retry-After" not in reply.headers:
            replica.record_failure()
        return passed

    def _response_headers(
        self, routed: _RoutedRequest, replica: Replica, reply: aiohttp.ClientResponse
    ) -> dict[str, str]:
        headers = {name: reply.headers[name] for name in RESPONSE_HEADERS if name in reply.headers}
        headers |= {REQUEST_ID_HEADER: routed.request_id, REPLICA_HEADER: replica.name}
        if routed.is_alias:
            headers[SERVED_MODEL_HEADER] = routed.replicas.model
        return headers

    async def _models(self, request: web.Request) -> web.Response:
        try:
            self._authenticate(request)
        except RequestError as error:
            return error.response()
        about = {"object": "model", "created": self._started, "owned_by": "llm_ocr"}
        cards = [{"id": name, **about} for name in self._routes]
        return web.json_response({"object": "list", "data": cards})

    async def _livez(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, request: web.Request) -> web.Response:
        """200 while any replica gets requests. A model without one must not cut off the others."""
        ready = {
            model: sum(replica.is_ready for replica in one.replicas)
            for model, one in self._sets.items()
        }
        is_ready = any(ready.values()) and not self.is_draining
        status = "draining" if self.is_draining else "ok" if is_ready else "starting"
        body = {"status": status, "ready_replicas": ready}
        return web.json_response(body, status=200 if is_ready else 503)

    async def _report(self, request: web.Request) -> web.Response:
        text = generate_latest(self._metrics.registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _unknown_path(self, request: web.Request) -> web.Response:
        return RequestError(404, f"there is no {request.method} {request.path}").response()


def _log_response(request: web.Request, response: web.StreamResponse, **values: object) -> None:
    about = logs.about(
        status=response.status,
        replica=response.headers.get(REPLICA_HEADER),
        routing_key=request.headers.get(ROUTING_KEY_HEADER),
        **values,
    )
    # A full queue is no failure: the client repeats the request.
    is_failure = response.status >= 500 and response.status != 503
    level = logging.WARNING if is_failure else logging.INFO
    log.log(level, "POST %s %d", request.path, response.status, extra=about)


def requested_model(body: bytes) -> str:
    """The name of the model in a request's body. Raises RequestError."""
    try:
        name = json.loads(body)["model"]
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the body is not JSON: {error}", "invalid_json") from error
    except (KeyError, TypeError, IndexError) as error:
        raise RequestError(400, "the body has no model", "missing_model") from error
    if not isinstance(name, str):
        raise RequestError(400, "the model must be a string", "missing_model")
    return name


def rename_model(body: bytes, name: str) -> bytes:
    """The body with another model. Other bytes stay as they are, unless more than one key in it is
    called model."""
    found = list(_MODEL.finditer(body))
    if len(found) == 1 and body.count(b'"model"') == 1:
        start, end = found[0].span(1)
        return b"".join((body[:start], json.dumps(name).encode(), body[end:]))
    return json.dumps({**json.loads(body), "model": name}).encode()


def choose_model(name: str, shares: Mapping[str, float], routing_key: str | None) -> str:
    """One of the models by their shares, which add up to 1: for the same routing key always the
    same, as long as the shares stay; without a key at random."""
    point = random.random()
    if routing_key is not None:
        digest = hashlib.sha256(f"{name}\n{routing_key}".encode("utf-8", "replace")).digest()
        point = int.from_bytes(digest[:8], "big") / 2**64
    for model, share in shares.items():
        point -= share
        if point < 0:
            return model
    return model

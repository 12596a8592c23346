"""ASGI middleware: limits on request bodies, problem documents for unexpected errors, metrics."""

import logging
import time
from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llm_ocr import logs, tracing
from llm_ocr.service.gateway.problems import Problem, to_problem
from llm_ocr.service.metrics import GatewayMetrics
from llm_ocr.service.settings import MEGABYTE

log = logging.getLogger(__name__)

# Requests to these aren't logged unless they fail.
HEALTH_CHECKS = frozenset({"/livez", "/readyz"})
MAX_JSON_BYTES = MEGABYTE
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class BodyLimitMiddleware:
    """Refuses requests with a body but no Content-Length, and bodies above the limit: `limits` in
    bytes, by the prefix of a path, otherwise 1 MiB. (The server reads no more than
    Content-Length.)"""

    def __init__(self, app: ASGIApp, limits: Mapping[str, int]) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        problem = self._check(scope)
        if problem is not None:
            await problem.respond()(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> Problem | None:
        headers = dict(scope["headers"])
        if b"transfer-encoding" in headers:
            return Problem(
                411,
                "length_required",
                "chunked bodies are not supported; send the body with Content-Length",
            )
        length = int(headers.get(b"content-length", b"0"))
        matching = (size for path, size in self._limits.items() if scope["path"].startswith(path))
        limit = next(matching, MAX_JSON_BYTES)
        if length > limit:
            detail = f"the body has {length:,} bytes; at most {limit:,} are accepted here"
            return Problem(413, "body_too_large", detail, headers={"Connection": "close"})
        return None


class ProblemMiddleware:
    """Responds with a problem document to exceptions that no handler has caught, so that the
    connection stays usable."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as error:
            if scope["type"] != "http" or has_started:
                raise
            await to_problem(error).respond()(scope, receive, send)


class MetricsMiddleware:
    """Counts requests by method, route and status, with the time until the response begins."""

    def __init__(self, app: ASGIApp, metrics: GatewayMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Not the path, which clients choose and which has ids.
                route = getattr(scope.get("route"), "path", "")
                seconds = time.perf_counter() - began
                method = scope["method"] if scope["method"] in METHODS else "other"
                self._metrics.count_request(method, route, message["status"], seconds)
            await send(message)

        await self._app(scope, receive, send_and_count)


class AccessLogMiddleware:
    """Logs each request when its response has ended: the route in place of the path, which may have
    a token, and nothing of the query, the headers and the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not log.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            if scope["path"] not in HEALTH_CHECKS or status >= 400:
                _log_request(scope, status, time.perf_counter() - began)


def _log_request(scope: Scope, status: int, seconds: float) -> None:
    method = scope["method"] if scope["method"] in METHODS else "other"
    route = getattr(scope.get("route"), "path", "")
    values = logs.about(
        method=method,
        route=route,
        status=status,
        seconds=round(seconds, 4),
        client=scope["client"][0] if scope.get("client") else None,
        document_id=scope.get("path_params", {}).get("document_id"),
        tenant=scope.get("state", {}).get("tenant"),
    )
    level = logging.ERROR if status >= 500 else logging.INFO
    log.log(level, "%s %s %d", method, route or "(no such path)", status, extra=values)


class TracingMiddleware:
    """Makes a span of each request that changes something, and of those whose client sends a
    `traceparent`, which the trace continues. Others, such as polls, would only be noise."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not tracing.is_tracing():
            await self._app(scope, receive, send)
            return
        parent = dict(scope["headers"]).get(tracing.HEADER.encode())
        if scope["method"] in SAFE_METHODS and parent is None:
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else "other"
        given = None if parent is None else parent.decode("latin-1")
        about = {"http.request.method": method}
        with tracing.span(method, about, parent=given, kind="server") as span:

            async def send_and_note(message: Message) -> None:
                if message["type"] == "http.response.start":
                    route = getattr(scope.get("route"), "path", "")
                    span.rename(f"{method} {route}".rstrip())
                    status = message["status"]
                    span.set({"http.route": route, "http.response.status_code": status})
                    if status >= 500:
                        span.fail(f"HTTP status {status}")
                await send(message)

            await self._app(scope, receive, send_and_note)

"""The API client, against a misbehaving server; tests/cli uses real services."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.service import client as client_module
from llm_ocr.service.client import (
    ServiceAccessError,
    ServiceClient,
    ServiceError,
    ServiceUnreachableError,
)
from tests.servers.ports import free_port

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]
DOCUMENT = {"id": "doc_1", "state": "queued"}


@asynccontextmanager
async def answering(*replies: Reply) -> AsyncIterator[tuple[str, list[web.Request]]]:
    """A server that gives these replies in turn, the last one for ever; and what was requests."""
    requests: list[web.Request] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return await replies[min(len(requests), len(replies)) - 1](request)

    application = web.Application(client_max_size=1 << 30)
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", requests
    finally:
        await runner.cleanup()


def give(body: Any, status: int = 200, **headers: str) -> Reply:  # noqa: ANN401
    async def reply(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return reply


async def hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize(
    "trouble",
    [
        give({"detail": "too many", "code": "quota_exceeded"}, 429, **{"Retry-After": "0.01"}),
        give({"detail": "away", "code": "database_unavailable"}, 503, **{"Retry-After": "0.01"}),
        give({"detail": "soon", "code": "request_in_flight"}, 409, **{"Retry-After": "0.01"}),
        give("not JSON", 502),
        hang_up,
    ],
    ids=["429", "503", "409", "502", "connection"],
)
async def test_transient_errors_are_retried(trouble: Reply) -> None:
    async with answering(trouble, trouble, give(DOCUMENT)) as (url, requests):
        async with ServiceClient(url, "lo_key") as client:
            assert await client.document("doc_1") == DOCUMENT
    assert len(requests) == 3
    assert all(request.headers["Authorization"] == "Bearer lo_key" for request in requests)


async def test_retry_after_is_respected_without_limit() -> None:
    messages: list[str] = []
    full = give({"detail": "9 are unfinished"}, 429, **{"Retry-After": "0.01"})
    async with answering(*[full] * 4, give(DOCUMENT)) as (url, _):
        async with ServiceClient(url, None, retry_seconds=0, notify=messages.append) as client:
            assert await client.document("doc_1") == DOCUMENT
    assert set(messages) == {"waiting: 9 are unfinished (429)"}


async def test_permanent_errors_are_not_retried() -> None:
    gone = give({"detail": "there is no document doc_1", "code": "unknown_document"}, 404)
    async with answering(gone) as (url, requests), ServiceClient(url, None) as client:
        with pytest.raises(ServiceError, match=r"there is no document doc_1 \(404\)") as caught:
            await client.document("doc_1")
    assert (caught.value.status, caught.value.problem) == (404, "unknown_document")
    assert len(requests) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_raises_service_access_error(status: int) -> None:
    refuse = give({"detail": "the API key is unknown"}, status)
    async with answering(refuse) as (url, _), ServiceClient(url, "lo_wrong") as client:
        with pytest.raises(ServiceAccessError, match="the API key is unknown"):
            await client.document("doc_1")


async def test_an_unreachable_service_fails_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "MAX_CONNECT_RETRY_SECONDS", 0)
    url = f"http://127.0.0.1:{free_port()}"
    async with ServiceClient(url, None) as client:
        with pytest.raises(ServiceUnreachableError, match=f"{url} doesn't respond"):
            await client.document("doc_1")


async def test_an_upload_is_streamed_without_the_key(tmp_path: Path) -> None:
    path, received = tmp_path / "large.tiff", hashlib.sha256()
    content = b"0123456789abcdef" * (1 << 18)
    path.write_bytes(content)

    async def receive(request: web.Request) -> web.StreamResponse:
        async for piece, _ in request.content.iter_chunks():
            received.update(piece)
        return web.Response(status=204)

    async with answering(hang_up, receive) as (url, requests):
        upload = {"method": "PUT", "url": f"{url}/v1/uploads/x", "headers": {"X-Signed": "yes"}}
        async with ServiceClient(url, "lo_key") as client:
            await client.upload(path, upload)
    assert received.digest() == hashlib.sha256(content).digest()
    request = requests[-1]
    assert request.headers["Content-Length"] == str(len(content))
    assert request.headers["X-Signed"] == "yes"
    assert "Transfer-Encoding" not in request.headers
    assert "Authorization" not in request.headers


async def test_an_interrupted_download_is_repeated_and_atomic(
    tmp_path: Path,
) -> None:
    target = tmp_path / "result.json"

    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half of ")
        assert not target.exists()
        assert request.transport is not None
        request.transport.abort()
        return response

    async with answering(break_off, give({"all": "of it"})) as (url, requests):
        async with ServiceClient(url, None) as client:
            await client.download("/v1/documents/doc_1/result", target)
    assert target.read_bytes() == b'{"all": "of it"}'
    assert len(requests) == 2
    assert list(tmp_path.iterdir()) == [target]


async def test_a_replayed_creation_returns_the_current_document() -> None:
    stale = give(
        {"id": "doc_1", "state": "awaiting_upload"}, 202, **{"Idempotency-Replayed": "true"}
    )
    async with answering(stale, give(DOCUMENT)) as (url, requests):
        async with ServiceClient(url, None) as client:
            assert await client.create({"files": []}, "key-1") == DOCUMENT
    assert requests[0].headers["Idempotency-Key"] == "key-1"
    assert [request.method for request in requests] == ["POST", "GET"]

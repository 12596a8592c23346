"""Asyncio client of the service's API."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import aiohttp

from llm_ocr.messages import CodedError
from llm_ocr.retry import Backoff, parse_retry_after
from llm_ocr.storage.local_files import atomic_write

Result = TypeVar("Result")

CHUNK = 1 << 20
BACKOFF = Backoff(first_delay=0.2)
CONNECT_TIMEOUT_SECONDS = 10.0
# Seconds without receiving any data after which a request fails.
READ_TIMEOUT_SECONDS = 120.0
# Seconds for which requests to an unavailable service are retried: in general, and while it has
# never responded.
MAX_RETRY_SECONDS = 60.0
MAX_CONNECT_RETRY_SECONDS = 2.0
RETRY_STATUSES = frozenset({429, 502, 503, 504})
# Header of a response that was stored for an earlier request with the same idempotency key.
REPLAYED = "Idempotency-Replayed"
FINISHED_OR_IN_REVIEW = frozenset(
    {"succeeded", "partially_succeeded", "failed", "cancelled", "needs_review"}
)


class ServiceError(CodedError):
    """The service refused a request. `status` is the HTTP status, `problem` the problem code."""

    def __init__(self, message: str, status: int, problem: str = "") -> None:
        super().__init__(message)
        self.status, self.problem = status, problem


class ServiceAccessError(ServiceError):
    """The API key is missing, invalid or expired, or doesn't allow the request."""


class ServiceUnreachableError(CodedError):
    """The service doesn't respond, or stays unavailable."""


class ServiceClient:
    """Sends requests to the service at `url` with an API key. While the service is unavailable,
    requests are retried for up to `retry_seconds`; as long as it sends Retry-After, without limit.
    `notify` receives one-line messages about such waits.

        async with ServiceClient("http://127.0.0.1:8300", key) as client:
            document = await client.document("doc_…")

    Methods return the parsed JSON of the API. They raise ServiceError (ServiceAccessError for 401
    and 403) and ServiceUnreachableError.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        retry_seconds: float = MAX_RETRY_SECONDS,
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.url, self._notify = url.rstrip("/"), notify
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._retry_seconds, self._has_connected = retry_seconds, False
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "ServiceClient":
        timeout = aiohttp.ClientTimeout(
            sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=READ_TIMEOUT_SECONDS
        )
        self._session = aiohttp.ClientSession(timeout=timeout)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def create(self, manifest: Mapping[str, Any], idempotency_key: str) -> Any:  # noqa: ANN401
        """Create a document, or get the one that this key has created. Each of its `files` that
        must be uploaded has an `upload`."""

        async def read(response: aiohttp.ClientResponse) -> Any:  # noqa: ANN401
            return await _read_json(response), REPLAYED in response.headers

        headers = {**self._headers, "Idempotency-Key": idempotency_key}
        document, is_replayed = await self._send(
            "POST", f"{self.url}/v1/documents", read, headers=headers, json=manifest
        )
        # A replayed response is the original one: its upload URLs may have expired.
        return await self.document(document["id"]) if is_replayed else document

    async def upload(self, path: Path, upload: Mapping[str, Any]) -> None:
        """Upload a file as `upload`, of a document's file, says. It is read in chunks."""
        url = upload["url"]
        # Without the API key: the URL is signed, and may be that of another host.
        await self._send(
            upload["method"],
            url if "://" in url else f"{self.url}{url}",
            _ignore,
            headers={**upload["headers"], "Content-Length": str(path.stat().st_size)},
            path=path,
        )

    async def complete(self, document_id: str) -> Any:  # noqa: ANN401
        """Complete the upload of a document: its files are checked and it is queued."""
        return await self._json("POST", f"/v1/documents/{document_id}:complete")

    async def document(self, document_id: str) -> Any:  # noqa: ANN401
        """Get a document."""
        return await self._json("GET", f"/v1/documents/{document_id}")

    async def status(self) -> Any:  # noqa: ANN401
        """The service in numbers."""
        return await self._json("GET", "/v1/status")

    async def retry(self, document_id: str) -> Any:  # noqa: ANN401
        """Retry the failed items of a finished document."""
        return await self._json("POST", f"/v1/documents/{document_id}:retry", json={})

    async def download(self, path: str, target: Path) -> None:
        """Download a path of the API to a file, atomically."""

        async def save(response: aiohttp.ClientResponse) -> None:
            with atomic_write(target) as file:
                async for chunk in response.content.iter_chunked(CHUNK):
                    file.write(chunk)

        await self._send("GET", f"{self.url}{path}", save, headers=self._headers)

    async def _json(self, method: str, path: str, **options: Any) -> Any:  # noqa: ANN401
        headers = {**self._headers, **options.pop("headers", {})}
        return await self._send(method, f"{self.url}{path}", _read_json, headers=headers, **options)

    async def _send(
        self,
        method: str,
        url: str,
        receive: Callable[[aiohttp.ClientResponse], Awaitable[Result]],
        *,
        path: Path | None = None,
        **options: Any,  # noqa: ANN401
    ) -> Result:
        """Send a request, with retries, and return what `receive` returns for the response. All
        requests may be repeated: creation has an idempotency key."""
        assert self._session is not None
        started_at, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            retry_after: float | None = None
            try:
                data = None if path is None else _read_chunks(path)
                async with self._session.request(method, url, data=data, **options) as response:
                    self._has_connected = True
                    if response.status < 400:
                        return await receive(response)
                    error: CodedError = await _read_error(response)
                    retry_after = parse_retry_after(response.headers.get("Retry-After"))
                if retry_after is None and response.status not in RETRY_STATUSES:
                    raise error
                if retry_after is not None:
                    # The service is available, and says when to come back.
                    started_at = time.monotonic()
                    self._notify(f"waiting: {error}")
            except (aiohttp.ClientError, TimeoutError) as failure:
                reason = str(failure) or type(failure).__name__
                error = ServiceUnreachableError(f"{self.url} doesn't respond: {reason}")
            retry_seconds = (
                self._retry_seconds if self._has_connected else MAX_CONNECT_RETRY_SECONDS
            )
            if retry_after is None and time.monotonic() - started_at > retry_seconds:
                raise error
            await asyncio.sleep(BACKOFF.delay(attempt, retry_after))


async def _ignore(response: aiohttp.ClientResponse) -> None:
    pass


async def _read_json(response: aiohttp.ClientResponse) -> Any:  # noqa: ANN401
    return await response.json(content_type=None)


async def _read_chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


async def _read_error(response: aiohttp.ClientResponse) -> ServiceError:
    """The error of a response: from a problem document (RFC 9457), or from the status."""
    try:
        problem = await response.json(content_type=None)
    except (ValueError, aiohttp.ClientError):
        problem = None
    problem = problem if isinstance(problem, dict) else {}
    reason = problem.get("detail") or problem.get("title") or response.reason
    message = f"{reason} ({response.status})"
    kind = ServiceAccessError if response.status in (401, 403) else ServiceError
    return kind(message, response.status, str(problem.get("code", "")))

"""Asking a server that speaks the OpenAI chat API, one image and one prompt at a time.

Requests go through one window: at most `window` are in flight, and a new one starts the moment
another ends. A request that fails in a way that may pass is asked again; see `ChatClient.ask`.
"""

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import aiohttp

from llm_ocr.inference.retry import RETRYABLE_STATUS, RetryPolicy
from llm_ocr.records import ErrorCode, PageError

log = logging.getLogger(__name__)

# An item that was in flight when the engine died this often is held to be what kills it: after
# the first time it is asked only while no other suspect is.
MAX_CRASHES = 3
IMAGE = "-the-image-"


class EngineFailedError(Exception):
    """The engine is gone and can't be brought back: the run stops, what is done stays done."""


@dataclass(frozen=True)
class ChatRequest:
    """One image (JPEG bytes) and one prompt; `sampling` goes into the body as it is."""

    prompt: str
    jpeg: bytes
    max_tokens: int
    sampling: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What the server said. `seconds` counts the last attempt, from sending to the last byte."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    attempts: int


class _TryAgainError(Exception):
    """The attempt failed in a way that may pass; `code` is what it becomes if it never does."""

    def __init__(self, code: ErrorCode, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code, self.retry_after = code, retry_after


class _UnreachableError(Exception):
    """Nobody answers at the other end."""


# Called when nobody answers a request that began at a `time.monotonic()`: True if the engine died
# since and was started again.
Recover = Callable[[float], Awaitable[bool]]


class ChatClient:
    """A window of requests to `base_url` (…/v1), for the served `model`."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        window: int,
        api_key: str | None = None,
        timeout: float = 600.0,
        retry: RetryPolicy | None = None,
        recover: Recover | None = None,
    ) -> None:
        self.window = window
        self.retries = 0
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._model = model
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=10)
        self._retry = retry or RetryPolicy()
        self._recover = recover
        self._slots = asyncio.Semaphore(window)
        self._suspect = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, request: ChatRequest) -> Answer:
        """The server's answer.

        Refusals (4xx) raise PageError at once. Answers of 408, 429 and 5xx, broken answers,
        time-outs and aborts are asked again with growing waits, then raise PageError. Where
        nobody answers, the engine is recovered if it is ours; an item that was in flight at
        `MAX_CRASHES` of its deaths raises PageError; a server that stays away raises
        EngineFailedError.
        """
        body = self._body(request)
        attempt = failures = crashes = 0
        while True:
            attempt += 1
            started = time.monotonic()
            try:
                async with self._turn(suspect=crashes > 0):
                    return await self._post(body, attempt)
            except _UnreachableError as error:
                if await self._recovered(started):
                    crashes += 1
                    if crashes == MAX_CRASHES:
                        raise _poison(crashes, attempt) from error
                    continue
                failures += 1
                if failures >= self._retry.attempts:
                    raise EngineFailedError(
                        f"nobody answers at {self._url} ({error}); start the server again and "
                        "run the same command: it goes on where it stopped"
                    ) from error
                await self._wait(failures, None, error)
            except _TryAgainError as error:
                failures += 1
                if failures >= self._retry.attempts:
                    raise PageError(error.code, f"{error} ({attempt} attempts)", attempt) from error
                await self._wait(failures, error.retry_after, error)

    @asynccontextmanager
    async def _turn(self, *, suspect: bool) -> AsyncIterator[None]:
        """A place in the window; one suspect at a time, so that the one that kills stands out."""
        async with AsyncExitStack() as stack:
            if suspect:
                await stack.enter_async_context(self._suspect)
            await stack.enter_async_context(self._slots)
            yield

    def _body(self, request: ChatRequest) -> bytes:
        # The image goes in last: base64 needs no escaping, and looking for what does takes longer
        # than everything else here.
        content = [
            {"type": "image_url", "image_url": {"url": IMAGE}},
            {"type": "text", "text": request.prompt},
        ]
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": request.max_tokens,
            **request.sampling,
        }
        before, after = json.dumps(body).encode().split(IMAGE.encode(), 1)
        url = b"data:image/jpeg;base64," + base64.b64encode(request.jpeg)
        return b"".join((before, url, after))

    async def _post(self, body: bytes, attempt: int) -> Answer:
        assert self._session is not None, "the client is used inside `async with`"
        started = time.monotonic()
        try:
            async with self._session.post(self._url, data=body, headers=self._headers) as response:
                raw = await response.read()
                if response.status != 200:
                    again = response.headers.get("Retry-After")
                    raise _refusal(response.status, raw, again, attempt)
        except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError) as error:
            raise _UnreachableError(str(error) or type(error).__name__) from error
        except (aiohttp.ClientOSError, ConnectionError) as error:
            raise _UnreachableError(str(error) or type(error).__name__) from error
        except TimeoutError as error:
            limit = f"{self._timeout.total:g} s"
            raise _TryAgainError(ErrorCode.ENGINE_TIMEOUT, f"no answer within {limit}") from error
        except aiohttp.ClientError as error:
            raise _TryAgainError(ErrorCode.ENGINE_ERROR, f"half an answer: {error}") from error
        return _read(raw, time.monotonic() - started, attempt)

    async def _recovered(self, since: float) -> bool:
        return self._recover is not None and await self._recover(since)

    async def _wait(self, attempt: int, retry_after: float | None, error: Exception) -> None:
        self.retries += 1
        delay = self._retry.delay(attempt, retry_after)
        log.info("attempt %d failed (%s); again in %.1f s", attempt, error, delay)
        await asyncio.sleep(delay)


def _poison(crashes: int, attempts: int) -> PageError:
    return PageError(
        ErrorCode.ENGINE_CRASHED,
        f"the engine died {crashes} times while it was asked about this; see the engine's log",
        attempts,
    )


def _refusal(status: int, raw: bytes, retry_after: str | None, attempt: int) -> Exception:
    message = f"the server answered {status}: {_message(raw)}"
    if status in RETRYABLE_STATUS:
        wait = float(retry_after) if retry_after and retry_after.isdigit() else None
        return _TryAgainError(ErrorCode.ENGINE_ERROR, message, wait)
    return PageError(ErrorCode.REQUEST_REJECTED, message, attempt)


def _message(raw: bytes) -> str:
    """The message in an error body: `{"error": {"message": …}}`, or the body's beginning."""
    try:
        error = json.loads(raw)["error"]
        return str(error["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return raw[:200].decode(errors="replace")


def _read(raw: bytes, seconds: float, attempt: int) -> Answer:
    try:
        body: dict[str, Any] = json.loads(raw)
        choice, usage = body["choices"][0], body.get("usage") or {}
        text, reason = choice["message"]["content"] or "", choice["finish_reason"]
        tokens = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        said = f"an answer that can't be read: {_message(raw)}"
        raise _TryAgainError(ErrorCode.ENGINE_ERROR, said) from error
    if reason == "abort":
        raise _TryAgainError(ErrorCode.ENGINE_ERROR, "the server aborted the request")
    return Answer(text, reason or "stop", *tokens, seconds, attempt)

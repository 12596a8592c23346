"""Send chat requests with the `openai` client, and tell its failures apart.

Importing `openai` takes half a second of CPU: import this module only to send requests.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import cast

import aiohttp
import httpx2
import openai

from llm_ocr.inference.open_files import raise_open_files_limit
from llm_ocr.inference.request import (
    ROUTING_KEY_HEADER,
    SERVED_MODEL_HEADER,
    ChatRequest,
    routing_key,
)
from llm_ocr.inference.responses import (
    EXTENSION,
    LONGEST_BODY,
    Answer,
    CutOffError,
    EngineFailedError,
    RetryableError,
    UnreachableError,
    read_answer,
    refusal,
    too_long,
)
from llm_ocr.inference.streaming import STREAMED, PartialAnswer, read_stream
from llm_ocr.records import ErrorCode
from llm_ocr.tracing import HEADER as TRACE_HEADER
from llm_ocr.tracing import traceparent

EVENTS = "text/event-stream"
CONNECT_SECONDS, KEEPALIVE_SECONDS = 10.0, 15.0
# How many requests are in flight is for the caller to decide; openai's own limit is 1000.
MAX_CONNECTIONS = 1_000_000
# `openai` asks for a key, or takes that of OPENAI_API_KEY. This one is never sent.
PLACEHOLDER_KEY = "-"
# What is sent besides the caller's headers.
HTTP_HEADERS = frozenset(
    (
        *(b"host", b"content-type", b"content-length", b"accept", b"accept-encoding"),
        *(b"connection", b"cookie", b"user-agent"),
    )
)
DATA_URL = "data:image/jpeg;base64,"
IMAGE = "-the-image-"
# Characters of a model's name, which becomes a value of a table.
LONGEST_NAME = 200
# The last two are those that openai's adapter for aiohttp doesn't translate, such as that of a
# status line that can't be read.
CONNECTION_ERRORS = (
    openai.APIConnectionError,
    httpx2.HTTPError,
    aiohttp.ClientError,
    ConnectionError,
)


class ChatTransport:
    """Sends chat requests to `base_url` (…/v1), each of them once.

    It is used, and closed, in the event loop in which it was made. `timeout` is for a request and
    its whole answer, in seconds. With `streams`, answers are requested in pieces. Raises
    EngineFailedError if `base_url` can't be a server's address.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        headers: dict[str, str],
        timeout: float,
        streams: bool,
    ) -> None:
        raise_open_files_limit()
        self._model, self._timeout, self._streams = model, timeout, streams
        # As bytes: a key may have any characters.
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._client = openai.AsyncOpenAI(
            api_key=PLACEHOLDER_KEY,
            base_url=_parse_url(base_url),
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            http_client=openai.DefaultAioHttpClient(
                # Proxies and .netrc are ignored: most servers are on this machine.
                trust_env=False,
                limits=httpx2.Limits(
                    max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEPALIVE_SECONDS
                ),
                event_hooks={"request": [self._set_headers], "response": [_raise_refusal]},
            ),
        )

    async def close(self) -> None:
        await self._client.close()

    def direct(self, base_url: str) -> None:
        """Send requests there from now on."""
        self._client.base_url = _parse_url(base_url)

    async def send(self, request: ChatRequest, draft: PartialAnswer, attempt: int) -> Answer:
        """The answer to one request, which continues `draft`; what comes in pieces is added to it.

        Raises UnreachableError, CutOffError and RetryableError for failures that may pass, and what
        `refusal` returns; PageError for an answer that is too long.
        """
        started = time.monotonic()
        body = self._body(request, draft)
        try:
            async with asyncio.timeout(self._timeout), self._post(body) as response:
                if _is_stream(response):
                    draft.begin()
                    async with aclosing(response.aiter_bytes()) as chunks:
                        reason = await read_stream(chunks, draft, attempt)
                    answer = draft.answer(reason, time.monotonic() - started, attempt)
                    return replace(answer, served_model=_served_model(response))
                raw = await _read_body(response)
        except _RefusedError as error:
            raise error.meaning(attempt) from None
        except _TooLongError:
            raise too_long(f"{LONGEST_BODY:,} bytes", attempt) from None
        except TimeoutError as error:
            raise self._timeout_error() from error
        except CONNECTION_ERRORS as error:
            raise self._failure(error) from error
        answer = read_answer(raw, time.monotonic() - started, attempt)
        return replace(answer, served_model=_served_model(response))

    @asynccontextmanager
    async def _post(self, body: bytes) -> AsyncIterator[httpx2.Response]:
        """The response, whose body is still to be read.

        `chat.completions.create` would take more than twice the CPU time: it checks each parameter
        against its types, and searches the image for characters to escape.
        """
        reply = await self._client.post(
            "/chat/completions",
            content=body,
            cast_to=httpx2.Response,
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )
        # It is what `cast_to` says; the types only know the other case.
        response = cast("httpx2.Response", reply)
        async with aclosing(response):
            yield response

    def _body(self, request: ChatRequest, draft: PartialAnswer) -> bytes:
        """The request as JSON, with parameters that only vLLM or the embedded engine knows."""
        # A single image goes in last: base64 needs no escaping, and looking for what does takes
        # longer than everything else here.
        jpeg = request.jpeg
        is_last = jpeg is not None and not request.earlier
        url = DATA_URL + IMAGE if is_last else None if jpeg is None else _data_url(jpeg)
        messages: list[dict[str, object]] = []
        for turn in request.earlier:
            shown = None if turn.jpeg is None else _data_url(turn.jpeg)
            messages.append({"role": "user", "content": _content(turn.prompt, shown)})
            messages.append({"role": "assistant", "content": turn.answer})
        messages.append({"role": "user", "content": _content(request.prompt, url)})
        body: dict[str, object] = {"model": self._model, "messages": messages}
        if draft.length:
            messages.append({"role": "assistant", "content": draft.text})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        body["max_tokens"] = max(1, request.max_tokens - draft.completion_tokens)
        body |= STREAMED if self._streams else {}
        body |= request.body_fields
        body |= {EXTENSION: request.extension} if request.extension else {}
        if jpeg is None or not is_last:
            return json.dumps(body).encode()
        before, after = json.dumps(body).encode().split(IMAGE.encode(), 1)
        return b"".join((before, base64.b64encode(jpeg), after))

    async def _set_headers(self, request: httpx2.Request) -> None:
        """Send the caller's headers in place of those that openai takes from OPENAI_* variables.

        They are meant for another server. A redirect to another host has no key, and gets none.
        """
        headers = [pair for pair in request.headers.raw if pair[0].lower() in HTTP_HEADERS]
        if "authorization" in request.headers:
            headers += self._headers
        if (key := routing_key.get()) is not None:
            headers.append((ROUTING_KEY_HEADER.encode(), key.encode()))
        if (parent := traceparent()) is not None:
            headers.append((TRACE_HEADER.encode(), parent.encode()))
        request.headers = httpx2.Headers(headers, encoding="utf-8")

    def _timeout_error(self) -> RetryableError:
        message = f"no answer within {self._timeout:g} s"
        return RetryableError(ErrorCode.ENGINE_TIMEOUT, message)

    def _failure(self, error: BaseException) -> Exception:
        """What a failed connection becomes, by aiohttp's own error.

        openai's would not do: it calls a refused connection a time-out.
        """
        while error.__cause__ is not None and not isinstance(error, aiohttp.ClientError):
            error = error.__cause__
        message = str(error) or type(error).__name__
        if isinstance(error, aiohttp.ClientOSError | aiohttp.ServerDisconnectedError):
            return UnreachableError(message)
        if isinstance(error, ConnectionError):
            return UnreachableError(message)
        if isinstance(error, TimeoutError):
            return self._timeout_error()
        return CutOffError(f"half an answer: {message}")


def _content(prompt: str, image_url: str | None) -> list[dict[str, object]]:
    """The content of a user's message."""
    content: list[dict[str, object]] = []
    if image_url is not None:
        content.append({"type": "image_url", "image_url": {"url": image_url}})
    if prompt:
        content.append({"type": "text", "text": prompt})
    return content


def _data_url(jpeg: bytes) -> str:
    return DATA_URL + base64.b64encode(jpeg).decode()


def _parse_url(base_url: str) -> httpx2.URL:
    try:
        return httpx2.URL(base_url)
    except httpx2.InvalidURL as error:
        raise EngineFailedError(
            f"{base_url} is no server's address ({error}); give one as http://host:8000/v1"
        ) from error


class _RefusedError(Exception):
    """The server answered with a status other than 200."""

    def __init__(self, response: httpx2.Response, body: bytes) -> None:
        super().__init__(response.status_code)
        self._response, self._body = response, body

    def meaning(self, attempt: int) -> Exception:
        """As `refusal` returns."""
        status, headers = self._response.status_code, self._response.headers
        return refusal(status, self._body, headers.get("Retry-After"), attempt, headers.get("Date"))


class _TooLongError(Exception):
    """A body is longer than any answer."""


async def _raise_refusal(response: httpx2.Response) -> None:
    """Raise _RefusedError for an error. openai would read its body whole, however long it is."""
    if response.has_redirect_location:
        # Its body, which would be read too, says nothing.
        await response.stream.aclose()  # type: ignore[union-attr]
        response.stream = httpx2.ByteStream(b"")
    elif response.status_code != 200:
        raise _RefusedError(response, await _read_body(response))


async def _read_body(response: httpx2.Response) -> bytes:
    """The body, decompressed. Raises _TooLongError."""
    pieces: list[bytes] = []
    size = 0
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            size += len(chunk)
            if size > LONGEST_BODY:
                raise _TooLongError
            pieces.append(chunk)
    return b"".join(pieces)


def _served_model(response: httpx2.Response) -> str | None:
    """The model that a router chose, if it names one."""
    name = response.headers.get(SERVED_MODEL_HEADER, "")
    return name if 0 < len(name) <= LONGEST_NAME and name.isprintable() else None


def _is_stream(response: httpx2.Response) -> bool:
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower() == EVENTS

"""Asking a server that speaks the OpenAI chat API, one image and one prompt at a time.

Requests go through one window, and a new one starts the moment another ends. A request that fails
in a way that may pass is asked again, and a streamed answer goes on where it was; see
`ChatClient.ask`.
"""

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp

from llm_ocr.inference.guides import Guides
from llm_ocr.inference.replies import (
    EXTENSION,
    Answer,
    EngineFailedError,
    TryAgainError,
    read_answer,
    refusal,
)
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.retry import RetryPolicy
from llm_ocr.inference.streaming import STREAMED, Draft, read_stream
from llm_ocr.inference.suspects import PROVEN, Suspects, guilt_of
from llm_ocr.inference.traffic import Traffic
from llm_ocr.inference.window import Window
from llm_ocr.records import ErrorCode, PageError

log = logging.getLogger(__name__)

IMAGE = "-the-image-"
EVENTS = "text/event-stream"
# Time-outs of a request while no other is answered, after which the server is given up.
QUIET_TIMES = 2


class _UnreachableError(Exception):
    """Nobody answers at the other end."""


class _CutOffError(_UnreachableError):
    """The connection ended within an answer: its end is missing, or the engine died."""


# Called when nobody answers a request that began at a `time.monotonic()`: True if the engine died
# since and was started again.
Recover = Callable[[float], Awaitable[bool]]


class ChatClient:
    """Requests to `base_url` (…/v1), for the served `model`, at most `window` of them in flight.

    With `streams`, for servers that send tokens by the handful, answers arrive in pieces: one that
    was cut off is gone on with, from its last piece, and one that loops is stopped.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        window: Window,
        api_key: str | None = None,
        timeout: float = 600.0,
        retry: RetryPolicy | None = None,
        recover: Recover | None = None,
        streams: bool = False,
    ) -> None:
        self.window = window
        self.traffic = Traffic()
        self.base_url = ""
        self.direct(base_url)
        self.headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._model = model
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=10)
        self._retry = retry or RetryPolicy()
        self._recover = recover
        self._streams = streams
        self._suspects = Suspects()
        self._guides = Guides()
        self._session: aiohttp.ClientSession | None = None

    def direct(self, base_url: str) -> None:
        """Ask there from now on."""
        self.base_url = base_url.rstrip("/")
        self._url = self.base_url + "/chat/completions"

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0)
        headers = {"Content-Type": "application/json", **self.headers}
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=self._timeout, headers=headers
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, request: ChatRequest, *, urgency: int = 0) -> Answer:
        """The server's answer; of those that wait for a place, higher `urgency` goes first.

        Refusals (4xx) raise PageError at once, or WrongServerError if every page would be refused
        (401, 403, 404). Answers of 408, 429 and 5xx, broken answers,
        time-outs and aborts are asked again with growing waits, then raise PageError. Where
        nobody answers, the engine is recovered if it is ours; an item that is found to kill it
        raises PageError; a server that stays away, or that lets
        every request run out of time, raises EngineFailedError. Where a guide is refused, the
        answer is to the request without it.
        """
        return await self._guides.ask(
            request.guide,
            lambda: self._ask(request, urgency),
            # Before others find out the same.
            lambda: self._ask(request.without_guide, urgency + 1),
        )

    async def _ask(self, request: ChatRequest, urgency: int) -> Answer:
        draft = Draft(request.watched_from)
        attempt = failures = deaths = 0
        guilt = 0.0
        asked_first = time.monotonic()
        while True:
            attempt += 1
            # As it is sent, not when it began to wait: a death before that was not its doing.
            sent: list[_Sent] = []
            if request.guide:
                # The form begins anew with each request: behind a draft it would stand within it.
                draft.discard()
            begun = len(draft.text)
            try:
                async with self._turn(guilt, urgency, sent):
                    answer = await self._post(self._body(request, draft), draft, attempt)
                    self.traffic.count(answer)
                    return answer
            except PageError:
                # Whether a server goes on with an answer is up to it, and to the model's template.
                if not begun:
                    raise
                draft.discard()
            except _UnreachableError as error:
                answered = self.traffic.answers - sent[0].answers
                if await self._recovered(sent[0].at):
                    deaths += 1
                    guilt = guilt_of(guilt, answered, self.window.width)
                    if guilt >= PROVEN:
                        raise _poison(deaths, attempt) from error
                    continue
                failures += 1
                if failures >= self._retry.attempts:
                    if isinstance(error, _CutOffError):
                        raise _given_up(error, ErrorCode.ENGINE_ERROR, attempt) from error
                    raise self._gone(f"nobody answers at {self._url} ({error})") from error
                await self._wait(failures, None, error)
            except TryAgainError as error:
                failures += 1
                if len(draft.text) == begun:
                    draft.discard()
                self.traffic.push_backs += error.is_push_back
                is_quiet = self.traffic.answered_at < asked_first
                if error.code is ErrorCode.ENGINE_TIMEOUT and is_quiet and failures == QUIET_TIMES:
                    raise self._gone(f"{self._url} takes requests but answers none") from error
                if failures < self._retry.attempts:
                    await self._wait(failures, error.retry_after, error)
                else:
                    raise _given_up(error, error.code, attempt) from error

    def _gone(self, what: str) -> EngineFailedError:
        return EngineFailedError(
            f"{what}; start the server again and run the same command: it goes on where it stopped"
        )

    @asynccontextmanager
    async def _turn(self, guilt: float, urgency: int, sent: "list[_Sent]") -> AsyncIterator[None]:
        async with self._suspects.turn(guilt), self.window.place(urgency):
            sent.append(_Sent(time.monotonic(), self.traffic.answers))
            yield

    def _body(self, request: ChatRequest, draft: Draft) -> bytes:
        # The image goes in last: base64 needs no escaping, and looking for what does takes longer
        # than everything else here.
        content: list[dict[str, object]] = []
        if request.jpeg is not None:
            content.append({"type": "image_url", "image_url": {"url": IMAGE}})
        if request.prompt:
            content.append({"type": "text", "text": request.prompt})
        messages: list[dict[str, object]] = [{"role": "user", "content": content}]
        body: dict[str, object] = {"model": self._model, "messages": messages}
        if draft.text:
            messages.append({"role": "assistant", "content": draft.text})
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        body["max_tokens"] = max(1, request.max_tokens - draft.completion_tokens)
        body |= STREAMED if self._streams else {}
        body |= request.bound
        body |= {EXTENSION: request.extension} if request.extension else {}
        if request.jpeg is None:
            return json.dumps(body).encode()
        before, after = json.dumps(body).encode().split(IMAGE.encode(), 1)
        url = b"data:image/jpeg;base64," + base64.b64encode(request.jpeg)
        return b"".join((before, url, after))

    async def _post(self, body: bytes, draft: Draft, attempt: int) -> Answer:
        assert self._session is not None, "the client is used inside `async with`"
        started = time.monotonic()
        try:
            async with self._session.post(self._url, data=body) as response:
                if response.status == 200 and response.content_type == EVENTS:
                    draft.begin()
                    reason = await read_stream(response.content, draft, attempt)
                    return draft.answer(reason, time.monotonic() - started, attempt)
                raw = await response.read()
                if response.status != 200:
                    again = response.headers.get("Retry-After")
                    raise refusal(response.status, raw, again, attempt)
        except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError) as error:
            raise _UnreachableError(str(error) or type(error).__name__) from error
        except (aiohttp.ClientOSError, ConnectionError) as error:
            raise _UnreachableError(str(error) or type(error).__name__) from error
        except TimeoutError as error:
            limit = f"{self._timeout.total:g} s"
            raise TryAgainError(ErrorCode.ENGINE_TIMEOUT, f"no answer within {limit}") from error
        except aiohttp.ClientError as error:
            raise _CutOffError(f"half an answer: {error}") from error
        return read_answer(raw, time.monotonic() - started, attempt)

    async def _recovered(self, since: float) -> bool:
        return self._recover is not None and await self._recover(since)

    async def _wait(self, attempt: int, retry_after: float | None, error: Exception) -> None:
        self.traffic.retries += 1
        delay = self._retry.delay(attempt, retry_after)
        log.info("attempt %d failed (%s); again in %.1f s", attempt, error, delay)
        self.traffic.between_tries += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self.traffic.between_tries -= 1


@dataclass(frozen=True)
class _Sent:
    """When a request was sent (`time.monotonic()`), and how many answers there were by then."""

    at: float
    answers: int


def _given_up(error: Exception, code: ErrorCode, attempts: int) -> PageError:
    return PageError(code, f"{error} ({attempts} attempts)", attempts)


def _poison(deaths: int, attempts: int) -> PageError:
    return PageError(
        ErrorCode.ENGINE_CRASHED,
        f"the engine died {deaths} times while it was asked about this; see the engine's log",
        attempts,
    )

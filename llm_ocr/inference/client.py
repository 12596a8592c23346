"""Asking a server that speaks the OpenAI chat API, one image and one prompt at a time.

Requests go through one window, and a new one starts the moment another ends. A request that fails
in a way that may pass is asked again, and a streamed answer goes on where it was; see
`ChatClient.ask`.
"""

import asyncio
import base64
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp

from llm_ocr.inference.address import authorization
from llm_ocr.inference.guides import Guides
from llm_ocr.inference.replies import (
    EXTENSION,
    LONGEST_BODY,
    Answer,
    EngineFailedError,
    TryAgainError,
    read_answer,
    refusal,
    too_long,
)
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.streaming import STREAMED, Draft, read_stream
from llm_ocr.inference.suspects import PROVEN, Suspects, guilt_of
from llm_ocr.inference.traffic import Traffic
from llm_ocr.inference.window import Window
from llm_ocr.messages import pluralize
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.retry import LONGEST_WAIT, RetryPolicy

log = logging.getLogger(__name__)

IMAGE = "-the-image-"
EVENTS = "text/event-stream"
# Time-outs of a request while no other is answered, after which the server is given up.
QUIET_TIMES = 2
# Seconds for which a server says nothing but that it is busy before the user is told, and between
# two such messages: shorter spells are how a server with a limit works.
TOLD_AFTER = 15.0
TOLD_EVERY = 60.0


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
        self.headers = authorization(api_key)
        self._model = model
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=10)
        self._retry = retry or RetryPolicy()
        self._recover = recover
        self._streams = streams
        self._suspects = Suspects()
        self._guides = Guides()
        self._spell = _Spell(self._retry.busy_seconds)
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

    async def ask(self, request: ChatRequest, *, priority: int = 0) -> Answer:
        """The server's answer; of those that wait for a place, higher `priority` goes first.

        Refusals (4xx) raise PageError at once, or WrongServerError if every page would be refused
        (401, 403, 404). Answers of 408 and 5xx, broken answers,
        time-outs and aborts are asked again with growing waits, then raise PageError. A server
        that is busy (429, 503) is waited for as long as the policy says: then an item that it
        refuses while it answers others raises PageError, and one that answers nobody
        EngineFailedError. Where
        nobody answers, the engine is recovered if it is ours; an item that is found to kill it
        raises PageError; a server that stays away, or that lets
        every request run out of time, raises EngineFailedError. Where a guide is refused, the
        answer is to the request without it.
        """
        return await self._guides.ask(
            request.guide,
            lambda: self._ask(request, priority),
            # Before others find out the same.
            lambda: self._ask(request.without_guide, priority + 1),
        )

    async def _ask(self, request: ChatRequest, priority: int) -> Answer:
        draft = Draft(request.watched_from)
        attempt = failures = deaths = refusals = 0
        guilt = 0.0
        refused_since = 0.0
        asked_first = time.monotonic()
        while True:
            attempt += 1
            # As it is sent, not when it began to wait: a death before that was not its doing.
            sent: list[_Sent] = []
            if request.guide:
                # The form begins anew with each request: behind a draft it would stand within it.
                draft.discard()
            begun = draft.length
            try:
                async with self._turn(guilt, priority, sent):
                    answer = await self._post(self._body(request, draft), draft, attempt)
                    self.traffic.count(answer)
                    self._spell.end()
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
                refusals = 0
                if failures >= self._retry.attempts:
                    if isinstance(error, _CutOffError):
                        raise _given_up(error, ErrorCode.ENGINE_ERROR, attempt) from error
                    raise self._gone(f"no response from {self._url} ({error})") from error
                await self._wait(failures, None, error)
            except TryAgainError as error:
                if draft.length == begun:
                    draft.discard()
                self.traffic.push_backs += error.is_push_back
                if error.is_busy and self._retry.busy_seconds:
                    refusals += 1
                    refused_since = refused_since if refusals > 1 else time.monotonic()
                    self._spell.refused(error)
                    left = self._patience_left(refused_since, error, attempt)
                    await self._wait(refusals, error.retry_after, error, left)
                    continue
                failures += 1
                refusals = 0
                is_quiet = self.traffic.answered_at < asked_first
                if error.code is ErrorCode.ENGINE_TIMEOUT and is_quiet and failures == QUIET_TIMES:
                    raise self._gone(f"{self._url} takes requests but answers none") from error
                if failures < self._retry.attempts:
                    await self._wait(failures, error.retry_after, error)
                else:
                    raise _given_up(error, error.code, attempt) from error

    def _patience_left(self, since: float, error: TryAgainError, attempt: int) -> float:
        """Seconds for which an item may go on waiting that has been refused since then, because
        the server is busy. Raises where there are none left."""
        waited = time.monotonic() - since
        if waited < self._retry.busy_seconds:
            return self._retry.busy_seconds - waited
        if self.traffic.answered_at < since:
            raise self._gone(
                f"{self._url} has said for {waited:.0f} s that it is busy, and nothing else "
                f"({error})",
                "wait until it has time, or longer with --busy-timeout,",
            ) from error
        said = f"{error}, for {waited:.0f} s, while others were answered"
        raise PageError(error.code, f"{said} ({attempt} attempts)", attempt) from error

    def _gone(self, what: str, advice: str = "start the server again") -> EngineFailedError:
        return EngineFailedError(
            f"{what}; {advice} and run the same command: it resumes where it stopped"
        )

    @asynccontextmanager
    async def _turn(self, guilt: float, priority: int, sent: "list[_Sent]") -> AsyncIterator[None]:
        async with self._suspects.turn(guilt), self.window.place(priority):
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
        if draft.length:
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
                raw = await _body_of(response, attempt)
                if response.status != 200:
                    again, date = (response.headers.get(one) for one in ("Retry-After", "Date"))
                    raise refusal(response.status, raw, again, attempt, date)
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

    async def _wait(
        self,
        attempt: int,
        retry_after: float | None,
        error: Exception,
        longest: float = math.inf,
    ) -> None:
        self.traffic.retries += 1
        delay = min(self._retry.delay(attempt, retry_after), longest)
        log.info("attempt %d failed (%s); again in %.1f s", attempt, error, delay)
        self.traffic.between_tries += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self.traffic.between_tries -= 1


class _Spell:
    """A time in which the server says nothing but that it is busy: the user is told of long ones,
    of which nothing else can be seen."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None
        self._told_at: float | None = None
        self._is_told = False

    def refused(self, error: TryAgainError) -> None:
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        is_long, asked = now - self._since >= TOLD_AFTER, error.retry_after or 0.0
        is_due = self._told_at is None or now - self._told_at >= TOLD_EVERY
        if not is_due or not (is_long or asked > LONGEST_WAIT):
            return
        self._told_at, self._is_told = now, True
        limit = f"for {self._patience:g} s at most (--busy-timeout)"
        if asked > LONGEST_WAIT:
            log.warning(
                "the server asks to wait for %s s (Retry-After); it is asked again every %.0f s "
                "instead, %s; it says: %s",
                *(f"{asked:,.0f}", LONGEST_WAIT, limit, error),
            )
            return
        log.warning(
            "the server has been busy for %.0f s; waiting for it, %s; it says: %s",
            *(now - self._since, limit, error),
        )

    def end(self) -> None:
        """Note an answer."""
        if self._is_told and self._since is not None:
            log.warning("the server answers again, after %.0f s", time.monotonic() - self._since)
        self._since, self._is_told = None, False


@dataclass(frozen=True)
class _Sent:
    """When a request was sent (`time.monotonic()`), and how many answers there were by then."""

    at: float
    answers: int


async def _body_of(response: aiohttp.ClientResponse, attempt: int) -> bytes:
    """The body, decompressed. Raises PageError for one that is longer than any answer."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > LONGEST_BODY:
            raise too_long(f"{LONGEST_BODY:,} bytes", attempt)
        pieces.append(piece)
    return b"".join(pieces)


def _given_up(error: Exception, code: ErrorCode, attempts: int) -> PageError:
    return PageError(code, f"{error} ({pluralize(attempts, 'attempt')})", attempts)


def _poison(deaths: int, attempts: int) -> PageError:
    return PageError(
        ErrorCode.ENGINE_CRASHED,
        f"the engine died {deaths} times while it was asked about this; see the engine's log",
        attempts,
    )

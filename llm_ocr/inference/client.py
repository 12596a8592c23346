"""Asking a server that speaks the OpenAI chat API, one image and one prompt at a time.

Requests go through one limiter, and a new one starts the moment another ends. A request that fails
in a way that may pass is asked again, and a streamed answer goes on where it was; see
`ChatClient.ask`.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from llm_ocr import tracing
from llm_ocr.inference.address import authorization
from llm_ocr.inference.concurrency import ConcurrencyLimiter, RequestStats
from llm_ocr.inference.poison_requests import PROVEN, PoisonRequestDetector, suspicion_after_crash
from llm_ocr.inference.request import ChatRequest, StructuredOutputs, on_send
from llm_ocr.inference.responses import (
    Answer,
    CutOffError,
    EngineFailedError,
    RetryableError,
    UnreachableError,
)
from llm_ocr.inference.streaming import PartialAnswer
from llm_ocr.messages import ProblemCode, pluralize
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.retry import MAX_RETRY_AFTER, RetryPolicy

if TYPE_CHECKING:
    from llm_ocr.inference.transport import ChatTransport

log = logging.getLogger(__name__)

# Time-outs of a request while no other is answered, after which the server is given up.
QUIET_TIMES = 2
# Seconds for which a server only reports that it is busy before the user sees a warning, and
# between two such warnings: a server with a request limit is busy for shorter times all along.
TOLD_AFTER = 15.0
TOLD_EVERY = 60.0

# Called when nobody answers a request that began at a `time.monotonic()`: True if the engine died
# since and was started again.
Recover = Callable[[float], Awaitable[bool]]


class ChatClient:
    """Requests to `base_url` (…/v1), for the served `model`, as many at once as `limiter` allows.

    With `streams`, for servers that send tokens by the handful, answers arrive in pieces: one that
    was cut off is gone on with, from its last piece, and one that loops is stopped.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        limiter: ConcurrencyLimiter,
        api_key: str | None = None,
        timeout: float = 600.0,
        retry: RetryPolicy | None = None,
        recover: Recover | None = None,
        streams: bool = False,
    ) -> None:
        self.limiter = limiter
        self.stats = RequestStats()
        self._transport: ChatTransport | None = None
        self.direct(base_url)
        self.headers = authorization(api_key)
        self._model = model
        self._timeout = timeout
        self._retry = retry or RetryPolicy()
        self._recover = recover
        self._streams = streams
        self._poison_detector = PoisonRequestDetector()
        self._forgiven_at = 0.0
        self._structured_outputs = StructuredOutputs()
        self._spell = _Spell(self._retry.busy_seconds)

    def forgive(self) -> None:
        """The server's end is nobody's doing: requests in flight are repeated without suspicion."""
        self._forgiven_at = time.monotonic()

    def direct(self, base_url: str) -> None:
        """Ask there from now on."""
        self.base_url = base_url.rstrip("/")
        self._url = self.base_url + "/chat/completions"
        if self._transport is not None:
            self._transport.direct(self.base_url)

    async def __aenter__(self) -> Self:
        # Here, as it takes half a second and most commands send nothing.
        from llm_ocr.inference.transport import ChatTransport

        self._transport = ChatTransport(
            self.base_url,
            self._model,
            headers=self.headers,
            timeout=self._timeout,
            streams=self._streams,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._transport is not None:
            await self._transport.close()

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
        every request run out of time, raises EngineFailedError. Where structured output is
        rejected, the answer is to the request without it.
        """
        return await self._structured_outputs.ask(
            request.structured_output,
            lambda: self._ask(request, priority),
            # Before others find out the same.
            lambda: self._ask(request.without_structured_output, priority + 1),
        )

    async def _ask(self, request: ChatRequest, priority: int) -> Answer:
        draft = PartialAnswer(request.loop_check_after)
        attempt = failures = deaths = refusals = 0
        suspicion = 0.0
        refused_since = 0.0
        asked_first = failed_at = time.monotonic()
        while True:
            attempt += 1
            # As it is sent, not when it began to wait: a death before that was not its doing.
            sent: list[_Sent] = []
            if request.structured_output:
                # The form starts over with each request: behind a draft it would stand within it.
                draft.discard()
            begun = draft.length
            try:
                async with self._turn(suspicion, priority, sent):
                    answer = await self._send(request, draft, attempt)
                    self.stats.add(answer)
                    self._spell.end()
                    return answer
            except PageError:
                # Whether a server goes on with an answer is up to it, and to the model's template.
                if not begun:
                    raise
                draft.discard()
            except UnreachableError as error:
                answered = self.stats.answers - sent[0].answers
                if await self._recovered(sent[0].at):
                    if sent[0].at <= self._forgiven_at:
                        continue
                    deaths += 1
                    suspicion = suspicion_after_crash(suspicion, answered, self.limiter.limit)
                    if suspicion >= PROVEN:
                        raise _poison(deaths, attempt) from error
                    continue
                if self.stats.last_answer_at > failed_at and not isinstance(error, CutOffError):
                    # It was only being started again: it has answered others in between.
                    failures = 0
                failed_at = time.monotonic()
                failures += 1
                refusals = 0
                if failures >= self._retry.attempts:
                    if isinstance(error, CutOffError):
                        raise _given_up(error, ErrorCode.ENGINE_ERROR, attempt) from error
                    raise self._gone(f"no response from {self._url} ({error})") from error
                await self._wait(failures, None, error)
            except RetryableError as error:
                if draft.length == begun:
                    draft.discard()
                self.stats.overloads += error.is_overload
                if error.is_busy and self._retry.busy_seconds:
                    refusals += 1
                    refused_since = refused_since if refusals > 1 else time.monotonic()
                    self._spell.refused(error)
                    left = self._patience_left(refused_since, error, attempt)
                    await self._wait(refusals, error.retry_after, error, left)
                    continue
                failures += 1
                refusals = 0
                is_quiet = self.stats.last_answer_at < asked_first
                if error.code is ErrorCode.ENGINE_TIMEOUT and is_quiet and failures == QUIET_TIMES:
                    raise self._gone(f"{self._url} takes requests but answers none") from error
                if failures < self._retry.attempts:
                    await self._wait(failures, error.retry_after, error)
                else:
                    raise _given_up(error, error.code, attempt) from error

    async def _send(self, request: ChatRequest, draft: PartialAnswer, attempt: int) -> Answer:
        assert self._transport is not None, "the client is used inside `async with`"
        asked = {"gen_ai.operation.name": "chat", "gen_ai.request.model": self._model}
        with tracing.child_span(f"chat {self._model}", asked, kind="client") as span:
            answer = await self._transport.send(request, draft, attempt)
            span.set(
                {
                    "gen_ai.usage.input_tokens": answer.prompt_tokens,
                    "gen_ai.usage.output_tokens": answer.completion_tokens,
                    "gen_ai.response.model": answer.served_model or self._model,
                    "llm_ocr.attempt": attempt,
                }
            )
            return answer

    def _patience_left(self, since: float, error: RetryableError, attempt: int) -> float:
        """Seconds for which an item may go on waiting that has been refused since then, because
        the server is busy. Raises where there are none left."""
        waited = time.monotonic() - since
        if waited < self._retry.busy_seconds:
            return self._retry.busy_seconds - waited
        if self.stats.last_answer_at < since:
            raise self._gone(
                f"{self._url} has said for {waited:.0f} s that it is busy, and nothing else "
                f"({error})",
                "wait until it has time",
                ProblemCode.SERVER_BUSY,
            ) from error
        said = f"{error}, for {waited:.0f} s, while others were answered"
        raise PageError(error.code, f"{said} ({attempt} attempts)", attempt) from error

    def _gone(
        self, what: str, advice: str = "start the server again", code: ProblemCode | None = None
    ) -> EngineFailedError:
        said = f"{what}; {advice} and run the same command: it resumes where it stopped"
        return EngineFailedError(said, code)

    @asynccontextmanager
    async def _turn(
        self, suspicion: float, priority: int, sent: "list[_Sent]"
    ) -> AsyncIterator[None]:
        async with self._poison_detector.slot(suspicion), self.limiter.slot(priority):
            sent.append(_Sent(time.monotonic(), self.stats.answers))
            on_send.get()()
            yield

    async def _recovered(self, since: float) -> bool:
        return self._recover is not None and await self._recover(since)

    async def _wait(
        self,
        attempt: int,
        retry_after: float | None,
        error: Exception,
        longest: float = math.inf,
    ) -> None:
        self.stats.retries += 1
        delay = min(self._retry.delay(attempt, retry_after), longest)
        log.info("attempt %d failed (%s); again in %.1f s", attempt, error, delay)
        self.stats.waiting_for_retry += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self.stats.waiting_for_retry -= 1


class _Spell:
    """A time in which the server says nothing but that it is busy: the user is told of long ones,
    of which nothing else can be seen."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None
        self._told_at: float | None = None
        self._is_told = False

    def refused(self, error: RetryableError) -> None:
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        is_long, asked = now - self._since >= TOLD_AFTER, error.retry_after or 0.0
        is_due = self._told_at is None or now - self._told_at >= TOLD_EVERY
        if not is_due or not (is_long or asked > MAX_RETRY_AFTER):
            return
        self._told_at, self._is_told = now, True
        limit = f"for {self._patience:g} s at most (`busy_timeout`)"
        if asked > MAX_RETRY_AFTER:
            log.warning(
                "the server asks to wait for %s s (Retry-After); it is asked again every %.0f s "
                "instead, %s; it says: %s",
                *(f"{asked:,.0f}", MAX_RETRY_AFTER, limit, error),
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


def _given_up(error: Exception, code: ErrorCode, attempts: int) -> PageError:
    return PageError(code, f"{error} ({pluralize(attempts, 'attempt')})", attempts)


def _poison(deaths: int, attempts: int) -> PageError:
    return PageError(
        ErrorCode.ENGINE_CRASHED,
        f"the engine died {deaths} times while it was asked about this; see the engine's log",
        attempts,
    )

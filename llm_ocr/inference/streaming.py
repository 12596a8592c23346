"""Answers that arrive in pieces: what has come outlives a dead engine, and a loop is stopped.

The pieces are server-sent events as OpenAI's API has them, with vLLM's `continuous_usage_stats`.
"""

import io
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass, field

from llm_ocr.inference.loops import find_loop
from llm_ocr.inference.responses import (
    LONGEST_STREAM,
    LONGEST_TEXT,
    Answer,
    Event,
    RetryableError,
    body_of,
    raise_if_aborted,
    raise_if_error,
    too_long,
)
from llm_ocr.records import ErrorCode

# Asked for with each request.
STREAMED: Mapping[str, object] = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}
# Characters between two looks for a loop, how many of the last are looked at, and how many of them
# must be in the loop: a table's equal rows may still end.
LOOK_EVERY = 1_500
LOOKED_AT = 10_000
SURELY_LOOPS = 2_500
# Bytes of a line.
LONGEST_LINE = 1 << 17


@dataclass
class PartialAnswer:
    """What has come so far of an answer, over all attempts.

    From `loop_check_after` characters on it is stopped when it repeats itself; None: never.
    """

    loop_check_after: int | None = None
    # In characters.
    length: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str | None = None
    logprobs: list[tuple[str, float]] = field(default_factory=list, repr=False)
    # A text that grew piece by piece would be copied with each.
    _written: io.StringIO = field(default_factory=io.StringIO, repr=False)
    # What earlier attempts said: the server's usage counts only its own.
    _before: int = 0
    _looked: int = field(default=0, repr=False)

    def begin(self) -> None:
        """A server is asked to go on with it."""
        self._before, self.finish_reason = self.completion_tokens, None

    def discard(self) -> None:
        """The next attempt starts over."""
        self.length = self.completion_tokens = self._before = self._looked = 0
        self._written, self.logprobs = io.StringIO(), []

    @property
    def text(self) -> str:
        return self._written.getvalue()

    def add(self, text: str) -> None:
        """Add characters."""
        self._written.write(text)
        self.length += len(text)

    def take(self, event: Event) -> None:
        """Add a piece."""
        said = event.tokens("completion_tokens")
        if said is not None:
            self.completion_tokens = self._before + said
        self.prompt_tokens = self.prompt_tokens or event.tokens("prompt_tokens") or 0
        for choice in event.choices or ():
            self.add(choice.delta.text)
            self.logprobs += choice.token_logprobs
            self.finish_reason = choice.finish_reason or self.finish_reason

    @property
    def loops(self) -> bool:
        """Whether it has run into a loop; looks only now and then."""
        if self.loop_check_after is None:
            return False
        if self.length < max(self.loop_check_after, self._looked + LOOK_EVERY):
            return False
        self._looked = self.length
        self._written.seek(max(0, self.length - LOOKED_AT))
        recent = self._written.read()
        loop = find_loop(recent)
        return loop is not None and len(recent) - loop.start >= SURELY_LOOPS

    def answer(self, reason: str, seconds: float, attempt: int) -> Answer:
        tokens = self.prompt_tokens, self.completion_tokens
        return Answer(self.text, reason, *tokens, seconds, attempt, tuple(self.logprobs))


async def read_stream(chunks: AsyncIterable[bytes], draft: PartialAnswer, attempt: int) -> str:
    """Add what arrives to `draft` until its end; the finish reason.

    Raises as `refusal` says for an error in place of a piece, and RetryableError for a stream that
    ends before the answer does, or can't be read; PageError for one that is longer than any page's.
    """
    rest, size = b"", 0
    async for chunk in chunks:
        size += len(chunk)
        if size > LONGEST_STREAM:
            raise too_long(f"{LONGEST_STREAM:,} bytes", attempt)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in (*lines, rest):
            if len(line) > LONGEST_LINE:
                message = "an answer that can't be read: a piece of it is too long"
                raise RetryableError(ErrorCode.ENGINE_ERROR, message)
        if any(_is_last(line, draft, attempt) for line in lines):
            break
    else:
        _is_last(rest, draft, attempt)
    reason = draft.finish_reason
    if reason is None:
        raise RetryableError(ErrorCode.ENGINE_ERROR, "half an answer: its end is missing")
    raise_if_aborted(reason)
    return reason


def _is_last(line: bytes, draft: PartialAnswer, attempt: int) -> bool:
    """Add the event in a line to `draft`; whether the rest of the stream is of no use."""
    if not line.startswith(b"data:"):
        return False
    data = line[5:].strip()
    if data == b"[DONE]":
        return True
    event = body_of(Event, data)
    raise_if_error(event, data, attempt)
    draft.take(event)
    if draft.length > LONGEST_TEXT:
        raise too_long(f"{LONGEST_TEXT:,} characters", attempt)
    if draft.finish_reason is None and draft.loops:
        draft.finish_reason = "repetition"
        return True
    return False

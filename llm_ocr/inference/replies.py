"""What a server's replies mean: an answer, something that may pass, or an error for good."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_ocr.inference.retry import RETRYABLE_STATUS
from llm_ocr.records import ErrorCode, PageError

# Where requests and answers have what only the embedded engine understands.
EXTENSION = "llm_ocr"
# What a server says when it is asked for more than it can take.
PUSH_BACK = frozenset({429, 503})
# Refusals that no other page would escape, and what to do about them.
NOBODYS_PAGE = {
    401: "it wants a key: set LLM_OCR_API_KEY",
    403: "the key (LLM_OCR_API_KEY) does not allow this",
    404: "it serves no such model or path: see `curl BASE_URL/models`, and set --served-model",
}


class EngineFailedError(Exception):
    """The engine is gone and can't be brought back: the run stops, what is done stays done."""


class WrongServerError(EngineFailedError):
    """The server refuses every page, as it is asked now: a wrong key, model or address."""


@dataclass(frozen=True)
class Answer:
    """What the server said. `seconds` counts the last attempt, from sending to the last byte.

    `logprobs` are the answer's tokens with their natural log-probabilities, where they were asked
    for and the server gave them. `extension` is what an embedded engine says beside the answer.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    attempts: int
    logprobs: tuple[tuple[str, float], ...] = ()
    extension: Mapping[str, Any] = field(default_factory=dict)


class TryAgainError(Exception):
    """The attempt failed in a way that may pass; `code` is what it becomes if it never does."""

    def __init__(self, code: ErrorCode, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code, self.retry_after = code, retry_after
        self.is_push_back = code is ErrorCode.ENGINE_TIMEOUT


def refusal(status: int, raw: bytes, retry_after: str | None, attempt: int) -> Exception:
    """What a status other than 200 becomes: TryAgainError, PageError or WrongServerError."""
    message = f"the server answered {status}: {_message(raw)}"
    if status in NOBODYS_PAGE:
        return WrongServerError(f"{message}; {NOBODYS_PAGE[status]}")
    if status in RETRYABLE_STATUS:
        wait = float(retry_after) if retry_after and retry_after.isdigit() else None
        again = TryAgainError(ErrorCode.ENGINE_ERROR, message, wait)
        again.is_push_back = status in PUSH_BACK
        return again
    return PageError(ErrorCode.REQUEST_REJECTED, message, attempt)


def _message(raw: bytes) -> str:
    """The message in an error body: `{"error": {"message": …}}`, or the body's beginning."""
    try:
        error = json.loads(raw)["error"]
        return str(error["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return raw[:200].decode(errors="replace")


def error_inside(body: dict[str, Any]) -> int | None:
    """The status of an error that came with 200."""
    error = body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else None


def read_answer(raw: bytes, seconds: float, attempt: int) -> Answer:
    """The answer in a body that came with 200. Raises as `refusal` says where there is none."""
    try:
        body: dict[str, Any] = json.loads(raw)
        if "choices" not in body and (status := error_inside(body)):
            raise refusal(status, raw, None, attempt)
        choice, usage = body["choices"][0], body.get("usage") or {}
        text, reason = choice["message"]["content"] or "", choice["finish_reason"]
        tokens = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        likely = tuple(token_logprobs(choice))
        extension: Mapping[str, Any] = dict(body.get(EXTENSION) or {})
    except (ValueError, KeyError, TypeError, IndexError) as error:
        said = f"an answer that can't be read: {_message(raw)}"
        raise TryAgainError(ErrorCode.ENGINE_ERROR, said) from error
    if reason == "abort":
        raise TryAgainError(ErrorCode.ENGINE_ERROR, "the server aborted the request")
    return Answer(text, reason or "stop", *tokens, seconds, attempt, likely, extension)


def token_logprobs(choice: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The tokens of a choice (or of a piece of one) with their log-probabilities, if there."""
    for one in (choice.get("logprobs") or {}).get("content") or ():
        yield str(one["token"]), float(one["logprob"])

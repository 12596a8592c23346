"""What a server's replies mean: an answer, something that may pass, or an error for good."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
)

from llm_ocr.messages import CodedError, MissingExtraError, ProblemCode
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.retry import RETRYABLE_STATUS, parse_retry_after

# Where requests and answers have what only the embedded engine understands.
EXTENSION = "llm_ocr"
# What a server says when it is asked for more than it can take.
OVERLOAD_STATUS = frozenset({429, 503})
# An answer of more tokens than this is a mistake in the account of it; what an item costs in all
# its attempts still fits the tables' 32 bits.
MOST_TOKENS = 100_000_000
# Bytes of a body, characters of its text, and bytes of an answer that comes in pieces. The longest
# answers of pages have some 100,000 characters; 32,000 tokens with the probability of each are
# 4 MB, and as a piece each 16 MB. To judge and read ten million characters takes 10 to 25 s and up
# to 500 MB.
LONGEST_BODY, LONGEST_TEXT, LONGEST_STREAM = 16 << 20, 10_000_000, 64 << 20
# Characters of a server's own words that go into a message.
SHOWN = 200
# Refusals that no other page would escape, and what to do about them.
FATAL_STATUS = {
    401: "it wants a key: set LLM_OCR_API_KEY",
    403: "the key (LLM_OCR_API_KEY) does not allow this",
    404: "it serves no such model or path; `curl BASE_URL/models` lists its models",
}


class EngineFailedError(CodedError):
    """The engine is gone and can't be brought back: the run stops, what is done stays done."""


class EngineNotInstalledError(MissingExtraError, EngineFailedError):
    """What the engine needs isn't installed here; the message says what to install."""


class WrongServerError(EngineFailedError):
    """The server refuses every page, as it is asked now: a wrong key, model or address."""


@dataclass(frozen=True)
class Answer:
    """What the server said. `seconds` counts the last attempt, from sending to the last byte.

    `logprobs` are the answer's tokens with their natural log-probabilities, where they were asked
    for and the server gave them. `extension` is what an embedded engine says beside the answer.
    `served_model` is the model that a router chose for an alias. `failure` is why there is no
    answer about an element of a page that was read without it.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    attempts: int
    logprobs: tuple[tuple[str, float], ...] = ()
    extension: Mapping[str, Any] = field(default_factory=dict)
    served_model: str | None = None
    failure: str | None = None


class RetryableError(Exception):
    """The attempt failed in a way that may pass; `code` is what it becomes if it never does.

    `is_busy` is whether the server says that it has too much to do, and nothing else; then
    `retry_after` may say for how many seconds.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        retry_after: float | None = None,
        *,
        is_busy: bool = False,
    ) -> None:
        super().__init__(message)
        self.code, self.retry_after, self.is_busy = code, retry_after, is_busy

    @property
    def is_overload(self) -> bool:
        """Whether fewer requests at once would help."""
        return self.is_busy or self.code is ErrorCode.ENGINE_TIMEOUT


class UnreachableError(Exception):
    """Nobody answers at the other end."""


class CutOffError(UnreachableError):
    """The connection ended within an answer: its end is missing, or the engine died."""


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Part(_Reply):
    type: str = "text"
    text: str | None = None


class _Message(_Reply):
    content: str | list[_Part] | None = None

    @property
    def text(self) -> str:
        """The content; of a list of parts, those that are text: others are a model's thoughts."""
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content if part.type in _TEXTS)
        return self.content or ""


_TEXTS = frozenset({"text", "output_text"})


class _Ended(_Reply):
    finish_reason: Annotated[str, Field(max_length=64)] | None = None
    # Read by hand: an object for each token would cost more than all else.
    logprobs: object = None

    @property
    def token_logprobs(self) -> list[tuple[str, float]]:
        """The tokens with their log-probabilities, if all are there in OpenAI's form."""
        if not self.logprobs:
            return []
        try:
            content = self.logprobs["content"]  # type: ignore[index]
            return [(str(one["token"]), float(one["logprob"])) for one in content or ()]
        except (TypeError, ValueError, KeyError, OverflowError):
            return []


class _Choice(_Ended):
    message: _Message


class _Piece(_Ended):
    delta: _Message = Field(default_factory=_Message)


# Text, confidence, whether it is doubtful, and a box.
_Line = tuple[str, FiniteFloat, bool, FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]


class _LayerBeside(_Reply):
    used: bool
    agreement: FiniteFloat | None = None
    mended: int = 0
    added: int = 0


class _Extension(_Reply):
    """What `llm_ocr.inference.engine_extension` reads."""

    model_config = ConfigDict(extra="allow")

    lines: list[_Line]
    confidences: list[FiniteFloat | None]
    turned: int = 0
    text_layer: _LayerBeside | None = None


class _Body(_Reply):
    error: object = None
    # An answer is not lost for a strange account of its tokens, which are then not counted.
    usage: object = None

    def tokens(self, kind: str) -> int | None:
        """How many tokens the server counted: `prompt_tokens` or `completion_tokens`."""
        said = self.usage.get(kind) if isinstance(self.usage, dict) else None
        if not isinstance(said, int | float) or not 0 <= said <= MOST_TOKENS:
            return None
        return int(said)


class Completion(_Body):
    """A chat completion, as far as it is read."""

    choices: list[_Choice] | None = None
    llm_ocr: _Extension | None = None


class Event(_Body):
    """A piece of a streamed chat completion, as far as it is read."""

    choices: list[_Piece] | None = None


AnyBody = TypeVar("AnyBody", bound=_Body)


def body_of(kind: type[AnyBody], raw: bytes) -> AnyBody:
    """The body as `kind`. Raises RetryableError that says what is wrong with it.

    Halves of surrogate pairs and bytes that are no UTF-8 become U+FFFD: no table takes them.
    """
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        first = error
    try:
        # Slower, and takes surrogates as they are; joined, the halves of a pair are its character.
        text = json.dumps(json.loads(raw.decode("utf-8-sig", "replace")), ensure_ascii=False)
        mended = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return kind.model_validate_json(mended)
    except ValidationError as error:
        raise _unreadable(_fault(error)) from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(f"{_fault(first)}; it begins {_shown(raw)!r}") from error


def _unreadable(fault: str) -> RetryableError:
    return RetryableError(ErrorCode.ENGINE_ERROR, f"an answer that can't be read: {fault}")


def _fault(error: ValidationError) -> str:
    """What is wrong first, and where."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(one) for one in first["loc"])
    if first["type"] == "json_invalid":
        return first["msg"]
    given = _printable(repr(first["input"]))[:SHOWN]
    return f"{where or 'the body'}: {first['msg']}; it is {given}"


def refusal(
    status: int, raw: bytes, retry_after: str | None, attempt: int, date: str | None = None
) -> Exception:
    """What a status other than 200 becomes: RetryableError, PageError or WrongServerError.

    `retry_after` and `date` are the headers of those names.
    """
    message = f"the server answered {status}: {_message(raw)}"
    if status in FATAL_STATUS:
        code = ProblemCode.MODEL_NOT_SERVED if status == 404 else None
        return WrongServerError(f"{message}; {FATAL_STATUS[status]}", code)
    if status in RETRYABLE_STATUS:
        wait, is_busy = parse_retry_after(retry_after, date), status in OVERLOAD_STATUS
        return RetryableError(ErrorCode.ENGINE_ERROR, message, wait, is_busy=is_busy)
    return PageError(ErrorCode.REQUEST_REJECTED, message, attempt)


def _message(raw: bytes) -> str:
    """The message in an error body: `{"error": {"message": …}}`, or the body's beginning."""
    try:
        error = json.loads(raw)["error"]
        said = error if isinstance(error, str) else str(error["message"])
        return _printable(said)[:500]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _shown(raw)


def _shown(raw: bytes) -> str:
    return _printable(raw[:SHOWN].decode(errors="replace"))


def _printable(text: str) -> str:
    """A server's words without what a terminal or a table does not take."""
    return "".join(one if one.isprintable() else " " if one.isspace() else "\ufffd" for one in text)


def raise_if_error(body: Completion | Event, raw: bytes, attempt: int) -> None:
    """Raise what an error that came with 200, in the answer's place, becomes."""
    if not body.error or body.choices:
        return
    if status := _status_of(body.error):
        raise refusal(status, raw, None, attempt)
    said = f"the server answered 200 with an error: {_message(raw)}"
    raise RetryableError(ErrorCode.ENGINE_ERROR, said)


def _status_of(error: object) -> int | None:
    """The status that an error names."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code.isdecimal() and len(code) == 3:
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else None


def read_answer(raw: bytes, seconds: float, attempt: int) -> Answer:
    """The answer in a body that came with 200. Raises as `refusal` says where there is none."""
    body = body_of(Completion, raw)
    raise_if_error(body, raw, attempt)
    if not body.choices:
        raise _unreadable(f"it has no choices; it begins {_shown(raw)!r}")
    choice = body.choices[0]
    reason = choice.finish_reason or "stop"
    raise_if_aborted(reason)
    tokens = body.tokens("prompt_tokens") or 0, body.tokens("completion_tokens") or 0
    beside = body.llm_ocr.model_dump() if body.llm_ocr else {}
    likely, text = tuple(choice.token_logprobs), choice.message.text
    if len(text) > LONGEST_TEXT:
        raise too_long(f"{LONGEST_TEXT:,} characters", attempt)
    return Answer(text, reason, *tokens, seconds, attempt, likely, beside)


def too_long(limit: str, attempt: int) -> PageError:
    said = f"the server's answer has more than {limit}, which no page's has; see its log"
    return PageError(ErrorCode.UNREADABLE_ANSWER, said, attempt)


def raise_if_aborted(reason: str) -> None:
    if reason == "abort":
        raise RetryableError(ErrorCode.ENGINE_ERROR, "the server aborted the request")

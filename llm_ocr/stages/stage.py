"""Define what a stage is: for each item, what to ask, how to read the answer, which rows to make.

The loop over items, concurrency, retries and counting are not here: see `pipeline/`.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from llm_ocr.inference.quality import DOUBTS, Flaw, Verdict
from llm_ocr.inference.replies import Answer
from llm_ocr.inference.request import ChatRequest
from llm_ocr.models.profile import ModelProfile, Rung
from llm_ocr.records import PageError, PageStatus, ParsedAnswer
from llm_ocr.stages.engine_extension import EngineMetadata
from llm_ocr.tables.counts import ItemResult, doubt_reason
from llm_ocr.tables.plan import Shard
from llm_ocr.tables.schema import Row

# How a stage reads what earlier stages made: (table, shard, columns or None for all) -> rows;
# none where the earlier stage was not run.
ReadShard = Callable[[str, str, Sequence[str] | None], Iterator[Row]]

FIRST = Rung("first")
BY_FLAW: Mapping[Flaw | None, PageStatus] = {
    None: PageStatus.OK,
    **dict.fromkeys(DOUBTS, PageStatus.OK),
    Flaw.CUT: PageStatus.TRUNCATED,
    Flaw.LOOP: PageStatus.REPETITIVE,
    Flaw.UNREADABLE: PageStatus.FAILED,
    Flaw.NO_TEXT: PageStatus.FAILED,
    Flaw.EMPTY: PageStatus.FAILED,
}


@dataclass(frozen=True)
class ModelRef:
    """The model that answers: its profile, its name on the server, its revision if known."""

    profile: ModelProfile
    model: str
    revision: str | None = None


@dataclass(frozen=True)
class PromptRequest:
    """One request about an item, or about a tile of it.

    Its image is `width` x `height` pixels. One of its pixels is `scale` pixels of the stored page
    image, and its first row is row `top` of that.
    """

    request: ChatRequest
    width: int = 0
    height: int = 0
    top: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True)
class ModelResult:
    """What a model read of an item.

    `strategy` is the rung of the ladder that was used, `answer` the joined answers to all requests
    (None if no model was asked), `verdict` how good it is, and `metadata` what the embedded engine
    reported with it.
    """

    reader: ModelRef | None
    strategy: str
    prompt_hash: str | None
    answer: Answer | None
    parsed: ParsedAnswer
    verdict: Verdict
    is_fallback: bool = False
    metadata: EngineMetadata | None = None

    @property
    def status(self) -> PageStatus:
        return PageStatus.FALLBACK if self.is_fallback else BY_FLAW[self.verdict.flaw]


@dataclass
class Usage:
    """What an item has used so far: requests, tokens, and seconds of waiting for answers."""

    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def add(self, answer: Answer) -> None:
        self.attempts += answer.attempts
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        self.seconds += answer.seconds


class Item(Protocol):
    """One thing that a stage makes rows of: a page, a figure, a document. Ends in one result."""

    @property
    def item_id(self) -> str: ...

    async def result(self, reading: ModelResult | None, usage: Usage) -> ItemResult:
        """The rows that come of what was read (None: nothing was asked). Raises PageError."""
        ...

    def failure(self, error: PageError, usage: Usage) -> ItemResult:
        """The row that says why there is no better one."""
        ...


class ModelItem(Protocol):
    """What a model is asked about: an item, or a chunk of one."""

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        """The rungs of the profile's ladder that suit this item."""
        ...

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        """The requests to send; none if no model is needed. Raises PageError."""
        ...

    def read(
        self, reader: ModelRef, rung: Rung, asked: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        """What the answers say, and how good they are."""
        ...

    def read_without_model(self) -> ModelResult | None:
        """What can be read without any model."""
        ...


class PromptedItem(Item, ModelItem, Protocol):
    """An item that a model is asked about as a whole."""


AnyItem = TypeVar("AnyItem", bound=Item)
Items = TypeVar("Items", bound=Item, covariant=True)


class Stage(Protocol[Items]):
    """A name, the tables it writes, and its items for a shard."""

    @property
    def name(self) -> str: ...

    @property
    def tables(self) -> Sequence[str]: ...

    def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator[Items]:
        """All items of the shard; `done` are the ids of those that earlier attempts staged."""
        ...


def combine_answers(answers: Sequence[Answer]) -> Answer:
    """Join the answers to an item's requests; it ends as badly as the worst of them."""
    if len(answers) == 1:
        return answers[0]
    reasons = {answer.finish_reason for answer in answers}
    worst = [one for one in ("repetition", "length") if one in reasons]
    return Answer(
        text="\n\n".join(answer.text for answer in answers),
        finish_reason=worst[0] if worst else "stop",
        prompt_tokens=sum(answer.prompt_tokens for answer in answers),
        completion_tokens=sum(answer.completion_tokens for answer in answers),
        seconds=max(answer.seconds for answer in answers),
        attempts=sum(answer.attempts for answer in answers),
    )


def outcome_columns(
    status: PageStatus, reading: ModelResult | None, usage: Usage, error: PageError | None = None
) -> dict[str, object]:
    """The columns for status, error, model and usage over all attempts."""
    reader = reading.reader if reading else None
    return {
        "status": status.value,
        "error_code": error.code.value if error else None,
        "error": error.message if error else None,
        "attempts": usage.attempts + (error.attempts if error else 0),
        "strategy": reading.strategy if reading else None,
        "finish_reason": reading.answer.finish_reason if reading and reading.answer else None,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "seconds": usage.seconds,
        "model": reader.model if reader else None,
        "model_revision": reader.revision if reader else None,
        "profile": reader.profile.id if reader else None,
        "prompt_hash": reading.prompt_hash if reading else None,
    }


def item_result(item_id: str, row: Row, rows: dict[str, Sequence[Row]]) -> ItemResult:
    """The result with the status and usage in `row`, the item's own row."""
    return ItemResult(
        item_id=item_id,
        status=row["status"],
        rows=rows,
        prompt_tokens=row.get("prompt_tokens", 0),
        completion_tokens=row.get("completion_tokens", 0),
        attempts=row.get("attempts", 0),
        error_code=row["error_code"],
        task=row.get("task"),
        doubt=doubt_reason(row),
    )

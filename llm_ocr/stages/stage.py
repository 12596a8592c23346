"""What every stage is: for each item, what to ask, how to read the answer, which rows to make.

The loop over items, the window, the retries and the counting are not here: see `pipeline/`.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from llm_ocr.inference.quality import DOUBTS, Flaw, Verdict
from llm_ocr.inference.replies import Answer
from llm_ocr.inference.request import ChatRequest
from llm_ocr.models.profile import ModelProfile, Rung
from llm_ocr.records import PageError, PageStatus, ParsedAnswer
from llm_ocr.stages.layer import Told
from llm_ocr.tables.counts import ItemResult, doubt_of
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
class Reader:
    """Who answers: a profile, the name its server knows it by, the weights' revision if known."""

    profile: ModelProfile
    model: str
    revision: str | None = None


@dataclass(frozen=True)
class Question:
    """One request about an item, or about a strip of it.

    The image in it is `width` x `height` pixels; a pixel of it is `scale` pixels of the stored
    image, whose first row in it is `top`.
    """

    request: ChatRequest
    width: int = 0
    height: int = 0
    top: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True)
class Reading:
    """What was read of an item, by whom, in which way (a rung's name), and what is to be held of
    it. `answer` joins the answers to all its questions; None if no model was asked. `told` is what
    the engine said beside it."""

    reader: Reader | None
    strategy: str
    prompt_hash: str | None
    answer: Answer | None
    parsed: ParsedAnswer
    verdict: Verdict
    is_fallback: bool = False
    told: Told | None = None

    @property
    def status(self) -> PageStatus:
        return PageStatus.FALLBACK if self.is_fallback else BY_FLAW[self.verdict.flaw]


@dataclass
class Spent:
    """What an item has cost so far: requests, tokens, and seconds of waiting for answers."""

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

    async def result(self, reading: Reading | None, spent: Spent) -> ItemResult:
        """The rows that come of what was read (None: nothing was asked). Raises PageError."""
        ...

    def failure(self, error: PageError, spent: Spent) -> ItemResult:
        """The row that says why there is no better one."""
        ...


class Asked(Protocol):
    """What a model is asked about: an item, or a part of one."""

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        """The ways of the profile's ladder that suit this item."""
        ...

    async def questions(self, profile: ModelProfile, rung: Rung) -> Sequence[Question]:
        """What to ask; nothing if no question is needed. Raises PageError."""
        ...

    def read(self, reader: Reader, rung: Rung, asked: Sequence[tuple[Question, Answer]]) -> Reading:
        """What the answers say, and how good they are."""
        ...

    def read_without_model(self) -> Reading | None:
        """What can be read without any model."""
        ...


class AskedItem(Item, Asked, Protocol):
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


def joined(answers: Sequence[Answer]) -> Answer:
    """The answers to an item's questions as one; it ended as badly as the worst of them."""
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


def outcome(
    status: PageStatus, reading: Reading | None, spent: Spent, error: PageError | None = None
) -> dict[str, object]:
    """The columns that say what became of an item, who read it, and what all attempts cost."""
    reader = reading.reader if reading else None
    return {
        "status": status.value,
        "error_code": error.code.value if error else None,
        "error": error.message if error else None,
        "attempts": spent.attempts + (error.attempts if error else 0),
        "strategy": reading.strategy if reading else None,
        "finish_reason": reading.answer.finish_reason if reading and reading.answer else None,
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "seconds": spent.seconds,
        "model": reader.model if reader else None,
        "model_revision": reader.revision if reader else None,
        "profile": reader.profile.id if reader else None,
        "prompt_hash": reading.prompt_hash if reading else None,
    }


def item_result(item_id: str, row: Row, rows: dict[str, Sequence[Row]]) -> ItemResult:
    """The result whose status and costs stand in `row`, the item's own row."""
    return ItemResult(
        item_id=item_id,
        status=row["status"],
        rows=rows,
        prompt_tokens=row.get("prompt_tokens", 0),
        completion_tokens=row.get("completion_tokens", 0),
        attempts=row.get("attempts", 0),
        error_code=row["error_code"],
        task=row.get("task"),
        doubt=doubt_of(row),
    )

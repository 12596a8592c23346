"""Define an item that a model is asked about, its requests, its result and its usage."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from llm_ocr.inference.engine_extension import EngineMetadata
from llm_ocr.inference.quality import UNCERTAIN_ISSUES, QualityAssessment, QualityIssue
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer
from llm_ocr.models.profile import ModelProfile, Rung
from llm_ocr.records import ROUTED, PageStatus, ParsedAnswer

FIRST_RUNG = Rung("first")
# The engine of a route, which reads simple pages.
ROUTED_RUNG = Rung(ROUTED)
STATUS_BY_ISSUE: Mapping[QualityIssue | None, PageStatus] = {
    None: PageStatus.OK,
    **dict.fromkeys(UNCERTAIN_ISSUES, PageStatus.OK),
    QualityIssue.CUT: PageStatus.TRUNCATED,
    QualityIssue.LOOP: PageStatus.REPETITIVE,
    QualityIssue.UNREADABLE: PageStatus.FAILED,
    QualityIssue.NO_TEXT: PageStatus.FAILED,
    QualityIssue.EMPTY: PageStatus.FAILED,
}


@dataclass(frozen=True)
class ModelRef:
    """A served model: its profile, its name on the server, its revision if known."""

    profile: ModelProfile
    name: str
    revision: str | None = None


@dataclass(frozen=True)
class PromptRequest:
    """One request about an item, or about a tile of it.

    Its image is `width` x `height` pixels. One of its pixels is `scale` pixels of the stored page
    image, and its first row is row `top` of that. `element` is the place of the page's element that
    it is about: its failure leaves the others. `then` makes the requests that follow from its
    answer.
    """

    request: ChatRequest
    width: int = 0
    height: int = 0
    top: float = 0.0
    scale: float = 1.0
    element: int | None = None
    then: "Callable[[Answer], Awaitable[Sequence[PromptRequest]]] | None" = None


@dataclass(frozen=True)
class ModelResult:
    """What a model answered about an item, parsed and assessed.

    `strategy` is the rung of the ladder that was used, `answer` the combined answer to all requests
    (None if no model was asked), `assessment` its quality, and `metadata` what the embedded engine
    reported with it.
    """

    model: ModelRef | None
    strategy: str
    prompt_hash: str | None
    answer: Answer | None
    parsed: ParsedAnswer
    assessment: QualityAssessment
    is_fallback: bool = False
    metadata: EngineMetadata | None = None

    @property
    def status(self) -> PageStatus:
        return PageStatus.FALLBACK if self.is_fallback else STATUS_BY_ISSUE[self.assessment.issue]


@dataclass
class Usage:
    """What an item has used so far: attempts, tokens, and seconds of waiting for answers."""

    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def add(self, answer: Answer) -> None:
        self.attempts += answer.attempts
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        self.seconds += answer.seconds

    def include(self, other: "Usage") -> None:
        self.attempts += other.attempts
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.seconds += other.seconds


class ModelItem(Protocol):
    """An item that a model is asked about, or a chunk of one."""

    def ladder(self, profile: ModelProfile) -> Sequence[Rung]:
        """The rungs of the profile's ladder that suit this item."""
        ...

    async def prompt_requests(self, profile: ModelProfile, rung: Rung) -> Sequence[PromptRequest]:
        """The requests to send; none if no model is needed. Raises PageError."""
        ...

    def read(
        self, model: ModelRef, rung: Rung, exchanges: Sequence[tuple[PromptRequest, Answer]]
    ) -> ModelResult:
        """Parse and assess the answers."""
        ...

    def read_without_model(self) -> ModelResult | None:
        """The result that needs no model; None if there is none."""
        ...


def combine_answers(answers: Sequence[Answer]) -> Answer:
    """Combine the answers to an item's requests, with the worst of their finish reasons."""
    if len(answers) == 1:
        return answers[0]
    reasons = {answer.finish_reason for answer in answers}
    worst = [reason for reason in ("repetition", "length") if reason in reasons]
    return Answer(
        text="\n\n".join(answer.text for answer in answers),
        finish_reason=worst[0] if worst else "stop",
        prompt_tokens=sum(answer.prompt_tokens for answer in answers),
        completion_tokens=sum(answer.completion_tokens for answer in answers),
        seconds=max(answer.seconds for answer in answers),
        attempts=sum(answer.attempts for answer in answers),
    )

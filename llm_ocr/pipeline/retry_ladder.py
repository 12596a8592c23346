"""Ask about one item until the answer is good: the profile's ladder first, then fallbacks."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from llm_ocr.inference.agreement import agreement
from llm_ocr.inference.quality import DOUBTS, Flaw
from llm_ocr.inference.replies import Answer, EngineFailedError
from llm_ocr.inference.request import ChatRequest
from llm_ocr.models.profile import Rung
from llm_ocr.records import ErrorCode, PageError, ParsedAnswer
from llm_ocr.stages.engine_extension import LAYER_IS_WRONG
from llm_ocr.stages.stage import FIRST, ModelItem, ModelRef, ModelResult, PromptRequest, Usage

log = logging.getLogger(__name__)

# What a page is refused or failed with that another reader may do better.
RECOVERABLE_CODES = frozenset(
    {
        ErrorCode.REQUEST_REJECTED,
        ErrorCode.ENGINE_ERROR,
        ErrorCode.ENGINE_TIMEOUT,
        ErrorCode.UNREADABLE_ANSWER,
    }
)
# A cut answer that agrees this much with the text layer is kept: it has nearly all, with layout.
ACCEPTABLE_AGREEMENT = 0.85
# Rungs tried because of a doubt alone: what is doubted may be right.
MAX_DISAGREEMENT_RETRIES = 1
# Two readers that agree this much are both right, whatever the page's text layer says. Two readings
# of a page agree 0.9 and more, those of two pages less than 0.4.
SAME_PAGE = 0.6


class Ask(Protocol):
    """Puts a request to a server."""

    def __call__(self, request: ChatRequest, *, priority: int = 0) -> Awaitable[Answer]: ...


@dataclass(frozen=True)
class Endpoint:
    """A model, and what sends requests to its server."""

    reader: ModelRef
    ask: Ask


# The fallbacks of a stage, each started when it is first needed. None: the item's own
# `read_without_model` at this place.
FallbackEndpoint = Callable[[], Awaitable[Endpoint]] | None


class RetryLadder:
    """Finds the best result for an item: first from `main`, then from fallbacks, in order."""

    def __init__(self, main: Endpoint, fallback_endpoints: Sequence[FallbackEndpoint]) -> None:
        self._main, self._stand_ins = main, fallback_endpoints

    async def run(self, item: ModelItem, usage: Usage) -> ModelResult | None:
        """The best reading; None if there was nothing to ask. Raises PageError.

        `usage` counts what it took, also where this raises.
        """
        run: ModelResult | None = None
        refused: PageError | None = None
        try:
            run = await self._climb(item, usage)
            if run is None or self._is_acceptable(run):
                return run
        except PageError as error:
            if error.code not in RECOVERABLE_CODES:
                raise
            refused = error
            usage.attempts += error.attempts
        fallback = await self._stand_in(item, usage, run)
        if fallback is not None and not fallback.is_fallback:
            return fallback
        if fallback is not None:
            return replace(fallback, parsed=_told(fallback, run, refused))
        if refused is not None:
            raise PageError(refused.code, refused.message)
        return run

    async def _climb(self, item: ModelItem, usage: Usage) -> ModelResult | None:
        """Up the ladder until an answer is good; the best of those that came."""
        best = await _ask(item, self._main, FIRST, usage, priority=0)
        doubts = 0
        if best is None:
            return None
        for rung in item.ladder(self._main.reader.profile):
            flaw = best.verdict.flaw
            if flaw is None or (flaw in DOUBTS and doubts == MAX_DISAGREEMENT_RETRIES):
                break
            if _is_full(best) and rung.bands == 1 and not rung.longer:
                continue  # the same page in the same space would be cut again
            doubts += flaw in DOUBTS
            try:
                again = await _ask(item, self._main, rung, usage, priority=1)
            except PageError as error:
                usage.attempts += error.attempts
                if error.code not in RECOVERABLE_CODES:
                    break
                continue
            if again is not None and again.verdict.worth > best.verdict.worth:
                best = again
        return best

    def _is_acceptable(self, best: ModelResult) -> bool:
        """Whether no fallback could do better.

        Without boxes an answer's text may be all there. An engine that generates nothing has held
        the page's own text against the page itself.
        """
        verdict = best.verdict
        if verdict.flaw in (None, Flaw.NO_BOXES):
            return True
        if verdict.flaw in DOUBTS and not self._main.reader.profile.may_loop:
            return True
        return verdict.flaw is Flaw.CUT and (verdict.agreement or 0.0) >= ACCEPTABLE_AGREEMENT

    async def _stand_in(
        self, item: ModelItem, usage: Usage, best: ModelResult | None
    ) -> ModelResult | None:
        """The first reading of another that is better than `best`, or `best` without its doubt."""
        is_doubted = best is not None and best.verdict.flaw in DOUBTS
        # Where an answer and the page's own text say different things, who looks at the page comes
        # before that text, and may find that the text is what is wrong.
        for stand_in in (
            sorted(self._stand_ins, key=_is_text_layer) if is_doubted else self._stand_ins
        ):
            if stand_in is None:
                reading = item.read_without_model()
            else:
                try:
                    reading = await _ask(item, await stand_in(), FIRST, usage, priority=1)
                except PageError as error:
                    usage.attempts += error.attempts
                    continue
                except EngineFailedError as error:
                    log.warning("a fallback is not available: %s", error)
                    continue
            if reading is None:
                continue
            if best is not None and _bears_out(reading, best):
                return _borne_out(best)
            flaws = (None, Flaw.NO_BOXES) if is_doubted else (None, *DOUBTS)
            if reading.verdict.flaw in flaws:
                return replace(reading, is_fallback=True)
        return None


def _is_text_layer(stand_in: FallbackEndpoint) -> bool:
    return stand_in is None


def _bears_out(other: ModelResult, best: ModelResult) -> bool:
    """Whether another reader read the same page as `best`, which the text layer contradicts."""
    if other.reader is None or best.verdict.flaw is not Flaw.DISAGREES:
        return False
    texts = ["\n\n".join(block.text for block in one.parsed.blocks) for one in (other, best)]
    return agreement(*texts) >= SAME_PAGE


def _borne_out(best: ModelResult) -> ModelResult:
    parsed = best.parsed
    return replace(
        best,
        parsed=ParsedAnswer(parsed.blocks, (*parsed.notes, LAYER_IS_WRONG)),
        verdict=replace(best.verdict, flaw=None),
    )


async def _ask(
    item: ModelItem, endpoint: Endpoint, rung: Rung, usage: Usage, *, priority: int
) -> ModelResult | None:
    prompt_requests = await item.prompt_requests(endpoint.reader.profile, rung)
    if not prompt_requests:
        return None
    asking = [_answer(one, endpoint, usage, priority) for one in prompt_requests]
    # All of them end before the first failure is raised, so that all are counted.
    ended = await asyncio.gather(*asking, return_exceptions=True)
    failures = [one for one in ended if isinstance(one, BaseException)]
    if failures:
        usage.attempts += sum(one.attempts for one in failures[1:] if isinstance(one, PageError))
        raise failures[0]
    answers = [one for one in ended if isinstance(one, Answer)]
    pairs = list(zip(prompt_requests, answers, strict=True))
    reading = asyncio.ensure_future(asyncio.to_thread(item.read, endpoint.reader, rung, pairs))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        # What was answered is paid for: a stop keeps it, unless more would have to be asked.
        best = await reading
        if best.verdict.flaw is None:
            return best
        raise


async def _answer(
    question: PromptRequest, endpoint: Endpoint, usage: Usage, priority: int
) -> Answer:
    answer = await endpoint.ask(question.request, priority=priority)
    usage.add(answer)
    return answer


def _is_full(best: ModelResult) -> bool:
    """Whether the answer was cut because there was no more space for it."""
    full = best.answer is not None and best.answer.finish_reason == "length"
    return best.verdict.flaw is Flaw.CUT and full


def _told(
    fallback: ModelResult, best: ModelResult | None, refused: PageError | None
) -> ParsedAnswer:
    """The fallback's result, with a note on why it was needed."""
    why = refused.message if refused else best.verdict.why if best else ""
    parsed = fallback.parsed
    return ParsedAnswer(parsed.blocks, (f"the model's own answer: {why}", *parsed.notes))

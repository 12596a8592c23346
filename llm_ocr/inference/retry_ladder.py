"""Ask a model about one item until the answer is good: the profile's retries, then fallbacks.

With a route, simple pages are read by another engine, and never reach the model.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from llm_ocr.inference.agreement import agreement
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.engine_extension import WRONG_TEXT_LAYER_NOTE
from llm_ocr.inference.model_item import (
    FIRST_RUNG,
    ROUTED_RUNG,
    ModelItem,
    ModelRef,
    ModelResult,
    PromptRequest,
    Usage,
)
from llm_ocr.inference.quality import UNCERTAIN_ISSUES, QualityIssue
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import Answer, EngineFailedError
from llm_ocr.models.profile import Rung
from llm_ocr.records import ErrorCode, PageError, ParsedAnswer

log = logging.getLogger(__name__)

# Errors of one model that a retry with other settings, or another model, may not have.
RECOVERABLE_CODES = frozenset(
    {
        ErrorCode.REQUEST_REJECTED,
        ErrorCode.ENGINE_ERROR,
        ErrorCode.ENGINE_TIMEOUT,
        ErrorCode.UNREADABLE_ANSWER,
    }
)
# A cut answer that agrees this much with the text layer is kept: it has nearly all of the text, and
# the layout.
ACCEPTABLE_AGREEMENT = 0.85
# Retries because of an uncertain issue alone: the answer may be right.
MAX_UNCERTAIN_RETRIES = 1
# Two models whose answers agree this much are both right, whatever the page's text layer says. Two
# answers about one page agree 0.9 and more, those about two pages less than 0.4.
SAME_PAGE_AGREEMENT = 0.6


class Ask(Protocol):
    """Sends a request to a server and returns its answer."""

    def __call__(self, request: ChatRequest, *, priority: int = 0) -> Awaitable[Answer]: ...


@dataclass(frozen=True)
class Endpoint:
    """A model, and the function that sends requests to its server."""

    model: ModelRef
    ask: Ask


@runtime_checkable
class RoutableItem(Protocol):
    """An item that the engine of a route may read instead of the model."""

    async def may_be_simple(self) -> bool:
        """Whether it is worth to ask that engine. Raises PageError."""
        ...

    def is_simple(self, result: ModelResult) -> bool:
        """Whether what that engine read can be kept."""
        ...


@runtime_checkable
class CheckItem(Protocol):
    """An item of which a second model may be asked, to check what the first one answered."""

    @property
    def is_check(self) -> bool:
        """Whether the second model is the one to ask."""
        ...


@dataclass(frozen=True)
class Route:
    """The engine that reads simple items. Those that find no free slot are left to the model."""

    start: Callable[[], Awaitable[Endpoint]]
    slots: ConcurrencyLimiter


# Starts a stage's fallback when it is first needed. None in its place: the item's own
# `read_without_model`.
FallbackEndpoint = Callable[[], Awaitable[Endpoint]] | None


class RetryLadder:
    """Finds the best result for an item: from the engine of the `route` if that is simple, else
    from the `main` endpoint, then from fallbacks in order. What checks another result is asked of
    `check` alone."""

    def __init__(
        self,
        main: Endpoint,
        fallbacks: Sequence[FallbackEndpoint],
        route: Route | None = None,
        check: Callable[[], Awaitable[Endpoint]] | None = None,
    ) -> None:
        self._main, self._fallbacks, self._route, self._check = main, fallbacks, route, check

    async def run(self, item: ModelItem, usage: Usage) -> ModelResult | None:
        """The best result; None if there was nothing to ask. Raises PageError.

        `usage` counts what it cost, also where this raises.
        """
        if isinstance(item, CheckItem) and item.is_check:
            assert self._check is not None, "a check has an endpoint"
            return await _climb_ladder(item, await self._check(), usage)
        if (routed := await self._run_route(item, usage)) is not None:
            return routed
        best: ModelResult | None = None
        rejection: PageError | None = None
        try:
            best = await _climb_ladder(item, self._main, usage)
            if best is None or self._is_acceptable(best):
                return best
        except PageError as error:
            if error.code not in RECOVERABLE_CODES:
                raise
            rejection = error
            usage.attempts += error.attempts
        fallback = await self._run_fallbacks(item, usage, best)
        if fallback is not None and not fallback.is_fallback:
            return fallback
        if fallback is not None:
            reason = rejection.message if rejection else best.assessment.reason if best else ""
            note = f"the model's own answer: {reason}"
            parsed = fallback.parsed
            return replace(fallback, parsed=ParsedAnswer(parsed.blocks, (note, *parsed.notes)))
        if rejection is not None:
            raise PageError(rejection.code, rejection.message)
        return best

    async def _run_route(self, item: ModelItem, usage: Usage) -> ModelResult | None:
        """What the engine of the route reads of a simple item; None for all others.

        What it costs to find out that an item isn't simple counts as no attempt of the model.
        """
        route = self._route
        if route is None or not isinstance(item, RoutableItem) or not await item.may_be_simple():
            return None
        if route.slots.is_full:
            return None
        spent = Usage()
        try:
            async with route.slots.slot():
                result = await _ask(item, await route.start(), ROUTED_RUNG, spent, priority=0)
        except (PageError, EngineFailedError) as error:
            log.info("a page is left to the model: %s", error)
            return None
        if result is None or not item.is_simple(result):
            return None
        usage.include(spent)
        return result

    def _is_acceptable(self, best: ModelResult) -> bool:
        """Whether no fallback could do better.

        An answer without boxes may still have all of the text. An engine that generates nothing
        has already compared the page's text layer with its image.
        """
        assessment = best.assessment
        if assessment.issue in (None, QualityIssue.NO_BOXES):
            return True
        if assessment.issue in UNCERTAIN_ISSUES and not self._main.model.profile.may_loop:
            return True
        agrees = (assessment.agreement or 0.0) >= ACCEPTABLE_AGREEMENT
        return assessment.issue is QualityIssue.CUT and agrees

    async def _run_fallbacks(
        self, item: ModelItem, usage: Usage, best: ModelResult | None
    ) -> ModelResult | None:
        """The first fallback's result that is better than `best`, or `best` if one confirms it."""
        is_uncertain = best is not None and best.assessment.issue in UNCERTAIN_ISSUES
        # Where the answer and the text layer differ, a model that looks at the page goes before the
        # text layer, and may find that the text layer is what is wrong.
        fallbacks = sorted(self._fallbacks, key=_is_text_layer) if is_uncertain else self._fallbacks
        for fallback in fallbacks:
            if fallback is None:
                result = item.read_without_model()
            else:
                try:
                    result = await _ask(item, await fallback(), FIRST_RUNG, usage, priority=1)
                except PageError as error:
                    usage.attempts += error.attempts
                    continue
                except EngineFailedError as error:
                    log.warning("a fallback is not available: %s", error)
                    continue
            if result is None:
                continue
            if best is not None and _confirms(result, best):
                return _as_confirmed(best)
            allowed = (None, QualityIssue.NO_BOXES) if is_uncertain else (None, *UNCERTAIN_ISSUES)
            if result.assessment.issue in allowed:
                return replace(result, is_fallback=True)
        return None


async def _climb_ladder(item: ModelItem, endpoint: Endpoint, usage: Usage) -> ModelResult | None:
    """The best answer of one model, which climbs the item's ladder until one is good."""
    best = await _ask(item, endpoint, FIRST_RUNG, usage, priority=0)
    uncertain_retries = 0
    if best is None:
        return None
    for rung in item.ladder(endpoint.model.profile):
        issue = best.assessment.issue
        is_uncertain = issue in UNCERTAIN_ISSUES
        if issue is None or (is_uncertain and uncertain_retries == MAX_UNCERTAIN_RETRIES):
            break
        if _is_out_of_tokens(best) and rung.bands == 1 and not rung.longer:
            continue  # the same page with the same limit would be cut again
        uncertain_retries += is_uncertain
        try:
            result = await _ask(item, endpoint, rung, usage, priority=1)
        except PageError as error:
            usage.attempts += error.attempts
            if error.code not in RECOVERABLE_CODES:
                break
            continue
        if result is not None and result.assessment.sort_key > best.assessment.sort_key:
            best = result
    return best


def _is_text_layer(fallback: FallbackEndpoint) -> bool:
    return fallback is None


def _confirms(other: ModelResult, best: ModelResult) -> bool:
    """Whether another model read the same text as `best`, which the text layer contradicts."""
    if other.model is None or best.assessment.issue is not QualityIssue.DISAGREES:
        return False
    texts = ["\n\n".join(block.text for block in result.parsed.blocks) for result in (other, best)]
    return agreement(*texts) >= SAME_PAGE_AGREEMENT


def _as_confirmed(best: ModelResult) -> ModelResult:
    """`best` as a good result, with a note that the text layer is wrong."""
    parsed = best.parsed
    return replace(
        best,
        parsed=ParsedAnswer(parsed.blocks, (*parsed.notes, WRONG_TEXT_LAYER_NOTE)),
        assessment=replace(best.assessment, issue=None),
    )


async def _ask(
    item: ModelItem, endpoint: Endpoint, rung: Rung, usage: Usage, *, priority: int
) -> ModelResult | None:
    prompt_requests = await item.prompt_requests(endpoint.model.profile, rung)
    if not prompt_requests:
        return None
    pairs = await _exchange(prompt_requests, endpoint, usage, priority)
    for request, answer in list(pairs):
        if request.then is not None and (following := await request.then(answer)):
            # Before other pages begin: so few pages are open at once.
            pairs += await _exchange(following, endpoint, usage, priority=1)
    # A router chooses the same model for all requests about a document.
    served = pairs[0][1].served_model
    model = endpoint.model if served is None else replace(endpoint.model, name=served)
    reading = asyncio.ensure_future(asyncio.to_thread(item.read, model, rung, pairs))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        # The answers are paid for: a cancelled run keeps a good result, and drops one that needs
        # more requests.
        result = await reading
        if result.assessment.issue is None:
            return result
        raise


async def _exchange(
    requests: Sequence[PromptRequest], endpoint: Endpoint, usage: Usage, priority: int
) -> list[tuple[PromptRequest, Answer]]:
    """The requests with their answers. Of elements of a page, one that fails has an answer that
    says why, unless all fail."""
    # All requests end before the first failure is raised, so that all are counted.
    outcomes = await asyncio.gather(
        *(_answer(request, endpoint, usage, priority) for request in requests),
        return_exceptions=True,
    )
    pairs: list[tuple[PromptRequest, Answer]] = []
    failures: list[BaseException] = []
    grave: list[BaseException] = []
    for request, outcome in zip(requests, outcomes, strict=True):
        if isinstance(outcome, Answer):
            pairs.append((request, outcome))
            continue
        failures.append(outcome)
        if request.element is not None and isinstance(outcome, PageError):
            failed = Answer("", "stop", 0, 0, 0.0, outcome.attempts, failure=outcome.message)
            pairs.append((request, failed))
        else:
            grave.append(outcome)
    raised = grave[0] if grave else failures[0] if len(failures) == len(requests) else None
    usage.attempts += sum(
        error.attempts for error in failures if isinstance(error, PageError) and error is not raised
    )
    if raised is not None:
        raise raised
    return pairs


async def _answer(
    prompt_request: PromptRequest, endpoint: Endpoint, usage: Usage, priority: int
) -> Answer:
    answer = await endpoint.ask(prompt_request.request, priority=priority)
    usage.add(answer)
    return answer


def _is_out_of_tokens(best: ModelResult) -> bool:
    """Whether the answer was cut at its token limit."""
    is_full = best.answer is not None and best.answer.finish_reason == "length"
    return best.assessment.issue is QualityIssue.CUT and is_full

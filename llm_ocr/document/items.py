"""Process one item: ask a model, judge the answer, make a result; any fault becomes its status."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.model_item import ModelItem, ModelResult, Usage
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.records import ErrorCode, Outcome, PageError, PageStatus
from llm_ocr.storage.store import StorageError

log = logging.getLogger(__name__)

Result = TypeVar("Result")
ResultOf = TypeVar("ResultOf", covariant=True)
# Gets the best answer about (a part of) an item, as `RetryLadder.run` does.
AskModel = Callable[[ModelItem, Usage], Awaitable[ModelResult | None]]


class Item(Protocol[ResultOf]):
    """One thing that a step makes a result of: a page, a figure, a document."""

    @property
    def item_id(self) -> str: ...

    async def ask(self, ask_model: AskModel, usage: Usage) -> ModelResult | None:
        """The best answer about it; None if there is nothing to ask. Raises PageError."""
        ...

    async def result(self, answer: ModelResult | None, usage: Usage) -> ResultOf:
        """What the answer makes of it. Raises PageError."""
        ...

    def failure(self, error: PageError, usage: Usage) -> ResultOf:
        """The result that says why there is no better one."""
        ...


def ask_in_slots(limiter: ConcurrencyLimiter, ask_model: AskModel) -> AskModel:
    """Asks about each part of an item in a slot of its own: those of long documents are many."""

    async def ask(item: ModelItem, usage: Usage) -> ModelResult | None:
        async with limiter.slot():
            return await ask_model(item, usage)

    return ask


async def ask_nothing(item: ModelItem, usage: Usage) -> ModelResult | None:
    """For steps that ask no model."""
    return None


async def process_item(item: Item[Result], ask_model: AskModel, usage: Usage) -> Result:
    """The item's result. Raises EngineFailedError or StorageError, never for the item's sake."""
    return await finish_item(item, await ask_about(item, ask_model, usage), usage)


async def ask_about(
    item: Item[Result], ask_model: AskModel, usage: Usage
) -> ModelResult | PageError | None:
    """The first half of `process_item`: the best answer, or why there is none.

    `usage` counts what it took, also where it fails.
    """
    return await _settle(item, item.ask(ask_model, usage))


async def finish_item(
    item: Item[Result], answer: ModelResult | PageError | None, usage: Usage
) -> Result:
    """The second half of `process_item`: the result that the answer makes."""
    if not isinstance(answer, PageError):
        result = await _settle(item, item.result(answer, usage))
        if not isinstance(result, PageError):
            return result
        answer = result
    return item.failure(answer, usage)


T = TypeVar("T")


async def _settle(item: Item[object], work: Awaitable[T]) -> T | PageError:
    """What the work gives. The one place where any fault turns into an item's status."""
    try:
        return await work
    except PageError as error:
        return error
    except (EngineFailedError, StorageError):
        raise
    except Exception as error:
        log.exception("%s: unexpected error", item.item_id)
        message = f"unexpected {type(error).__name__}: {error}; please report this"
        return PageError(ErrorCode.INTERNAL_ERROR, message)


def outcome(
    status: PageStatus, answer: ModelResult | None, usage: Usage, error: PageError | None = None
) -> Outcome:
    """How an item ended: its status, its model and its usage over all attempts."""
    model = answer.model if answer else None
    return Outcome(
        status=status,
        error_code=error.code if error else None,
        error=error.message if error else None,
        attempts=usage.attempts + (error.attempts if error else 0),
        strategy=answer.strategy if answer else None,
        finish_reason=answer.answer.finish_reason if answer and answer.answer else None,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        seconds=usage.seconds,
        model=model.name if model else None,
        model_revision=model.revision if model else None,
        profile=model.profile.id if model else None,
        prompt_hash=answer.prompt_hash if answer else None,
    )

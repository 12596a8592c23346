"""Binding answers to a form, on servers that can and on those that refuse.

A guide is what goes into a request's body for it: vLLM's `structured_outputs`, or OpenAI's
`response_format`.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from llm_ocr.inference.replies import Answer
from llm_ocr.records import ErrorCode, PageError

log = logging.getLogger(__name__)


Ask = Callable[[], Awaitable[Answer]]


class Guides:
    """Remembers which guides one server refused, so that each is refused once."""

    def __init__(self) -> None:
        # As JSON; only where the same was then answered without: else the image was to blame.
        self._refused: set[str] = set()

    async def ask(self, guide: Mapping[str, object], ask: Ask, without: Ask) -> Answer:
        """What `ask` gives, or `without` where the server refuses the guide. Raises as these."""
        if not guide:
            return await ask()
        name = json.dumps(guide, sort_keys=True)
        if name in self._refused:
            return await without()
        try:
            return await ask()
        except PageError as error:
            if error.code is not ErrorCode.REQUEST_REJECTED:
                raise
            refused = error
        try:
            answer = await without()
        except PageError as error:
            raise PageError(error.code, error.message, error.attempts + refused.attempts) from error
        if name not in self._refused:
            log.warning("the server guides no such answers (%s): the prompt does", refused.message)
        self._refused.add(name)
        return replace(answer, attempts=answer.attempts + refused.attempts)

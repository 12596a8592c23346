"""Define a chat request, and send it with or without structured output as the server allows."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from llm_ocr.inference.responses import Answer
from llm_ocr.records import ErrorCode, PageError

log = logging.getLogger(__name__)

# The field of a request with the arguments of the model's chat template.
TEMPLATE_ARGUMENTS = "chat_template_kwargs"
# Called when the turn of a request has come and it is sent, also again: for a clock that must not
# run while requests wait for their turn.
on_send: ContextVar[Callable[[], None]] = ContextVar("on_send", default=lambda: None)
# The header by which a router sends all requests about a document to the same model, the header in
# which it names the model that it chose, and the key of the document that is being processed.
ROUTING_KEY_HEADER, SERVED_MODEL_HEADER = "X-Routing-Key", "X-Served-Model"
routing_key: ContextVar[str | None] = ContextVar("routing_key", default=None)


@dataclass(frozen=True)
class EarlierTurn:
    """An exchange that a request shows as if it had taken place before: a prompt, with an image
    (JPEG bytes) or none, and the answer."""

    prompt: str
    jpeg: bytes | None
    answer: str


@dataclass(frozen=True)
class ChatRequest:
    """One image (JPEG bytes, or none) and one prompt; `sampling` goes into the request's body.

    A streamed answer longer than `loop_check_after` characters is stopped when it runs into a
    loop; None: never. `structured_output` goes into the body too: vLLM's `structured_outputs` or
    OpenAI's `response_format`. `prompt_without_schema` is the prompt for a server that rejects it
    (400). `chat_template_kwargs` are arguments of the model's chat template, in addition to those
    in `sampling`. `extension` is for the embedded engine only. `earlier` precede the prompt.
    """

    prompt: str
    jpeg: bytes | None
    max_tokens: int
    sampling: Mapping[str, object] = field(default_factory=dict)
    loop_check_after: int | None = None
    structured_output: Mapping[str, object] = field(default_factory=dict)
    prompt_without_schema: str = ""
    extension: Mapping[str, object] = field(default_factory=dict)
    chat_template_kwargs: Mapping[str, object] = field(default_factory=dict)
    earlier: tuple[EarlierTurn, ...] = ()

    @property
    def body_fields(self) -> Mapping[str, object]:
        """`sampling` and `structured_output` without what conflicts.

        A model's own logits processor (DeepSeek-OCR's ban of repeated n-grams) knows no schema:
        where it bans the only token that the schema allows, vLLM 0.32 ends the request with an
        error. And values may legitimately repeat in structured data.
        """
        excluded = ("vllm_xargs",) if self.structured_output else ()
        sampling = {key: value for key, value in self.sampling.items() if key not in excluded}
        if self.chat_template_kwargs:
            usual = sampling.get(TEMPLATE_ARGUMENTS)
            own = usual if isinstance(usual, Mapping) else {}
            sampling[TEMPLATE_ARGUMENTS] = {**own, **self.chat_template_kwargs}
        return {**sampling, **self.structured_output}

    @property
    def without_structured_output(self) -> "ChatRequest":
        return replace(
            self, prompt=self.prompt_without_schema, structured_output={}, prompt_without_schema=""
        )


Send = Callable[[], Awaitable[Answer]]


class StructuredOutputs:
    """Remembers which structured outputs a server rejects, so that each is rejected only once."""

    def __init__(self) -> None:
        # As JSON. Only those whose request then succeeded without: otherwise the image, not the
        # structured output, was the reason.
        self._rejected: set[str] = set()

    async def ask(
        self, structured_output: Mapping[str, object], send: Send, send_without: Send
    ) -> Answer:
        """The answer to `send`, or to `send_without` where the server rejects the former.

        Raises what these raise.
        """
        if not structured_output:
            return await send()
        key = json.dumps(structured_output, sort_keys=True)
        if key in self._rejected:
            return await send_without()
        try:
            return await send()
        except PageError as error:
            if error.code is not ErrorCode.REQUEST_REJECTED:
                raise
            rejection = error
        try:
            answer = await send_without()
        except PageError as error:
            attempts = error.attempts + rejection.attempts
            raise PageError(error.code, error.message, attempts) from error
        if key not in self._rejected:
            log.warning(
                "the server rejects this structured output (%s): the prompt describes the format "
                "instead",
                rejection.message,
            )
        self._rejected.add(key)
        return replace(answer, attempts=answer.attempts + rejection.attempts)

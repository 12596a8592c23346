"""The OpenAI chat API over HTTP, as much of it as a page needs, in vLLM's words."""

import logging
import math
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web

from llm_ocr.engines.embedded.models import BACKEND
from llm_ocr.engines.embedded.serving.reader_pool import (
    BadImageError,
    EngineRequest,
    EngineResponse,
    ReaderPool,
)
from llm_ocr.engines.embedded.serving.requests import (
    RefusedError,
    parse_body,
    parse_request,
    token_limit,
)
from llm_ocr.inference.responses import EXTENSION

log = logging.getLogger(__name__)

MAX_BODY = 256 << 20
CHARACTERS_PER_TOKEN = 4
# One image token stands for a square of about this many pixels a side.
PIXELS_PER_TOKEN = 64


@dataclass
class Counters:
    """What `/metrics` counts since the start."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("stop", "length", "abort", "error"), 0)
    )


class Server:
    """The routes, over `readers`, serving under the name `model`."""

    def __init__(self, readers: ReaderPool, model: str) -> None:
        self._readers, self._model = readers, model
        self._counters = Counters()
        self._started = int(time.time())

    def application(self) -> web.Application:
        application = web.Application(client_max_size=MAX_BODY)
        application.router.add_post("/v1/chat/completions", self.chat)
        application.router.add_get("/v1/models", self.models)
        application.router.add_get("/health", self.health)
        application.router.add_get("/metrics", self.metrics)
        return application

    async def chat(self, request: web.Request) -> web.Response:
        try:
            return await self._chat(request)
        except RefusedError as error:
            self._counters.finished["error"] += 1
            kind = "NotFoundError" if error.status == 404 else "BadRequestError"
            return _error(error.status, kind, error.message)
        except Exception as error:
            log.exception("a request failed")
            self._counters.finished["error"] += 1
            return _error(500, "InternalServerError", f"{type(error).__name__}: {error}")

    async def _chat(self, request: web.Request) -> web.Response:
        body = parse_body(await request.read())
        if body.get("model", self._model) != self._model:
            raise RefusedError(404, f"The model `{body['model']}` does not exist.")
        if body.get("stream"):
            raise RefusedError(400, "stream is not supported by the embedded engine")
        limit = token_limit(body)
        asked = parse_request(body)
        try:
            answered = await self._readers.answer(asked)
        except BadImageError as error:
            raise RefusedError(400, str(error)) from error
        name = request.headers.get("X-Request-Id", uuid.uuid4().hex)
        return web.json_response(self._completion(name, asked, answered, limit))

    def _completion(
        self, name: str, asked: EngineRequest, answered: EngineResponse, limit: int | None
    ) -> dict[str, object]:
        text = answered.text
        tokens, reason = math.ceil(len(text) / CHARACTERS_PER_TOKEN), "stop"
        if limit is not None and tokens > limit:
            tokens, reason = limit, "length"
            text = text[: limit * CHARACTERS_PER_TOKEN]
        read = len(asked.image or b"") // PIXELS_PER_TOKEN**2
        read += math.ceil(len(asked.prompt) / CHARACTERS_PER_TOKEN)
        self._counters.prompt_tokens += read
        self._counters.generation_tokens += tokens
        self._counters.finished[reason] += 1
        message = {"role": "assistant", "content": text}
        choice: dict[str, object] = {"index": 0, "message": message, "finish_reason": reason}
        if asked.logprobs and answered.tokens:
            choice["logprobs"] = {"content": logprobs(answered.tokens)}
        usage = {
            "prompt_tokens": read,
            "completion_tokens": tokens,
            "total_tokens": read + tokens,
        }
        return {
            "id": f"chatcmpl-{name}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self._model,
            "choices": [choice],
            "usage": usage,
            **({EXTENSION: answered.extension} if answered.extension else {}),
        }

    async def models(self, request: web.Request) -> web.Response:
        card = {"id": self._model, "object": "model", "created": self._started}
        about = {"owned_by": "llm_ocr", "backend": BACKEND}
        return web.json_response({"object": "list", "data": [{**card, **about}]})

    async def health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def metrics(self, request: web.Request) -> web.Response:
        counters, name = self._counters, f'model_name="{self._model}"'
        gauges = {
            "num_requests_running": self._readers.running,
            "num_requests_waiting": self._readers.waiting,
            "kv_cache_usage_perc": 0,
        }
        totals = {
            "num_preemptions_total": 0,
            "prompt_tokens_total": counters.prompt_tokens,
            "generation_tokens_total": counters.generation_tokens,
        }
        lines: list[str] = []
        for kind, values in (("gauge", gauges), ("counter", totals)):
            for key, value in values.items():
                lines += [f"# TYPE vllm:{key} {kind}", f"vllm:{key}{{{name}}} {value}"]
        lines.append("# TYPE vllm:request_success_total counter")
        for reason, count in counters.finished.items():
            labels = f'{{finished_reason="{reason}",{name}}}'
            lines.append(f"vllm:request_success_total{labels} {count}")
        return web.Response(text="\n".join(lines) + "\n")


def logprobs(tokens: Sequence[tuple[str, float]]) -> list[dict[str, object]]:
    """Tokens with their natural log-probabilities, as the API returns them."""
    return [{"token": token, "logprob": math.log(chance)} for token, chance in tokens]


def _error(status: int, kind: str, message: str) -> web.Response:
    body = {"message": message, "type": kind, "param": None, "code": status}
    return web.json_response({"error": body}, status=status)

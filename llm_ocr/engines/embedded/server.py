"""The OpenAI chat API over HTTP, as much of it as a page needs, in vLLM's words."""

import base64
import binascii
import json
import logging
import math
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from llm_ocr.engines.embedded.readers import BadImageError, Readers

log = logging.getLogger(__name__)

MAX_BODY = 256 << 20
CHARACTERS_PER_TOKEN = 4
# One image token stands for a square of about this many pixels a side.
PIXELS_PER_TOKEN = 64


class RefusedError(Exception):
    """A request that can't be answered: HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


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

    def __init__(self, readers: Readers, model: str) -> None:
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
        body = _body(await request.read())
        if body.get("model", self._model) != self._model:
            raise RefusedError(404, f"The model `{body['model']}` does not exist.")
        if body.get("stream"):
            raise RefusedError(400, "stream is not supported by the embedded engine")
        limit = _limit(body)
        (image, prompt), choices = _content(body), _choices(body)
        try:
            text = await self._readers.answer(image, prompt, choices)
        except BadImageError as error:
            raise RefusedError(400, str(error)) from error
        name = request.headers.get("X-Request-Id", uuid.uuid4().hex)
        return web.json_response(self._completion(name, prompt, image, text, limit))

    def _completion(
        self, name: str, prompt: str, image: bytes, text: str, limit: int | None
    ) -> dict[str, object]:
        tokens, reason = math.ceil(len(text) / CHARACTERS_PER_TOKEN), "stop"
        if limit is not None and tokens > limit:
            tokens, reason = limit, "length"
            text = text[: limit * CHARACTERS_PER_TOKEN]
        asked = len(image) // PIXELS_PER_TOKEN**2 + math.ceil(len(prompt) / CHARACTERS_PER_TOKEN)
        self._counters.prompt_tokens += asked
        self._counters.generation_tokens += tokens
        self._counters.finished[reason] += 1
        message = {"role": "assistant", "content": text}
        usage = {
            "prompt_tokens": asked,
            "completion_tokens": tokens,
            "total_tokens": asked + tokens,
        }
        return {
            "id": f"chatcmpl-{name}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self._model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": usage,
        }

    async def models(self, request: web.Request) -> web.Response:
        card = {"id": self._model, "object": "model", "created": self._started}
        return web.json_response({"object": "list", "data": [{**card, "owned_by": "llm_ocr"}]})

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


def _error(status: int, kind: str, message: str) -> web.Response:
    body = {"message": message, "type": kind, "param": None, "code": status}
    return web.json_response({"error": body}, status=status)


def _body(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise RefusedError(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RefusedError(400, "the body is not a JSON object")
    return body


def _limit(body: dict[str, Any]) -> int | None:
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise RefusedError(400, f"max_tokens must be a whole number from 1, got {limit!r}")
    return limit


def _choices(body: dict[str, Any]) -> list[str]:
    """What the answer is to be one of, as vLLM takes it; nothing where it may be anything."""
    wanted = body.get("structured_outputs") or {}
    choices = wanted.get("choice", []) if isinstance(wanted, dict) else None
    if not isinstance(choices, list) or not all(isinstance(one, str) for one in choices):
        raise RefusedError(400, "structured_outputs.choice must be a list of texts")
    return choices


def _content(body: dict[str, Any]) -> tuple[bytes, str]:
    """The one image and the text of the messages."""
    images: list[bytes] = []
    texts: list[str] = []
    try:
        for message in body["messages"]:
            content: Any = message["content"]
            parts: list[dict[str, Any]] = (
                [{"text": content}] if isinstance(content, str) else content
            )
            for part in parts:
                if "image_url" in part:
                    images.append(_image(part["image_url"]["url"]))
                else:
                    texts.append(str(part["text"]).replace("<image>", ""))
    except (KeyError, TypeError) as error:
        raise RefusedError(400, f"messages are not of the chat API's form: {error!r}") from error
    if len(images) != 1:
        raise RefusedError(400, f"one image is needed, {len(images)} were sent")
    return images[0], "\n".join(texts)


def _image(url: str) -> bytes:
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma or not head.endswith(";base64"):
        raise RefusedError(400, "the image must be a data: URL in base64; none are fetched")
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise RefusedError(400, f"the image is not base64: {error}") from error

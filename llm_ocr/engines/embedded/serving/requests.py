"""Parse requests of the chat API; reject those that can't be answered."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

from llm_ocr.engines.embedded.serving.command import EMBEDDED
from llm_ocr.engines.embedded.serving.reader_pool import EngineRequest
from llm_ocr.engines.embedded.words.text_layer_input import parse_text_layer
from llm_ocr.inference.responses import EXTENSION
from llm_ocr.models.profile import TASK_PROMPTS, Task


class RefusedError(Exception):
    """A request that can't be answered: HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def parse_body(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise RefusedError(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RefusedError(400, "the body is not a JSON object")
    return body


def token_limit(body: dict[str, Any]) -> int | None:
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise RefusedError(400, f"max_tokens must be a whole number from 1, got {limit!r}")
    return limit


def parse_request(body: dict[str, Any]) -> EngineRequest:
    """The task, image, text, schema and text layer of a request. Raises RefusedError."""
    images, prompt = _content(body)
    schema = _schema(body)
    if len(images) > 1 or (not images and schema is None):
        raise RefusedError(400, f"one image is needed, {len(images)} were sent")
    try:
        layer = parse_text_layer(body)
    except ValueError as error:
        raise RefusedError(400, str(error)) from error
    image = images[0] if images else None
    wants = body.get("logprobs") is True
    return EngineRequest(_task(body, prompt), prompt, image, schema, _choices(body), layer, wants)


def _task(body: dict[str, Any], prompt: str) -> Task:
    """The task that `llm_ocr.task` names. Clients that don't know that field, such as curl, select
    it by a prompt of a profile, or else describe the image."""
    extension = body.get(EXTENSION)
    name = extension.get("task") if isinstance(extension, dict) else None
    if name is None:
        fallback = Task.DOCUMENT if GROUNDING in prompt else Task.DESCRIBE
        return PROMPT_TASKS.get(_prompt_key(prompt), fallback)
    try:
        return Task(name)
    except ValueError:
        tasks = ", ".join(Task)
        raise RefusedError(400, f"llm_ocr.task must be one of {tasks}, got {name!r}") from None


def _prompt_key(prompt: str) -> str:
    return prompt.strip().rstrip(".").casefold()


# What asks DeepSeek-OCR for blocks with boxes.
GROUNDING = "<|grounding|>"
PROMPT_TASKS = {
    _prompt_key(prompt.text): task for task, prompt in {**TASK_PROMPTS, **EMBEDDED.prompts}.items()
}


def _choices(body: dict[str, Any]) -> Sequence[str]:
    """What the answer is to be one of, as vLLM takes it; nothing where it may be anything."""
    wanted = body.get("structured_outputs") or {}
    choices = wanted.get("choice", []) if isinstance(wanted, dict) else None
    if not isinstance(choices, list) or not all(isinstance(one, str) for one in choices):
        raise RefusedError(400, "structured_outputs.choice must be a list of texts")
    return choices


def _schema(body: dict[str, Any]) -> Mapping[str, Any] | None:
    """The JSON Schema of the answer, as OpenAI's API sends it or as vLLM's own does."""
    wanted = body.get("response_format")
    if wanted is None:
        outputs = body.get("structured_outputs")
        schema = outputs.get("json") if isinstance(outputs, dict) else None
        if schema is None:
            return None
    else:
        kind = wanted.get("type") if isinstance(wanted, dict) else None
        if kind == "text":
            return None
        if kind != "json_schema":
            raise RefusedError(400, f"response_format must be text or json_schema, got {kind!r}")
        inner = wanted.get("json_schema")
        schema = inner.get("schema") if isinstance(inner, dict) else None
    if not isinstance(schema, dict):
        raise RefusedError(400, "the schema of response_format is not a JSON object")
    return schema


def _content(body: dict[str, Any]) -> tuple[list[bytes], str]:
    """The images and the text of the messages."""
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
    return images, "\n".join(texts)


def _image(url: str) -> bytes:
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma or not head.endswith(";base64"):
        raise RefusedError(400, "the image must be a data: URL in base64; none are fetched")
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise RefusedError(400, f"the image is not base64: {error}") from error

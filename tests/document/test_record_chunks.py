"""A model that is asked for the record of one chunk."""

import json
from typing import Any

from llm_ocr.document.record_chunks import Chunk, ChunkItem, ChunkResult
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.model_item import ModelRef, Usage
from llm_ocr.inference.retry_ladder import Endpoint, RetryLadder
from llm_ocr.models.generic import GENERIC
from llm_ocr.models.nuextract import NUEXTRACT_3
from llm_ocr.models.profile import ModelProfile
from llm_ocr.parsing.loading import load_schema
from tests.servers.chat import Reply, answer, serving

SCHEMA = load_schema("receipt")


async def parsed(
    profile: ModelProfile, chunk: Chunk, reply: Reply
) -> tuple[ChunkResult, list[dict[str, Any]]]:
    """The result, and the bodies of the requests."""
    async with serving(reply) as server:
        async with ChatClient(server.base_url, "m", limiter=ConcurrencyLimiter(1)) as client:
            ladder = RetryLadder(Endpoint(ModelRef(profile, "m"), client.ask), ())
            result = await ladder.run(ChunkItem(chunk, SCHEMA), Usage())
    assert isinstance(result, ChunkResult)
    return result, server.requests


def receipt(**fields: object) -> str:
    return json.dumps(fields)


async def test_a_template_model_gets_the_schema_as_arguments_of_its_chat_template() -> None:
    chunk = Chunk("a.pdf, page 1", "", lambda: b"a JPEG")
    said = f"```json\n{receipt(receipt_number='417')}\n```"
    result, (body,) = await parsed(NUEXTRACT_3, chunk, lambda body: answer(said))
    arguments = body["chat_template_kwargs"]
    assert arguments["enable_thinking"] is False
    assert set(json.loads(arguments["template"])) == set(SCHEMA.json_schema["properties"])
    assert "The shop" in arguments["instructions"]
    assert [part["type"] for part in body["messages"][0]["content"]] == ["image_url"]
    assert "response_format" not in body
    assert body["logprobs"] is True
    assert result.record is not None


async def test_what_was_wrong_is_an_instruction_of_the_next_request() -> None:
    def reply(body: dict[str, Any]) -> Any:  # noqa: ANN401
        again = "Asked before" in body["chat_template_kwargs"]["instructions"]
        return answer(receipt(receipt_number="417") if again else "no JSON")

    result, bodies = await parsed(NUEXTRACT_3, Chunk("a", "Corner shop, 3.50"), reply)
    assert len(bodies) == 2
    assert bodies[1]["messages"][0]["content"] == [{"type": "text", "text": "Corner shop, 3.50"}]
    assert result.record is not None


async def test_other_models_get_it_as_structured_output() -> None:
    chunk = Chunk("a", "Corner shop, 3.50")
    _, (body,) = await parsed(GENERIC, chunk, lambda body: answer(receipt()))
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA.json_schema
    assert "chat_template_kwargs" not in body

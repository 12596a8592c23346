"""A model that is asked for the record of one chunk."""

import base64
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from llm_ocr.document.record_chunks import (
    Chunk,
    ChunkItem,
    ChunkResult,
    check_examples,
    text_budget,
)
from llm_ocr.engines.embedded.serving.command import EMBEDDED
from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.model_item import ModelRef, Usage
from llm_ocr.inference.retry_ladder import Endpoint, RetryLadder
from llm_ocr.models.generic import GENERIC
from llm_ocr.models.nuextract import NUEXTRACT_3
from llm_ocr.models.profile import ModelProfile
from llm_ocr.parsing.loading import load_schema
from llm_ocr.parsing.schema import Schema, SchemaError, ShownExample
from tests.servers.chat import Reply, answer, serving

SCHEMA = load_schema("receipt")


def _picture() -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", (4_000, 3_000), "white").save(sink, "PNG")
    return sink.getvalue()


PICTURE = _picture()


async def parsed(
    profile: ModelProfile, chunk: Chunk, reply: Reply, schema: Schema = SCHEMA
) -> tuple[ChunkResult, list[dict[str, Any]]]:
    """The result, and the bodies of the requests."""
    async with serving(reply) as server:
        async with ChatClient(server.base_url, "m", limiter=ConcurrencyLimiter(1)) as client:
            ladder = RetryLadder(Endpoint(ModelRef(profile, "m"), client.ask), ())
            result = await ladder.run(ChunkItem(chunk, schema), Usage())
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


EXAMPLES = (
    ShownExample("Corner shop, 3.50", None, '{"total": 3.5}'),
    ShownExample("", PICTURE, '{"total": 7}'),
)
SHOWN = replace(SCHEMA, examples=EXAMPLES)


async def test_examples_are_earlier_turns_in_their_order() -> None:
    chunk = Chunk("a", "Bakery, 4.20", lambda: b"a JPEG")
    result, (body,) = await parsed(GENERIC, chunk, lambda body: answer(receipt()), SHOWN)
    assert result.record is not None
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    first, said, second, said_then, last = [one["content"] for one in body["messages"]]
    assert (said, said_then) == ('{"total": 3.5}', '{"total": 7}')
    assert [part["type"] for part in first] == ["text"]
    assert "<page>\nCorner shop, 3.50\n</page>" in first[0]["text"]
    assert [part["type"] for part in second] == ["image_url", "text"]
    picture = base64.b64decode(second[0]["image_url"]["url"].split(",", 1)[1])
    with Image.open(io.BytesIO(picture)) as image:
        assert image.format == "JPEG"
        assert max(image.size) <= GENERIC.image.longest_side
    assert base64.b64decode(last[0]["image_url"]["url"].split(",", 1)[1]) == b"a JPEG"
    assert "Bakery, 4.20" in last[1]["text"]


async def test_a_template_model_gets_examples_as_instructions() -> None:
    schema = replace(SCHEMA, examples=EXAMPLES[:1])
    _, (body,) = await parsed(
        NUEXTRACT_3, Chunk("a", "Bakery, 4.20"), lambda body: answer(receipt()), schema
    )
    assert len(body["messages"]) == 1
    told = body["chat_template_kwargs"]["instructions"]
    assert 'Corner shop, 3.50\nthe result is:\n{"total": 3.5}' in told
    with pytest.raises(SchemaError, match="nuextract3 takes examples as text"):
        check_examples(SHOWN, NUEXTRACT_3)


async def test_the_embedded_engine_gets_no_examples() -> None:
    long = replace(SCHEMA, examples=(replace(EXAMPLES[0], text="x" * 100_000),))
    check_examples(long, EMBEDDED)
    _, (body,) = await parsed(EMBEDDED, Chunk("a", "x"), lambda body: answer(receipt()), long)
    assert len(body["messages"]) == 1


def test_examples_leave_less_room_for_text_until_they_do_not_fit() -> None:
    serving = replace(GENERIC.serving, max_model_len=12_000)
    small = replace(GENERIC, serving=serving)
    text = replace(EXAMPLES[0], text="word " * 1_000)
    shown = [replace(SCHEMA, examples=(text,) * count) for count in range(4)]
    budgets = [text_budget(small, schema) for schema in shown]
    assert budgets[0] > budgets[1] > budgets[2] >= 2_000
    check_examples(shown[2], small)
    with pytest.raises(SchemaError, match=r"take up to 5,\d+ tokens .* has room for 5,\d+"):
        check_examples(shown[3], small)

"""Structured outputs on servers that accept and that reject them, and log-probabilities."""

import json
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.request import ChatRequest
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.retry import RetryPolicy
from tests.servers.chat import (
    ChatServer,
    Pieces,
    answer,
    begun,
    prompt_of,
    refusal,
    serving,
)

CHOICE = {"structured_outputs": {"choice": ["yes", "no"]}, "logprobs": True}
REQUEST = ChatRequest(
    "Yes?", b"a jpeg", 100, structured_output=CHOICE, prompt_without_schema="Yes? Say yes or no."
)


def client(server: ChatServer, *, streams: bool = False) -> ChatClient:
    quick = RetryPolicy(attempts=3, first_delay=0.001, max_delay=0.002)
    return ChatClient(
        server.base_url, "m", limiter=ConcurrencyLimiter(2), retry=quick, streams=streams
    )


def refusing(body: dict[str, Any]) -> web.Response:
    return refusal(400, "unknown field") if "structured_outputs" in body else answer("yes")


async def test_structured_output_goes_into_the_body() -> None:
    async with serving(lambda body: answer("no")) as server, client(server) as asking:
        said = await asking.ask(REQUEST)
    body = server.requests[0]
    assert (said.text, said.attempts, said.logprobs) == ("no", 1, ())
    assert body["structured_outputs"] == {"choice": ["yes", "no"]}
    assert (prompt_of(body), body["logprobs"]) == ("Yes?", True)


async def test_structured_output_excludes_the_models_logits_processors() -> None:
    """A ban of n-grams may forbid what the schema requires."""
    banning = {"temperature": 0.0, "vllm_xargs": {"ngram_size": 30}}
    async with serving(refusing) as server, client(server) as asking:
        await asking.ask(replace(REQUEST, sampling=banning))
    guided, plain = server.requests
    assert ("vllm_xargs" in guided, guided["temperature"]) == (False, 0.0)
    assert plain["vllm_xargs"] == {"ngram_size": 30}


async def test_a_structured_answer_that_was_cut_off_is_requested_from_its_start() -> None:
    """A server that continues a partial answer would start a new object inside it."""

    def reply(body: dict[str, Any]) -> Pieces:
        return Pieces(["y", "e"], None) if len(server.requests) < 2 else Pieces(["ye", "s"])

    async with serving(reply) as server, client(server, streams=True) as asking:
        said = await asking.ask(REQUEST)
    assert (said.text, said.attempts) == ("yes", 2)
    assert [begun(body) for body in server.requests] == ["", ""]


async def test_rejected_structured_output_is_described_in_the_prompt_and_not_sent_again() -> None:
    async with serving(refusing) as server, client(server) as asking:
        said = [await asking.ask(REQUEST) for _ in range(3)]
        other = await asking.ask(
            replace(REQUEST, structured_output={"structured_outputs": {"regex": "a"}})
        )
    assert [one.attempts for one in (*said, other)] == [2, 1, 1, 2]
    guided = ["structured_outputs" in body for body in server.requests]
    assert guided == [True, False, False, False, True, False]
    assert {prompt_of(body) for body in server.requests[1:4]} == {"Yes? Say yes or no."}
    assert all("logprobs" not in body for body in server.requests[1:4])


async def test_a_rejected_image_does_not_disable_structured_output() -> None:
    def picky(body: dict[str, Any]) -> web.Response:
        return refusal(400, "a bad image") if len(server.requests) < 3 else answer("no")

    async with serving(picky) as server, client(server) as asking:
        with pytest.raises(PageError, match="a bad image") as refused:
            await asking.ask(REQUEST)
        assert (await asking.ask(REQUEST)).text == "no"
    assert (refused.value.code, refused.value.attempts) == (ErrorCode.REQUEST_REJECTED, 2)
    assert "structured_outputs" in server.requests[2]


LIKELY = [("ye", -0.5), ("s", -0.25)]


def logprobs_body() -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": value} for token, value in LIKELY]}


async def test_log_probabilities_come_with_the_answer() -> None:
    def sure(body: dict[str, Any]) -> web.Response:
        said = json.loads(str(answer("yes").text))
        said["choices"][0]["logprobs"] = logprobs_body()
        return web.json_response(said)

    async with serving(sure) as server, client(server) as asking:
        assert (await asking.ask(REQUEST)).logprobs == tuple(LIKELY)


async def test_log_probabilities_of_a_stream_come_with_the_answer() -> None:
    def piece(text: str, reason: str | None, likely: list[object]) -> str:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
        body = {"choices": [{**choice, "logprobs": {"content": likely} if likely else None}]}
        return f"data: {json.dumps(body)}\n\n"

    def streamed(body: dict[str, Any]) -> web.Response:
        content: list[object] = logprobs_body()["content"]
        events = [piece("ye", None, content[:1]), piece("s", "stop", content[1:])]
        text = "".join([*events, "data: [DONE]\n\n"])
        return web.Response(text=text, content_type="text/event-stream")

    async with serving(streamed) as server, client(server, streams=True) as asking:
        said = await asking.ask(REQUEST)
    assert (said.text, said.logprobs) == ("yes", tuple(LIKELY))

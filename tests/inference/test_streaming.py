"""Answers in pieces, from a server that cuts them off, repeats itself, or will not go on."""

import asyncio
import itertools
import json
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.streaming import PartialAnswer
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.retry import RetryPolicy
from tests.inference import answers
from tests.servers.chat import ChatServer, Pieces, answer, begun, refusal, serving

TEXT = "One line of the page.\nAnother line, äöü 漢字.\nThe last one."
PAGE = ChatRequest("Read it.", b"a jpeg", 1000)
QUICK = RetryPolicy(attempts=3, first_delay=0.001, max_delay=0.002)
# Prefixes of an answer that is still coming differ by so many characters.
STEP = 250


def client(server: ChatServer) -> ChatClient:
    return ChatClient(
        server.base_url, "m", limiter=ConcurrencyLimiter(4), retry=QUICK, streams=True
    )


def pieces_of(text: str) -> list[str]:
    return [text[k : k + 7] for k in range(0, len(text), 7)]


async def test_pieces_are_the_answer() -> None:
    async with serving(lambda body: Pieces(pieces_of(TEXT), "length")) as server:
        async with client(server) as asking:
            said = await asking.ask(PAGE)
    assert (said.text, said.finish_reason, said.attempts) == (TEXT, "length", 1)
    assert (said.prompt_tokens, said.completion_tokens) == (300, len(TEXT))


async def test_a_server_that_does_not_stream_is_understood() -> None:
    async with serving(lambda body: answer(TEXT)) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert (said.text, said.attempts) == (TEXT, 1)


async def test_what_was_cut_off_goes_on_where_it_was() -> None:
    """Twice cut off: no token is made again, and none is counted twice."""

    def reply(body: dict[str, Any]) -> Pieces:
        rest = TEXT.removeprefix(begun(body))
        if len(server.requests) < 3:
            return Pieces(pieces_of(rest)[:2], None)
        return Pieces(pieces_of(rest))

    async with serving(reply) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    first, second, third = server.requests
    assert "continue_final_message" not in first
    assert [begun(body) for body in server.requests] == ["", TEXT[:14], TEXT[:28]]
    assert (second["continue_final_message"], second["add_generation_prompt"]) == (True, False)
    assert [body["max_tokens"] for body in (first, second, third)] == [1000, 986, 972]
    assert (said.text, said.attempts) == (TEXT, 3)
    assert (said.prompt_tokens, said.completion_tokens) == (300, len(TEXT))


async def test_one_who_will_not_go_on_is_asked_anew() -> None:
    def reply(body: dict[str, Any]) -> Pieces | web.Response:
        if begun(body):
            return refusal(400, "no template for that")
        return Pieces(pieces_of(TEXT)[:2], None) if len(server.requests) == 1 else Pieces([TEXT])

    async with serving(reply) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert [begun(body) for body in server.requests] == ["", TEXT[:14], ""]
    assert (said.text, said.completion_tokens) == (TEXT, len(TEXT))


async def test_one_who_always_cuts_off_fails_the_page_alone() -> None:
    async with serving(lambda body: Pieces(["half"], None)) as server, client(server) as asking:
        with pytest.raises(PageError) as caught:
            await asking.ask(PAGE)
    assert caught.value.code is ErrorCode.ENGINE_ERROR
    assert len(server.requests) == QUICK.attempts


@pytest.mark.parametrize(
    "broken",
    [
        b'data: {"error": {"message": "the engine is dead", "code": 500}}\n\n',
        b"data: {no json\n\n",
        b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": "abort"}]}\n\n',
        b"data: [DONE]\n\n",
        b"data: [1]\n\n",
        b"data: 5\n\n",
        b'data: {"choices": {}}\n\n',
        b'data: {"choices": [null]}\n\n',
        b'data: {"choices": [{"delta": {"content": 5}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": 5}]}\n\n',
        b'data: {"error": "overloaded"}\n\n',
        b'data: {"choices": [], "x": "' + b"x" * 1_000_000 + b'"}\n\n',
        b'data: {"choices": ' + b"[" * 50_000 + b"\n\n",
    ],
    ids=[
        *("error", "no json", "aborted", "no end", "a list", "a number", "choices", "null"),
        *("content", "reason", "error text", "long", "deep"),
    ],
)
async def test_a_broken_stream_is_asked_for_again(broken: bytes) -> None:
    def reply(body: dict[str, Any]) -> Pieces | web.Response:
        if len(server.requests) > 1:
            return Pieces([TEXT.removeprefix(begun(body))])
        return web.Response(body=broken, content_type="text/event-stream")

    async with serving(reply) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert said.attempts == 2
    assert said.text.endswith(TEXT[-5:])


async def test_odd_accounts_and_half_characters_in_pieces_cost_no_text() -> None:
    pieces = [
        {"choices": [{"delta": {"content": "a\ud835"}}], "usage": {"completion_tokens": -1}},
        {"choices": [{"delta": {}}], "usage": {"completion_tokens": 2**40}},
        {"choices": [{"delta": {"content": [{"type": "text", "text": "b"}]}}], "usage": []},
        {"choices": [{"delta": {"content": None}, "finish_reason": "stop", "logprobs": [1]}]},
    ]
    body = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in pieces)
    response = web.Response(body=body, content_type="text/event-stream")
    async with serving(lambda _: response) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert (said.text, said.completion_tokens, said.attempts) == ("a\ufffdb", 0, 1)


async def test_an_error_for_good_within_a_stream_is_one() -> None:
    inside = b'data: {"error": {"message": "too long", "code": 400}}\n\n'
    response = web.Response(body=inside, content_type="text/event-stream")
    async with serving(lambda body: response) as server, client(server) as asking:
        with pytest.raises(PageError, match="too long") as caught:
            await asking.ask(PAGE)
    assert caught.value.code is ErrorCode.REQUEST_REJECTED
    assert len(server.requests) == 1


async def test_a_loop_is_stopped_while_it_runs() -> None:
    """The server, which would never end, is left, and the answer says why it is not whole."""
    looping = ChatRequest("Read it.", b"a jpeg", 100_000, loop_check_after=3_000)
    sentence = "The same sentence stands here once more. "
    async with serving(lambda body: Pieces(repeat(sentence))) as server:
        async with client(server) as asking:
            said = await asking.ask(looping)
            assert said.finish_reason == "repetition"
            assert 3_000 <= len(said.text) < 12_000
            assert said.completion_tokens == len(said.text)
    assert server.left == 1


async def test_what_may_stand_on_its_page_is_not_stopped() -> None:
    """The page's own text is longer than this."""
    patient = ChatRequest("Read it.", b"a jpeg", 100_000, loop_check_after=50_000)
    text = "The same sentence stands here once more. " * 500
    async with serving(lambda body: Pieces(pieces_of(text))) as server:
        async with client(server) as asking:
            said = await asking.ask(patient)
    assert (said.text, said.finish_reason) == (text, "stop")


@pytest.mark.long
def test_no_clean_page_is_stopped_while_it_comes() -> None:
    pages = [(kind, text) for seed in range(3) for kind, text, _ in answers.clean(seed)]
    assert len(pages) > 200
    assert [kind for kind, text in pages if _stopped_at(text)] == []


def test_most_long_loops_are_stopped_soon() -> None:
    loops = [one for one in answers.loops(0) if len(one.text) - one.start > 8_000]
    stopped = [at - one.start for one in loops if (at := _stopped_at(one.text))]
    assert len(loops) > 40
    assert len(stopped) > 0.8 * len(loops)
    assert sorted(stopped)[len(stopped) // 2] < 6_000


def _stopped_at(text: str) -> int | None:
    draft = PartialAnswer(loop_check_after=3_000)
    for end in range(STEP, len(text), STEP):
        draft.add(text[end - STEP : end])
        if draft.loops:
            return end
    return None


@pytest.mark.parametrize(
    ("pieces", "limit"),
    [
        ((f"{k:0100000d}" for k in itertools.count()), "10,000,000 characters"),
        (repeat(""), "67,108,864 bytes"),
    ],
    ids=["text", "pieces without text"],
)
async def test_one_that_has_no_end_fails_its_page(pieces: Iterable[str], limit: str) -> None:
    async with serving(lambda body: Pieces(pieces)) as server, client(server) as asking:
        with pytest.raises(PageError, match=f"the server's answer has more than {limit}") as caught:
            await asyncio.wait_for(asking.ask(PAGE), 60)
    assert caught.value.code is ErrorCode.UNREADABLE_ANSWER
    assert len(server.requests) == server.left == 1

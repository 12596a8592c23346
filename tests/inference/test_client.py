import asyncio
import json
import socket
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import EngineFailedError, WrongServerError
from llm_ocr.messages import ProblemCode
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.retry import MAX_RETRY_AFTER, RetryPolicy, parse_retry_after
from tests.servers.chat import ChatServer, answer, at_once, image_of, prompt_of, refusal, serving

PAGE = ChatRequest("Read it.", b"a jpeg", 100, {"temperature": 0.0, "vllm_xargs": {"ids": [1, 2]}})
QUICK = RetryPolicy(attempts=3, first_delay=0.001, max_delay=0.002)


def client(server: ChatServer, *, limit: int = 4, timeout: float = 5.0) -> ChatClient:
    return ChatClient(
        server.base_url, "a-model", limiter=ConcurrencyLimiter(limit), timeout=timeout, retry=QUICK
    )


def one_by_one(*replies: web.Response) -> Any:  # noqa: ANN401
    waiting = list(replies)
    return lambda body: waiting.pop(0) if waiting else at_once(body)


async def test_a_request_carries_image_prompt_limit_and_sampling() -> None:
    async with serving(lambda body: answer("read", completion_tokens=7)) as server:
        async with client(server) as asking:
            said = await asking.ask(PAGE)
        body = server.requests[0]
    assert (said.text, said.finish_reason, said.completion_tokens) == ("read", "stop", 7)
    assert said.attempts == 1
    assert (image_of(body), prompt_of(body)) == (b"a jpeg", "Read it.")
    assert (body["model"], body["max_tokens"]) == ("a-model", 100)
    assert body["vllm_xargs"] == {"ids": [1, 2]}


async def test_the_window_is_filled_and_never_exceeded() -> None:
    release = asyncio.Event()

    async def slow(body: dict[str, Any]) -> web.StreamResponse:
        if server.in_flight == 3:
            # Turns of the loop in which a fourth would come, if one were let through.
            for _ in range(200):
                await asyncio.sleep(0)
            release.set()
        await release.wait()
        return answer("x")

    async with serving(slow) as server, client(server, limit=3) as asking:
        await asyncio.gather(*(asking.ask(PAGE) for _ in range(10)))
    assert server.most_in_flight == 3
    assert len(server.requests) == 10


async def test_a_place_is_free_the_moment_one_answer_is_there() -> None:
    """No barrier: nine quick requests go past one that is still being answered."""
    quick_ones = asyncio.Event()
    answered = 0

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        nonlocal answered
        if prompt_of(body) == "slow":
            await quick_ones.wait()
            return answer("slow")
        answered += 1
        if answered == 9:
            quick_ones.set()
        return answer("quick")

    async with serving(reply) as server, client(server, limit=2) as asking:
        requests = [ChatRequest("slow", b"", 1)] + [ChatRequest("quick", b"", 1)] * 9
        said = await asyncio.wait_for(asyncio.gather(*map(asking.ask, requests)), 10)
    assert [one.text for one in said] == ["slow", *["quick"] * 9]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_passing_trouble_is_asked_again(status: int) -> None:
    replies = one_by_one(refusal(status, "busy"), refusal(status, "busy"))
    async with serving(replies) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert said.attempts == 3
    assert asking.stats.retries == 2


async def test_trouble_that_stays_fails_the_page_with_what_the_server_said() -> None:
    async with serving(lambda body: refusal(500, "out of luck")) as server:
        async with client(server) as asking:
            with pytest.raises(PageError, match=r"500: out of luck \(3 attempts\)") as caught:
                await asking.ask(PAGE)
    assert caught.value.code is ErrorCode.ENGINE_ERROR
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refusal_is_not_asked_again(status: int) -> None:
    async with serving(lambda body: refusal(status, "prompt too long")) as server:
        async with client(server) as asking:
            with pytest.raises(PageError, match=f"{status}: prompt too long") as caught:
                await asking.ask(PAGE)
    assert caught.value.code is ErrorCode.REQUEST_REJECTED
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "fact", "code"),
    [
        (401, "LLM_OCR_API_KEY", None),
        (403, "LLM_OCR_API_KEY", None),
        (404, "no such model", ProblemCode.MODEL_NOT_SERVED),
    ],
)
async def test_a_refusal_that_no_page_would_escape_stops_the_run(
    status: int, fact: str, code: ProblemCode | None
) -> None:
    async with serving(lambda body: refusal(status, "no")) as server, client(server) as asking:
        with pytest.raises(WrongServerError, match=f"{status}: no; .*{fact}") as refused:
            await asking.ask(PAGE)
    assert refused.value.code is code
    assert len(server.requests) == 1


async def test_retry_after_is_waited_for() -> None:
    waits: list[float] = []

    class Recording(RetryPolicy):
        def delay(self, attempt: int, retry_after: float | None = None) -> float:
            waits.append(super().delay(attempt, retry_after))
            return 0.0

    policy = Recording(attempts=3, first_delay=0.1, max_delay=0.1)
    replies = one_by_one(refusal(429, "slow down", **{"Retry-After": "7"}), refusal(503, "busy"))
    async with serving(replies) as server:
        async with ChatClient(
            server.base_url, "m", limiter=ConcurrencyLimiter(1), retry=policy
        ) as asking:
            await asking.ask(PAGE)
    assert 7.0 <= waits[0] <= 7.1
    assert 0.05 <= waits[1] <= 0.1


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_server_is_asked_for_as_long_as_it_says_so(status: int) -> None:
    """However many requests that takes: three attempts are for other faults."""
    refusals = [refusal(status, "busy") for _ in range(40)]
    async with serving(one_by_one(*refusals)) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert said.attempts == 41


async def test_a_server_that_is_busy_for_too_long_stops_the_run() -> None:
    impatient = replace(QUICK, busy_seconds=0.05)
    async with serving(lambda body: refusal(503, "come back later")) as server:
        url = server.base_url
        async with ChatClient(url, "m", limiter=ConcurrencyLimiter(1), retry=impatient) as asking:
            with pytest.raises(EngineFailedError, match="503: come back later") as refused:
                await asking.ask(PAGE)
    assert refused.value.code is ProblemCode.SERVER_BUSY


async def test_a_page_that_is_refused_while_others_are_answered_fails_alone() -> None:
    others = ChatRequest("Others.", b"a jpeg", 100)
    impatient = replace(QUICK, busy_seconds=0.1)

    def reply(body: dict[str, Any]) -> web.Response:
        return answer("read") if prompt_of(body) == "Others." else refusal(429, "not this one")

    async with serving(reply) as server:
        url = server.base_url
        async with ChatClient(url, "m", limiter=ConcurrencyLimiter(4), retry=impatient) as asking:
            page = asyncio.create_task(asking.ask(PAGE))
            while not page.done():
                await asking.ask(others)
            with pytest.raises(PageError, match="429: not this one, for 0 s") as caught:
                await page
    assert caught.value.code is ErrorCode.ENGINE_ERROR


async def test_a_wait_of_a_day_is_cut_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    waits: list[float] = []

    class Recording(RetryPolicy):
        def delay(self, attempt: int, retry_after: float | None = None) -> float:
            waits.append(super().delay(attempt, retry_after))
            return 0.0

    day = {"Retry-After": "86400"}
    replies = one_by_one(*(refusal(503, "quota", **day) for _ in range(3)))
    async with serving(replies) as server:
        async with ChatClient(
            server.base_url, "m", limiter=ConcurrencyLimiter(1), retry=Recording()
        ) as asking:
            await asking.ask(PAGE)
    assert all(MAX_RETRY_AFTER <= one <= MAX_RETRY_AFTER + 1 for one in waits)
    asked, again = [record.getMessage() for record in caplog.records]
    assert "asks to wait for 86,400 s" in asked
    assert "asked again every 60 s instead, for 600 s at most (`busy_timeout`)" in asked
    assert "503: quota" in asked
    assert "answers again" in again


@pytest.mark.parametrize(
    ("header", "date", "seconds"),
    [
        (None, None, None),
        ("7", None, 7.0),
        ("1.5", None, 1.5),
        ("-3", None, 0.0),
        ("Fri, 01 Jan 2027 00:01:30 GMT", "Fri, 01 Jan 2027 00:00:00 GMT", 90.0),
        ("Fri, 01 Jan 2027 00:00:00", "Fri, 01 Jan 2027 00:01:00 GMT", 0.0),
        ("Fri, 01 Jan 1999 00:00:00 GMT", None, 0.0),
        ("Fri, 01 Jan 2027 00:01:30 GMT", "Fri, 99 Jan", ...),
        ("\u00b2", None, None),
        ("nan", None, None),
        ("soon", None, None),
        ("Fri, 01 Jan 99999 00:00:00 GMT", None, None),
        ("1" * 500, None, inf),
    ],
)
def test_what_retry_after_may_say(header: str | None, date: str | None, seconds: object) -> None:
    found = parse_retry_after(header, date)
    assert found is not None if seconds is ... else found == seconds


@pytest.mark.parametrize(
    "broken",
    [
        web.Response(body=b"{"),
        web.json_response({"error": {"message": "inside a 200"}}),
        web.json_response({"choices": []}),
        answer("half a text", finish_reason="abort"),
    ],
    ids=["no json", "error in a 200", "no choice", "aborted"],
)
async def test_a_broken_answer_is_asked_again(broken: web.Response) -> None:
    async with serving(one_by_one(broken)) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert said.attempts == 2
    assert said.text.startswith("A picture")


def completion(**changes: object) -> dict[str, Any]:
    choice = {"index": 0, "message": {"content": "read"}, "finish_reason": "stop"}
    choice |= {key: value for key, value in changes.items() if key in ("message", "finish_reason")}
    rest = {key: value for key, value in changes.items() if key not in choice}
    return {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 4}, **rest}


ODD_BODIES: dict[str, tuple[object, str]] = {
    "a list": ([1, 2], "the body: .*object; it is"),
    "a number": (17, "the body: "),
    "a text": ("hello", "the body: "),
    "null": (None, "the body: "),
    "no choices": ({}, "it has no choices"),
    "null choices": ({"choices": None}, "it has no choices"),
    "empty choices": ({"choices": []}, "it has no choices"),
    "choices as an object": ({"choices": {"0": 1}}, "choices: .*array"),
    "choices as a text": ({"choices": "read"}, "choices: .*array"),
    "a choice that is null": ({"choices": [None]}, r"choices\.0: "),
    "no message": (
        {"choices": [{"finish_reason": "stop"}]},
        r"choices\.0\.message: Field required",
    ),
    "a message that is null": (completion(message=None), r"choices\.0\.message: "),
    "a message that is a text": (completion(message="read"), r"choices\.0\.message: "),
    "content as a number": (completion(message={"content": 5}), r"message\.content.*; it is 5"),
    "content as an object": (completion(message={"content": {}}), r"message\.content.*; it is {}"),
    "parts as numbers": (completion(message={"content": [1]}), r"message\.content"),
    "a reason as a number": (completion(finish_reason=7), r"finish_reason: .*string; it is 7"),
    "a reason as a list": (completion(finish_reason=["stop"]), r"finish_reason: "),
    "a long reason": (completion(finish_reason="x" * 999), r"finish_reason: "),
    "an error as a text": ({"error": "overloaded"}, "200 with an error: overloaded"),
    "an error as a list": ({"error": [1]}, "200 with an error"),
    "an error beside null": (
        {"error": {"message": "no\x1b[2J", "code": "x"}},
        "200 with an error: no",
    ),
    "an extension of others": (completion(llm_ocr={"lines": [1]}), r"llm_ocr\.lines"),
    "an extension as a list": (completion(llm_ocr=[1]), r"llm_ocr"),
}


@pytest.mark.parametrize(("body", "fault"), ODD_BODIES.values(), ids=ODD_BODIES)
async def test_an_odd_answer_is_an_engines_error_that_names_what_is_odd(
    body: object, fault: str
) -> None:
    async with serving(lambda _: web.json_response(body)) as server, client(server) as asking:
        with pytest.raises(PageError, match=fault) as caught:
            await asking.ask(PAGE)
    assert caught.value.code is ErrorCode.ENGINE_ERROR
    assert caught.value.message.isprintable()
    assert len(server.requests) == QUICK.attempts


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>busy</html>",
        b"[" * 100_000,
        b'{"choices": ' * 9_000,
        b"\xff\xfe\x00",
        b"{" + b"9" * 9000,
    ],
    ids=["nothing", "html", "deep lists", "deep objects", "bytes", "digits"],
)
async def test_what_is_no_json_is_an_engines_error(raw: bytes) -> None:
    async with serving(lambda _: web.Response(body=raw)) as server, client(server) as asking:
        with pytest.raises(PageError, match="an answer that can't be read: ") as caught:
            await asking.ask(PAGE)
    assert caught.value.code is ErrorCode.ENGINE_ERROR
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (json.dumps(completion(message={"content": "a\ud835b"})).encode(), "a\ufffdb"),
        (json.dumps(completion(message={"content": "\ud835\udd04"})).encode(), "\U0001d504"),
        (
            json.dumps(completion(message={"content": "a_b"})).encode().replace(b"_", b"\xe9"),
            "a\ufffdb",
        ),
        (json.dumps(completion(message={"content": None})).encode(), ""),
        (json.dumps(completion(message={})).encode(), ""),
        (
            json.dumps(
                completion(
                    message={
                        "content": [
                            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                            {"type": "reasoning", "text": "hm"},
                            {"type": "text", "text": "re"},
                            {"type": "text", "text": "ad"},
                        ]
                    }
                )
            ).encode(),
            "read",
        ),
    ],
    ids=["half a pair", "a whole pair", "no UTF-8", "null", "nothing", "parts"],
)
async def test_text_is_read_where_there_is_text(raw: bytes, text: str) -> None:
    async with serving(lambda _: web.Response(body=raw)) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert (said.text, said.attempts) == (text, 1)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (None, (0, 0)),
        ([], (0, 0)),
        ("many", (0, 0)),
        ({"prompt_tokens": 2**31, "completion_tokens": -1}, (0, 0)),
        ({"prompt_tokens": 1e400, "completion_tokens": float("nan")}, (0, 0)),
        ({"prompt_tokens": {}, "completion_tokens": "7"}, (0, 0)),
        ({"prompt_tokens": 12.0, "completion_tokens": 7}, (12, 7)),
    ],
)
async def test_text_is_not_lost_for_an_odd_account_of_its_tokens(
    usage: object, counted: tuple[int, int]
) -> None:
    body = completion(usage=usage, logprobs={"content": [None]})
    async with serving(lambda _: web.json_response(body)) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert (said.text, said.prompt_tokens, said.completion_tokens) == ("read", *counted)


async def test_half_a_body_is_asked_for_again() -> None:
    asked = 0

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        whole = at_once(body)
        if asked == 1 and isinstance(whole.body, bytes):
            # The length says more than comes.
            whole.headers["Content-Length"] = str(len(whole.body) + 50)
            whole.force_close()
        return whole

    async with serving(reply) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert (said.attempts, asked) == (2, 2)


@pytest.mark.parametrize(
    ("code", "raised"), [(400, PageError), (404, WrongServerError), (401, WrongServerError)]
)
async def test_an_error_for_good_inside_a_200_is_one(code: int, raised: type[Exception]) -> None:
    inside = web.json_response({"error": {"message": "it can't be", "code": code}})
    async with serving(lambda body: inside) as server, client(server) as asking:
        with pytest.raises(raised, match=f"{code}: it can't be"):
            await asking.ask(PAGE)
    assert len(server.requests) == 1


async def never(body: dict[str, Any]) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_server_that_never_answers_stops_the_run() -> None:
    async with serving(never) as server, client(server, timeout=0.05) as asking:
        with pytest.raises(EngineFailedError, match="takes requests but answers none"):
            await asking.ask(PAGE)
    assert len(server.requests) == 2


async def test_one_page_that_is_never_answered_fails_alone() -> None:
    """The others are asked and answered while it waits."""
    others = ChatRequest("Others.", b"a jpeg", 100)

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        return answer("read") if prompt_of(body) == "Others." else await never(body)

    async with serving(reply) as server, client(server, timeout=0.3) as asking:
        page = asyncio.create_task(asking.ask(PAGE))
        while not page.done():
            await asking.ask(others)
            await asyncio.sleep(0.01)
        with pytest.raises(PageError, match=r"no answer within 0.3 s \(3 attempts\)") as caught:
            await page
    assert caught.value.code is ErrorCode.ENGINE_TIMEOUT


async def test_a_server_that_is_gone_stops_the_run() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        async with ChatClient(url, "m", limiter=ConcurrencyLimiter(1), retry=QUICK) as asking:
            with pytest.raises(EngineFailedError, match="no response from http"):
                await asking.ask(PAGE)


async def test_an_engine_that_died_is_recovered_and_asked_again() -> None:
    """The server goes away in the middle; `recover` brings one up at the same port."""
    revived: list[float] = []
    async with serving() as first:
        port = int(first.base_url.split(":")[2].split("/")[0])
    async with asyncio.TaskGroup() as group:
        done = asyncio.Event()

        async def second() -> None:
            async with serving(port=port):
                up.set()
                await done.wait()

        up = asyncio.Event()

        async def recover(since: float) -> bool:
            revived.append(since)
            group.create_task(second())
            await up.wait()
            return True

        async with ChatClient(
            first.base_url, "m", limiter=ConcurrencyLimiter(1), recover=recover
        ) as asking:
            said = await asking.ask(PAGE)
        done.set()
    assert len(revived) == 1
    assert said.attempts == 2


async def test_a_page_that_only_meets_restarts_of_the_engine_waits_for_its_end() -> None:
    """Each time that it is sent, the engine is just being started again; in between it answers."""
    async with serving() as first:
        port = int(first.base_url.split(":")[2].split("/")[0])
    restarts = 0
    async with asyncio.TaskGroup() as group:
        up, done = asyncio.Event(), asyncio.Event()

        async def stay_up() -> None:
            async with serving(port=port):
                up.set()
                await done.wait()

        async def recover(since: float) -> bool:
            nonlocal restarts
            restarts += 1
            if restarts > QUICK.attempts:
                group.create_task(stay_up())
                await up.wait()
                return False
            async with serving(port=port) as running, client(running) as other:
                asking.stats.add(await other.ask(PAGE))
            return False

        limiter = ConcurrencyLimiter(1)
        async with ChatClient(
            first.base_url, "m", limiter=limiter, retry=QUICK, recover=recover
        ) as asking:
            said = await asking.ask(PAGE)
        done.set()
    assert said.attempts == QUICK.attempts + 2


async def test_what_kills_the_engine_each_time_is_given_up_and_the_rest_is_answered() -> None:
    """A poison page among good ones: only it fails, although all were in flight with it."""

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        if prompt_of(body) == "poison":
            raise asyncio.CancelledError  # the connection is dropped, as by a server that dies
        await asyncio.sleep(0)
        return answer(prompt_of(body))

    async def recover(since: float) -> bool:
        return True

    async with serving(reply) as server:
        asking = ChatClient(
            server.base_url, "m", limiter=ConcurrencyLimiter(8), retry=QUICK, recover=recover
        )
        async with asking:
            prompts = ["a", "poison", "b", "c"]
            said = await asyncio.gather(
                *(asking.ask(ChatRequest(prompt, b"", 1)) for prompt in prompts),
                return_exceptions=True,
            )
    poison = said.pop(1)
    assert isinstance(poison, PageError)
    assert poison.code is ErrorCode.ENGINE_CRASHED
    assert [getattr(one, "text", one) for one in said] == ["a", "b", "c"]


async def test_requests_that_a_planned_restart_cuts_off_are_not_suspected() -> None:
    cut_off = 0

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        nonlocal cut_off
        if cut_off < 6:
            cut_off += 1
            asking.forgive()
            raise asyncio.CancelledError  # the connection is dropped, as by a server that ends
        return answer("read")

    async def recover(since: float) -> bool:
        return True

    async with serving(reply) as server:
        asking = ChatClient(
            server.base_url, "m", limiter=ConcurrencyLimiter(1), retry=QUICK, recover=recover
        )
        async with asking:
            said = await asking.ask(PAGE)
    assert (said.text, said.attempts) == ("read", 7)

import asyncio
import socket
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.replies import EngineFailedError, WrongServerError
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.retry import RetryPolicy
from llm_ocr.inference.window import Window
from llm_ocr.records import ErrorCode, PageError
from tests.servers.chat import ChatServer, answer, at_once, image_of, prompt_of, refusal, serving

PAGE = ChatRequest("Read it.", b"a jpeg", 100, {"temperature": 0.0, "vllm_xargs": {"ids": [1, 2]}})
QUICK = RetryPolicy(attempts=3, first_delay=0.001, max_delay=0.002)


def client(server: ChatServer, *, window: int = 4, timeout: float = 5.0) -> ChatClient:
    return ChatClient(
        server.base_url, "a-model", window=Window(window), timeout=timeout, retry=QUICK
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

    async with serving(slow) as server, client(server, window=3) as asking:
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

    async with serving(reply) as server, client(server, window=2) as asking:
        requests = [ChatRequest("slow", b"", 1)] + [ChatRequest("quick", b"", 1)] * 9
        said = await asyncio.wait_for(asyncio.gather(*map(asking.ask, requests)), 10)
    assert [one.text for one in said] == ["slow", *["quick"] * 9]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_passing_trouble_is_asked_again(status: int) -> None:
    replies = one_by_one(refusal(status, "busy"), refusal(status, "busy"))
    async with serving(replies) as server, client(server) as asking:
        said = await asking.ask(PAGE)
    assert said.attempts == 3
    assert asking.traffic.retries == 2


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
    ("status", "advice"),
    [(401, "LLM_OCR_API_KEY"), (403, "LLM_OCR_API_KEY"), (404, "--served-model")],
)
async def test_a_refusal_that_no_page_would_escape_stops_the_run(status: int, advice: str) -> None:
    async with serving(lambda body: refusal(status, "no")) as server, client(server) as asking:
        with pytest.raises(WrongServerError, match=f"{status}: no; .*{advice}"):
            await asking.ask(PAGE)
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
        async with ChatClient(server.base_url, "m", window=Window(1), retry=policy) as asking:
            await asking.ask(PAGE)
    assert waits[0] == 7.0
    assert 0.05 <= waits[1] <= 0.1


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
        async with ChatClient(url, "m", window=Window(1), retry=QUICK) as asking:
            with pytest.raises(EngineFailedError, match="nobody answers at http"):
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

        async with ChatClient(first.base_url, "m", window=Window(1), recover=recover) as asking:
            said = await asking.ask(PAGE)
        done.set()
    assert len(revived) == 1
    assert said.attempts == 2


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
        asking = ChatClient(server.base_url, "m", window=Window(8), retry=QUICK, recover=recover)
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

"""What goes over the wire: connections, headers, redirects, and bodies without end."""

import asyncio
import resource
import subprocess
import sys
from typing import Any

import pytest
from aiohttp import web

from llm_ocr.inference.client import ChatClient
from llm_ocr.inference.concurrency import ConcurrencyLimiter
from llm_ocr.inference.request import ChatRequest
from llm_ocr.inference.responses import EngineFailedError
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.retry import RetryPolicy
from tests.servers.chat import ChatServer, answer, prompt_of, serving, serving_beside

PAGE = ChatRequest("Read it.", b"a jpeg", 100)
QUICK = RetryPolicy(attempts=3, first_delay=0.001, max_delay=0.002)
# More than openai and aiohttp open by themselves: 1000 and 100.
MANY = 1_100


def client(base_url: str, *, concurrency: int = 4, api_key: str | None = None) -> ChatClient:
    limiter = ConcurrencyLimiter(concurrency)
    return ChatClient(base_url, "m", limiter=limiter, api_key=api_key, timeout=60.0, retry=QUICK)


def read_in_a_loop(asking: ChatClient) -> str:
    async def read() -> str:
        async with asking:
            answers = await asyncio.gather(*(asking.ask(PAGE) for _ in range(3)))
        return " ".join(answer.text for answer in answers)

    return asyncio.run(read())


def test_a_client_is_used_in_one_event_loop_after_another() -> None:
    with serving_beside(lambda body: answer("read")) as server:
        asking = client(server.base_url)
        assert [read_in_a_loop(asking) for _ in range(3)] == ["read read read"] * 3
        assert read_in_a_loop(client(server.base_url)) == "read read read"


async def test_the_connections_are_as_many_as_the_limiter_allows() -> None:
    """Also where a process may open 1,024 files, as usual, unless it asks for more."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * MANY + 200
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"needs {needed} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    release = asyncio.Event()

    async def reply(body: dict[str, Any]) -> web.StreamResponse:
        if server.in_flight == MANY:
            release.set()
        await release.wait()
        return answer("read")

    async with serving(reply) as server, client(server.base_url, concurrency=MANY) as asking:
        await asyncio.wait_for(asyncio.gather(*(asking.ask(PAGE) for _ in range(MANY))), 30)
    assert server.most_in_flight == MANY


@pytest.mark.parametrize("key", [None, "a-key", "a kéy…", "Basic dTpw"])
async def test_only_the_callers_key_is_sent(
    key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables of openai and of proxies are for other servers."""
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "of-openai")
    monkeypatch.setenv("OPENAI_ORG_ID", "of-openai")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: of-openai\nX-Own: of-openai")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with serving() as server, client(server.base_url, api_key=key) as asking:
        await asking.ask(PAGE)
    [headers] = server.headers
    expected = {None: None, "Basic dTpw": "Basic dTpw"}.get(key, f"Bearer {key}")
    assert headers.get("Authorization") == expected
    assert headers["Content-Type"] == "application/json"
    assert "of-openai" not in str(dict(headers))


async def test_a_redirect_is_followed_and_the_key_stays_with_its_host() -> None:
    async with serving() as own, serving() as other:

        def redirect(body: dict[str, Any]) -> web.Response:
            if len(own.requests) == 1:
                raise web.HTTPTemporaryRedirect(f"{own.base_url}/chat/completions")
            raise web.HTTPTemporaryRedirect(f"{other.base_url}/chat/completions")

        own.reply = redirect
        async with client(own.base_url, api_key="a-key") as asking:
            await asking.ask(PAGE)
    assert [headers.get("Authorization") for headers in own.headers] == ["Bearer a-key"] * 2
    assert [prompt_of(body) for body in other.requests] == ["Read it."]
    assert "Authorization" not in other.headers[0]


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_a_body_without_end_is_left(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0

    async def endless(self: ChatServer, request: web.Request) -> web.StreamResponse:
        nonlocal written
        await request.read()
        response = web.StreamResponse(status=status)
        response.enable_compression(web.ContentCoding.gzip)
        await response.prepare(request)
        while written < 200:
            await response.write(b"x" * (1 << 20))
            written += 1
        return response

    monkeypatch.setattr(ChatServer, "handle", endless)
    async with serving() as server, client(server.base_url) as asking:
        with pytest.raises(PageError, match="more than 16,777,216 bytes") as caught:
            await asking.ask(PAGE)
    assert (caught.value.code, caught.value.attempts) == (ErrorCode.UNREADABLE_ANSWER, 1)


async def test_the_body_of_a_redirect_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    left = False

    async def redirect(self: ChatServer, request: web.Request) -> web.StreamResponse:
        nonlocal left
        await request.read()
        response = web.StreamResponse(status=307, headers={"Location": f"{server.base_url}/other"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * (1 << 20))
        except ConnectionError:
            left = True
            raise

    monkeypatch.setattr(ChatServer, "handle", redirect)
    async with serving() as server, client(server.base_url) as asking:
        with pytest.raises(Exception, match="404"):
            await asyncio.wait_for(asking.ask(PAGE), 30)
    assert left


@pytest.mark.parametrize(
    "words", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b""]
)
async def test_what_is_no_http_is_asked_for_again(words: bytes) -> None:
    asked = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(words)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, client(f"http://127.0.0.1:{port}/v1") as asking:
        with pytest.raises((PageError, EngineFailedError)):
            await asking.ask(PAGE)
    assert asked == QUICK.attempts


async def test_an_address_that_can_be_no_servers_is_refused() -> None:
    with pytest.raises(EngineFailedError, match="http://localhost:80a/v1 is no server's address"):
        async with client("http://localhost:80a/v1"):
            pass


def test_what_starts_no_client_does_not_import_openai() -> None:
    code = (
        "import sys, llm_ocr.cli.commands, llm_ocr.engines.session, llm_ocr.batch.executor; "
        "print('openai' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

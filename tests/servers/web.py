"""A web server that answers each path as a test says, also as no good server does.

`tls/` has its certificate, for 127.0.0.1 and localhost, which is of no use to anyone else.
"""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from queue import Queue

TLS = Path(__file__).parent / "tls"
CERTIFICATE = TLS / "certificate.pem"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class WebServer:
    """`answers` by path; `requests` are the heads of those that were received."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.requests: list[str] = []
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.requests.append(head)
            path = head.split(" ")[1].partition("?")[0]
            await self.answers.get(path, status("404 Not Found"))(writer)
            await writer.drain()
        writer.close()


def respond(body: bytes, first: str = "200 OK", **headers: object) -> Answer:
    """An answer with a body; headers with `_` for `-`, and a Content-Length unless one is given."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        fields = {"Content_Length": len(body), **headers}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        writer.write("\r\n".join([f"HTTP/1.1 {first}", *lines, "", ""]).encode("latin-1") + body)

    return answer


def status(first: str) -> Answer:
    return respond(b"", first)


def redirect(location: str, first: str = "302 Found") -> Answer:
    return respond(b"", first, Location=location)


def drip(piece: bytes, every: float, times: int | None = None) -> Answer:
    """A body without a Content-Length: a piece every so many seconds, without end or then none."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        sent = 0
        while times is None or sent < times:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every)
            sent += 1
        await asyncio.sleep(60)

    return answer


@asynccontextmanager
async def serving_web(
    answers: Mapping[str, Answer], *, encrypted: bool = True
) -> AsyncIterator[WebServer]:
    """A server in this process, on a free port of 127.0.0.1."""
    context = None
    if encrypted:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE, TLS / "key.pem")
    web = WebServer(answers)
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            await web.handle(reader, writer)
        finally:
            handlers.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    web.url = f"{'https' if encrypted else 'http'}://127.0.0.1:{port}"
    try:
        yield web
    finally:
        server.close()
        for task in list(handlers):
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


@contextmanager
def serving_web_beside(
    answers: Mapping[str, Answer], *, encrypted: bool = True
) -> Iterator[WebServer]:
    """A server in another thread, for code that runs an event loop itself, or other processes."""
    ready: Queue[WebServer] = Queue()
    loop, ended = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with serving_web(answers, encrypted=encrypted) as web:
            ready.put(web)
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield ready.get(timeout=10)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()

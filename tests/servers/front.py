"""A front on an HTTP server that passes everything on, and remembers what was read.

As a process of its own, which can be killed and frozen: `python -m tests.servers.front URL PORT`.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


@dataclass
class Front:
    """Bytes that were read of each object, by path, since it was last cleared."""

    base_url: str
    read: dict[str, int] = field(default_factory=dict)

    def of(self, ending: str) -> int:
        """The bytes that were read of objects whose path ends so."""
        return sum(count for path, count in self.read.items() if path.endswith(ending))


@contextmanager
def in_front_of(url: str, port: int = 0) -> Iterator[Front]:
    """A front on the server at `url`. The host's name is passed on: requests stay signed."""
    front, lock = Front(""), threading.Lock()
    place = urlsplit(url).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            behind = HTTPConnection(place)
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                behind.putheader(name, value)
            behind.endheaders(body or None)
            answer = behind.getresponse()
            content = answer.read()
            if self.command == "GET" and "?" not in self.path:
                with lock:
                    path = unquote(self.path)
                    front.read[path] = front.read.get(path, 0) + len(content)
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            behind.close()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    front.base_url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield front
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


if __name__ == "__main__":
    with in_front_of(sys.argv[1], int(sys.argv[2])):
        signal.pause()

"""Serve a run's viewer over HTTP on this machine."""

import io
import re
import tempfile
import webbrowser
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

from llm_ocr.messages import ProblemCode
from llm_ocr.report.status import NoRunError
from llm_ocr.storage.store import open_store

# Names of this machine. A website can point its own name to 127.0.0.1 (DNS rebinding), and would be
# let read the documents by the browser: only the Host header reveals it. Any port is allowed, as
# the other end of a tunnel may have another one.
_LOCAL_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])\.?(?::\d{1,5})?", re.IGNORECASE)


class _ViewerHandler(SimpleHTTPRequestHandler):
    def send_head(self) -> io.BytesIO | BinaryIO | None:
        hosts = self.headers.get_all("Host") or [""]
        if not all(_LOCAL_HOST.fullmatch(host.strip()) for host in hosts):
            self.send_error(HTTPStatus.FORBIDDEN, "open it as localhost or 127.0.0.1")
            return None
        try:
            return super().send_head()
        except ValueError:
            # A null byte or invalid UTF-8: no file has such a name.
            self.send_error(HTTPStatus.NOT_FOUND)
            return None

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal is the user's."""


def serve_viewer(out: str, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Serve the viewer of a run's folder or bucket on 127.0.0.1 until Ctrl-C; `port` 0 is any free
    port."""
    store = open_store(out)
    if not store.exists("index.html"):
        raise NoRunError(f"{store.uri} has no viewer (index.html)", ProblemCode.NO_VIEWER)
    if store.folder is not None:
        _serve(store.folder, port, browser, say)
        return
    with tempfile.TemporaryDirectory(prefix="llm-ocr-") as name:
        (Path(name) / "index.html").write_bytes(store.get("index.html"))
        _serve(Path(name), port, browser, say)


def _serve(folder: Path, port: int, browser: bool, say: Callable[[str], None]) -> None:
    handler = partial(_ViewerHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        url = f"http://127.0.0.1:{server.server_port}/index.html"
        say(f"{url}  (press Ctrl-C to stop)")
        if browser:
            webbrowser.open(url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return

"""A run's folder over HTTP on this machine, for the viewer in a browser."""

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

from llm_ocr.report.status import NoRunError
from llm_ocr.storage.store import open_store

# What this machine calls itself. A page on the web can have its own name lead here, and would then
# be let read the documents by the browser: only the Host header tells. The port is the reader's, as
# a tunnel may have another one at its other end.
_OWN_NAME = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])\.?(?::\d{1,5})?", re.IGNORECASE)


class _Handler(SimpleHTTPRequestHandler):
    def send_head(self) -> io.BytesIO | BinaryIO | None:
        hosts = self.headers.get_all("Host") or [""]
        if not all(_OWN_NAME.fullmatch(host.strip()) for host in hosts):
            self.send_error(HTTPStatus.FORBIDDEN, "open it as localhost, or as 127.0.0.1")
            return None
        try:
            return super().send_head()
        except ValueError:
            # A null byte, or what is no UTF-8: no file has such a name.
            self.send_error(HTTPStatus.NOT_FOUND)
            return None

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal is the user's."""


def serve(out: str, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Serve a run's folder, or a bucket's viewer, on 127.0.0.1 until Ctrl-C; `port` 0 takes a free
    one."""
    store = open_store(out)
    if not store.exists("index.html"):
        raise NoRunError(f"{store.uri} holds no viewer (index.html); make one with `llm-ocr run`")
    if store.folder is not None:
        _serve(store.folder, port, browser, say)
        return
    with tempfile.TemporaryDirectory(prefix="llm-ocr-") as name:
        (Path(name) / "index.html").write_bytes(store.get("index.html"))
        _serve(Path(name), port, browser, say)


def _serve(folder: Path, port: int, browser: bool, say: Callable[[str], None]) -> None:
    handler = partial(_Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        url = f"http://127.0.0.1:{server.server_port}/index.html"
        say(f"{url}  (Ctrl-C ends it)")
        if browser:
            webbrowser.open(url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return

"""A run's folder over HTTP on this machine, for the viewer in a browser."""

import tempfile
import webbrowser
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from llm_ocr.report.status import NoRunError
from llm_ocr.storage.store import open_store


class _Quiet(SimpleHTTPRequestHandler):
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
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        url = f"http://127.0.0.1:{server.server_port}/index.html"
        say(f"{url}  (Ctrl-C ends it)")
        if browser:
            webbrowser.open(url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return

"""A run's folder over HTTP on this machine, for the viewer in a browser."""

import webbrowser
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from llm_ocr.report.status import NoRunError


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal is the user's."""


def serve(folder: Path, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Serve `folder` on 127.0.0.1 until Ctrl-C; `port` 0 takes a free one."""
    if not (folder / "index.html").is_file():
        raise NoRunError(f"{folder} holds no viewer (index.html); make one with `llm-ocr run`")
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

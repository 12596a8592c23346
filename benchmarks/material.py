"""What the benchmarks run on: long PDFs made of short ones, and a server that answers at once."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pypdfium2 as pdfium

ROOT = Path(__file__).parent.parent


def repeated_pdf(source: Path, path: Path, pages: int) -> Path:
    """A PDF of `pages` pages: those of `source`, again and again."""
    original = pdfium.PdfDocument(source)
    whole = pdfium.PdfDocument.new()
    while len(whole) < pages:
        take = min(len(original), pages - len(whole))
        whole.import_pages(original, list(range(take)))
    whole.save(path)
    return path


# The instant server reads no page: what it says would fail the check and the agreement.
UNREAD = ("--skip-model-check", "--min-agreement", "0")


@contextmanager
def instant_server() -> Iterator[str]:
    """The base URL of a server process that answers every page at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tests.servers.chat", "--port", str(port)]
    server = subprocess.Popen(command, cwd=ROOT)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"the server on port {port} did not start")

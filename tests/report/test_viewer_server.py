"""`llm-ocr view` asked by hand: what browsers, tunnels and pages on the web may send."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a viewer that is open."""
    out: Path = tmp_path_factory.mktemp("run")
    (out / "index.html").write_text("<h1>the run</h1>")
    command = [sys.executable, "-m", "llm_ocr", "view", str(out), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewer:
        assert viewer.stdout is not None
        url = viewer.stdout.readline()
        yield int(url.split(":")[2].split("/")[0])
        viewer.terminate()


def send_request(
    port: int, path: str, *headers: str, version: str = "1.1", method: str = "GET"
) -> str:
    """The whole answer to a request of these lines."""
    lines = [f"{method} {path} HTTP/{version}", *headers, "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall("\r\n".join(lines).encode())
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    return answer.decode()


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:9", "[::1]:80", "localhost."]
)
def test_local_host_names_are_served(port: int, host: str) -> None:
    answer = send_request(port, "/index.html", f"Host: {host}")
    assert answer.startswith("HTTP/1.0 200")
    assert "the run" in answer


@pytest.mark.parametrize(
    "hosts",
    [
        ("Host: evil.example",),
        ("Host: evil.example:8000",),
        ("Host: localhost.evil.example",),
        ("Host: 127.0.0.1.evil.example",),
        ("Host: 10.0.0.1",),
        ("Host: localhost", "Host: evil.example"),
        ("Host:",),
        (),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_foreign_host_names_are_refused(port: int, hosts: tuple[str, ...], method: str) -> None:
    answer = send_request(port, "/index.html", *hosts, method=method)
    assert answer.startswith("HTTP/1.0 403")
    assert "the run" not in answer
    assert "Last-Modified" not in answer


@pytest.mark.parametrize(
    "path", ["/%00", "/index.html%00.txt", "/%ED%A0%80", "/%ff", "/" + "x" * 9999]
)
def test_unknown_paths_are_not_found(port: int, path: str) -> None:
    assert send_request(port, path, "Host: localhost").startswith("HTTP/1.0 404")

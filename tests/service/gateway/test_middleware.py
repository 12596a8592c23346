"""Limits on request bodies, which are checked before a body is read."""

import http.client
from collections.abc import Iterator

import httpx

from tests.service.gateway_server import SQLITE_ONLY, Gateway, problem_of

pytestmark = SQLITE_ONLY


def test_content_length_is_limited(gateway: Gateway, client: httpx.Client) -> None:
    host = gateway.url.removeprefix("http://")
    for path, size in (
        ("/v1/documents", 2 << 20),
        ("/v1/documents:upload", 33 << 20),
        ("/v1/uploads/x", 101 << 20),
    ):
        connection = http.client.HTTPConnection(host, timeout=60)
        # Refused because of its header, without waiting for the body.
        connection.putrequest("PUT" if "uploads" in path else "POST", path)
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == 413
        assert answer.getheader("Content-Type") == "application/problem+json"
        connection.close()


def test_chunked_bodies_are_refused(client: httpx.Client) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"{}"

    assert problem_of(client.post("/v1/documents", content=pieces()), 411) == "length_required"


def test_responses_forbid_sniffing_and_caching(client: httpx.Client) -> None:
    answer = client.get("/v1/documents")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"

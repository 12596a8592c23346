"""Routes for results: never a 200 without content."""

import json

import httpx

from llm_ocr.service.schema import DocumentState
from llm_ocr.service.work_queue import WorkQueue
from tests.service.gateway_server import JPEG, SQLITE_ONLY, Gateway, problem_of, submit

pytestmark = SQLITE_ONLY

PAGES = [{"number": 1, "markdown": "# Title"}, {"number": 2, "markdown": "größer"}]
FILES = {
    "document.json": json.dumps({"pages": PAGES}).encode(),
    "document.md": "# Title\n\ngrößer\n".encode(),
    "pages.parquet": b"PAR1 and so on",
    "pages/1.jpg": JPEG,
    "figures/scan-p1-1.jpg": b"\xff\xd8figure",
}


def test_results_in_each_format(gateway: Gateway, client: httpx.Client) -> None:
    document_id = submit(client, JPEG)
    gateway.finish(document_id, files=FILES)
    path = f"/v1/documents/{document_id}"
    for query, name, content_type in (
        ("", "document.json", "application/json"),
        ("?format=json", "document.json", "application/json"),
        ("?format=markdown", "document.md", "text/markdown; charset=utf-8"),
        ("?format=parquet", "pages.parquet", "application/vnd.apache.parquet"),
    ):
        answer = client.get(f"{path}/result{query}")
        assert answer.status_code == 200
        assert answer.content == FILES[name]
        assert answer.headers["Content-Type"] == content_type
        assert int(answer.headers["Content-Length"]) == len(FILES[name])
    assert client.get(f"{path}/pages/2").json() == PAGES[1]
    image = client.get(f"{path}/pages/1/image")
    assert (image.content, image.headers["Content-Type"]) == (JPEG, "image/jpeg")
    figure = client.get(f"{path}/figures/scan-p1-1.jpg")
    assert (figure.content, figure.headers["Content-Type"]) == (b"\xff\xd8figure", "image/jpeg")
    assert problem_of(client.get(f"{path}/result?format=html"), 422) == "invalid_request"


def test_missing_pages_and_figures_are_404(gateway: Gateway, client: httpx.Client) -> None:
    document_id = submit(client, JPEG)
    gateway.finish(document_id, DocumentState.PARTIALLY_SUCCEEDED, FILES)
    gateway.store.put("tenants/secret.jpg", b"another's")
    path = f"/v1/documents/{document_id}"
    assert client.get(f"{path}/result").status_code == 200
    assert problem_of(client.get(f"{path}/pages/3"), 404) == "unknown_page"
    assert problem_of(client.get(f"{path}/pages/0"), 422) == "invalid_request"
    for address in (
        "pages/2/image",
        "figures/none.jpg",
        "figures/document.json",
        "figures/..%2F..%2F..%2F..%2Fsecret.jpg",
        "figures/..%5C..%5Csecret.jpg",
        "figures/%2e%2e",
        "figures/a%00.jpg",
    ):
        answer = client.get(f"{path}/{address}")
        assert answer.status_code == 404, address
        assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_document_without_a_result_is_an_error(gateway: Gateway, client: httpx.Client) -> None:
    """Clients would take a 200 with an empty text for a result."""
    document_id = submit(client, JPEG)
    path = f"/v1/documents/{document_id}"

    def ask(code: str, retryable: bool) -> dict[str, object]:
        for what in ("result", "result?format=markdown", "pages/1", "pages/1/image"):
            answer = client.get(f"{path}/{what}")
            assert problem_of(answer, 409) == code
            assert answer.json()["retryable"] is retryable
        problem: dict[str, object] = answer.json()
        return problem

    ask("not_finished", True)
    error = {
        "code": "encrypted",
        "message": "scan.pdf needs a password",
        "step": "extract",
        "page": 3,
        "retryable": False,
    }
    gateway.finish(document_id, DocumentState.FAILED, error=error)
    problem = ask("encrypted", False)
    assert problem["detail"] == error["message"]
    assert (problem["step"], problem["page"]) == ("extract", 3)
    client.post(f"{path}:retry")
    WorkQueue(gateway.database, "worker").claim(1)
    ask("not_finished", True)

    cancelled = submit(client, JPEG)
    client.post(f"/v1/documents/{cancelled}:cancel")
    answer = client.get(f"/v1/documents/{cancelled}/result")
    assert problem_of(answer, 409) == "no_result"


def test_a_deleted_documents_result_is_gone(gateway: Gateway, client: httpx.Client) -> None:
    document_id = submit(client, JPEG)
    gateway.finish(document_id, files=FILES)
    client.delete(f"/v1/documents/{document_id}")
    for what in ("result", "pages/1", "pages/1/image", "events", "figures/scan-p1-1.jpg"):
        assert problem_of(client.get(f"/v1/documents/{document_id}/{what}"), 410) == "deleted"

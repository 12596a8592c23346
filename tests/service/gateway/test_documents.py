"""Routes for documents: create, upload, queue, list, cancel, retry and delete."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx

from llm_ocr.service.children import NewChild, child_id
from llm_ocr.service.documents import document_folder, load_document
from llm_ocr.service.schema import DocumentState
from llm_ocr.service.work_queue import DocumentCompletion, WorkQueue
from tests.service.gateway_server import BARE, JPEG, PDF, TIFF, Gateway, problem_of, submit
from tests.waiting import wait_until

FILE = {"name": "a.pdf", "size": 1}
WRONG_MANIFESTS: list[dict[str, object]] = [
    {},
    {"files": []},
    {"files": [{"name": "a.pdf"}]},
    {"files": [{"name": "a.pdf", "size": 0}]},
    {"files": [{"name": "a.pdf", "size": 1, "path": "/etc/passwd"}]},
    {"files": [{"name": "a\0.pdf", "size": 1}]},
    {"files": [{"name": "a.pdf", "size": 1, "sha256": "abc"}]},
    {"files": [FILE], "pipline": "markdown"},
    {"files": [FILE], "priority": 101},
    {"files": [FILE], "metadata": {"a": "x" * 20_000}},
    {"files": [FILE, {"url": "https://example.com/a.pdf"}]},
    {"files": [FILE], "webhook": "ftp://example.com"},
    {"files": [FILE], "webhook": "https://127.0.0.1/hook"},
]


def test_a_document_is_created_uploaded_and_queued(gateway: Gateway, client: httpx.Client) -> None:
    manifest = {
        "files": [{"name": "rapport.pdf", "size": len(PDF), "content_type": "application/pdf"}],
        "type": "invoice",
        "priority": 3,
        "metadata": {"order": "4711", "nested": [1, {"a": None}]},
        "webhook": "https://example.com/hook",
    }
    made = client.post("/v1/documents", json=manifest)
    assert made.status_code == 202
    document = made.json()
    assert made.headers["Location"] == f"{gateway.url}/v1/documents/{document['id']}"
    assert document["state"] == "awaiting_upload"
    assert document["pipeline"] == "invoice"
    assert document["metadata"] == manifest["metadata"]
    upload = document["files"][0]["upload"]
    sent = BARE.request(upload["method"], upload["url"], headers=upload["headers"], content=PDF)
    assert sent.status_code == 204

    done = client.post(f"/v1/documents/{document['id']}:complete")
    assert done.status_code == 200
    document = done.json()
    assert document["state"] == "queued"
    assert document["progress"] == {"step": None, "pages_done": 0, "pages": 3}
    assert document["files"][0]["content_type"] == "application/pdf"
    assert "upload" not in document["files"][0] or document["files"][0]["upload"] is None
    stored = load_document(gateway.database, "default", document["id"])
    assert gateway.store.get(stored.files[0].path) == PDF
    # Completing it again changes nothing.
    assert client.post(f"/v1/documents/{document['id']}:complete").json() == document


def test_several_images_are_the_pages_of_one_document(
    gateway: Gateway, client: httpx.Client
) -> None:
    contents = [JPEG, TIFF, JPEG]
    files = [{"name": f"{k}.jpg", "size": len(each)} for k, each in enumerate(contents)]
    document = client.post("/v1/documents", json={"files": files, "name": "three scans"}).json()
    for file, content in zip(document["files"], contents, strict=True):
        BARE.put(file["upload"]["url"], content=content)
    done = client.post(f"/v1/documents/{document['id']}:complete")
    assert done.json()["name"] == "three scans"
    # One each, and those of the TIFF.
    assert done.json()["progress"]["pages"] == 5


def test_a_small_document_takes_one_request(gateway: Gateway, client: httpx.Client) -> None:
    made = client.post(
        "/v1/documents:upload",
        files={"files": ("scan.pdf", PDF)},
        data={"type": "invoice", "metadata": json.dumps({"order": 1})},
    )
    assert made.status_code == 202, made.text
    document = made.json()
    assert (document["state"], document["type"]) == ("queued", "invoice")
    assert document["metadata"] == {"order": 1}
    assert made.headers["Location"].endswith(document["id"])


def test_prefer_wait_waits_for_a_small_document(gateway: Gateway, client: httpx.Client) -> None:
    def ask(seconds: int) -> httpx.Response:
        files = {"files": ("scan.jpg", JPEG)}
        headers = {"Prefer": f"respond-async, wait={seconds}"}
        return client.post("/v1/documents:upload", files=files, headers=headers)

    late = ask(0)
    assert (late.status_code, late.headers["Preference-Applied"]) == (202, "wait=0")
    gateway.finish(late.json()["id"])
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(ask, 60)
        queued: list[str] = []

        def is_queued() -> bool:
            found = client.get("/v1/documents", params={"state": "queued"}).json()["documents"]
            queued[:] = [document["id"] for document in found]
            return bool(queued)

        wait_until(is_queued)
        gateway.finish(queued[0])
        answer = asked.result()
    assert answer.status_code == 200
    assert answer.json()["state"] == "succeeded"


def test_documents_are_listed_in_pages(gateway: Gateway, client: httpx.Client) -> None:
    ids = [submit(client, JPEG, type="invoice" if k % 2 else None) for k in range(5)]
    found: list[str] = []
    cursor = None
    for expected in (2, 2, 1):
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = client.get("/v1/documents", params=params).json()
        assert len(page["documents"]) == expected
        found += [document["id"] for document in page["documents"]]
        cursor = page["next_cursor"]
    assert cursor is None
    assert found == sorted(ids, reverse=True)
    of_type = client.get("/v1/documents", params={"type": "invoice"}).json()["documents"]
    assert {document["id"] for document in of_type} == {ids[1], ids[3]}
    assert client.get("/v1/documents", params={"state": "failed"}).json()["documents"] == []


def test_a_scan_that_is_split_lists_its_documents(gateway: Gateway, client: httpx.Client) -> None:
    parent = submit(client, PDF)
    queue = WorkQueue(gateway.database, "a")
    (claimed,) = queue.claim(1)
    children = [
        NewChild(
            child_id(parent, {}, number),
            f"scan-p{number}.pdf",
            kind,
            *(claimed.pipeline, claimed.pipeline_revision),
            *(number, number + 1),
            {"pages": {number: "a", number + 1: "b"}, "classes": {}, "reasons": []},
        )
        for number, kind in ((1, "letter"), (3, None))
    ]
    written = {"id": parent, "state": "split", "pages": []}
    path = f"{document_folder(claimed.tenant, parent)}/result-1/document.json"
    gateway.store.put(path, json.dumps(written).encode())
    assert queue.finish(
        claimed, DocumentCompletion(DocumentState.SPLIT, "result-1", children=children)
    )

    shown = client.get(f"/v1/documents/{parent}").json()
    assert (shown["state"], shown["parent"]) == ("split", None)
    assert shown["children"][0] == {
        "id": children[0].id,
        "name": "scan-p1.pdf",
        "type": "letter",
        "state": "queued",
        "page_range": {"first": 1, "last": 2},
    }
    listed = client.get("/v1/documents", params={"parent": parent}).json()["documents"]
    assert [document["id"] for document in listed] == [children[1].id, children[0].id]
    child = client.get(f"/v1/documents/{children[1].id}").json()
    assert (child["parent"], child["page_range"]) == (parent, {"first": 3, "last": 4})
    assert [file["name"] for file in child["files"]] == ["scan.pdf"]
    # It is announced, and can be read, when all of its documents can.
    result = client.get(f"/v1/documents/{parent}/result")
    assert problem_of(result, 409) == "not_finished"
    assert client.get("/v1/documents", params={"parent": "doc_x"}).status_code == 422
    for document in reversed(listed):
        gateway.finish(document["id"], files={"document.json": b"{}"})
    result = client.get(f"/v1/documents/{parent}/result").json()
    assert (result["state"], result["pages"]) == ("succeeded", [])
    assert [entry["state"] for entry in result["children"]] == ["succeeded"] * 2
    again = client.post(f"/v1/documents/{children[0].id}:retry", json={"from_step": "extract"})
    assert problem_of(again, 422) == "unknown_step"
    assert f"or retry {parent}, from which it was split" in again.json()["detail"]


def test_another_tenants_document_is_unknown(gateway: Gateway, client: httpx.Client) -> None:
    document_id = submit(client, JPEG)
    gateway.finish(document_id, files={"document.md": b"# secret"})
    path = f"/v1/documents/{document_id}"
    with gateway.client("other") as other:
        for method, address in (
            ("GET", path),
            ("GET", f"{path}/result"),
            ("GET", f"{path}/events"),
            ("GET", f"{path}/pages/1"),
            ("GET", f"{path}/pages/1/image"),
            ("GET", f"{path}/figures/a.jpg"),
            ("POST", f"{path}:complete"),
            ("POST", f"{path}:cancel"),
            ("POST", f"{path}:retry"),
            ("DELETE", path),
        ):
            assert problem_of(other.request(method, address), 404) == "unknown_document"
        assert other.get("/v1/documents").json()["documents"] == []
    assert client.get(path).status_code == 200


def test_a_document_is_cancelled_retried_and_deleted(
    gateway: Gateway, client: httpx.Client
) -> None:
    path = f"/v1/documents/{submit(client, JPEG)}"
    assert problem_of(client.post(f"{path}:retry"), 409) == "wrong_state"
    assert client.post(f"{path}:cancel").json()["state"] == "cancelled"
    # Cancelling it again changes nothing.
    assert client.post(f"{path}:cancel").json()["state"] == "cancelled"
    again = client.post(f"{path}:retry", json={"from_step": "assemble"})
    assert (again.status_code, again.json()["state"]) == (202, "queued")
    client.post(f"{path}:cancel")
    wrong = client.post(f"{path}:retry", json={"from_step": "polish"})
    assert problem_of(wrong, 422) == "unknown_step"
    assert wrong.json()["step"] == "polish"
    assert client.delete(path).status_code == 204
    assert problem_of(client.get(path), 410) == "deleted"
    assert problem_of(client.delete(path), 410) == "deleted"


def test_a_document_in_progress_is_not_deleted(gateway: Gateway, client: httpx.Client) -> None:
    document_id = submit(client, JPEG)
    WorkQueue(gateway.database, "worker").claim(1)
    assert problem_of(client.delete(f"/v1/documents/{document_id}"), 409) == "wrong_state"
    cancelled = client.post(f"/v1/documents/{document_id}:cancel")
    assert cancelled.json()["state"] == DocumentState.PROCESSING


def test_invalid_manifests_are_refused(client: httpx.Client) -> None:
    for manifest in WRONG_MANIFESTS:
        answer = client.post("/v1/documents", json=manifest)
        assert problem_of(answer, 422) in ("invalid_request", "invalid_webhook"), manifest
    assert client.get("/v1/documents").json()["documents"] == []


def test_unknown_types_and_pipelines_are_refused(client: httpx.Client) -> None:
    files = [{"name": "a.pdf", "size": 1}]
    for choice in ({"type": "poem"}, {"pipeline": "poem"}):
        answer = client.post("/v1/documents", json={"files": files, **choice})
        assert problem_of(answer, 422) == "unknown_pipeline"

"""The docling-serve API, with the requests of its real clients."""

import base64
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from llm_ocr.service.access import create_key
from llm_ocr.service.documents import list_documents, load_document
from llm_ocr.service.gateway import docling
from llm_ocr.service.schema import DocumentState
from tests.service.gateway_server import JPEG, PDF, Gateway, problem_of
from tests.service.result_content import FIGURE, content, result_files
from tests.waiting import wait_until


def queued(gateway: Gateway) -> list[str]:
    found = list_documents(gateway.database, "default", state=DocumentState.QUEUED)
    return [document.id for document in found]


@contextmanager
def working(gateway: Gateway, **ending: Any) -> Iterator[None]:  # noqa: ANN401
    """While a worker ends every document so: as `Gateway.finish` has it, by default well."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.02):
            for document_id in queued(gateway):
                gateway.finish(document_id, **{"files": result_files(), **ending})

    with ThreadPoolExecutor(1) as threads:
        worker = threads.submit(work)
        try:
            yield
        finally:
            stop.set()
            worker.result()


def metadata_of(gateway: Gateway, document_id: str) -> dict[str, Any]:
    row = load_document(gateway.database, "default", document_id).row
    chosen: dict[str, Any] = row["metadata"]["docling"]
    return chosen


def test_open_webui_client(gateway: Gateway) -> None:
    """With its key in X-Api-Key, the path on its disk as the file's name, and its parameters."""
    key = create_key(gateway.database, "default")
    with working(gateway):
        response = httpx.post(
            f"{gateway.url}/v1/convert/file",
            files={"files": ("/app/data/uploads/1_a.pdf", PDF, "application/pdf")},
            data={
                "image_export_mode": "placeholder",
                "do_ocr": "true",
                "force_ocr": "false",
                "ocr_engine": "tesseract",
                "ocr_lang": ["eng", "fra"],
                "pdf_backend": "dlparse_v4",
                "table_mode": "accurate",
                "pipeline": "standard",
                "do_picture_description": "false",
            },
            headers={"X-Api-Key": key},
            timeout=60,
        )
    assert response.status_code == 200
    result = response.json()
    assert result["document"]["md_content"].startswith("# The **report**")
    assert "<!-- image -->" in result["document"]["md_content"]
    assert (result["status"], result["errors"]) == ("success", [])
    assert result["processing_time"] >= 0


def test_open_webui_client_gets_the_reason_of_a_failure(
    gateway: Gateway, client: httpx.Client
) -> None:
    """An answer without a result is an error with a `detail`, never 200."""
    files = {"files": ("notes.pdf", b"only text", "application/pdf")}
    refused = client.post("/v1/convert/file", files=files)
    assert problem_of(refused, 422) == "unsupported_format"
    assert "this is text" in refused.json()["detail"]
    error = {"code": "encrypted", "message": "it needs a password", "retryable": False}
    files = {"files": ("a.pdf", PDF, "application/pdf")}
    with working(gateway, state=DocumentState.FAILED, files=None, error=error):
        failed = client.post("/v1/convert/file", files=files)
    assert problem_of(failed, 422) == "encrypted"
    assert failed.json()["detail"] == "it needs a password"


def test_langflow_client(gateway: Gateway, client: httpx.Client) -> None:
    """Base64 within JSON, polled until it is done; the result is a DoclingDocument."""
    order = {
        "options": {"to_formats": ["json"], "image_export_mode": "placeholder"},
        "sources": [
            {
                "kind": "file",
                "base64_string": base64.b64encode(PDF).decode(),
                "filename": "a report.pdf",
            }
        ],
    }
    submitted = client.post("/v1/convert/source/async", json=order)
    assert submitted.status_code == 200
    task = submitted.json()
    assert (task["task_status"], task["task_type"]) == ("pending", "convert")
    task_id = task["task_id"]
    assert problem_of(client.get(f"/v1/result/{task_id}"), 404) == "not_finished"
    gateway.finish(task_id, files=result_files())
    polled = client.get(f"/v1/status/poll/{task_id}").json()
    assert polled["task_status"] == "success"
    result = client.get(f"/v1/result/{task_id}").json()
    assert result["document"]["json_content"]["schema_name"] == "DoclingDocument"
    assert result["document"]["md_content"] is None
    assert result["document"]["filename"] == "a report.pdf"


def test_lightrag_client(gateway: Gateway, client: httpx.Client) -> None:
    """A zip with files that are named as the document, and the figures that they refer to."""
    submitted = client.post(
        "/v1/convert/file/async",
        files={"files": ("a report.pdf", PDF, "application/octet-stream")},
        data={
            "pipeline": "standard",
            "target_type": "zip",
            "image_export_mode": "referenced",
            "do_ocr": "true",
            "force_ocr": "true",
            "ocr_engine": "auto",
            "ocr_preset": "auto",
            "do_formula_enrichment": "false",
            "to_formats": ["json", "md"],
        },
    )
    assert submitted.status_code == 200, submitted.text
    task_id = submitted.json()["task_id"]
    waiting = client.get(f"/v1/status/poll/{task_id}", params={"wait": 0.1})
    assert waiting.json()["task_status"] == "pending"
    with working(gateway):
        polled = client.get(f"/v1/status/poll/{task_id}", params={"wait": 60})
    assert polled.json()["task_status"] == "success"
    response = client.get(f"/v1/result/{task_id}")
    assert response.headers["Content-Type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    figure = "artifacts/a report-p1-1.jpg"
    assert sorted(archive.namelist()) == ["a report.json", "a report.md", figure]
    assert archive.read(figure) == FIGURE
    assert "](artifacts/a%20report-p1-1.jpg)" in archive.read("a report.md").decode()
    document = json.loads(archive.read("a report.json"))
    assert document["pictures"][0]["image"]["uri"] == "artifacts/a%20report-p1-1.jpg"


def test_image_export_modes(gateway: Gateway, client: httpx.Client) -> None:
    with working(gateway):
        response = client.post(
            "/v1/convert/file",
            files={"files": ("a.jpg", JPEG)},
            data={"to_formats": ["md", "text"]},
        )
    document = response.json()["document"]
    image = base64.b64encode(FIGURE).decode()
    assert f"](data:image/jpeg;base64,{image})" in document["md_content"]
    assert document["text_content"].startswith("The report\n")


def test_failed_pages_are_reported(gateway: Gateway, client: httpx.Client) -> None:
    pages = content()["pages"]
    pages[1] |= {"error_code": "timeout", "error": "no answer", "blocks": []}
    ending = {"state": DocumentState.PARTIALLY_SUCCEEDED, "files": result_files(pages=pages)}
    files = {"files": ("a.pdf", PDF)}
    with working(gateway, **ending):
        partial = client.post("/v1/convert/file", files=files)
        aborted = client.post("/v1/convert/file", files=files, data={"abort_on_error": "true"})
    assert partial.json()["status"] == "partial_success"
    assert partial.json()["errors"] == [
        {"component_type": "model", "module_name": "timeout", "error_message": "page 2: no answer"}
    ]
    assert aborted.status_code == 422


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"to_formats": "doctags"}, "to_formats"),
        ({"to_formats": ["md", "html"]}, "to_formats"),
        ({"do_ocr": "false"}, "do_ocr"),
        ({"do_picture_description": "true"}, "do_picture_description"),
        ({"do_code_enrichment": "true"}, "do_code_enrichment"),
        ({"page_range": ["2", "3"]}, "page_range"),
        ({"target_type": "put"}, "target_type"),
        ({"picture_description_api": '{"url": "http://127.0.0.1"}'}, "picture_description_api"),
        ({"tables": "yes"}, "tables"),
        ({"image_export_mode": "referenced"}, "image_export_mode"),
    ],
)
def test_unsupported_options_are_refused(
    gateway: Gateway, client: httpx.Client, options: dict[str, Any], where: str
) -> None:
    files = {"files": ("a.pdf", PDF)}
    response = client.post("/v1/convert/file", files=files, data=options)
    assert response.status_code == 422
    assert where in response.text
    assert queued(gateway) == []


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"sources": [{"kind": "file", "base64_string": "*", "filename": "a.pdf"}]}, "base64"),
        ({"sources": [{"kind": "s3", "bucket": "a"}]}, "sources"),
        ({"sources": [{"kind": "http", "url": "https://example.com/a.pdf"}]}, "doesn't fetch URLs"),
        ({"sources": [{"kind": "http", "url": "file:///etc/passwd"}]}, "url"),
        ({"sources": []}, "sources"),
        ({"options": {"vlm_pipeline_model": "granite"}}, "vlm_pipeline_model"),
        ({"target": {"kind": "put", "url": "https://example.com"}}, "target"),
        ({"http_sources": []}, "http_sources"),
    ],
)
def test_invalid_sources_are_refused(
    gateway: Gateway, client: httpx.Client, changes: dict[str, Any], where: str
) -> None:
    source = {"kind": "file", "base64_string": base64.b64encode(PDF).decode(), "filename": "a.pdf"}
    response = client.post("/v1/convert/source", json={"sources": [source], **changes})
    assert response.status_code == 422
    assert where in response.text
    assert queued(gateway) == []


def test_null_options_are_ignored(gateway: Gateway, client: httpx.Client) -> None:
    source = {"kind": "file", "base64_string": base64.b64encode(PDF).decode(), "filename": "a.pdf"}
    options = {"picture_description_local": None, "vlm_pipeline_model": None, "ocr_lang": None}
    order = {"sources": [source], "options": options, "target": {"kind": "zip"}}
    submitted = client.post("/v1/convert/source/async", json=order)
    assert submitted.status_code == 200, submitted.text
    assert metadata_of(gateway, submitted.json()["task_id"])["is_zip"] is True


def test_several_files_are_refused(client: httpx.Client) -> None:
    files = [("files", ("a.pdf", PDF)), ("files", ("b.pdf", PDF))]
    assert client.post("/v1/convert/file", files=files).status_code == 422


def test_a_synchronous_request_times_out_with_504(
    gateway: Gateway, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docling, "SYNC_SECONDS", 0.1)
    response = client.post("/v1/convert/file", files={"files": ("a.pdf", PDF)})
    assert problem_of(response, 504) == "not_finished"
    (document_id,) = queued(gateway)
    assert f"/v1/result/{document_id}" in response.json()["detail"]
    gateway.finish(document_id, files=result_files())
    assert client.get(f"/v1/result/{document_id}").status_code == 200


def test_a_failed_task_has_its_error(gateway: Gateway, client: httpx.Client) -> None:
    files = {"files": ("a.pdf", PDF)}
    task_id = client.post("/v1/convert/file/async", files=files).json()["task_id"]
    error = {"code": "encrypted", "message": "it needs a password", "retryable": False}
    gateway.finish(task_id, DocumentState.FAILED, error=error)
    task = client.get(f"/v1/status/poll/{task_id}").json()
    assert (task["task_status"], task["error_message"]) == ("failure", "it needs a password")
    assert problem_of(client.get(f"/v1/result/{task_id}"), 422) == "encrypted"


def test_another_tenants_tasks_are_unknown(gateway: Gateway, client: httpx.Client) -> None:
    files = {"files": ("a.pdf", PDF)}
    task_id = client.post("/v1/convert/file/async", files=files).json()["task_id"]
    with gateway.client("other") as other:
        assert other.get(f"/v1/status/poll/{task_id}").status_code == 404
        assert other.get(f"/v1/status/poll/{task_id}", params={"wait": 60}).status_code == 404
        assert other.get(f"/v1/result/{task_id}").status_code == 404
    assert httpx.get(f"{gateway.url}/v1/status/poll/{task_id}").status_code == 401
    wait_until(lambda: queued(gateway) == [task_id])

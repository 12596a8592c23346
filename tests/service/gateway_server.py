"""A real gateway on a socket, served in a thread, with clients."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from llm_ocr.service.access import create_key
from llm_ocr.service.database import Database
from llm_ocr.service.documents import document_folder
from llm_ocr.service.gateway.app import create_app
from llm_ocr.service.pipelines import PipelineCatalog
from llm_ocr.service.schema import DocumentState
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.service.work_queue import DocumentCompletion, WorkQueue
from llm_ocr.storage.store import Store, open_store
from tests.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
PDF = (EXAMPLES / "report.pdf").read_bytes()
JPEG = (EXAMPLES / "invoice.jpg").read_bytes()
TIFF = (EXAMPLES / "letters.tiff").read_bytes()


# A client without a key. (Certificates take longer to load than most requests.)
BARE = httpx.Client(verify=False, timeout=120)
# For tests that don't depend on the kind of database.
SQLITE_ONLY = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


class _Server(uvicorn.Server):
    """A server that installs no signal handlers, because it doesn't run in the main thread."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Gateway:
    """A served gateway: its database, storage and URL."""

    def __init__(self, database: Database, store: Store, settings: ServiceSettings) -> None:
        self.database, self.store = database, store
        self.app = create_app(database, store, settings, PipelineCatalog.load(settings.pipelines))
        config = uvicorn.Config(self.app, port=0, log_config=None, timeout_graceful_shutdown=5)
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._server.run, name="gateway")

    def start(self) -> None:
        self._thread.start()
        wait_until(lambda: self._server.started or not self._thread.is_alive())
        assert self._server.started
        (socket,) = self._server.servers[0].sockets
        self.url = f"http://127.0.0.1:{socket.getsockname()[1]}"

    def stop(self) -> None:
        self.app.state.gateway.changes.close()
        self._server.should_exit = True
        self._thread.join()

    def client(self, tenant: str = "default", *scopes: str) -> httpx.Client:
        """A client with a new key of a tenant."""
        key = create_key(self.database, tenant, scopes or ("documents:read", "documents:write"))
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"},
            verify=False,
            timeout=60,
        )

    def finish(
        self,
        document_id: str,
        state: DocumentState = DocumentState.SUCCEEDED,
        files: Mapping[str, bytes] | None = None,
        error: Mapping[str, Any] | None = None,
        reasons: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Claim and finish a queued document as a worker does, with result files."""
        queue = WorkQueue(self.database, "test")
        (claimed,) = queue.claim(1)
        assert claimed.id == document_id
        result = f"result-{claimed.fencing_token}" if files is not None else None
        for name, content in (files or {}).items():
            path = f"{document_folder(claimed.tenant, document_id)}/{result}/{name}"
            self.store.put(path, content)
        completion = DocumentCompletion(state, result, error, reasons=reasons)
        assert queue.finish(claimed, completion, page_count=1)


@contextmanager
def serving_gateway(
    database: Database,
    store: Store | Path,
    **settings: Any,  # noqa: ANN401
) -> Iterator[Gateway]:
    """Serve a gateway; `settings` are those of ServiceSettings."""
    if isinstance(store, Path):
        store = open_store(str(store))
    gateway = Gateway(database, store, ServiceSettings(**settings))
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()


def problem_of(response: httpx.Response, status: int) -> str:
    """Check that a response is a complete problem document; returns its code."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["type"] == f"urn:llm-ocr:problem:{problem['code']}"
    assert problem["title"]
    assert problem["detail"]
    assert isinstance(problem["retryable"], bool)
    code: str = problem["code"]
    return code


def submit(client: httpx.Client, content: bytes, **manifest: Any) -> str:  # noqa: ANN401
    """Create, upload and queue a document with one file; returns its id."""
    files = [{"name": "scan.pdf", "size": len(content)}]
    made = client.post("/v1/documents", json={"files": files, **manifest})
    assert made.status_code == 202, made.text
    upload = made.json()["files"][0]["upload"]
    sent = BARE.request(upload["method"], upload["url"], headers=upload["headers"], content=content)
    assert sent.is_success, sent.text
    document_id: str = made.json()["id"]
    done = client.post(f"/v1/documents/{document_id}:complete")
    assert done.status_code == 200, done.text
    return document_id

"""The stream of a document's events."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
from sqlalchemy import event as sql_event

from llm_ocr.service.gateway.streams import POLL_SECONDS
from llm_ocr.service.schema import DocumentState
from llm_ocr.service.work_queue import DocumentCompletion, StepProgress, WorkQueue
from tests.service.gateway_server import JPEG, SQLITE_ONLY, Gateway, problem_of, submit
from tests.waiting import wait_until

pytestmark = SQLITE_ONLY


def read_events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """Parse server-sent events: the `id`, `event` and `data` of each, if present."""
    found: dict[str, Any] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if not line and found:
            found["data"] = json.loads(found["data"])
            yield found
            found = {}
        elif name:
            found[name] = value


class Listener:
    """Reads a stream in a thread until it ends."""

    def __init__(self, client: httpx.Client, document_id: str, after: str | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self._client, self._path = client, f"/v1/documents/{document_id}/events"
        self._headers = {"Last-Event-ID": after} if after else {}
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        with self._client.stream("GET", self._path, headers=self._headers) as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            self.events.extend([])
            for event in read_events(response):
                self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [event["event"] for event in self.events]

    def wait_for(self, name: str) -> None:
        wait_until(lambda: name in self.names)

    def join(self) -> None:
        """Wait for the end of the stream."""
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_a_stream_reports_events_and_ends(gateway: Gateway, client: httpx.Client) -> None:
    document_id = submit(client, JPEG)
    listener = Listener(client, document_id)
    listener.wait_for("document.queued")
    queue = WorkQueue(gateway.database, "worker")
    (claimed,) = queue.claim(1)
    listener.wait_for("document.processing")
    queue.save_progress(claimed, "extract", [StepProgress("extract", "running")], pages_done=1)
    wait_until(lambda: any(event["data"].get("pages_done") == 1 for event in listener.events))
    queue.finish(claimed, DocumentCompletion(DocumentState.SUCCEEDED, "result-1"), page_count=1)
    listener.join()
    states = [name for name in listener.names if name != "progress"]
    assert states == [
        "document.awaiting_upload",
        "document.queued",
        "document.processing",
        "document.succeeded",
    ]
    progress = [event for event in listener.events if event["event"] == "progress"]
    assert {"step": "extract", "pages_done": 1, "pages": 1} in [each["data"] for each in progress]
    # Progress has no id, so that Last-Event-ID is always that of a state.
    assert all("id" not in event for event in progress)
    ids = [int(event["id"]) for event in listener.events if "id" in event]
    assert ids == sorted(ids)
    assert listener.events[0]["data"]["id"] == document_id


def test_a_stream_resumes_after_last_event_id(gateway: Gateway, client: httpx.Client) -> None:
    document_id = submit(client, JPEG)
    gateway.finish(document_id)
    first = Listener(client, document_id)
    first.join()
    states = [event for event in first.events if "id" in event]
    later = Listener(client, document_id, after=states[1]["id"])
    later.join()
    assert [event for event in later.events if "id" in event] == states[2:]
    nothing_new = Listener(client, document_id, after=states[-1]["id"])
    nothing_new.join()
    assert [event for event in nothing_new.events if "id" in event] == []
    for wrong in ("x", "-1", str(2**63)):
        headers = {"Last-Event-ID": wrong}
        answer = client.get(f"/v1/documents/{document_id}/events", headers=headers)
        assert problem_of(answer, 422) == "invalid_request"


def test_a_stream_ends_when_its_document_is_deleted(gateway: Gateway, client: httpx.Client) -> None:
    document_id = submit(client, JPEG)
    listener = Listener(client, document_id)
    listener.wait_for("document.queued")
    client.delete(f"/v1/documents/{document_id}")
    listener.join()


def test_a_stream_ends_when_the_gateway_stops(gateway: Gateway, client: httpx.Client) -> None:
    listener = Listener(client, submit(client, JPEG))
    listener.wait_for("document.queued")
    gateway.app.state.gateway.changes.close()
    listener.join()


def test_many_streams_share_one_query(gateway: Gateway, client: httpx.Client) -> None:
    ids = [submit(client, JPEG) for _ in range(10)]
    listeners = [Listener(client, document_id) for document_id in ids]
    for listener in listeners:
        listener.wait_for("document.queued")
    looks: list[str] = []

    def count(*arguments: Any) -> None:  # noqa: ANN401
        if "documents.pages_done" in arguments[2] and " IN (" in arguments[2]:
            looks.append(arguments[2])

    engine = gateway.database._engine
    sql_event.listen(engine, "before_cursor_execute", count)
    wait_until(lambda: len(looks) >= 3)
    sql_event.remove(engine, "before_cursor_execute", count)
    # The third poll for all ten streams comes after two pauses: streams don't poll themselves.
    assert len(looks) == 3
    assert POLL_SECONDS >= 0.5
    for document_id in ids:
        client.post(f"/v1/documents/{document_id}:cancel")
    for listener in listeners:
        listener.join()
        assert listener.names[-1] in ("document.cancelled", "progress")
    assert gateway.app.state.gateway.changes._followers == {}

"""Read the logs of tasks with the `entries.list` method of Cloud Logging's REST API."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

ENDPOINT = "https://logging.googleapis.com"
PAGE_SIZE = 1000


@dataclass
class TaskLog:
    """The log of one task of an execution, from the time `since` (RFC 3339) on."""

    session: "AuthorizedSession"
    project: str
    job: str
    execution: str
    task: int
    since: str
    _seen: set[str] = field(default_factory=set)

    def read_new_lines(self) -> Iterator[str]:
        """The lines since the last call, by time. Raises LoggingError and the errors of requests
        and google.auth."""
        for entry in self._entries():
            # Several entries may have the same time: those of the last time are requested again.
            if entry["insertId"] in self._seen:
                continue
            if entry["timestamp"] != self.since:
                self.since = entry["timestamp"]
                self._seen.clear()
            self._seen.add(entry["insertId"])
            yield _text(entry)

    def _entries(self) -> Iterator[Mapping[str, Any]]:
        endpoint = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", ENDPOINT).rstrip("/")
        body: dict[str, Any] = {
            "resourceNames": [f"projects/{self.project}"],
            "filter": self._filter(),
            "orderBy": "timestamp asc",
            "pageSize": PAGE_SIZE,
        }
        while True:
            response = self.session.post(f"{endpoint}/v2/entries:list", json=body, timeout=60)
            if response.status_code != 200:
                raise LoggingError(f"{response.status_code} {response.text[:500]}")
            page = response.json()
            yield from page.get("entries", ())
            if not page.get("nextPageToken"):
                return
            body["pageToken"] = page["nextPageToken"]

    def _filter(self) -> str:
        labels = {
            "resource.type": "cloud_run_job",
            "resource.labels.job_name": self.job,
            'labels."run.googleapis.com/execution_name"': self.execution,
            'labels."run.googleapis.com/task_index"': str(self.task),
        }
        parts = [f'{name} = "{value}"' for name, value in labels.items()]
        # Without a time, Cloud Logging would search all stored entries.
        parts.append(f'timestamp >= "{self.since}"')
        return " AND ".join(parts)


class LoggingError(Exception):
    """Cloud Logging returned an error instead of entries."""


def _text(entry: Mapping[str, Any]) -> str:
    if "textPayload" in entry:
        return str(entry["textPayload"])
    # A printed JSON object, or an entry of the platform.
    payload = entry.get("jsonPayload") or entry.get("protoPayload") or {}
    return json.dumps(payload)

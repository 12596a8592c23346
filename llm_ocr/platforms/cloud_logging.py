"""What tasks printed, from Cloud Logging, through the one method of its API that it takes."""

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
    """The log of one task of an execution, from `since` (RFC 3339) on; `more` gives what has come
    since it was last asked."""

    session: "AuthorizedSession"
    project: str
    job: str
    execution: str
    task: int
    since: str
    _seen: set[str] = field(default_factory=set)

    def more(self) -> Iterator[str]:
        """Lines, by the time at which they were printed. Raises requests' and google.auth's."""
        for entry in self._entries():
            # Several entries may have one time: those of the last one are asked for again.
            if entry["insertId"] in self._seen:
                continue
            if entry["timestamp"] != self.since:
                self.since = entry["timestamp"]
                self._seen.clear()
            self._seen.add(entry["insertId"])
            yield _text(entry)

    def _entries(self) -> Iterator[Mapping[str, Any]]:
        place = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", ENDPOINT).rstrip("/")
        body: dict[str, Any] = {
            "resourceNames": [f"projects/{self.project}"],
            "filter": self._filter(),
            "orderBy": "timestamp asc",
            "pageSize": PAGE_SIZE,
        }
        while True:
            answer = self.session.post(f"{place}/v2/entries:list", json=body, timeout=60)
            if answer.status_code != 200:
                raise LoggingError(f"{answer.status_code} {answer.text[:500]}")
            found = answer.json()
            yield from found.get("entries", ())
            if not found.get("nextPageToken"):
                return
            body["pageToken"] = found["nextPageToken"]

    def _filter(self) -> str:
        wanted = {
            "resource.type": "cloud_run_job",
            "resource.labels.job_name": self.job,
            'labels."run.googleapis.com/execution_name"': self.execution,
            'labels."run.googleapis.com/task_index"': str(self.task),
        }
        parts = [f'{name} = "{value}"' for name, value in wanted.items()]
        # Without a time all that is kept would be searched.
        parts.append(f'timestamp >= "{self.since}"')
        return " AND ".join(parts)


class LoggingError(Exception):
    """What Cloud Logging answered instead of entries."""


def _text(entry: Mapping[str, Any]) -> str:
    if "textPayload" in entry:
        return str(entry["textPayload"])
    # A line that was a JSON object, or the platform's own.
    payload = entry.get("jsonPayload") or entry.get("protoPayload") or {}
    return json.dumps(payload)

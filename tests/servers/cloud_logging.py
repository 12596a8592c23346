"""Cloud Logging's `entries:list`, over what the containers of Cloud Run print."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.servers.cloud_run_executions import Running

# Small, so that clients have to turn pages.
PAGE_SIZE = 5
_TERM = re.compile(r'\s*([\w.]+|labels\."[^"]+")\s*(>=|=)\s*"([^"]*)"\s*')


class BadFilterError(ValueError):
    """A filter that is none."""


@dataclass
class Logs:
    """Entries, with the times at which they were first seen."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    _read: dict[tuple[str, int, int], int] = field(default_factory=dict)
    _last: datetime = field(default_factory=lambda: datetime.now(UTC))

    def gather(self, location: str, running: Running) -> None:
        """Take what an execution's tasks have printed since."""
        for task, attempts in running.attempts.items():
            for number, attempt in enumerate(attempts):
                lines = attempt.container.lines()
                if attempt.is_over:
                    lines = [*lines, *attempt.said]
                key = (running.execution.name, task, number)
                done = self._read.get(key, 0)
                self._read[key] = len(lines)
                for line in lines[done:]:
                    self._add(location, running, (task, number), line)

    def _add(self, location: str, running: Running, which: tuple[int, int], line: str) -> None:
        # Every third has the time of the one before it.
        step = 0 if len(self.entries) % 3 == 2 else 1
        self._last = max(self._last + timedelta(microseconds=step), datetime.now(UTC))
        name = running.execution.name.rpartition("/")[2]
        entry: dict[str, Any] = {
            "insertId": f"{len(self.entries):08x}",
            "timestamp": self._last.isoformat().replace("+00:00", "Z"),
            "resource": {
                "type": "cloud_run_job",
                "labels": {"job_name": running.execution.job, "location": location},
            },
            "labels": {
                "run.googleapis.com/execution_name": name,
                "run.googleapis.com/task_index": str(which[0]),
                "run.googleapis.com/task_attempt": str(which[1]),
            },
        }
        try:
            payload = json.loads(line)
        except ValueError:
            payload = None
        taken_apart = isinstance(payload, dict)
        self.entries.append(
            {**entry, **({"jsonPayload": payload} if taken_apart else {"textPayload": line})}
        )

    def find(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request."""
        terms = _terms(body["filter"])
        found = [one for one in self.entries if all(_holds(one, *term) for term in terms)]
        found.sort(key=lambda one: str(one["timestamp"]))
        begin = int(body.get("pageToken", 0))
        end = begin + min(PAGE_SIZE, body["pageSize"])
        more = {"nextPageToken": str(end)} if end < len(found) else {}
        return {"entries": found[begin:end], **more}


def _terms(text: str) -> Sequence[tuple[str, str, str]]:
    terms = []
    for part in text.split(" AND "):
        term = _TERM.fullmatch(part)
        if term is None:
            raise BadFilterError(f"Unparseable filter: syntax error at {part}")
        terms.append((term[1], term[2], term[3]))
    return terms


def _holds(entry: Mapping[str, Any], name: str, operator: str, value: str) -> bool:
    if name.startswith("labels."):
        found = entry["labels"].get(name.removeprefix("labels.").strip('"'))
    else:
        found = entry
        for part in name.split("."):
            found = found.get(part, {})
    if operator == "=":
        return bool(found == value)
    return datetime.fromisoformat(str(found)) >= datetime.fromisoformat(value)

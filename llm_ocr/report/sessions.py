"""What each process that worked on a run was told, and what it took: `sessions/NAME.json`.

Written when it begins and again when it ends, so that one that was killed leaves its command.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from llm_ocr.storage.store import Store

FOLDER = "sessions"


@dataclass(frozen=True)
class SessionLog:
    """One process's part in a run.

    `started` is UTC in ISO 8601; `command` has no secrets; `readers` say by stage who was asked
    and how. `seconds` is None while it runs, and if it was killed; `pages` are those that it read.
    `price_per_hour` is in US dollars. It was `worker` (from 0) of `workers`. `held_back` is the
    share of its time in which each thing was what it waited for.
    """

    started: str
    command: str
    version: str
    stages: Sequence[str]
    readers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    engines: Sequence[str] = ()
    source_license: str | None = None
    price_per_hour: float | None = None
    seconds: float | None = None
    pages: int = 0
    worker: int = 0
    workers: int = 1
    held_back: Mapping[str, float] = field(default_factory=dict)

    @property
    def cost(self) -> float | None:
        """US dollars, or None if the price or the time isn't known."""
        if self.price_per_hour is None or self.seconds is None:
            return None
        return self.price_per_hour * self.seconds / 3600


def write_session(store: Store, name: str, record: SessionLog) -> None:
    store.put(f"{FOLDER}/{name}.json", json.dumps(asdict(record), indent=2).encode())


def delete_session(store: Store, name: str) -> None:
    store.delete([f"{FOLDER}/{name}.json"])


def read_sessions(store: Store) -> list[SessionLog]:
    """All sessions of a run, the first one first."""
    paths = [thing.path for thing in store.list(FOLDER) if thing.path.endswith(".json")]
    records: list[SessionLog] = []
    for path in paths:
        # One that found nothing to do takes its record back.
        with suppress(FileNotFoundError):
            records.append(SessionLog(**json.loads(store.get(path))))
    return sorted(records, key=lambda record: record.started)


def total_cost(sessions: Sequence[SessionLog]) -> float | None:
    """US dollars of the sessions whose cost is known; None if it is of none."""
    costs = [session.cost for session in sessions if session.cost is not None]
    return sum(costs) if costs else None

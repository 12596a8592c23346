"""Log sessions: the command of each process that worked on a run, and its costs, in
`sessions/NAME.json`.

Written when a session starts and again when it ends, so that a killed one leaves its command.
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
    """The log of one process's part in a run.

    `started` is UTC in ISO 8601; `command` has no secrets; `readers` has the model, prompt and
    sampling of each stage. `seconds` is None while the session runs, and if it was killed; `pages`
    counts the pages it read. `price_per_hour` is in US dollars. The process was `worker` (from 0)
    of `workers`. `bottlenecks` has the share of the time in which each resource limited the speed.
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
    bottlenecks: Mapping[str, float] = field(default_factory=dict)

    @property
    def cost(self) -> float | None:
        """The cost in US dollars; None if the price or the duration is not known."""
        if self.price_per_hour is None or self.seconds is None:
            return None
        return self.price_per_hour * self.seconds / 3600


def write_session(store: Store, name: str, log: SessionLog) -> None:
    store.put(f"{FOLDER}/{name}.json", json.dumps(asdict(log), indent=2).encode())


def delete_session(store: Store, name: str) -> None:
    store.delete([f"{FOLDER}/{name}.json"])


def read_sessions(store: Store) -> list[SessionLog]:
    """The logs of all sessions of a run, in order."""
    paths = [file.path for file in store.list(FOLDER) if file.path.endswith(".json")]
    logs: list[SessionLog] = []
    for path in paths:
        # A session that found nothing to do deletes its log.
        with suppress(FileNotFoundError):
            logs.append(SessionLog(**json.loads(store.get(path))))
    return sorted(logs, key=lambda log: log.started)


def total_cost(sessions: Sequence[SessionLog]) -> float | None:
    """The cost in US dollars of the sessions whose cost is known; None if there are none."""
    costs = [session.cost for session in sessions if session.cost is not None]
    return sum(costs) if costs else None

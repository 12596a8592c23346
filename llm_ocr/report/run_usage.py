"""What the pages of a run took: requests, tokens, seconds and US dollars."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from llm_ocr.report.sessions import read_sessions, total_cost
from llm_ocr.storage.store import Store
from llm_ocr.tables.read import read_table


@dataclass(frozen=True)
class RunUsage:
    """What reading the pages of a run took.

    `models` and `statuses` count pages; pages that no model read are in no count of `models`.
    `answer_seconds` is the time that answers took, summed over requests that ran at the same time;
    `session_seconds` the duration of the run's sessions, whatever stages they did, and `cost` in US
    dollars is theirs: both None if no session has them.
    """

    pages: int
    models: Mapping[str, int]
    statuses: Mapping[str, int]
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    answer_seconds: float
    session_seconds: float | None
    cost: float | None


_SUMMED = ("attempts", "prompt_tokens", "completion_tokens", "seconds")


def read_usage(store: Store) -> RunUsage:
    """The usage of the run in `store`, from its pages and its sessions."""
    sums = dict.fromkeys(_SUMMED, 0.0)
    models, statuses = Counter[str](), Counter[str]()
    for row in read_table(store, "pages", [*_SUMMED, "model", "status"]):
        statuses[row["status"]] += 1
        if row["model"] is not None:
            models[row["model"]] += 1
        for name in _SUMMED:
            sums[name] += row[name] or 0
    sessions = read_sessions(store)
    seconds = [session.seconds for session in sessions if session.seconds is not None]
    return RunUsage(
        pages=statuses.total(),
        models=dict(models.most_common()),
        statuses=dict(statuses.most_common()),
        attempts=int(sums["attempts"]),
        prompt_tokens=int(sums["prompt_tokens"]),
        completion_tokens=int(sums["completion_tokens"]),
        answer_seconds=sums["seconds"],
        session_seconds=sum(seconds) if seconds else None,
        cost=total_cost(sessions),
    )

"""Plan retries: which pages of a finished or unfinished run are read again.

    retries/NUMBER.json            what was asked for, and which generation of which shards it found
    retries/NUMBER/WORKER          of several workers, one that took part

A retry is done when all its shards have moved on from those generations, and later stages with
them. Until then the same command resumes it; afterwards the command starts another one.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

from llm_ocr.pipeline.partition import WorkerPartition
from llm_ocr.pipeline.pending import DEFAULT_STAGES, unfinished_shards
from llm_ocr.pipeline.rework import ReworkFactory
from llm_ocr.pipeline.stage_runner import ShardTask
from llm_ocr.records import ErrorCode, PageStatus
from llm_ocr.stages.extract import ExtractStage
from llm_ocr.stages.retry import COMPARED, RetryStage
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.counts import Counts
from llm_ocr.tables.plan import Plan
from llm_ocr.tables.read import read_shard_rows
from llm_ocr.tables.schema import Row

FOLDER = "retries"


class UnknownStatusError(ValueError):
    """A retry names a status or an error code that there is none of."""


@dataclass(frozen=True)
class PageFilter:
    """Pages with one of `statuses`, and of `errors` if there are any; `asked` says who answers."""

    statuses: tuple[str, ...]
    errors: tuple[str, ...]
    asked: Mapping[str, object]

    def is_among(self, counts: Counts) -> bool:
        """Whether a shard with these counts has such pages."""
        if self.errors:
            return any(counts.errors.get(code) for code in self.errors)
        return any(counts.statuses.get(status) for status in self.statuses)

    def chooses(self, row: Row) -> bool:
        if self.errors and row["error_code"] not in self.errors:
            return False
        return row["status"] in self.statuses


def wanted_pages(
    statuses: Iterable[str], errors: Iterable[str], asked: Mapping[str, object]
) -> PageFilter:
    """What `statuses` and `errors` name; raises UnknownStatusError."""
    return PageFilter(_known(statuses, PageStatus), _known(errors, ErrorCode), asked)


def _known(names: Iterable[str], kind: type[PageStatus] | type[ErrorCode]) -> tuple[str, ...]:
    known = [one.value for one in kind]
    several = sorted(set(names))
    for name in several:
        if name not in known:
            what = "status" if kind is PageStatus else "error code"
            raise UnknownStatusError(
                f"{name!r} is not a known {what}; choose from {', '.join(known)}"
            )
    return tuple(several)


@dataclass(frozen=True)
class Retry:
    """A retry that was begun: `shards` are those with such pages, in the generations it found."""

    number: int
    wanted: PageFilter
    shards: Mapping[str, int]

    def left(self, commit_index: CommitIndex) -> set[str]:
        """Shards that it has not done yet."""
        now = commit_index.committed("extract")
        return {name for name, generation in self.shards.items() if now.get(name) == generation}

    def is_done(self, commit_index: CommitIndex, plan: Plan) -> bool:
        shards = tuple(shard for shard in plan.shards if shard.name in self.shards)
        later = [stage for stage in DEFAULT_STAGES[1:] if commit_index.committed(stage)]
        return not self.left(commit_index) and not unfinished_shards(
            commit_index, Plan(shards, {}), later
        )


def open_retry(
    store: Store, commit_index: CommitIndex, plan: Plan, wanted: PageFilter, share: WorkerPartition
) -> Retry | None:
    """The retry to resume, or a new one; None where there is nothing to retry."""
    while True:
        last = _last(store)
        if (
            last is not None
            and last.wanted == wanted
            and _may_join(store, last, last.is_done(commit_index, plan), share)
        ):
            return last
        found = commit_index.entries("extract")
        shards = {
            name: one.generation for name, one in found.items() if wanted.is_among(one.counts)
        }
        if not shards:
            return None
        retry = Retry(0 if last is None else last.number + 1, wanted, shards)
        # Another worker may begin the same at the same time: then both do that one.
        store.create(f"{FOLDER}/{retry.number:03d}.json", _encoded(retry))


def _may_join(store: Store, retry: Retry, is_done: bool, share: WorkerPartition) -> bool:
    """Whether this worker joins the retry; one that comes late finds it done.

    A worker who took part in a finished one wants another.
    """
    if share.count == 1:
        return not is_done
    path = f"{FOLDER}/{retry.number:03d}/{share.index}-of-{share.count}"
    return store.create(path, b"") or not is_done


def _last(store: Store) -> Retry | None:
    paths = [one.path for one in store.list(FOLDER) if one.path.endswith(".json")]
    if not paths:
        return None
    path = max(paths)
    raw = json.loads(store.get(path))
    wanted = PageFilter(tuple(raw["statuses"]), tuple(raw["errors"]), raw["asked"])
    return Retry(int(PurePosixPath(path).stem), wanted, raw["shards"])


def _encoded(retry: Retry) -> bytes:
    return json.dumps({**vars(retry.wanted), "shards": retry.shards}).encode()


class Retrying:
    """Does a retry, shard by shard; see `llm_ocr.pipeline.rework.Again`."""

    def __init__(self, store: Store, commit_index: CommitIndex, retry: Retry) -> None:
        self._store, self._commit_index, self._retry = store, commit_index, retry
        self._chosen: dict[str, Sequence[Row]] = {}

    @property
    def command(self) -> str:
        wanted = self._retry.wanted
        errors = "".join(f" --error {code}" for code in wanted.errors)
        return f"retry --status {','.join(wanted.statuses)}{errors}"

    @property
    def asks(self) -> bool:
        return True

    def work(self, plan: Plan) -> list[ShardTask]:
        left, number = self._retry.left(self._commit_index), self._retry.number
        found = self._retry.shards
        return [
            ShardTask(
                shard,
                found[shard.name] + 1,
                {},
                partial(self._choose, shard.name),
                attempt_key=f"retry {number}",
            )
            for shard in plan.shards
            if shard.name in left
        ]

    def expected(self, work: ShardTask) -> int:
        """How many pages of a shard are retried, according to its commit."""
        counts, wanted = (
            self._commit_index.entries("extract")[work.shard.name].counts,
            self._retry.wanted,
        )
        if wanted.errors:
            return sum(counts.errors.get(code, 0) for code in wanted.errors)
        return sum(counts.statuses.get(status, 0) for status in wanted.statuses)

    def stage(self, extract: ExtractStage) -> RetryStage:
        return RetryStage(extract, lambda shard: self._chosen.pop(shard))

    def factory(self) -> ReworkFactory:
        return partial(Retrying, retry=self._retry)

    def mark_done(self, shards: Collection[str]) -> None:
        """Nothing to note: their commits say it."""

    @property
    def unchanged_pages(self) -> Mapping[str, int]:
        return {}

    def _choose(self, shard: str, store: Store) -> frozenset[str]:
        """Choose the shard's pages; what is not chosen is kept."""
        kept: set[str] = set()
        chosen: list[Row] = []
        for row in read_shard_rows(store, "pages", shard, self._retry.shards[shard], COMPARED):
            if self._retry.wanted.chooses(row):
                chosen.append(row)
            else:
                kept.add(row["page_id"])
        self._chosen[shard] = chosen
        return frozenset(kept)

"""Retry: ask again about pages that failed or are doubtful, and keep the better of both results.

    retries/NUMBER.json            what was asked for, and which generation of which shards it found
    retries/NUMBER/WORKER          of several workers, one that took part

A retry is done when all its shards have moved on from those generations, and later stages with
them. Until then the same command resumes it; afterwards the command starts another one.
"""

import json
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

from llm_ocr.batch.partition import WorkerPartition
from llm_ocr.batch.pending import DEFAULT_STAGES, unfinished_shards
from llm_ocr.batch.rework import ReworkFactory, ReworkStage
from llm_ocr.batch.stage_runner import RunContext, ShardTask
from llm_ocr.batch.stages import ExtractedPage, ExtractStage, RowItem
from llm_ocr.document.configure import extract_step, step_target
from llm_ocr.document.items import Item
from llm_ocr.documents import Document
from llm_ocr.records import ErrorCode, Page, PageError, PageStatus
from llm_ocr.storage.store import Store
from llm_ocr.tables.commit_index import CommitIndex
from llm_ocr.tables.counts import Counts, ItemResult, doubt_reason
from llm_ocr.tables.plan import Plan, Shard
from llm_ocr.tables.schema import Row

# The columns by which readings of a page are compared, and those that add up.
COSTS = ("attempts", "prompt_tokens", "completion_tokens", "seconds")
COMPARED = ("page_id", "doc_id", "page_number", "status", "error_code", "flaw", "markdown", *COSTS)
WORTH = {
    PageStatus.FAILED: 0,
    PageStatus.REPETITIVE: 1,
    PageStatus.TRUNCATED: 1,
    PageStatus.FALLBACK: 2,
    PageStatus.OK: 3,
    PageStatus.BLANK: 3,
}


def better_result(before: Row, result: ItemResult) -> ItemResult:
    """The new result of a page with the cost of both, or, if it is no better, the old one."""
    row = result.rows["pages"][0]
    paid = {name: (row[name] or 0) + (before[name] or 0) for name in COSTS}
    is_unimproved = not is_better(row, before)
    kept = before if is_unimproved else row
    return ItemResult(
        item_id=result.item_id,
        status=kept["status"],
        rows={} if is_unimproved else {**result.rows, "pages": [{**row, **paid}]},
        prompt_tokens=paid["prompt_tokens"],
        completion_tokens=paid["completion_tokens"],
        attempts=paid["attempts"],
        error_code=kept["error_code"],
        is_unimproved=is_unimproved,
        doubt=doubt_reason(kept),
    )


def is_better(row: Row, before: Row) -> bool:
    """Whether a page's new row is worth more than the old one.

    Of two good results the new one is, of two truncated ones the longer. A page that failed again
    keeps its old row.
    """
    worth, was = WORTH[row["status"]], WORTH[before["status"]]
    if worth != was:
        return worth > was
    if worth == WORTH[PageStatus.TRUNCATED]:
        return len(row["markdown"] or "") > len(before["markdown"] or "")
    return worth > WORTH[PageStatus.FAILED]


FOLDER = "retries"


class UnknownStatusError(ValueError):
    """A retry names an unknown status or error code."""


@dataclass(frozen=True)
class PageFilter:
    """Pages with one of `statuses`, and of `errors` if there are any; `asked` says who answers."""

    statuses: tuple[str, ...]
    errors: tuple[str, ...]
    asked: Mapping[str, object]

    def count(self, counts: Counts) -> int:
        """How many such pages a shard with these counts has."""
        if self.errors:
            return sum(counts.errors.get(code, 0) for code in self.errors)
        return sum(counts.statuses.get(status, 0) for status in self.statuses)

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

    def pending_generations(self, commit_index: CommitIndex) -> Mapping[str, int]:
        """The shards that it has not done yet, in the generations that it found."""
        now = commit_index.committed_generations("extract")
        return {name: found for name, found in self.shards.items() if now.get(name) == found}

    def is_done(self, commit_index: CommitIndex, plan: Plan) -> bool:
        shards = tuple(shard for shard in plan.shards if shard.name in self.shards)
        later = [stage for stage in DEFAULT_STAGES[1:] if commit_index.committed_generations(stage)]
        return not self.pending_generations(commit_index) and not unfinished_shards(
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
        shards = {name: one.generation for name, one in found.items() if wanted.count(one.counts)}
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


class RetryStage(ReworkStage[Row]):
    """The pages that a retry asks about again, as Extract would do them; each keeps the better of
    its two results."""

    columns = COMPARED

    def __init__(self, context: RunContext, retry: Retry) -> None:
        wanted, settings = retry.wanted, context.settings
        errors = (word for code in wanted.errors for word in ("--error", code))
        command = " ".join(["retry", "--status", ",".join(wanted.statuses), *errors])
        super().__init__(context, command, f"retry {retry.number}")
        self._retry = retry
        profile = step_target(settings, self.name).model.profile
        self._extract = ExtractStage(extract_step(settings, context.pool, profile))

    def pending_generations(self) -> Mapping[str, int]:
        return self._retry.pending_generations(self._commit_index)

    def choose(self, row: Row, plan: Plan) -> Row | None:
        return row if self._retry.wanted.chooses(row) else None

    def tasks(self, plan: Plan) -> list[ShardTask]:
        """As `ReworkStage.tasks`; how many pages are retried is known from the commits."""
        entries, wanted = self._commit_index.entries(self.name), self._retry.wanted
        return [
            replace(task, expected_items=wanted.count(entries[task.shard.name].counts))
            for task in super().tasks(plan)
        ]

    def factory(self) -> ReworkFactory:
        return partial(RetryStage, retry=self._retry)

    async def items(self, shard: Shard, done: Collection[str]) -> AsyncIterator[Item[ItemResult]]:
        chosen: dict[str, dict[int, Row]] = {}
        for row in self._chosen.pop(shard.name):
            chosen.setdefault(row["doc_id"], {})[row["page_number"]] = row
        for planned in shard.documents:
            # Only the rows of a dataset that have such a page are read again.
            wanted = chosen.keys()
            async for document, wrong in self._extract.pool.rows(planned.document, wanted):
                for item in await self._pages(document, wrong, chosen[document.doc_id], done):
                    yield item

    async def _pages(
        self,
        document: Document,
        error: PageError | None,
        before: Mapping[int, Row],
        done: Collection[str],
    ) -> Iterator[Item[ItemResult]]:
        if 0 in before:
            # The document could not be opened before: all its pages are new.
            pages = await self._extract.pages_of_one(document, error, done)
            before = {0: before[0]}
        else:
            info, _, error = await self._extract.extract.open(document, error)
            unfinished = set(before)
            pages = (
                self._extract.page(Page(document, number), info, error, unfinished)
                for number in sorted(before)
            )

        def compare(page: ExtractedPage) -> Item[ItemResult]:
            old = before.get(page.page.page.number)
            return page if old is None else RowItem(page, partial(better_result, old))

        return map(compare, pages)

"""Writing a shard: staged parts, one create-only commit, an idempotent publication.

    _staging/STAGE/SHARD/ATTEMPT/0000.json     a complete part: its tables' files and its items
    commits/STAGE/SHARD-GENERATION.json        written by put-if-absent: lists the parts that count
    data/TABLE/SHARD-GENERATION.parquet        rows in order; the only files that readers open

A worker that dies leaves parts, which its successor takes over, or a commit without its data,
which any later worker publishes. The protocol relies on nothing but put-if-absent (`create`).
"""

import hashlib
import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from llm_ocr.records import ROUTED
from llm_ocr.storage.store import Store
from llm_ocr.tables.commits import Commit, StagedPart, data_path, list_staged_parts, read_commit
from llm_ocr.tables.compact import COMPACTED_PATH, split_shard
from llm_ocr.tables.counts import CountMismatchError, Counts, ItemResult, doubt_reason, total
from llm_ocr.tables.merge import MergeInput, merge_files
from llm_ocr.tables.read import read_shard_rows
from llm_ocr.tables.schema import SCHEMAS, Row, encode, id_column, sort_key


class ShardWriter:
    """One worker's attempt at a generation of a shard of a stage.

    `add` buffers results in memory and `drain` returns them; `write_part` stages them; `commit`
    ends the attempt. The last two block on the store and may run in another thread. Rows are
    sorted by `order` (doc_id -> position in the shard), then by the numbers in their IDs. The items
    in `unchanged_ids` are not redone: their published rows are carried over. Attempts take over
    each other's parts if `inputs`, `cache_key` and `task_versions` are the same.
    """

    def __init__(
        self,
        store: Store,
        stage: str,
        shard: str,
        tables: Sequence[str],
        order: Mapping[str, int],
        *,
        generation: int = 0,
        inputs: Mapping[str, int] | None = None,
        unchanged_ids: Collection[str] = frozenset(),
        cache_key: str = "",
        task_versions: Mapping[str, str] | None = None,
    ) -> None:
        self.stage, self.shard, self.tables, self.order = stage, shard, tables, order
        self._store = store
        self._generation = generation
        self._inputs, self._unchanged_ids = dict(inputs or {}), frozenset(unchanged_ids)
        self._task_versions = dict(task_versions or {})
        compatible = f"{generation}-{_digest(self._inputs, cache_key, self._task_versions)}-"
        self._attempt = compatible + uuid.uuid4().hex[:12]
        self._parts = list_staged_parts(store, stage, shard, compatible)
        self._pending: list[ItemResult] = []
        self._part_count = 0

    @property
    def staged_items(self) -> frozenset[str]:
        """The items that earlier attempts have finished."""
        return frozenset(item for part in self._parts for item in part.items)

    @property
    def staged_counts(self) -> Counts:
        return total(part.counts for part in self._parts)

    @property
    def pending(self) -> int:
        """The number of results in memory."""
        return len(self._pending)

    def add(self, result: ItemResult) -> None:
        self._pending.append(result)

    def drain(self) -> list[ItemResult]:
        """Remove and return the results in memory, for `write_part`."""
        drained, self._pending = self._pending, []
        return drained

    def write_part(self, results: Sequence[ItemResult]) -> None:
        """Stage results as one part. It is complete with its `.json`, which is written last."""
        if not results:
            return
        base = f"_staging/{self.stage}/{self.shard}/{self._attempt}/{self._part_count:04d}"
        self._part_count += 1
        counts = Counts()
        for result in results:
            counts.count(result)
        files = {table: f"{base}.{table}.parquet" for table in self.tables}
        encoded: dict[str, bytes | Path] = {}
        for table, path in files.items():
            rows = [row for result in results for row in result.rows.get(table, ())]
            rows.sort(key=lambda row: sort_key(row[id_column(table)], self.order))
            encoded[path] = encode(rows, table)
        self._store.put_many(encoded, f"Stage a part of {self.stage}, shard {self.shard}")
        items = tuple(result.item_id for result in results)
        unimproved = tuple(result.item_id for result in results if result.is_unimproved)
        part = StagedPart(f"{base}.json", items, files, counts, unimproved)
        self._store.put(part.path, json.dumps(asdict(part)).encode())
        self._parts.append(part)

    def commit(self, items: Iterable[str]) -> Commit:
        """Commit the shard, whose items are `items` and the unchanged ones; if another worker was
        first, return its commit.

        Raises CountMismatchError unless every item is in exactly one part with exactly one status.
        """
        parts = tuple(self._parts)
        unimproved = {item for part in parts for item in part.unimproved_ids}
        counts = self.staged_counts
        try:
            counts.add(self._count_carried_over(unimproved))
        except FileNotFoundError:
            # Another worker has committed this generation and replaced the previous rows.
            return read_commit(self._store, self.stage, self.shard, self._generation)
        unchanged = self._unchanged_ids
        _verify_counts(
            f"{self.stage} shard {self.shard}",
            [*unchanged, *items],
            [*unchanged, *(item for part in parts for item in part.items)],
            counts,
        )
        commit = Commit(
            self.stage,
            self.shard,
            self._generation,
            self._inputs,
            parts,
            counts,
            unchanged,
            self._task_versions,
        )
        if self._store.create(commit.path, commit.to_json()):
            return commit
        return read_commit(self._store, self.stage, self.shard, self._generation)

    def _count_carried_over(self, unimproved: Collection[str]) -> Counts:
        """Counts of the published rows of unchanged items; of unimproved ones only their rows, as
        their status is counted in their part."""
        counts, unchanged = Counts(), self._unchanged_ids
        if not unchanged and not unimproved:
            return counts
        item = id_column(self.tables[0])
        for table in self.tables:
            columns = [name for name in (item, *COUNTED_COLUMNS) if name in SCHEMAS[table].names]
            previous = self._generation - 1
            for row in read_shard_rows(self._store, table, self.shard, previous, columns):
                if row[item] in unchanged or row[item] in unimproved:
                    counts.rows[table] = counts.rows.get(table, 0) + 1
                if table == self.tables[0] and row[item] in unchanged:
                    counts.count(_to_result(row, item))
        return counts


COUNTED_COLUMNS = (
    "status",
    "error_code",
    "attempts",
    "prompt_tokens",
    "completion_tokens",
    "task",
    "flaw",
    "strategy",
)


def _to_result(row: Row, item: str) -> ItemResult:
    """The result that a row came from, without its rows: for counting."""
    return ItemResult(
        item_id=row[item],
        status=row["status"],
        rows={},
        prompt_tokens=row["prompt_tokens"] or 0,
        completion_tokens=row["completion_tokens"] or 0,
        attempts=row["attempts"] or 0,
        error_code=row["error_code"],
        task=row.get("task"),
        doubt=doubt_reason(row),
        is_routed=row.get("strategy") == ROUTED,
    )


def _digest(inputs: Mapping[str, int], cache_key: str, task_versions: Mapping[str, str]) -> str:
    text = json.dumps(inputs, sort_keys=True) + cache_key
    text += json.dumps(task_versions, sort_keys=True) if task_versions else ""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _verify_counts(shard: str, items: list[str], results: list[str], counts: Counts) -> None:
    is_complete = sorted(results) == sorted(set(items)) and len(items) == len(set(items))
    status_count = sum(counts.statuses.values())
    if not is_complete or status_count != len(items):
        lost, extra = set(items) - set(results), set(results) - set(items)
        raise CountMismatchError(
            f"{shard}: {len(items)} items went in, {len(results)} came out with {status_count} "
            f"statuses (lost {sorted(lost)[:5]}, extra {sorted(extra)[:5]}). The shard was not "
            "published. This is a bug in llm_ocr; please report it"
        )


def publish(store: Store, commit: Commit, tables: Sequence[str], order: Mapping[str, int]) -> None:
    """Write a commit's rows to `data/`, in order, and delete older generations; idempotent.

    The shard's staged parts are deleted last.
    """
    was_compacted = commit.generation > 0 and store.exists(COMPACTED_PATH)
    for table in tables:
        if was_compacted:
            split_shard(store, table, commit.shard)
        path = commit.data_path(table)
        try:
            if not store.exists(path):
                sources = _merge_inputs(commit, table, id_column(tables[0]))
                merge_files(store, sources, table, path, order)
        except FileNotFoundError:
            # Another worker has published the same commit and deleted its parts.
            if not store.exists(path):
                raise
        older = range(commit.generation)
        store.delete(data_path(table, commit.shard, generation) for generation in older)
    delete_staging(store, commit)


def _merge_inputs(commit: Commit, table: str, item: str) -> list[MergeInput]:
    inputs = [MergeInput(part.files[table]) for part in commit.parts]
    carried_over = commit.carried_over
    if carried_over:
        previous = data_path(table, commit.shard, commit.generation - 1)
        inputs.append(MergeInput(previous, item, carried_over))
    return inputs


def delete_staging(store: Store, commit: Commit) -> None:
    """Delete the staged parts of a published shard, also those of attempts that came too late, but
    not of attempts at a later generation."""
    staged = (entry.path for entry in store.list(f"_staging/{commit.stage}/{commit.shard}"))
    store.delete([path for path in staged if _generation(path) <= commit.generation])


def _generation(staged: str) -> int:
    return int(staged.split("/")[3].partition("-")[0])

"""A shard's way to a table: staged parts, one commit, an idempotent publication.

    _staging/STAGE/SHARD/ATTEMPT/0000.json     a finished part: its tables' files and its items
    commits/STAGE/SHARD-GENERATION.json        put-if-absent: names the parts that count
    data/TABLE/SHARD-GENERATION.parquet        rows in order; only this is for readers

A worker that dies leaves parts, which its successor takes over; or a commit without its data,
which any later worker publishes. Only `create` is relied on.
"""

import hashlib
import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from llm_ocr.storage.store import Store
from llm_ocr.tables.commits import Commit, Part, data_path, read_commit, staged_parts
from llm_ocr.tables.compact import COMPACTED_PATH, split
from llm_ocr.tables.counts import BalanceError, Counts, ItemResult, doubt_of, total
from llm_ocr.tables.merge import Source, merge
from llm_ocr.tables.parquet import encode
from llm_ocr.tables.read import read_shard_rows
from llm_ocr.tables.schema import SCHEMAS, Row, id_column, sort_key


class ShardWriter:
    """One worker's attempt at a generation of a shard of a stage.

    `add` holds results in memory and `take` hands them over; `write_part` stages them; `commit`
    ends the attempt. The last two block on the store and may run in another thread. Rows are
    sorted by `order` (doc_id -> place in the shard), then by the numbers in their ids. The items
    `kept` are not done anew: their rows are the published ones. Attempts take over each other's
    parts where they are made from the same `inputs` for the same `purpose`, and `asked` the same.
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
        kept: Collection[str] = frozenset(),
        purpose: str = "",
        asked: Mapping[str, str] | None = None,
    ) -> None:
        self.stage, self.shard, self.tables, self.order = stage, shard, tables, order
        self._store = store
        self._generation = generation
        self._inputs, self._kept = dict(inputs or {}), frozenset(kept)
        self._asked = dict(asked or {})
        kind = f"{generation}-{_digest(self._inputs, purpose, self._asked)}-"
        self._attempt = kind + uuid.uuid4().hex[:12]
        self._parts = staged_parts(store, stage, shard, kind)
        self._held: list[ItemResult] = []
        self._written = 0

    @property
    def staged_items(self) -> frozenset[str]:
        """What earlier attempts have finished."""
        return frozenset(item for part in self._parts for item in part.items)

    @property
    def staged_counts(self) -> Counts:
        return total(part.counts for part in self._parts)

    @property
    def held(self) -> int:
        return len(self._held)

    def add(self, result: ItemResult) -> None:
        self._held.append(result)

    def take(self) -> list[ItemResult]:
        """The results held so far, for `write_part`; new ones are held apart from them."""
        taken, self._held = self._held, []
        return taken

    def write_part(self, results: Sequence[ItemResult]) -> None:
        """Stage results as one part; it counts from its `.json` on, which is written last."""
        if not results:
            return
        base = f"_staging/{self.stage}/{self.shard}/{self._attempt}/{self._written:04d}"
        self._written += 1
        counts = Counts()
        for result in results:
            counts.count(result)
        files = {table: f"{base}.{table}.parquet" for table in self.tables}
        encoded: dict[str, bytes | Path] = {}
        for table, path in files.items():
            rows = [row for result in results for row in result.rows.get(table, ())]
            rows.sort(key=lambda row: sort_key(row[id_column(table)], self.order))
            encoded[path] = encode(rows, table)
        self._store.put_many(encoded, f"A part of {self.stage}, shard {self.shard}")
        items = tuple(result.item_id for result in results)
        stands = tuple(result.item_id for result in results if result.stands)
        part = Part(f"{base}.json", items, files, counts, stands)
        self._store.put(part.path, json.dumps(asdict(part)).encode())
        self._parts.append(part)

    def commit(self, items: Iterable[str]) -> Commit:
        """Commit the shard, whose items are `items` and those kept, or read the commit that won
        against ours.

        Raises BalanceError unless every item is in exactly one part with exactly one status.
        """
        parts = tuple(self._parts)
        stands = {item for part in parts for item in part.stands}
        counts = self.staged_counts
        try:
            counts.add(self._counts_of(self._kept, stands))
        except FileNotFoundError:
            # Another worker committed this generation, and its rows stand in their place.
            return read_commit(self._store, self.stage, self.shard, self._generation)
        what = f"{self.stage} shard {self.shard}"
        _check_balance(what, [*self._kept, *items], [*self._kept, *_items(parts)], counts)
        commit = Commit(
            *(self.stage, self.shard, self._generation, self._inputs, parts, counts, self._kept),
            asked=self._asked,
        )
        if self._store.create(commit.path, commit.encoded()):
            return commit
        return read_commit(self._store, self.stage, self.shard, self._generation)

    def _counts_of(self, kept: Collection[str], stands: Collection[str]) -> Counts:
        """What the published rows of items count for; of those that stand, the rows alone."""
        counts = Counts()
        if not kept and not stands:
            return counts
        item = id_column(self.tables[0])
        for table in self.tables:
            columns = [name for name in (item, *COUNTED) if name in SCHEMAS[table].names]
            before = self._generation - 1
            for row in read_shard_rows(self._store, table, self.shard, before, columns):
                if row[item] in kept or row[item] in stands:
                    counts.rows[table] = counts.rows.get(table, 0) + 1
                if table == self.tables[0] and row[item] in kept:
                    counts.count(_counted(row, item))
        return counts


COUNTED = ("status", "error_code", "attempts", "prompt_tokens", "completion_tokens", "task", "flaw")


def _counted(row: Row, item: str) -> ItemResult:
    """A row as the result that it once was, for its counts alone."""
    return ItemResult(
        item_id=row[item],
        status=row["status"],
        rows={},
        prompt_tokens=row["prompt_tokens"] or 0,
        completion_tokens=row["completion_tokens"] or 0,
        attempts=row["attempts"] or 0,
        error_code=row["error_code"],
        task=row.get("task"),
        doubt=doubt_of(row),
    )


def _digest(inputs: Mapping[str, int], purpose: str, asked: Mapping[str, str]) -> str:
    made_of = json.dumps(inputs, sort_keys=True) + purpose
    made_of += json.dumps(asked, sort_keys=True) if asked else ""
    return hashlib.sha256(made_of.encode()).hexdigest()[:8]


def _items(parts: Iterable[Part]) -> list[str]:
    return [item for part in parts for item in part.items]


def _check_balance(what: str, items: list[str], rows: list[str], counts: Counts) -> None:
    is_whole = sorted(rows) == sorted(set(items)) and len(items) == len(set(items))
    if not is_whole or sum(counts.statuses.values()) != len(items):
        lost, extra = set(items) - set(rows), set(rows) - set(items)
        raise BalanceError(
            f"{what}: {len(items)} items went in, {len(rows)} came out with "
            f"{sum(counts.statuses.values())} statuses (lost {sorted(lost)[:5]}, "
            f"extra {sorted(extra)[:5]}); nothing of it was published. Please report this"
        )


def publish(store: Store, commit: Commit, tables: Sequence[str], order: Mapping[str, int]) -> None:
    """Write a commit's rows to `data/`, in order, in place of older generations; idempotent.

    The shard's staging is dropped last.
    """
    was_compacted = commit.generation > 0 and store.exists(COMPACTED_PATH)
    for table in tables:
        if was_compacted:
            split(store, table, commit.shard)
        path = commit.data_path(table)
        try:
            if not store.exists(path):
                sources = _sources(store, commit, table, id_column(tables[0]))
                merge(store, sources, table, path, order)
        except FileNotFoundError:
            # Another worker published the same commit and swept its parts meanwhile.
            if not store.exists(path):
                raise
        older = range(commit.generation)
        store.delete(data_path(table, commit.shard, generation) for generation in older)
    sweep(store, commit)


def _sources(store: Store, commit: Commit, table: str, item: str) -> list[Source]:
    sources = [Source(part.files[table]) for part in commit.parts]
    unchanged = commit.unchanged
    if unchanged:
        before = data_path(table, commit.shard, commit.generation - 1)
        sources.append(Source(before, item, unchanged))
    return sources


def sweep(store: Store, commit: Commit) -> None:
    """Drop the parts of a published shard, those of attempts that came too late included; an
    attempt at a later generation keeps its own."""
    staged = (thing.path for thing in store.list(f"_staging/{commit.stage}/{commit.shard}"))
    store.delete([path for path in staged if _generation(path) <= commit.generation])


def _generation(staged: str) -> int:
    return int(staged.split("/")[3].partition("-")[0])

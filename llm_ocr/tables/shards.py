"""A shard's way to a table: staged parts, one commit, an idempotent publication.

    _staging/STAGE/SHARD/ATTEMPT/0000.json     a finished part: its tables' files and its items
    commits/STAGE/SHARD/GENERATION.json        put-if-absent: names the parts that count
    data/TABLE/SHARD-GENERATION.parquet        rows in order; only this is for readers

A worker that dies leaves parts, which its successor takes over; or a commit without its data,
which any later worker publishes. Only `create` is relied on.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from llm_ocr.storage.store import Store
from llm_ocr.tables.merge import merge_parts
from llm_ocr.tables.parquet import encode
from llm_ocr.tables.schema import Row, id_column, sort_key


class BalanceError(Exception):
    """Items that went in and rows that came out differ: nothing may be published."""


@dataclass(frozen=True)
class ItemResult:
    """What became of one item: its rows by table, its status, and what it cost."""

    item_id: str
    status: str
    rows: Mapping[str, Sequence[Row]]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 0
    error_code: str | None = None


@dataclass
class Counts:
    """Items by status and what they cost; adds up over parts, shards and runs."""

    items: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def count(self, result: ItemResult) -> None:
        self.items += 1
        _tally(self.statuses, result.status, 1)
        if result.error_code is not None:
            _tally(self.errors, result.error_code, 1)
        _tally(self.attempts, str(result.attempts), 1)
        for table, rows in result.rows.items():
            _tally(self.rows, table, len(rows))
        self.prompt_tokens += result.prompt_tokens
        self.completion_tokens += result.completion_tokens

    def add(self, other: "Counts") -> None:
        self.items += other.items
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        for name in ("statuses", "errors", "attempts", "rows"):
            for key, value in getattr(other, name).items():
                _tally(getattr(self, name), key, value)


def _tally(into: dict[str, int], key: str, value: int) -> None:
    into[key] = into.get(key, 0) + value


@dataclass(frozen=True)
class Part:
    """A staged part: the items in it, its files by table, the counts of its items."""

    path: str
    items: tuple[str, ...]
    files: Mapping[str, str]
    counts: Counts


@dataclass(frozen=True)
class Commit:
    """A shard's commit of one stage.

    `inputs` are the generations of the earlier stages that it was made from: when one of them
    moves on, the shard is due again.
    """

    stage: str
    shard: str
    generation: int
    inputs: Mapping[str, int]
    parts: tuple[Part, ...]
    counts: Counts

    @property
    def path(self) -> str:
        return f"commits/{self.stage}/{self.shard}/{self.generation}.json"

    def data_path(self, table: str) -> str:
        return data_path(table, self.shard, self.generation)


def data_path(table: str, shard: str, generation: int) -> str:
    return f"data/{table}/{shard}-{generation}.parquet"


def committed(store: Store, stage: str) -> dict[str, int]:
    """Shard -> its highest committed generation; one listing, no reads."""
    found: dict[str, int] = {}
    for thing in store.list(f"commits/{stage}"):
        shard, name = thing.path.split("/")[-2:]
        found[shard] = max(found.get(shard, -1), int(name.removesuffix(".json")))
    return found


def read_commit(store: Store, stage: str, shard: str, generation: int) -> Commit:
    raw = json.loads(store.get(f"commits/{stage}/{shard}/{generation}.json"))
    parts = tuple(_part(part) for part in raw["parts"])
    return Commit(stage, shard, generation, raw["inputs"], parts, Counts(**raw["counts"]))


def staged_parts(store: Store, stage: str, shard: str, attempts: str) -> list[Part]:
    """Whole parts that earlier attempts at the shard left, none holding an item of another.

    `attempts` is what the names of attempts that count begin with.
    """
    folder = f"_staging/{stage}/{shard}"
    paths = sorted(
        thing.path
        for thing in store.list(folder)
        if thing.path.startswith(f"{folder}/{attempts}") and thing.path.endswith(".json")
    )
    taken: set[str] = set()
    parts: list[Part] = []
    for path in paths:
        part = _part(json.loads(store.get(path)))
        if taken.isdisjoint(part.items):
            taken.update(part.items)
            parts.append(part)
    return parts


def _part(raw: Mapping[str, Any]) -> Part:
    return Part(raw["path"], tuple(raw["items"]), raw["files"], Counts(**raw["counts"]))


class ShardWriter:
    """One worker's attempt at a generation of a shard of a stage.

    `add` holds results in memory and `take` hands them over; `write_part` stages them; `commit`
    ends the attempt. The last two block on the store and may run in another thread. Rows are
    sorted by `order` (doc_id -> place in the shard), then by the numbers in their ids.
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
    ) -> None:
        self.stage, self.shard, self.tables, self.order = stage, shard, tables, order
        self._store = store
        self._generation = generation
        self._inputs = dict(inputs or {})
        kind = f"{generation}-{_digest(self._inputs)}-"
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
        part = Part(f"{base}.json", tuple(result.item_id for result in results), files, counts)
        self._store.put(part.path, json.dumps(asdict(part)).encode())
        self._parts.append(part)

    def commit(self, items: Iterable[str]) -> Commit:
        """Commit the shard, whose items are `items`, or read the commit that won against ours.

        Raises BalanceError unless every item is in exactly one part with exactly one status.
        """
        counts = self.staged_counts
        _check_balance(f"{self.stage} shard {self.shard}", list(items), self._parts, counts)
        parts = tuple(self._parts)
        commit = Commit(self.stage, self.shard, self._generation, self._inputs, parts, counts)
        body = {
            "inputs": self._inputs,
            "counts": asdict(counts),
            "parts": [asdict(part) for part in parts],
        }
        if self._store.create(commit.path, json.dumps(body).encode()):
            return commit
        return read_commit(self._store, self.stage, self.shard, self._generation)


def _digest(inputs: Mapping[str, int]) -> str:
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:8]


def _check_balance(what: str, items: list[str], parts: Iterable[Part], counts: Counts) -> None:
    rows = [item for part in parts for item in part.items]
    if sorted(rows) != sorted(items) or sum(counts.statuses.values()) != len(items):
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
    for table in tables:
        path = commit.data_path(table)
        try:
            if not store.exists(path):
                merge_parts(store, [part.files[table] for part in commit.parts], table, path, order)
        except FileNotFoundError:
            # Another worker published the same commit and swept its parts meanwhile.
            if not store.exists(path):
                raise
        older = range(commit.generation)
        store.delete(data_path(table, commit.shard, generation) for generation in older)
    staged = [thing.path for thing in store.list(f"_staging/{commit.stage}/{commit.shard}")]
    store.delete(staged)


def total(counts: Iterable[Counts]) -> Counts:
    """The sum of counts."""
    whole = Counts()
    for one in counts:
        whole.add(one)
    return whole

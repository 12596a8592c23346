"""Commits of shards, and the staged parts that they name, as they lie on a store."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from llm_ocr.storage.store import Store
from llm_ocr.tables.counts import Counts


@dataclass(frozen=True)
class Part:
    """A staged part: the items in it, its files by table, the counts of its items.

    `stands` are those of its items that were done anew and got no better: the part has no rows of
    them, for those of the generation before stand.
    """

    path: str
    items: tuple[str, ...]
    files: Mapping[str, str]
    counts: Counts
    stands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Commit:
    """A shard's commit of one stage.

    `inputs` are the generations of the earlier stages that it was made from: when one of them
    moves on, the shard is due again. `kept` are items that were not done anew. `asked` says what
    each item was asked, by task, where a stage has several tasks.
    """

    stage: str
    shard: str
    generation: int
    inputs: Mapping[str, int]
    parts: tuple[Part, ...]
    counts: Counts
    kept: frozenset[str] = frozenset()
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return commit_path(self.stage, self.shard, self.generation)

    @property
    def unchanged(self) -> frozenset[str]:
        """Items whose rows are those of the generation before."""
        return self.kept.union(*(part.stands for part in self.parts))

    def data_path(self, table: str) -> str:
        return data_path(table, self.shard, self.generation)

    def encoded(self) -> bytes:
        body = {
            "inputs": dict(self.inputs),
            "counts": asdict(self.counts),
            "parts": [asdict(part) for part in self.parts],
            "kept": sorted(self.kept),
            "asked": dict(self.asked),
        }
        return json.dumps(body).encode()


def commit_path(stage: str, shard: str, generation: int) -> str:
    return f"commits/{stage}/{shard}-{generation}.json"


def data_path(table: str, shard: str, generation: int) -> str:
    return f"data/{table}/{shard}-{generation}.parquet"


def committed(store: Store, stage: str) -> dict[str, int]:
    """Shard -> its highest committed generation; one listing, no reads."""
    found: dict[str, int] = {}
    for thing in store.list(f"commits/{stage}"):
        shard, generation = parse_commit_path(thing.path)
        found[shard] = max(found.get(shard, -1), generation)
    return found


def parse_commit_path(path: str) -> tuple[str, int]:
    """The shard and the generation of the commit at a path."""
    shard, _, generation = path.rpartition("/")[2].removesuffix(".json").rpartition("-")
    return shard, int(generation)


def read_commit(store: Store, stage: str, shard: str, generation: int) -> Commit:
    raw = json.loads(store.get(commit_path(stage, shard, generation)))
    parts = tuple(_part(part) for part in raw["parts"])
    counts, kept = Counts(**raw["counts"]), frozenset(raw.get("kept", ()))
    asked = raw.get("asked", {})
    return Commit(stage, shard, generation, raw["inputs"], parts, counts, kept, asked)


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
        try:
            part = read_part(store, path)
        except FileNotFoundError:
            # Another worker has published the shard just now; its commit will win.
            continue
        if taken.isdisjoint(part.items):
            taken.update(part.items)
            parts.append(part)
    return parts


def read_part(store: Store, path: str) -> Part:
    return _part(json.loads(store.get(path)))


def _part(raw: Mapping[str, Any]) -> Part:
    counts, stands = Counts(**raw["counts"]), tuple(raw.get("stands", ()))
    return Part(raw["path"], tuple(raw["items"]), raw["files"], counts, stands)


def unchanged_since(store: Store, stage: str, shard: str, old: int, new: int) -> frozenset[str]:
    """The items of a shard whose rows are the same in generation `new` as they were in `old`."""
    commits = (read_commit(store, stage, shard, between) for between in range(old + 1, new + 1))
    same = [commit.unchanged for commit in commits]
    return frozenset.intersection(*same) if same else frozenset()

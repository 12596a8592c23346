"""Shard commits and the staged parts that they list, as JSON on a store."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from llm_ocr.storage.store import Store
from llm_ocr.tables.counts import Counts


@dataclass(frozen=True)
class StagedPart:
    """A staged part: its items, its files by table, the counts of its items.

    `unimproved_ids` are those of its items that were redone without a better result: the part has
    no rows of them, as their rows in the previous generation remain.
    """

    path: str
    items: tuple[str, ...]
    files: Mapping[str, str]
    counts: Counts
    unimproved_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Commit:
    """A shard's commit of one stage.

    `inputs` are the generations of the earlier stages that it was made from: a shard with newer
    inputs is pending again. `unchanged_ids` are items that were not redone. `task_versions` has
    the version of each of the stage's tasks.
    """

    stage: str
    shard: str
    generation: int
    inputs: Mapping[str, int]
    parts: tuple[StagedPart, ...]
    counts: Counts
    unchanged_ids: frozenset[str] = frozenset()
    task_versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return commit_path(self.stage, self.shard, self.generation)

    @property
    def carried_over(self) -> frozenset[str]:
        """Items whose rows are those of the previous generation."""
        return self.unchanged_ids.union(*(part.unimproved_ids for part in self.parts))

    def data_path(self, table: str) -> str:
        return data_path(table, self.shard, self.generation)

    def to_json(self) -> bytes:
        body = {
            "inputs": dict(self.inputs),
            "counts": asdict(self.counts),
            "parts": [asdict(part) for part in self.parts],
            "unchanged_ids": sorted(self.unchanged_ids),
            "task_versions": dict(self.task_versions),
        }
        return json.dumps(body).encode()


def commit_path(stage: str, shard: str, generation: int) -> str:
    return f"commits/{stage}/{shard}-{generation}.json"


def data_path(table: str, shard: str, generation: int) -> str:
    return f"data/{table}/{shard}-{generation}.parquet"


def latest_generations(store: Store, stage: str) -> dict[str, int]:
    """Shard -> its highest committed generation; one listing, no reads."""
    latest: dict[str, int] = {}
    for entry in store.list(f"commits/{stage}"):
        shard, generation = parse_commit_path(entry.path)
        latest[shard] = max(latest.get(shard, -1), generation)
    return latest


def parse_commit_path(path: str) -> tuple[str, int]:
    """The shard and generation of the commit at a path."""
    shard, _, generation = path.rpartition("/")[2].removesuffix(".json").rpartition("-")
    return shard, int(generation)


def read_commit(store: Store, stage: str, shard: str, generation: int) -> Commit:
    raw = json.loads(store.get(commit_path(stage, shard, generation)))
    return Commit(
        stage,
        shard,
        generation,
        raw["inputs"],
        tuple(_parse_part(part) for part in raw["parts"]),
        Counts(**raw["counts"]),
        frozenset(raw.get("unchanged_ids", ())),
        raw.get("task_versions", {}),
    )


def list_staged_parts(store: Store, stage: str, shard: str, attempts: str) -> list[StagedPart]:
    """Complete parts of earlier attempts at the shard; no item is in two of them.

    Only attempts whose names begin with `attempts` count.
    """
    folder = f"_staging/{stage}/{shard}"
    paths = sorted(
        entry.path
        for entry in store.list(folder)
        if entry.path.startswith(f"{folder}/{attempts}") and entry.path.endswith(".json")
    )
    seen: set[str] = set()
    parts: list[StagedPart] = []
    for path in paths:
        try:
            part = read_staged_part(store, path)
        except FileNotFoundError:
            # Another worker has just published the shard; its commit will win.
            continue
        if seen.isdisjoint(part.items):
            seen.update(part.items)
            parts.append(part)
    return parts


def read_staged_part(store: Store, path: str) -> StagedPart:
    return _parse_part(json.loads(store.get(path)))


def _parse_part(raw: Mapping[str, Any]) -> StagedPart:
    counts, unimproved = Counts(**raw["counts"]), tuple(raw.get("unimproved_ids", ()))
    return StagedPart(raw["path"], tuple(raw["items"]), raw["files"], counts, unimproved)


def unchanged_since(store: Store, stage: str, shard: str, old: int, new: int) -> frozenset[str]:
    """The items of a shard whose rows are the same in generation `new` as they were in `old`."""
    commits = (read_commit(store, stage, shard, between) for between in range(old + 1, new + 1))
    carried_over = [commit.carried_over for commit in commits]
    return frozenset.intersection(*carried_over) if carried_over else frozenset()

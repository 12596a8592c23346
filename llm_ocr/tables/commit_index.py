"""An index of a run's commits, so that few objects need to be read.

    commits/index/SESSION.json.gz     stage -> shard -> generation, inputs, counts

Each session writes a summary of the commits that it published to its own object; the session that
finds the run finished merges them into one. The index is derived data: a commit that is missing
from it is read itself.
"""

import gzip
import json
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from llm_ocr.storage.store import Store, StoredObject
from llm_ocr.tables.commits import Commit, parse_commit_path, read_commit
from llm_ocr.tables.counts import Counts

INDEX_FOLDER = "commits/index"
# How often a running session rewrites its object at most.
WRITE_SECONDS = 60.0
MAX_PARALLEL_READS = 16

_Key = tuple[str, str]


@dataclass(frozen=True)
class CommitSummary:
    """What the index keeps of a commit."""

    generation: int
    inputs: Mapping[str, int]
    counts: Counts
    task_versions: Mapping[str, str] = field(default_factory=dict)


class CommitIndex:
    """The commits of `stages` as of the last `refresh`, and those added since.

    Blocks on the store. Thread safe.
    """

    def __init__(self, store: Store, stages: Iterable[str]) -> None:
        self._store, self._stages = store, tuple(stages)
        self._committed: dict[str, dict[str, int]] = {stage: {} for stage in self._stages}
        self._times: dict[_Key, float] = {}
        self._published: dict[_Key, CommitSummary] = {}
        self._unpublished: dict[_Key, CommitSummary] = {}
        self._own: dict[_Key, CommitSummary] = {}
        self._path = f"{INDEX_FOLDER}/{uuid.uuid4().hex[:12]}.json.gz"
        self._read: dict[str, str] = {}
        self._written_at = time.monotonic()
        self._is_written = True
        self._lock = threading.RLock()

    def refresh(self, max_reads: int | None = None) -> None:
        """List the commits of each stage, read what other sessions indexed, and read at most
        `max_reads` commits that are not indexed (None: all of them)."""
        with self._lock, ThreadPoolExecutor(MAX_PARALLEL_READS) as threads:
            listing = threads.submit(lambda: list(self._store.list(INDEX_FOLDER)))
            for stage, found in zip(
                self._stages, threads.map(self._list_stage, self._stages), strict=True
            ):
                self._committed[stage] = found
            new = [file for file in listing.result() if self._read.get(file.path) != file.version]
            for file, entries in zip(new, threads.map(self._read_file, new), strict=True):
                self._read[file.path] = file.version
                for key, entry in entries.items():
                    self._update(self._published, key, entry)
            missing = [key for key in self._keys() if self._entry(*key) is None][:max_reads]
            for key, entry in zip(missing, threads.map(self._read_entry, missing), strict=True):
                self._unpublished[key] = entry

    def entries(self, stage: str) -> dict[str, CommitSummary]:
        """Shard -> its commit's summary; commits beyond `max_reads` of `refresh` are missing."""
        found = {shard: self._entry(stage, shard) for shard in self._committed[stage]}
        return {shard: entry for shard, entry in found.items() if entry is not None}

    def committed_generations(self, stage: str) -> Mapping[str, int]:
        """Shard -> its highest committed generation."""
        return self._committed[stage]

    def committed_at(self, stage: str, shard: str) -> float:
        """When the shard was committed, in seconds since the epoch; 0 if unknown."""
        return self._times.get((stage, shard), 0.0)

    def is_published(self, stage: str, shard: str) -> bool:
        """Whether the shard's commit is known to be published; if not, `data/` must be checked."""
        entry = self._published.get((stage, shard))
        return entry is not None and entry.generation == self._committed[stage].get(shard)

    def add(self, commit: Commit) -> None:
        """Add a commit that has been published."""
        key = commit.stage, commit.shard
        entry = _summarize(commit)
        with self._lock:
            latest = self._committed[commit.stage].get(commit.shard, -1)
            self._committed[commit.stage][commit.shard] = max(latest, commit.generation)
            self._update(self._published, key, entry)
            self._update(self._own, key, entry)
            self._is_written = False
            if time.monotonic() - self._written_at >= WRITE_SECONDS:
                self.write()

    def mark_published(self, stage: str, shard: str) -> None:
        """Record that a commit read by `refresh` is published."""
        entry = self._unpublished[stage, shard]
        with self._lock:
            self._update(self._published, (stage, shard), entry)
            self._update(self._own, (stage, shard), entry)
            self._is_written = False

    def write(self) -> None:
        """Write this session's part of the index."""
        with self._lock:
            if not self._is_written:
                self._put(self._path, self._own)
                self._is_written, self._written_at = True, time.monotonic()

    def consolidate(self) -> None:
        """Merge the objects of all sessions that were read into one."""
        with self._lock:
            others = [path for path in self._read if path != self._path]
            if len(others) + bool(self._own) < 2:
                self.write()
                return
            self._own, self._is_written = dict(self._published), False
            self.write()
            self._store.delete(others)

    def _keys(self) -> list[_Key]:
        return [(stage, shard) for stage, found in self._committed.items() for shard in found]

    def _entry(self, stage: str, shard: str) -> CommitSummary | None:
        generation = self._committed[stage].get(shard)
        for known in (self._published, self._unpublished):
            entry = known.get((stage, shard))
            if entry is not None and entry.generation == generation:
                return entry
        return None

    @staticmethod
    def _update(known: dict[_Key, CommitSummary], key: _Key, entry: CommitSummary) -> None:
        if key not in known or known[key].generation <= entry.generation:
            known[key] = entry

    def _list_stage(self, stage: str) -> dict[str, int]:
        latest: dict[str, int] = {}
        for entry in self._store.list(f"commits/{stage}"):
            shard, generation = parse_commit_path(entry.path)
            if generation >= latest.get(shard, 0):
                latest[shard] = generation
                self._times[stage, shard] = entry.modified
        return latest

    def _read_entry(self, key: _Key) -> CommitSummary:
        stage, shard = key
        return _summarize(read_commit(self._store, stage, shard, self._committed[stage][shard]))

    def _read_file(self, file: StoredObject) -> dict[_Key, CommitSummary]:
        try:
            raw = json.loads(gzip.decompress(self._store.get(file.path)))
        except FileNotFoundError:
            # Another session has just merged the objects into one.
            return {}
        return {
            (stage, shard): CommitSummary(
                entry["generation"],
                entry["inputs"],
                Counts(**entry["counts"]),
                entry.get("task_versions", {}),
            )
            for stage, shards in raw.items()
            for shard, entry in shards.items()
        }

    def _put(self, path: str, entries: Mapping[_Key, CommitSummary]) -> None:
        body: dict[str, dict[str, Any]] = {}
        for (stage, shard), entry in sorted(entries.items()):
            counts = {key: value for key, value in vars(entry.counts).items() if value}
            fields: dict[str, Any] = {"generation": entry.generation, "inputs": dict(entry.inputs)}
            fields["counts"] = counts
            if entry.task_versions:
                fields["task_versions"] = dict(entry.task_versions)
            body.setdefault(stage, {})[shard] = fields
        self._store.put(path, gzip.compress(json.dumps(body).encode(), compresslevel=5))


def _summarize(commit: Commit) -> CommitSummary:
    return CommitSummary(commit.generation, commit.inputs, commit.counts, commit.task_versions)

"""What all commits of a run say in brief, gathered in few objects so that few are read.

    commits/ledger/SESSION.json.gz     stage -> shard -> generation, inputs, counts

Each session writes what it committed and published to an object of its own; whoever finds a run
finished makes one of all. It is derived: what is missing there is read from its commit.
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

FOLDER = "commits/ledger"
# A session's object is written anew at most so often while it goes on.
WRITE_SECONDS = 60.0
AT_ONCE = 16

_Key = tuple[str, str]


@dataclass(frozen=True)
class Entry:
    """A commit in brief."""

    generation: int
    inputs: Mapping[str, int]
    counts: Counts
    asked: Mapping[str, str] = field(default_factory=dict)


class Ledger:
    """The commits of `stages` as `refresh` found them, and as they were noted since.

    Blocks on the store. May be used by several threads.
    """

    def __init__(self, store: Store, stages: Iterable[str]) -> None:
        self._store, self._stages = store, tuple(stages)
        self._committed: dict[str, dict[str, int]] = {stage: {} for stage in self._stages}
        self._times: dict[_Key, float] = {}
        self._published: dict[_Key, Entry] = {}
        self._unpublished: dict[_Key, Entry] = {}
        self._own: dict[_Key, Entry] = {}
        self._path = f"{FOLDER}/{uuid.uuid4().hex[:12]}.json.gz"
        self._read: dict[str, str] = {}
        self._written_at = time.monotonic()
        self._is_written = True
        self._lock = threading.RLock()

    def refresh(self, most: int | None = None) -> None:
        """Look again: a listing a stage, what other sessions gathered, and at most `most` reads
        of commits that nobody did (None: all of them)."""
        with self._lock, ThreadPoolExecutor(AT_ONCE) as threads:
            gathered = threads.submit(lambda: list(self._store.list(FOLDER)))
            for stage, found in zip(
                self._stages, threads.map(self._list_stage, self._stages), strict=True
            ):
                self._committed[stage] = found
            new = [one for one in gathered.result() if self._read.get(one.path) != one.version]
            for object_, entries in zip(new, threads.map(self._gathered, new), strict=True):
                self._read[object_.path] = object_.version
                for key, entry in entries.items():
                    self._keep(self._published, key, entry)
            missing = [key for key in self._keys() if self._entry(*key) is None][:most]
            for key, entry in zip(missing, threads.map(self._read_entry, missing), strict=True):
                self._unpublished[key] = entry

    def entries(self, stage: str) -> dict[str, Entry]:
        """Shard -> its commit; without those that were too many to be read."""
        found = {shard: self._entry(stage, shard) for shard in self._committed[stage]}
        return {shard: entry for shard, entry in found.items() if entry is not None}

    def committed(self, stage: str) -> Mapping[str, int]:
        """Shard -> its highest generation."""
        return self._committed[stage]

    def time_of(self, stage: str, shard: str) -> float:
        """When the shard was committed, in seconds since the epoch; 0 where nobody knows."""
        return self._times.get((stage, shard), 0.0)

    def is_published(self, stage: str, shard: str) -> bool:
        """Whether its commit is known to be published; else that is to be looked up."""
        entry = self._published.get((stage, shard))
        return entry is not None and entry.generation == self._committed[stage].get(shard)

    def note(self, commit: Commit) -> None:
        """A commit that is published."""
        key = commit.stage, commit.shard
        entry = _brief(commit)
        with self._lock:
            at = self._committed[commit.stage].get(commit.shard, -1)
            self._committed[commit.stage][commit.shard] = max(at, commit.generation)
            self._keep(self._published, key, entry)
            self._keep(self._own, key, entry)
            self._is_written = False
            if time.monotonic() - self._written_at >= WRITE_SECONDS:
                self.write()

    def confirm(self, stage: str, shard: str) -> None:
        """A commit that was read is found to be published."""
        entry = self._unpublished[stage, shard]
        with self._lock:
            self._keep(self._published, (stage, shard), entry)
            self._keep(self._own, (stage, shard), entry)
            self._is_written = False

    def write(self) -> None:
        """Gather what this session noted."""
        with self._lock:
            if not self._is_written:
                self._put(self._path, self._own)
                self._is_written, self._written_at = True, time.monotonic()

    def gather(self) -> None:
        """Make one object of all that were read."""
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

    def _entry(self, stage: str, shard: str) -> Entry | None:
        generation = self._committed[stage].get(shard)
        for known in (self._published, self._unpublished):
            entry = known.get((stage, shard))
            if entry is not None and entry.generation == generation:
                return entry
        return None

    @staticmethod
    def _keep(known: dict[_Key, Entry], key: _Key, entry: Entry) -> None:
        if key not in known or known[key].generation <= entry.generation:
            known[key] = entry

    def _list_stage(self, stage: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for thing in self._store.list(f"commits/{stage}"):
            shard, generation = parse_commit_path(thing.path)
            if generation >= found.get(shard, 0):
                found[shard] = generation
                self._times[stage, shard] = thing.modified
        return found

    def _read_entry(self, key: _Key) -> Entry:
        stage, shard = key
        return _brief(read_commit(self._store, stage, shard, self._committed[stage][shard]))

    def _gathered(self, found: StoredObject) -> dict[_Key, Entry]:
        try:
            raw = json.loads(gzip.decompress(self._store.get(found.path)))
        except FileNotFoundError:
            # Another session has just made one object of all.
            return {}
        return {
            (stage, shard): Entry(
                one["generation"], one["inputs"], Counts(**one["counts"]), one.get("asked", {})
            )
            for stage, shards in raw.items()
            for shard, one in shards.items()
        }

    def _put(self, path: str, entries: Mapping[_Key, Entry]) -> None:
        body: dict[str, dict[str, Any]] = {}
        for (stage, shard), entry in sorted(entries.items()):
            counts = {key: value for key, value in vars(entry.counts).items() if value}
            one = {"generation": entry.generation, "inputs": dict(entry.inputs), "counts": counts}
            one |= {"asked": dict(entry.asked)} if entry.asked else {}
            body.setdefault(stage, {})[shard] = one
        self._store.put(path, gzip.compress(json.dumps(body).encode(), compresslevel=5))


def _brief(commit: Commit) -> Entry:
    return Entry(commit.generation, commit.inputs, commit.counts, commit.asked)

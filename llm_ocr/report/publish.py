"""A finished run's outputs brought to a dataset repository on the Hub, in few commits.

What is large is uploaded first, which nobody sees; commits then name it. Each is made on top of the
commit that was looked at, so that of two who publish at once one starts over, and finds done what
the other did. The summary comes last: a repository that has the run's summary has all of it.
"""

import json
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from llm_ocr.messages import counted
from llm_ocr.report.dataset_card import CARD_PATH, is_generated
from llm_ocr.report.outputs import VIEWER_PATH
from llm_ocr.report.summary import SUMMARY_PATH
from llm_ocr.storage.hub import Addition, Deletion, HubDatasetStore, Operation, possible_versions
from llm_ocr.storage.hub_client import CommitConflictError
from llm_ocr.storage.store import StorageError, Store, StoredObject
from llm_ocr.tables.data_files import TABLE_FILE, published_ranges, shard_span
from llm_ocr.tables.schema import SCHEMAS

# The largest commit, and what is uploaded at a time.
COMMIT_FILES = 500
UPLOAD_FILES, UPLOAD_BYTES = 64, 1 << 30
ATTEMPTS, LONGEST_PAUSE = 20, 8.0
CHUNK = 8 << 20
# Beside the tables, in this order; what of them there is.
FILES = (CARD_PATH, VIEWER_PATH, SUMMARY_PATH)
# In the run's own place: each table file as it was when published, and its ids in the repository.
RECORD_PATH = "published.json"

Say = Callable[[str], object]


def publish_run(repository: HubDatasetStore, run: Store, say: Say) -> None:
    """Make the repository hold what people open of a finished run, and no older tables of it.

    Goes on where an earlier attempt stopped. Raises StorageError.
    """
    for attempt in range(ATTEMPTS):
        try:
            publication = _Publication(repository, run)
            if not publication.is_done():
                say(f"publishing to {repository.uri}")
                publication.do()
            return
        except (CommitConflictError, FileNotFoundError):
            # Another publishes it too, or is writing the outputs anew.
            time.sleep(min(LONGEST_PAUSE, 0.1 * 2**attempt))
    raise StorageError(
        f"{repository.uri}: others keep writing to it or to the run in {run.uri}; run the same "
        "command again later"
    )


def holds_tables(repository: Store) -> bool:
    """Whether there is a part of a table that a run wrote."""
    return any(_is_table_file(one.path) for one in repository.list("data"))


class _Publication:
    """One attempt, on top of one commit."""

    def __init__(self, repository: HubDatasetStore, run: Store) -> None:
        self._repository, self._run = repository, run
        self._parent = repository.head_commit()
        self._theirs = _files(repository.at_commit(self._parent).list(""))
        self._ours = _files(_outputs(run))
        if CARD_PATH in self._theirs and not is_generated(self._card_there()):
            self._ours.pop(CARD_PATH, None)
        self._record = _read_record(run)
        self._operations: list[Operation] = []

    def is_done(self) -> bool:
        """Whether the run's last file is there, which is written after all others, and its tables.

        Raises FileNotFoundError while the run has no summary.
        """
        ids = possible_versions(self._run.get(SUMMARY_PATH))
        return self._summary_there() in ids and _tables(self._ours) == _tables(self._theirs)

    def do(self) -> None:
        if len(self._ours) > COMMIT_FILES and self._summary_there() is not None:
            # Until the last commit, the repository is not what its summary says.
            del self._theirs[SUMMARY_PATH]
            self._operations.append(self._repository.deletion(SUMMARY_PATH))
        tables = sorted(_tables(self._ours), key=shard_span)
        others = sorted(self._ours.keys() - {*tables, *FILES})
        files = [path for path in FILES if path in self._ours]
        stale = sorted(_tables(self._theirs) - _tables(self._ours))
        with tempfile.TemporaryDirectory(prefix="llm-ocr-") as folder:
            uploaded = self._uploaded(tables, Path(folder))
            deleted = map(self._repository.deletion, stale)
            for replaced in _of_same_shards([*uploaded, *deleted]):
                self._add(replaced)
            for addition in self._uploaded([*others, *files], Path(folder)):
                self._add([addition])
            self._commit()
        self._verify()

    def _card_there(self) -> str:
        return self._repository.at_commit(self._parent).get(CARD_PATH).decode(errors="replace")

    def _summary_there(self) -> str | None:
        found = self._theirs.get(SUMMARY_PATH)
        return None if found is None else found.version

    def _uploaded(self, paths: Iterable[str], folder: Path) -> Iterator[Addition]:
        """What is to be added: files that the repository hasn't, or has with other content."""
        changed = (self._ours[path] for path in paths if not self._was_published(path))
        for batch in _batches(changed):
            additions = [*filter(None, (self._addition(one, folder) for one in batch))]
            self._repository.preupload(additions)
            yield from additions

    def _was_published(self, path: str) -> bool:
        version, *ids = self._record.get(path, [""])
        there = self._theirs.get(path)
        return version == self._ours[path].version and there is not None and there.version in ids

    def _addition(self, one: StoredObject, folder: Path) -> Addition | None:
        copy = folder / uuid.uuid4().hex
        with self._run.open(one.path) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
        ids = possible_versions(copy)
        if _is_table_file(one.path):
            self._record[one.path] = [one.version, *sorted(ids)]
        there = self._theirs.get(one.path)
        if there is not None and there.version in ids:
            copy.unlink()
            return None
        return self._repository.addition(one.path, copy)

    def _add(self, operations: Sequence[Operation]) -> None:
        """Put what belongs together into one commit: this one, or the next if it grew too large."""
        if self._operations and len(self._operations) + len(operations) > COMMIT_FILES:
            self._commit()
        self._operations += operations

    def _commit(self) -> None:
        if self._operations:
            additions = [one for one in self._operations if isinstance(one, Addition)]
            added = {one.path_in_repo for one in additions}
            operations = [
                one
                for one in self._operations
                if not (isinstance(one, Deletion) and one.path_in_repo in added)
            ]
            message = f"Pages read by llm_ocr: {counted(len(operations), 'file')}"
            self._parent = self._repository.commit(operations, message, self._parent)
            for addition in additions:
                Path(str(addition.path_or_fileobj)).unlink(missing_ok=True)
        self._run.put(RECORD_PATH, json.dumps(self._record).encode())
        self._operations = []

    def _verify(self) -> None:
        there = _files(self._repository.at_commit(self._parent).list(""))
        if _tables(there) != _tables(self._ours) or SUMMARY_PATH not in there:
            raise StorageError(
                f"{self._repository.uri}: after publishing it doesn't hold what it should; run the "
                "same command again, and report this if it stays so"
            )


def _outputs(run: Store) -> Iterator[StoredObject]:
    for table in SCHEMAS:
        latest = {piece.path for piece in published_ranges(run, table).values()}
        yield from (one for one in run.list(f"data/{table}") if one.path in latest)
    for folder in ("markdown", "records"):
        yield from run.list(folder)
    for path in FILES:
        if run.exists(path):
            yield run.stat(path)


def _files(found: Iterable[StoredObject]) -> dict[str, StoredObject]:
    return {one.path: one for one in found}


def _tables(files: Iterable[str]) -> set[str]:
    return {path for path in files if _is_table_file(path)}


def _is_table_file(path: str) -> bool:
    return TABLE_FILE.fullmatch(path) is not None


def _of_same_shards(operations: Iterable[Operation]) -> list[list[Operation]]:
    """Operations on tables' files, those together that have shards in common."""
    found: list[list[Operation]] = []
    end = ""
    for one in sorted(operations, key=lambda one: shard_span(one.path_in_repo)):
        first, last = shard_span(one.path_in_repo)
        if not found or first > end:
            found.append([])
        found[-1].append(one)
        end = max(end, last)
    return found


def _batches(files: Iterable[StoredObject]) -> Iterator[list[StoredObject]]:
    held: list[StoredObject] = []
    for one in files:
        held.append(one)
        if len(held) == UPLOAD_FILES or sum(file.size for file in held) >= UPLOAD_BYTES:
            yield held
            held = []
    if held:
        yield held


def _read_record(run: Store) -> dict[str, list[str]]:
    try:
        record: dict[str, list[str]] = json.loads(run.get(RECORD_PATH))
    except FileNotFoundError:
        return {}
    return record

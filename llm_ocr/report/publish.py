"""Publish a finished run's outputs to a dataset repository on the Hub, in few commits.

Large files are uploaded first, which is not visible; commits then reference them. Each commit is
made on top of the commit that was inspected, so that of two concurrent publishers one starts over,
and skips what the other has done. The summary is committed last: a repository with the run's
summary is complete.
"""

import json
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from llm_ocr.messages import pluralize
from llm_ocr.report.dataset_card import CARD_PATH, is_generated
from llm_ocr.report.outputs import VIEWER_PATH
from llm_ocr.report.summary import SUMMARY_PATH
from llm_ocr.retry import Backoff, retry_call
from llm_ocr.storage.hub import Addition, Deletion, HubDatasetStore, Operation, possible_versions
from llm_ocr.storage.hub_client import CommitConflictError
from llm_ocr.storage.store import StorageError, Store, StoredObject
from llm_ocr.tables.data_files import TABLE_FILE, published_ranges, shard_span
from llm_ocr.tables.schema import SCHEMAS

# The limits of a commit, and of a batch of uploads.
COMMIT_FILES = 500
UPLOAD_FILES, UPLOAD_BYTES = 64, 1 << 30
ATTEMPTS, BACKOFF = 20, Backoff(first_delay=0.1)
CHUNK = 8 << 20
# The files besides the tables, in the order of publishing.
FILES = (CARD_PATH, VIEWER_PATH, SUMMARY_PATH)
# In the run's own store: the published version of each table file, and its ids in the repository.
RECORD_PATH = "published.json"

Say = Callable[[str], object]


def publish_run(repository: HubDatasetStore, run: Store, say: Say) -> None:
    """Publish the outputs of a finished run, and delete older versions of its tables.

    Resumes an interrupted attempt. Raises StorageError.
    """

    def publish() -> None:
        publication = _Publication(repository, run)
        if not publication.is_done():
            say(f"publishing to {repository.uri}")
            publication.publish()

    try:
        retry_call(publish, _is_concurrent_write, attempts=ATTEMPTS, backoff=BACKOFF)
    except (CommitConflictError, FileNotFoundError) as error:
        raise StorageError(
            f"{repository.uri}: other processes keep writing to it or to the run in {run.uri}; run "
            "the same command again later"
        ) from error


def _is_concurrent_write(error: Exception) -> bool:
    """Whether another process publishes the run, too, or is writing its outputs again."""
    return isinstance(error, CommitConflictError | FileNotFoundError)


def holds_tables(repository: Store) -> bool:
    """Whether the repository has table files of a run."""
    return any(_is_table_file(file.path) for file in repository.list("data"))


class _Publication:
    """One attempt to publish, on top of one commit."""

    def __init__(self, repository: HubDatasetStore, run: Store) -> None:
        self._repository, self._run = repository, run
        self._parent = repository.head_commit()
        self._published = _files(repository.at_commit(self._parent).list(""))
        self._local = _files(_outputs(run))
        if CARD_PATH in self._published and not is_generated(self._published_card()):
            self._local.pop(CARD_PATH, None)
        self._record = _read_record(run)
        self._operations: list[Operation] = []

    def is_done(self) -> bool:
        """Whether the summary, which is published last, and the tables are up to date.

        Raises FileNotFoundError while the run has no summary.
        """
        ids = possible_versions(self._run.get(SUMMARY_PATH))
        return self._published_summary() in ids and _tables(self._local) == _tables(self._published)

    def publish(self) -> None:
        if len(self._local) > COMMIT_FILES and self._published_summary() is not None:
            # Until the last commit, the repository doesn't match its summary.
            del self._published[SUMMARY_PATH]
            self._operations.append(self._repository.deletion(SUMMARY_PATH))
        tables = sorted(_tables(self._local), key=shard_span)
        others = sorted(self._local.keys() - {*tables, *FILES})
        files = [path for path in FILES if path in self._local]
        stale = sorted(_tables(self._published) - _tables(self._local))
        with tempfile.TemporaryDirectory(prefix="llm-ocr-") as folder:
            uploaded = self._upload(tables, Path(folder))
            deleted = map(self._repository.deletion, stale)
            for replaced in _group_by_shards([*uploaded, *deleted]):
                self._add(replaced)
            for addition in self._upload([*others, *files], Path(folder)):
                self._add([addition])
            self._commit()
        self._verify()

    def _published_card(self) -> str:
        return self._repository.at_commit(self._parent).get(CARD_PATH).decode(errors="replace")

    def _published_summary(self) -> str | None:
        summary = self._published.get(SUMMARY_PATH)
        return None if summary is None else summary.version

    def _upload(self, paths: Iterable[str], folder: Path) -> Iterator[Addition]:
        """Upload files that are new or changed, and return the additions."""
        changed = (self._local[path] for path in paths if not self._was_published(path))
        for batch in _batches(changed):
            additions = [*filter(None, (self._addition(file, folder) for file in batch))]
            self._repository.preupload(additions)
            yield from additions

    def _was_published(self, path: str) -> bool:
        version, *ids = self._record.get(path, [""])
        published = self._published.get(path)
        is_unchanged = version == self._local[path].version
        return is_unchanged and published is not None and published.version in ids

    def _addition(self, file: StoredObject, folder: Path) -> Addition | None:
        """The addition of a file to the repository; None if it has the same content there."""
        copy = folder / uuid.uuid4().hex
        with self._run.open(file.path) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
        ids = possible_versions(copy)
        if _is_table_file(file.path):
            self._record[file.path] = [file.version, *sorted(ids)]
        published = self._published.get(file.path)
        if published is not None and published.version in ids:
            copy.unlink()
            return None
        return self._repository.addition(file.path, copy)

    def _add(self, operations: Sequence[Operation]) -> None:
        """Add operations to the current commit, or to a new one if they don't all fit."""
        if self._operations and len(self._operations) + len(operations) > COMMIT_FILES:
            self._commit()
        self._operations += operations

    def _commit(self) -> None:
        if self._operations:
            additions = [
                operation for operation in self._operations if isinstance(operation, Addition)
            ]
            added = {addition.path_in_repo for addition in additions}
            operations = [
                operation
                for operation in self._operations
                if not (isinstance(operation, Deletion) and operation.path_in_repo in added)
            ]
            message = f"Pages read by llm_ocr: {pluralize(len(operations), 'file')}"
            self._parent = self._repository.commit(operations, message, self._parent)
            for addition in additions:
                Path(str(addition.path_or_fileobj)).unlink(missing_ok=True)
        self._run.put(RECORD_PATH, json.dumps(self._record).encode())
        self._operations = []

    def _verify(self) -> None:
        published = _files(self._repository.at_commit(self._parent).list(""))
        if _tables(published) != _tables(self._local) or SUMMARY_PATH not in published:
            raise StorageError(
                f"{self._repository.uri}: some files are missing after publishing; run the same "
                "command again, and report this if the error persists"
            )


def _outputs(run: Store) -> Iterator[StoredObject]:
    for table in SCHEMAS:
        latest = {row_range.path for row_range in published_ranges(run, table).values()}
        yield from (file for file in run.list(f"data/{table}") if file.path in latest)
    for folder in ("markdown", "records"):
        yield from run.list(folder)
    for path in FILES:
        if run.exists(path):
            yield run.stat(path)


def _files(files: Iterable[StoredObject]) -> dict[str, StoredObject]:
    return {file.path: file for file in files}


def _tables(files: Iterable[str]) -> set[str]:
    return {path for path in files if _is_table_file(path)}


def _is_table_file(path: str) -> bool:
    return TABLE_FILE.fullmatch(path) is not None


def _group_by_shards(operations: Iterable[Operation]) -> list[list[Operation]]:
    """Group operations on table files that have shards in common."""
    groups: list[list[Operation]] = []
    end = ""
    for operation in sorted(operations, key=lambda each: shard_span(each.path_in_repo)):
        first, last = shard_span(operation.path_in_repo)
        if not groups or first > end:
            groups.append([])
        groups[-1].append(operation)
        end = max(end, last)
    return groups


def _batches(files: Iterable[StoredObject]) -> Iterator[list[StoredObject]]:
    batch: list[StoredObject] = []
    for next_file in files:
        batch.append(next_file)
        if len(batch) == UPLOAD_FILES or sum(file.size for file in batch) >= UPLOAD_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def _read_record(run: Store) -> dict[str, list[str]]:
    try:
        record: dict[str, list[str]] = json.loads(run.get(RECORD_PATH))
    except FileNotFoundError:
        return {}
    return record

"""Delete objects in the storage that no row of the database refers to.

Such orphans are uploads of a gateway that was killed before its commit, results of a worker that
lost its lease, what was written to a document while it was deleted, and temporary files of killed
processes. A sweep visits all objects of documents, in passes that are bounded: its position is in
the database, so that any gateway can continue it.

An object is deleted only if it is older than `ORPHAN_SECONDS` by the storage's own clock, longer
than any upload or claim lasts, and if the rows, which are read after the objects were listed, show
that nothing can refer to it any more.
"""

import logging
import os
import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Row, select, update
from sqlalchemy.dialects import postgresql, sqlite

from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import TENANTS
from llm_ocr.service.results import parse_result_folder
from llm_ocr.service.schema import DocumentState, documents, files, ingestion, storage_sweep
from llm_ocr.storage.objects import ObjectStore
from llm_ocr.storage.store import StorageError, Store, StoredObject

# No upload, and no work on a document without a renewed lease, lasts this long.
ORPHAN_SECONDS = 86_400.0
# Seconds from the end of a sweep to the beginning of the next one.
SWEEP_SECONDS = 21_600.0
# Objects of one pass, and seconds after which another gateway may repeat it.
PASS_OBJECTS = 1000
PASS_SECONDS = 600.0
# The database to which the documents in a storage belong.
_OWNER_PATH = "keys/database"
_CLOCK_PATH = "keys/clock"
# Temporary names, of `atomic_write` and of the store.
_UNFINISHED = re.compile(r"(?:^|/)\.[0-9a-f]{16}\.tmp$|#\d+$")
_BATCH = 500

_log = logging.getLogger(__name__)


def sweep_orphans(
    database: Database, store: Store, *, orphan_seconds: float = ORPHAN_SECONDS
) -> bool:
    """Do the next pass of the sweep, if it is due and no other gateway does it; return whether the
    sweep has more passes. Raises StorageError."""
    claimed = _claim_pass(database)
    if claimed is None:
        return False
    if not _owns_storage(store, claimed.storage_id):
        _log.warning(
            "%s belongs to another database, so orphaned objects are not deleted there; check "
            "the settings `database` and `storage`",
            store.uri,
        )
        _finish_pass(database, "", SWEEP_SECONDS)
        return False
    found = list(islice(_objects_after(store, claimed.cursor), PASS_OBJECTS))
    latest = _storage_time(store) - orphan_seconds
    old = [entry for entry in found if 0 < entry.modified < latest]
    orphans = _orphans(database, old)
    _delete(store, orphans)
    has_more = len(found) == PASS_OBJECTS
    _finish_pass(database, found[-1].path if has_more else "", 0.0 if has_more else SWEEP_SECONDS)
    return has_more


def _claim_pass(database: Database) -> Row[Any] | None:
    """Claim the next pass if it is due, so that others skip it for `PASS_SECONDS`; returns its
    cursor and the storage's id."""
    is_due = storage_sweep.c.next_at <= now()
    with database.read() as connection:
        later = select(storage_sweep.c.id).where(~is_due)
        if connection.execute(later).first() is not None:
            return None
    dialect = sqlite if database.is_sqlite else postgresql
    new = {"id": 1, "storage_id": secrets.token_hex(16), "cursor": "", "next_at": now()}
    with database.begin() as connection:
        connection.execute(dialect.insert(storage_sweep).values(new).on_conflict_do_nothing())
        return connection.execute(
            update(storage_sweep)
            .where(is_due)
            .values(next_at=now(PASS_SECONDS))
            .returning(storage_sweep.c.storage_id, storage_sweep.c.cursor)
        ).one_or_none()


def _finish_pass(database: Database, cursor: str, seconds: float) -> None:
    with database.begin() as connection:
        connection.execute(update(storage_sweep).values(cursor=cursor, next_at=now(seconds)))


def _owns_storage(store: Store, storage_id: str) -> bool:
    """Whether the storage belongs to this database; a storage without an owner is claimed.

    This protects a storage full of documents from a gateway with a new or wrong database.
    """
    store.create(_OWNER_PATH, storage_id.encode())
    return store.get(_OWNER_PATH) == storage_id.encode()


def _storage_time(store: Store) -> float:
    """The present time of the clock that sets the objects' times of modification."""
    store.put(_CLOCK_PATH, b"")
    return store.stat(_CLOCK_PATH).modified


def _objects_after(store: Store, cursor: str) -> Iterator[StoredObject]:
    """The objects of documents whose paths come after `cursor`, in the storage's own order."""
    if store.folder is not None:
        return _files_after(store.folder, cursor)
    if isinstance(store, ObjectStore):
        return store.list(TENANTS, after=cursor)
    raise StorageError(f"{store.uri}: objects can't be listed in order")


def _files_after(root: Path, cursor: str) -> Iterator[StoredObject]:
    """The files of documents in a local folder, of which not all names are in memory at once."""
    _, tenant_0, document_0, rest_0 = (cursor or "///").split("/", 3)
    for tenant in sorted(_names(root / TENANTS)):
        if tenant < tenant_0:
            continue
        first = document_0 if tenant == tenant_0 else ""
        while True:
            names = _names(root / TENANTS / tenant)
            batch = nsmallest(_BATCH, (name for name in names if name >= first))
            for document in batch:
                is_first = (tenant, document) == (tenant_0, document_0)
                for path in _files(root, root / TENANTS / tenant / document):
                    if is_first and path.split("/", 3)[3] <= rest_0:
                        continue
                    with suppress(FileNotFoundError):
                        found = (root / path).lstat()
                        yield StoredObject(path, found.st_size, "", found.st_mtime)
            if len(batch) < _BATCH:
                break
            first = f"{batch[-1]}\0"


def _names(folder: Path) -> Iterator[str]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name


def _files(root: Path, folder: Path) -> Sequence[str]:
    found = (Path(where) / name for where, _, names in os.walk(folder) for name in names)
    return sorted(path.relative_to(root).as_posix() for path in found)


def _orphans(database: Database, entries: Collection[StoredObject]) -> Mapping[str, bool]:
    """The paths of those objects to which nothing can refer; the value says whether the whole
    document is unknown."""
    ids = {path_parts[2] for entry in entries if len(path_parts := entry.path.split("/")) > 3}
    with database.read() as connection:
        rows = {
            row.id: row
            for row in connection.execute(select(documents).where(documents.c.id.in_(ids)))
        }
        paths = set(
            connection.execute(select(files.c.path).where(files.c.document_id.in_(ids))).scalars()
        )
        # Their copies may still become documents.
        is_open = ingestion.c.document_id.in_(ids) & ingestion.c.finished_at.is_(None)
        expected = set(connection.execute(select(ingestion.c.document_id).where(is_open)).scalars())
    found = {}
    for entry in entries:
        parts = entry.path.split("/", 3)
        if len(parts) < 4 or parts[2] in expected:
            continue
        row = rows.get(parts[2])
        if row is None:
            found[entry.path] = True
        elif entry.path not in paths and _is_orphan(row, parts[3]):
            found[entry.path] = False
    return found


def _is_orphan(row: Row[Any], path: str) -> bool:
    """Whether nothing refers to an object at `path` in the folder of a document, which isn't one of
    its files."""
    folder = path.partition("/")[0]
    if folder == "files" or _UNFINISHED.search(path):
        return True
    token = parse_result_folder(folder)
    if token is None or folder == row.result:
        return False
    if row.state == DocumentState.PROCESSING:
        return bool(token < row.fencing_token)
    # Tokens only grow: the claim with this one has finished, or can't any more. A larger token is
    # from after the backup from which the database was restored, and will be used again.
    return bool(token <= row.fencing_token)


def _delete(store: Store, orphans: Mapping[str, bool]) -> None:
    for path in orphans:
        _log.info("%s: %s has no row, and is deleted", store.uri, path)
    if store.folder is None:
        store.delete(orphans)
        return
    for path, is_unknown in orphans.items():
        file = store.folder / path
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"{file} can't be deleted: {error.strerror}") from error
        if is_unknown:
            _remove_empty_folders(file.parent, below=store.folder / TENANTS)


def _remove_empty_folders(folder: Path, below: Path) -> None:
    """Remove a document's folders, up to that of its tenant."""
    while folder.parent != below:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent

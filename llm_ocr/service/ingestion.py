"""Ingestion of documents without HTTP: from rows of the table `ingestion` and watched folders.

An upstream system inserts a row for each document:

    INSERT INTO ingestion (uri, tenant, type, priority, metadata)
    VALUES ('s3://scans/2026/4711.pdf', 'default', 'invoice', 5, '{"order": "4711"}');

Only `uri` is required: `s3://`, `gs://`, or the absolute path of a file that gateways can read.
(Anyone who can insert rows can have any such file read.) A gateway copies the object, never moves
or deletes it, and creates the document. Then `finished_at` is set, and either `document_id`, or
`error`, which says why there is no document. An `error` without `finished_at` is transient, and the
row is tried again. An `error` with it is final, until `finished_at` is set to null.

A watch inserts such a row for each object that it finds, with the version of the object's content.
Rows are unique by `uri` and `version`, so each version becomes a document once, whatever the number
of gateways.
"""

import asyncio
import json
import logging
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from typing import Any, BinaryIO

from sqlalchemy import Text, case, func, or_, select, type_coerce, update
from sqlalchemy.dialects import postgresql, sqlite

from llm_ocr.messages import CodedError
from llm_ocr.service.access import DEFAULT_TENANT
from llm_ocr.service.background import repeat, wait
from llm_ocr.service.database import Database, DatabaseError, now
from llm_ocr.service.documents import (
    NewDocument,
    NewFile,
    QuotaError,
    StoredFile,
    document_folder,
    insert_document,
    mark_queued,
    new_document_id,
)
from llm_ocr.service.pipelines import (
    Pipeline,
    PipelineCatalog,
    UnknownPipelineError,
    save_pipeline,
)
from llm_ocr.service.schema import ingestion, tenants
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.service.uploads import CheckedFiles, UploadError, Uploads, check_size
from llm_ocr.sources.listing import is_remote, walk_folder
from llm_ocr.sources.names import file_version
from llm_ocr.storage.local_files import atomic_write
from llm_ocr.storage.store import StorageError, Store, StoredObject, open_store

# Seconds between polls of the table, and of a watched folder.
POLL_SECONDS = 1.0
WATCH_SECONDS = 5.0
# Seconds after which another gateway takes over a row if its gateway doesn't renew the lease.
LEASE_SECONDS = 60.0
# Rows that a gateway processes at the same time.
MAX_ROWS = 4
# Seconds before a transient error is retried, and those that a stopping gateway waits for rows in
# progress.
RETRY_SECONDS = 30.0
DRAIN_SECONDS = 3.0
# A row whose gateways died this often has failed: it is probably what kills them.
MAX_GATEWAY_DEATHS = 3
# Rows that a watch inserts in one transaction.
INSERT_ROWS = 500
# Names that programs give to files they are still writing.
_TEMPORARY = re.compile(
    r"[.~].*|.*~|.*#\d+|.*\.(?:tmp|temp|part|partial|crdownload|download|filepart|swp)",
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
MAX_NAME_LENGTH = 255

_log = logging.getLogger(__name__)


class IngestionError(CodedError):
    """A row can't become a document, or a folder can't be watched; the message says why."""


class _ObjectChangedError(Exception):
    """The object has changed while it was copied."""


@dataclass(frozen=True)
class _IngestionRow:
    """A row that this gateway owns as long as it has this `fencing_token`. `metadata` is the text
    that was inserted."""

    id: int
    fencing_token: int
    uri: str
    tenant: str
    type: str | None
    priority: int
    metadata: str | None
    version: str | None
    document_id: str
    attempts: int

    @property
    def name(self) -> str:
        return _CONTROL.sub("", self.uri.rpartition("/")[2])[:MAX_NAME_LENGTH] or "document"

    @property
    def path(self) -> str:
        """The path of the copy: different for each claim, so that a gateway that was frozen can't
        overwrite the copy that its successor has checked."""
        return f"{document_folder(self.tenant, self.document_id)}/files/0.{self.fencing_token}"


class IngestionQueue:
    """Creates documents from the rows of `ingestion`, which several gateways share."""

    def __init__(
        self,
        database: Database,
        store: Store,
        settings: ServiceSettings,
        uploads: Uploads,
        pipelines: PipelineCatalog,
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._database, self._store, self._settings = database, store, settings
        self._uploads, self._pipelines, self._poll_seconds = uploads, pipelines, poll_seconds
        self._open: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(MAX_ROWS, thread_name_prefix="ingestion")

    async def run(self, stop: asyncio.Event) -> None:
        """Process rows until `stop` is set. Other gateways process rows that aren't finished
        shortly after."""
        try:
            await repeat("the ingestion queue", self._poll, self._poll_seconds, stop)
            if self._open:
                await asyncio.wait(self._open, timeout=DRAIN_SECONDS)
        finally:
            late = list(self._open)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _poll(self) -> bool:
        free = MAX_ROWS - len(self._open)
        rows = await asyncio.to_thread(self._claim, free) if free else []
        for row in rows:
            task = asyncio.create_task(self._process(row))
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        if self._open:
            # Poll again as soon as one row is finished.
            await asyncio.wait(
                self._open, timeout=self._poll_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        return bool(self._open or rows)

    def _claim(self, limit: int) -> list[_IngestionRow]:
        ready = (
            select(ingestion.c.id)
            .where(
                ingestion.c.finished_at.is_(None),
                or_(ingestion.c.available_at.is_(None), ingestion.c.available_at <= now()),
            )
            .order_by(
                ingestion.c.priority.desc().nulls_last(),
                ingestion.c.available_at.asc().nulls_first(),
                ingestion.c.id,
            )
            .limit(limit)
        )
        columns = (
            *(ingestion.c.id, ingestion.c.fencing_token, ingestion.c.uri, ingestion.c.type),
            func.coalesce(ingestion.c.tenant, DEFAULT_TENANT).label("tenant"),
            func.coalesce(ingestion.c.priority, 0).label("priority"),
            # As text: upstream may have inserted invalid JSON.
            type_coerce(ingestion.c.metadata, Text).label("metadata"),
            *(ingestion.c.version, ingestion.c.document_id, ingestion.c.attempts),
        )
        with self._database.read() as connection:
            if not connection.execute(ready).all():
                return []
        with self._database.begin() as connection:
            ids = connection.execute(ready.with_for_update(skip_locked=True)).scalars().all()
            found = []
            for row_id in ids:
                is_first = or_(ingestion.c.fencing_token == 0, ingestion.c.document_id.is_(None))
                row = connection.execute(
                    update(ingestion)
                    .where(ingestion.c.id == row_id)
                    .values(
                        fencing_token=ingestion.c.fencing_token + 1,
                        attempts=ingestion.c.attempts + 1,
                        available_at=now(LEASE_SECONDS),
                        # Assigned at the first claim, so that all copies are in one folder.
                        document_id=case(
                            (is_first, new_document_id()), else_=ingestion.c.document_id
                        ),
                    )
                    .returning(*columns)
                ).one()
                found.append(_IngestionRow(**row._mapping))
            return found

    async def _process(self, row: _IngestionRow) -> None:
        """Create the document of a row, or record why there is none."""
        lease_renewal = asyncio.create_task(self._renew_lease(row))
        try:
            await self._ingest(row)
        except QuotaError as error:
            await self._postpone(row, str(error), min(error.retry_seconds, RETRY_SECONDS))
        except (IngestionError, UploadError, UnknownPipelineError) as error:
            code = f"{error.code}: " if error.code else ""
            await self._fail(row, f"{code}{error}")
        except _ObjectChangedError:
            await self._postpone(row, "it has changed while it was copied", 0.0)
        except (StorageError, OSError) as error:
            await self._postpone(row, str(error), RETRY_SECONDS)
        except DatabaseError as error:
            # The lease expires, and the row is claimed again.
            _log.warning("%s: %s", row.uri, error)
        except asyncio.CancelledError:
            with suppress(DatabaseError):
                await self._postpone(row, None, 0.0)
            raise
        except Exception:  # noqa: BLE001
            _log.exception("%s: ingestion failed", row.uri)
        finally:
            lease_renewal.cancel()

    async def _renew_lease(self, row: _IngestionRow) -> None:
        """Renew the lease of a row, until cancelled."""
        never = asyncio.Event()
        while True:
            await wait(never, LEASE_SECONDS / 3)
            with suppress(DatabaseError):
                await asyncio.to_thread(self._change, row, available_at=now(LEASE_SECONDS))

    async def _ingest(self, row: _IngestionRow) -> None:
        if row.attempts > MAX_GATEWAY_DEATHS:
            await asyncio.to_thread(self._discard, row)
            raise IngestionError(
                f"{MAX_GATEWAY_DEATHS} gateways died while they ingested this file"
            )
        pipeline = self._pipelines.for_type(row.type)
        metadata = await asyncio.to_thread(self._check, row)
        try:
            # In separate threads: long copies must not block other database calls.
            await asyncio.get_running_loop().run_in_executor(self._threads, self._copy, row)
            file = StoredFile(0, row.name, row.path, None, None, None, None, None)
            checked = await self._uploads.check([file])
        except (IngestionError, UploadError, _ObjectChangedError):
            await asyncio.to_thread(self._discard, row)
            raise
        await asyncio.to_thread(self._insert, row, pipeline, metadata, checked)

    def _check(self, row: _IngestionRow) -> Mapping[str, Any]:
        """The parsed metadata of a row. Raises IngestionError if it is invalid, or if there is no
        such tenant."""
        with self._database.read() as connection:
            query = select(tenants.c.id).where(tenants.c.id == row.tenant)
            if connection.execute(query).one_or_none() is None:
                raise IngestionError(f"there is no tenant {row.tenant!r}")
        try:
            metadata = json.loads(row.metadata or "{}")
        except ValueError:
            metadata = None
        if not isinstance(metadata, dict):
            raise IngestionError("the metadata is not a JSON object")
        return metadata

    def _copy(self, row: _IngestionRow) -> None:
        """Copy a row's object into the folder of its document."""
        if is_remote(row.uri):
            self._copy_object(row)
        elif os.path.isabs(row.uri):
            self._copy_file(row, Path(row.uri))
        else:
            raise IngestionError(
                f"{row.uri}: unsupported URI; use s3://, gs:// or the absolute path of a file"
            )

    def _copy_object(self, row: _IngestionRow) -> None:
        bucket, key = _split_uri(row.uri)
        source = open_store(bucket)
        found = _stat_object(source, row, key)
        check_size(row.name, found.size, self._settings)
        own, prefix = _split_uri(self._store.uri) if is_remote(self._store.uri) else ("", "")
        try:
            if own == bucket:
                source.copy(key, f"{prefix}/{row.path}".lstrip("/"))
            else:
                with source.open(key) as content:
                    self._write(row.path, content)
        except FileNotFoundError:
            raise _ObjectChangedError from None
        if _stat_object(source, row, key).version != found.version:
            raise _ObjectChangedError

    def _copy_file(self, row: _IngestionRow, path: Path) -> None:
        try:
            version, size = file_version(path)
            if row.version not in (None, version):
                raise IngestionError(f"{row.uri}: the file has changed since it was found")
            if not path.is_file():
                raise IngestionError(f"{row.uri}: this is not a file")
            check_size(row.name, size, self._settings)
            with path.open("rb") as content:
                self._write(row.path, content)
            if file_version(path)[0] != version:
                raise _ObjectChangedError
        except (FileNotFoundError, NotADirectoryError):
            raise IngestionError(f"{row.uri}: there is no such file") from None

    def _write(self, path: str, content: BinaryIO) -> None:
        if self._store.folder is not None:
            with atomic_write(self._store.folder / path) as target:
                copyfileobj(content, target)
            return
        with tempfile.NamedTemporaryFile(prefix="llm-ocr-ingestion-") as copy:
            copyfileobj(content, copy)
            copy.flush()
            self._store.put(path, Path(copy.name))

    def _insert(
        self,
        row: _IngestionRow,
        pipeline: Pipeline,
        metadata: Mapping[str, Any],
        checked: CheckedFiles,
    ) -> None:
        """Create the document and finish the row, in one transaction."""
        save_pipeline(self._database, pipeline)
        found = {**checked.columns[0], "path": row.path}
        new = NewDocument(
            row.name,
            [NewFile(row.name, found["size"])],
            *(pipeline.name, pipeline.revision, row.type, row.priority, metadata),
        )
        values = {"finished_at": now(), "available_at": None, "error": None, "attempts": 0}
        with self._database.begin() as connection:
            changed = connection.execute(update(ingestion).where(*_owns(row)).values(**values))
            if changed.rowcount == 0:
                return
            insert_document(connection, row.tenant, row.document_id, new)
            mark_queued(connection, row.tenant, row.document_id, {0: found}, checked.page_count)

    def _discard(self, row: _IngestionRow) -> None:
        """Delete all copies of an object that doesn't become a document."""
        copies = self._store.list(document_folder(row.tenant, row.document_id))
        self._store.delete([copy.path for copy in copies])

    async def _postpone(self, row: _IngestionRow, error: str | None, seconds: float) -> None:
        values: dict[str, Any] = {"available_at": now(seconds), "error": error, "attempts": 0}
        if await asyncio.to_thread(self._change, row, **values) and error is not None:
            _log.warning("%s: not ingested yet: %s", row.uri, error)

    async def _fail(self, row: _IngestionRow, error: str) -> None:
        values: dict[str, Any] = {"finished_at": now(), "available_at": None, "attempts": 0}
        values |= {"document_id": None, "error": error}
        if await asyncio.to_thread(self._change, row, **values):
            _log.warning("%s: not ingested: %s", row.uri, error)

    def _change(self, row: _IngestionRow, **values: Any) -> bool:  # noqa: ANN401
        """Update a row if this gateway still owns it; return whether it does."""
        with self._database.begin() as connection:
            changed = connection.execute(update(ingestion).where(*_owns(row)).values(**values))
            return changed.rowcount == 1


class FolderWatch:
    """Inserts a row into `ingestion` for each new object below `location`, a folder or bucket.

    The name of the first subfolder is the document's type, if a pipeline serves this type. Hidden,
    temporary and empty objects are ignored. Files of a local folder wait until their size and time
    are the same in two polls.
    """

    def __init__(
        self,
        database: Database,
        location: str,
        store: Store,
        pipelines: PipelineCatalog,
        *,
        poll_seconds: float = WATCH_SECONDS,
    ) -> None:
        self._database, self._pipelines, self._poll_seconds = database, pipelines, poll_seconds
        self._location = location.rstrip("/") if is_remote(location) else os.path.realpath(location)
        own = str(store.folder) if store.folder is not None else store.uri
        inner, outer = f"{os.path.realpath(own) if store.folder else own}/", f"{self._location}/"
        if inner.startswith(outer) or outer.startswith(inner):
            raise IngestionError(
                f"{location}: this folder overlaps the service's own storage, {own}; watch another "
                "one"
            )
        # Hashes of the objects that are in the table; versions of files that were seen once.
        self._known: set[int] = set()
        self._changing: dict[str, str] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set."""

        async def poll() -> bool:
            await asyncio.to_thread(self._poll)
            return False

        await repeat(f"the watch of {self._location}", poll, self._poll_seconds, stop)

    def _poll(self) -> None:
        known: set[int] = set()
        changing: dict[str, str] = {}
        new: list[dict[str, Any]] = []
        for uri, path, version, is_settled in self._list():
            key = hash((uri, version))
            if key in self._known:
                known.add(key)
            elif is_settled or self._changing.get(uri) == version:
                known.add(key)
                new.append(self._row(uri, path, version))
            else:
                changing[uri] = version
            if len(new) == INSERT_ROWS:
                self._insert(new)
                new = []
        self._insert(new)
        # Only of objects that still exist: otherwise both would grow without limit.
        self._known, self._changing = known, changing

    def _list(self) -> Iterator[tuple[str, PurePosixPath, str, bool]]:
        """The URI, path and version of each object, and whether it is known to be complete."""
        if is_remote(self._location):
            store = open_store(self._location)
            for found in store.list(""):
                path = PurePosixPath(found.path)
                if found.size > 0 and not _is_temporary(path):
                    yield f"{store.uri}/{found.path}", path, _version(found), True
            return
        root = Path(self._location)
        if not root.is_dir():
            raise StorageError(f"{root}: the watched folder doesn't exist; create it")
        for file in walk_folder(root):
            path = PurePosixPath(file.relative_to(root))
            try:
                # A symbolic link could point to any file of this machine.
                status = file.lstat()
                str(file).encode()
            except (OSError, UnicodeEncodeError):
                continue
            if not stat.S_ISREG(status.st_mode) or status.st_size == 0 or _is_temporary(path):
                continue
            yield str(file), path, f"{status.st_size}-{status.st_mtime_ns}", False

    def _row(self, uri: str, path: PurePosixPath, version: str) -> dict[str, Any]:
        type_ = None
        if len(path.parts) > 1:
            with suppress(UnknownPipelineError):
                self._pipelines.for_type(path.parts[0])
                type_ = path.parts[0]
        return {"uri": uri, "version": version, "type": type_, "metadata": {"source_uri": uri}}

    def _insert(self, rows: list[dict[str, Any]]) -> None:
        if not rows:
            return
        dialect = sqlite if self._database.is_sqlite else postgresql
        with self._database.begin() as connection:
            connection.execute(dialect.insert(ingestion).on_conflict_do_nothing(), rows)


def split_locations(watch: str | None) -> list[str]:
    """The folders and buckets of the setting `watch`, which are separated by commas."""
    return [stripped for location in (watch or "").split(",") if (stripped := location.strip())]


def _owns(row: _IngestionRow) -> tuple[Any, ...]:
    return (
        ingestion.c.id == row.id,
        ingestion.c.fencing_token == row.fencing_token,
        ingestion.c.finished_at.is_(None),
    )


def _stat_object(source: Store, row: _IngestionRow, key: str) -> StoredObject:
    """The object of a row. Raises IngestionError if it doesn't exist, or has changed since the
    watch found it."""
    try:
        found = source.stat(key)
    except FileNotFoundError:
        raise IngestionError(f"{row.uri}: there is no such object") from None
    if row.version not in (None, _version(found)):
        # The new version has its own row.
        raise IngestionError(f"{row.uri}: the object has changed since it was found")
    return found


def _version(found: StoredObject) -> str:
    return f"{found.size}-{found.version}"


def _split_uri(uri: str) -> tuple[str, str]:
    """The URI of the bucket, and the path in it."""
    scheme, _, rest = uri.partition("://")
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}", path


def _is_temporary(path: PurePosixPath) -> bool:
    """Whether an object is hidden, in a hidden folder, or still being written."""
    hidden = any(part.startswith(".") for part in path.parts)
    return hidden or _TEMPORARY.fullmatch(path.name) is not None

"""Download of documents by URL, by gateways: off unless `fetch_hosts` allows hosts.

Any gateway may fetch the files of any document. It leases them for `LEASE_SECONDS`
(`files.upload_expires_at`), so that they are fetched once, and again if that gateway dies.
"""

import asyncio
import logging
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import or_, select, update

from llm_ocr.messages import CodedError
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.service.background import repeat
from llm_ocr.service.database import Database, DatabaseError, now
from llm_ocr.service.documents import (
    QuotaError,
    UnknownDocumentError,
    fail_document,
    load_document,
)
from llm_ocr.service.schema import DocumentState, documents, files
from llm_ocr.service.settings import MEGABYTE, ServiceSettings
from llm_ocr.service.uploads import UploadError, Uploads
from llm_ocr.sources.web import UrlPolicy, download
from llm_ocr.storage.store import Store

POLL_SECONDS = 1.0
# Documents whose files a gateway fetches at the same time.
MAX_DOCUMENTS = 4
# Longer than a download may take.
LEASE_SECONDS = 900.0
DOWNLOAD_SECONDS = 600.0
# Seconds before a document is fetched again after the storage or the database was unavailable.
UNAVAILABLE_SECONDS = 30.0
# Seconds before a failed download is tried again.
BACKOFF_SECONDS = (1.0, 5.0)
_TRANSIENT = frozenset({ErrorCode.READ_ERROR})

log = logging.getLogger(__name__)


class UrlRefusedError(CodedError):
    """A URL is not allowed to be fetched; the message says why."""


def fetch_policy(settings: ServiceSettings) -> UrlPolicy:
    """The policy for downloads: https, and only from allowed hosts on the public internet."""
    return UrlPolicy(
        hosts=_allowed_hosts(settings),
        max_bytes=settings.max_file_mb * MEGABYTE,
        timeout=DOWNLOAD_SECONDS,
    )


def check_urls(urls: Sequence[str], settings: ServiceSettings) -> None:
    """Raises UrlRefusedError for URLs that are not allowed. The hosts' addresses are checked
    at the download."""
    allowed = _allowed_hosts(settings)
    for url in urls:
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError:
            raise UrlRefusedError("the file's URL is not valid; check its spelling") from None
        if not allowed:
            raise UrlRefusedError(
                "this service doesn't fetch URLs (`fetch_hosts` is not set); upload the file"
            )
        if parts.scheme != "https":
            raise UrlRefusedError(f"{parts.scheme}:// is not encrypted; use https://")
        if host not in allowed:
            raise UrlRefusedError(
                f"{host} is not one of the hosts that files are fetched from (`fetch_hosts`)"
            )


class UrlFetcher:
    """Fetches the files of documents by URL and queues the documents: `await fetcher.run(stop)`."""

    def __init__(
        self, database: Database, store: Store, uploads: Uploads, policy: UrlPolicy
    ) -> None:
        self._database, self._store, self._uploads = database, store, uploads
        self._policy = policy
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Fetch until `stop` is set. Other gateways fetch what isn't finished by then."""
        try:
            await repeat("fetching URLs", self._poll, POLL_SECONDS, stop)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _poll(self) -> bool:
        free = MAX_DOCUMENTS - len(self._tasks)
        for tenant, document_id in await asyncio.to_thread(self._claim, free) if free else ():
            task = asyncio.create_task(self._fetch(tenant, document_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return False

    def _claim(self, limit: int) -> list[tuple[str, str]]:
        """Lease the files of up to `limit` documents; returns tenant and id of each document."""
        is_free = or_(files.c.upload_expires_at.is_(None), files.c.upload_expires_at < now())
        query = (
            select(documents.c.tenant, documents.c.id)
            .join(files)
            .where(
                documents.c.state == DocumentState.AWAITING_UPLOAD,
                documents.c.deleted_at.is_(None),
                files.c.url.is_not(None),
                is_free,
            )
            .distinct()
            .limit(limit)
        )
        with self._database.read() as connection:
            found = connection.execute(query).all()
        claimed = []
        for tenant, document_id in found:
            with self._database.begin() as connection:
                changed = connection.execute(
                    update(files)
                    .where(files.c.document_id == document_id, is_free)
                    .values(upload_expires_at=now(LEASE_SECONDS))
                )
            if changed.rowcount > 0:
                claimed.append((tenant, document_id))
        return claimed

    async def _fetch(self, tenant: str, document_id: str) -> None:
        error: Mapping[str, Any]
        try:
            document = await asyncio.to_thread(load_document, self._database, tenant, document_id)
            for file in document.files:
                if file.url is not None:
                    await self._fetch_file(file.url, file.path)
            await self._uploads.complete(tenant, document_id)
        except UnknownDocumentError:
            # The document was deleted meanwhile.
            return
        except PageError as raised:
            retryable = raised.code in _TRANSIENT
            error = {"code": raised.code, "message": raised.message, "retryable": retryable}
        except UploadError as raised:
            error = {"code": str(raised.code), "message": str(raised), "retryable": False}
        except QuotaError as raised:
            error = {"code": "quota_exceeded", "message": str(raised), "retryable": True}
        except CodedError as raised:
            # The storage or the database is unavailable.
            log.warning("%s: its files can't be fetched at present: %s", document_id, raised)
            await asyncio.to_thread(self._release, document_id)
            return
        else:
            return
        await asyncio.to_thread(fail_document, self._database, tenant, document_id, error)

    def _release(self, document_id: str) -> None:
        """Give up the lease of a document: a gateway fetches it again in a while."""
        with suppress(DatabaseError), self._database.begin() as connection:
            connection.execute(
                update(files)
                .where(files.c.document_id == document_id)
                .values(upload_expires_at=now(UNAVAILABLE_SECONDS))
            )

    async def _fetch_file(self, url: str, path: str) -> None:
        with tempfile.TemporaryDirectory(prefix="llm-ocr-fetch-") as folder:
            for seconds in (*BACKOFF_SECONDS, None):
                try:
                    _, local = await download(url, Path(folder), self._policy)
                except PageError as error:
                    if seconds is None or error.code not in _TRANSIENT:
                        raise
                    await asyncio.sleep(seconds)
                else:
                    await asyncio.to_thread(self._store.put, path, local)
                    return


def _allowed_hosts(settings: ServiceSettings) -> frozenset[str]:
    hosts = (settings.fetch_hosts or "").split(",")
    return frozenset(host.strip().lower() for host in hosts if host.strip())

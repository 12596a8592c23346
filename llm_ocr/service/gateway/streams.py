"""Change notification for documents, for event streams and for requests that wait."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from llm_ocr.service.database import Database, DatabaseError
from llm_ocr.service.documents import StoredDocument, UnknownDocumentError, load_document
from llm_ocr.service.events import DocumentEvent, list_events
from llm_ocr.service.schema import FINISHED_STATES, DocumentState, documents

POLL_SECONDS = 0.5
_NEEDS_REVIEW = f"document.{DocumentState.NEEDS_REVIEW}"
# Columns that differ after any visible change of a document.
_OBSERVED_COLUMNS = (
    *(documents.c.state, documents.c.step, documents.c.pages_done, documents.c.page_count),
    *(
        documents.c.waiting_for,
        documents.c.attempts,
        documents.c.fencing_token,
        documents.c.queued_at,
    ),
    documents.c.deleted_at,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PageProgress:
    """The progress of a document: its current step, and its pages; `pages` is None until they are
    counted."""

    step: str | None
    pages_done: int
    pages: int | None


class DocumentChanges:
    """Notifies followers of documents of changes. A gateway queries the database once every
    `POLL_SECONDS`, whatever the number of followers, and not at all if there are none."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._followers: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._seen: dict[str, Sequence[Any]] = {}
        self._has_followers = asyncio.Event()
        self._is_closed = False

    async def run(self, stop: asyncio.Event) -> None:
        """Poll for changes until `stop` is set."""
        stopped = asyncio.create_task(stop.wait())
        while not stop.is_set():
            followed = asyncio.create_task(self._has_followers.wait())
            await asyncio.wait({followed, stopped}, return_when=asyncio.FIRST_COMPLETED)
            followed.cancel()
            if self._followers:
                try:
                    self._notify(await asyncio.to_thread(self._load, list(self._followers)))
                except DatabaseError as error:
                    log.warning("%s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(stopped), POLL_SECONDS)
        self.close()

    def close(self) -> None:
        """End all streams, because the gateway stops."""
        self._is_closed = True
        for signals in self._followers.values():
            for signal in signals:
                signal.set()

    async def follow(
        self, tenant: str, document_id: str, after: int = 0
    ) -> AsyncIterator[DocumentEvent | PageProgress]:
        """Yield the events of a document with ids greater than `after`, and its progress, until it
        is finished or deleted, or the gateway stops."""
        signal = asyncio.Event()
        self._followers[document_id].add(signal)
        self._has_followers.set()
        progress: PageProgress | None = None
        try:
            while not self._is_closed:
                signal.clear()
                try:
                    # The document is loaded before its events, so that none of them is missed.
                    document = await asyncio.to_thread(
                        load_document, self._database, tenant, document_id
                    )
                except UnknownDocumentError:
                    return
                for event in await asyncio.to_thread(
                    list_events, self._database, tenant, document_id, after=after
                ):
                    after = event.id
                    yield event
                if progress != (progress := page_progress(document)):
                    yield progress
                if document.state in FINISHED_STATES:
                    return
                await signal.wait()
        finally:
            self._followers[document_id].discard(signal)
            if not self._followers[document_id]:
                del self._followers[document_id]
                self._seen.pop(document_id, None)
            if not self._followers:
                self._has_followers.clear()

    async def wait_until_finished(self, tenant: str, document_id: str, seconds: float) -> None:
        """Wait until a document is finished or needs review, for at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for change in self.follow(tenant, document_id):
                    if getattr(change, "type", "") == _NEEDS_REVIEW:
                        return

    def _load(self, ids: Sequence[str]) -> dict[str, Sequence[Any]]:
        query = select(documents.c.id, *_OBSERVED_COLUMNS).where(documents.c.id.in_(ids))
        with self._database.begin() as connection:
            return {row.id: tuple(row) for row in connection.execute(query)}

    def _notify(self, found: dict[str, Sequence[Any]]) -> None:
        for document_id, signals in self._followers.items():
            seen = found.get(document_id, ())
            if self._seen.get(document_id) == seen:
                continue
            self._seen[document_id] = seen
            for signal in signals:
                signal.set()


def page_progress(document: StoredDocument) -> PageProgress:
    """The progress of a document, as stored."""
    row = document.row
    return PageProgress(row["step"], row["pages_done"], row["page_count"])

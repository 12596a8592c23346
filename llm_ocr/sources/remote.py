"""Documents in buckets and on the Hub: listing them, and caching them while they are read."""

import asyncio
import shutil
import tempfile
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from llm_ocr.documents import Document, document_id
from llm_ocr.records import PageError
from llm_ocr.sources.dataset_rows import DatasetRow, write_row
from llm_ocr.sources.listing import is_remote, open_unchanged
from llm_ocr.sources.names import KINDS, safe_name
from llm_ocr.sources.row_reader import read_rows
from llm_ocr.storage.store import StoredObject, open_store

# Size of the local cache.
CACHE_BYTES = 8 << 30
CHUNK = 8 << 20


def remote_documents(source: str) -> Iterator[tuple[str, Document]]:
    """`(URI, document)` for the object at a URI, or for all below it. Raises StorageError."""
    folder, _, name = source.rstrip("/").rpartition("/")
    if PurePosixPath(name).suffix.lower() in KINDS:
        with suppress(FileNotFoundError):
            found = open_store(folder).stat(name)
            yield source, _document(source, PurePosixPath(name), found)
            return
    store = open_store(source)
    for found in sorted(store.list(""), key=lambda entry: entry.path):
        path = PurePosixPath(found.path)
        hidden = any(part.startswith(".") for part in path.parts)
        if not hidden and path.suffix.lower() in KINDS:
            uri = f"{store.uri}/{found.path}"
            yield uri, _document(uri, path, found)


def _document(uri: str, path: PurePosixPath, found: StoredObject) -> Document:
    doc_id = document_id(uri, found.version)
    kind = KINDS[path.suffix.lower()]
    return Document(doc_id, uri, found.version, safe_name(path), kind, found.size)


class LocalCache:
    """Copies of remote documents and dataset rows in a temporary folder, made on demand.

    Beyond `limit` bytes, copies that are not in use are deleted, least recently used first.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._folder: Path | None = None
        self._copies: OrderedDict[str, Document] = OrderedDict()
        self._bytes = 0
        self._readers: Counter[str] = Counter()
        self._locks: dict[str, asyncio.Lock] = {}

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @asynccontextmanager
    async def open(self, document: Document) -> AsyncIterator[Document]:
        """The document as a local file, until the block ends.

        Raises PageError if it is missing or has changed.
        """
        if document.rows is None and not is_remote(document.source_uri):
            yield document
            return
        doc_id = document.doc_id
        self._readers[doc_id] += 1
        try:
            async with self._locks.setdefault(doc_id, asyncio.Lock()):
                if doc_id not in self._copies:
                    copied = asyncio.to_thread(_download, document, self._cache_folder)
                    self._insert(doc_id, await copied)
            self._copies.move_to_end(doc_id)
            self._evict()
            yield self._copies[doc_id]
        finally:
            self._readers[doc_id] -= 1

    async def add(self, row: DatasetRow) -> None:
        """Cache the content of a row, so that it need not be searched for in its file.

        Raises PageError if it has none.
        """
        if isinstance(row.content, PageError):
            raise row.content
        doc_id = row.document.doc_id
        async with self._locks.setdefault(doc_id, asyncio.Lock()):
            if doc_id not in self._copies:
                self._insert(doc_id, await asyncio.to_thread(write_row, row, self._cache_folder))
        self._evict()

    def discard(self, document: Document) -> None:
        """Delete the copy of a document that is no longer needed."""
        doc_id = document.doc_id
        if doc_id in self._copies and not self._readers[doc_id]:
            self._remove(doc_id)

    @property
    def _cache_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="llm-ocr-"))
        return self._folder

    def _insert(self, doc_id: str, copy: Document) -> None:
        self._copies[doc_id] = copy
        self._bytes += copy.size

    def _evict(self) -> None:
        for doc_id in list(self._copies) if self._bytes > self._limit else ():
            if self._bytes > self._limit and not self._readers[doc_id]:
                self._remove(doc_id)

    def _remove(self, doc_id: str) -> None:
        copy = self._copies.pop(doc_id)
        self._bytes -= copy.size
        del self._locks[doc_id], self._readers[doc_id]
        path = Path(copy.source_uri)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _download(document: Document, into: Path) -> Document:
    if document.rows is not None:
        return write_row(next(read_rows(document)), into)
    uri = document.source_uri
    path = into / f"{document.doc_id}{PurePosixPath(uri).suffix}"
    with open_unchanged(uri, document.version) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, CHUNK)
    version = f"{path.stat().st_size}-{path.stat().st_mtime_ns}"
    return replace(document, source_uri=str(path), version=version)

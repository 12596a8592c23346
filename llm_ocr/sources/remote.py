"""Documents that are not files of this machine: listing those of buckets and of the Hub, and
keeping local copies of them, of URLs and of bytes while they are read."""

import asyncio
import hashlib
import shutil
import tempfile
import threading
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from llm_ocr.documents import BYTES_SCHEME, Document, document_id
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.sources.dataset_rows import DatasetRow, write_row
from llm_ocr.sources.formats import HEAD_BYTES, detect_suffix
from llm_ocr.sources.listing import is_remote, open_unchanged
from llm_ocr.sources.names import KINDS, file_version, new_file, safe_name
from llm_ocr.sources.row_reader import read_rows
from llm_ocr.storage.store import StoredObject, open_store

if TYPE_CHECKING:
    from llm_ocr.sources.web import UrlPolicy

# Writes a document at a path. Raises PageError or StorageError.
Fetch = Callable[[Path], None]
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
    """Copies of remote documents and dataset rows in a temporary folder, made on demand, those of
    a source as it says, and of URLs and bytes, which are added.

    Beyond `limit` bytes, copies that are not in use are deleted, least recently used first; what
    can't be fetched a second time, only by `discard`.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._folder: Path | None = None
        # Threads that copy at the same time must use one folder: renderers keep files by path.
        self._folder_lock = threading.Lock()
        self._copies: OrderedDict[str, Document] = OrderedDict()
        self._bytes = 0
        self._readers: Counter[str] = Counter()
        # How often a document was added that is copied from nowhere else.
        self._added: Counter[str] = Counter()
        self._locks: dict[str, asyncio.Lock] = {}
        self._fetch: dict[str, Fetch] = {}

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @asynccontextmanager
    async def open(self, document: Document) -> AsyncIterator[Document]:
        """The document as a local file, until the block ends.

        Raises PageError if it is missing or has changed.
        """
        doc_id = document.doc_id
        is_known = self._added[doc_id] > 0 or doc_id in self._fetch
        if document.rows is None and not is_known and not is_remote(document.source_uri):
            yield document
            return
        self._readers[doc_id] += 1
        try:
            async with self._locks.setdefault(doc_id, asyncio.Lock()):
                if doc_id not in self._copies:
                    self._insert(doc_id, await asyncio.to_thread(self._copy, document))
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

    def add_source(self, document: Document, fetch: Fetch) -> None:
        """Let `fetch` write the document, as a file or a folder of pages, whenever it is read and
        there is no copy; `discard` it when it is no longer needed."""
        self._fetch[document.doc_id] = fetch

    async def add_url(self, url: str, policy: "UrlPolicy | None" = None) -> Document:
        """Download the document at a URL; `discard` it when it is no longer needed.

        Raises PageError.
        """
        # Imported on demand: without URLs nothing here needs an HTTP client.
        from llm_ocr.sources.web import download

        return self._add_file(*await download(url, self._cache_folder, policy))

    async def add_bytes(self, data: bytes) -> Document:
        """Keep the bytes of a document as a file; `discard` it when it is no longer needed.

        Raises PageError.
        """
        return self._add_file(*await asyncio.to_thread(_write_bytes, data, self._cache_folder))

    def _add_file(self, document: Document, path: Path) -> Document:
        doc_id = document.doc_id
        self._added[doc_id] += 1
        if doc_id in self._copies:
            path.unlink()
        else:
            self._locks[doc_id] = asyncio.Lock()
            self._insert(doc_id, _local_copy(document, path))
        return document

    def discard(self, document: Document) -> None:
        """Delete the copy of a document that is no longer needed, by whoever added it."""
        doc_id = document.doc_id
        self._fetch.pop(doc_id, None)
        if self._added[doc_id] > 0:
            self._added[doc_id] -= 1
            if self._added[doc_id] > 0:
                return
        if doc_id in self._copies and not self._readers[doc_id]:
            self._remove(doc_id)

    @property
    def _cache_folder(self) -> Path:
        with self._folder_lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="llm-ocr-"))
            return self._folder

    def _copy(self, document: Document) -> Document:
        fetch = self._fetch.get(document.doc_id)
        if fetch is None:
            return _download(document, self._cache_folder)
        path = self._cache_folder / document.doc_id
        # What is left of a copy that failed.
        _delete(path)
        fetch(path)
        return _local_copy(document, path)

    def _insert(self, doc_id: str, copy: Document) -> None:
        self._copies[doc_id] = copy
        self._bytes += copy.size

    def _evict(self) -> None:
        for doc_id in list(self._copies) if self._bytes > self._limit else ():
            is_needed = self._readers[doc_id] or self._added[doc_id]
            if self._bytes > self._limit and not is_needed:
                self._remove(doc_id)

    def _remove(self, doc_id: str) -> None:
        copy = self._copies.pop(doc_id)
        self._bytes -= copy.size
        del self._locks[doc_id], self._readers[doc_id]
        _delete(Path(copy.source_uri))


def _delete(path: Path) -> None:
    """Delete a file, a link, or a folder; nothing if there is none."""
    if path.is_dir() and not path.is_symlink():
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
    return _local_copy(document, path)


def _write_bytes(data: bytes, folder: Path) -> tuple[Document, Path]:
    """The bytes of a PDF or image as a document, and a new file with them in `folder`."""
    digest = hashlib.sha256(data).hexdigest()
    uri = f"{BYTES_SCHEME}{digest[:16]}"
    document = Document(document_id(uri, digest), uri, digest, "document", "", len(data))
    if not data:
        raise PageError(ErrorCode.EMPTY_FILE, f"{document.display_name} are empty")
    suffix = detect_suffix(document.display_name, data[:HEAD_BYTES])
    path = new_file(folder)
    path.write_bytes(data)
    return replace(document, kind=KINDS[suffix]), path


def _local_copy(document: Document, path: Path) -> Document:
    """The document as it is read from a file with its content."""
    version, _ = file_version(path)
    return replace(document, source_uri=str(path), version=version, rows=None)

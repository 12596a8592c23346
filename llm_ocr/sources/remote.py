"""Documents in buckets and on the Hub: listed there, copied to the disk while they are read."""

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
from llm_ocr.sources.files import is_remote, open_as_listed
from llm_ocr.sources.names import KINDS, safe_name
from llm_ocr.sources.row import Row, write_row
from llm_ocr.sources.rows import read_rows
from llm_ocr.storage.store import StoredObject, open_store

# Bytes of documents that are kept on the disk for their next pages.
KEPT_BYTES = 8 << 30
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
    for found in sorted(store.list(""), key=lambda one: one.path):
        path = PurePosixPath(found.path)
        hidden = any(part.startswith(".") for part in path.parts)
        if not hidden and path.suffix.lower() in KINDS:
            uri = f"{store.uri}/{found.path}"
            yield uri, _document(uri, path, found)


def _document(uri: str, path: PurePosixPath, found: StoredObject) -> Document:
    doc_id = document_id(uri, found.version)
    kind = KINDS[path.suffix.lower()]
    return Document(doc_id, uri, found.version, safe_name(path), kind, found.size)


class Copies:
    """Copies of remote documents and of rows in a temporary folder, each made when it is needed.

    Those that nobody reads go when there are more than `limit` bytes, the longest unread first.
    """

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._folder: Path | None = None
        self._kept: OrderedDict[str, Document] = OrderedDict()
        self._held = 0
        self._readers: Counter[str] = Counter()
        self._making: dict[str, asyncio.Lock] = {}

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @asynccontextmanager
    async def of(self, document: Document) -> AsyncIterator[Document]:
        """The document as a file of this machine, for as long as the block runs.

        Raises PageError if it is gone, or another one by now.
        """
        if document.rows is None and not is_remote(document.source_uri):
            yield document
            return
        doc_id = document.doc_id
        self._readers[doc_id] += 1
        try:
            async with self._making.setdefault(doc_id, asyncio.Lock()):
                if doc_id not in self._kept:
                    copied = asyncio.to_thread(_copy, document, self._place)
                    self._add(doc_id, await copied)
            self._kept.move_to_end(doc_id)
            self._make_room()
            yield self._kept[doc_id]
        finally:
            self._readers[doc_id] -= 1

    async def keep(self, row: Row) -> None:
        """Hold the content of a row, so that it need not be looked for in its file.

        Raises PageError if it has none.
        """
        if isinstance(row.content, PageError):
            raise row.content
        doc_id = row.document.doc_id
        async with self._making.setdefault(doc_id, asyncio.Lock()):
            if doc_id not in self._kept:
                self._add(doc_id, await asyncio.to_thread(write_row, row, self._place))
        self._make_room()

    def drop(self, document: Document) -> None:
        """Let go of what is not needed any more."""
        doc_id = document.doc_id
        if doc_id in self._kept and not self._readers[doc_id]:
            self._remove(doc_id)

    @property
    def _place(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="llm-ocr-"))
        return self._folder

    def _add(self, doc_id: str, copy: Document) -> None:
        self._kept[doc_id] = copy
        self._held += copy.size

    def _make_room(self) -> None:
        for doc_id in list(self._kept) if self._held > self._limit else ():
            if self._held > self._limit and not self._readers[doc_id]:
                self._remove(doc_id)

    def _remove(self, doc_id: str) -> None:
        copy = self._kept.pop(doc_id)
        self._held -= copy.size
        del self._making[doc_id], self._readers[doc_id]
        path = Path(copy.source_uri)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _copy(document: Document, into: Path) -> Document:
    if document.rows is not None:
        return write_row(next(read_rows(document)), into)
    uri = document.source_uri
    path = into / f"{document.doc_id}{PurePosixPath(uri).suffix}"
    with open_as_listed(uri, document.version) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, CHUNK)
    version = f"{path.stat().st_size}-{path.stat().st_mtime_ns}"
    return replace(document, source_uri=str(path), version=version)

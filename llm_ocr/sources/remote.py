"""Documents in buckets: listed there, and copied to this machine's disk while they are read."""

import asyncio
import os
import shutil
import tempfile
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from llm_ocr.records import Document, ErrorCode, PageError
from llm_ocr.sources.names import KINDS, document_id, safe_name
from llm_ocr.storage.store import StorageError, StoredObject, open_store

SCHEMES = ("s3://", "gs://", "memory://")
# Bytes of documents that are kept on the disk for their next pages.
KEPT_BYTES = 8 << 30
CHUNK = 8 << 20


def is_remote(source: str) -> bool:
    return source.startswith(SCHEMES)


def remote_documents(source: str) -> Iterator[tuple[str, Document]]:
    """`(URI, document)` for the object at a URI, or for all below it. Raises StorageError."""
    folder, _, name = source.rstrip("/").rpartition("/")
    if PurePosixPath(name).suffix.lower() in KINDS:
        with suppress(FileNotFoundError):
            found = open_store(folder).look(name)
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
    """Copies of remote documents in a temporary folder, each made when it is first needed.

    Those that nobody reads go when there are more than `limit` bytes, the longest unread first.
    """

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._folder: Path | None = None
        self._kept: OrderedDict[str, Document] = OrderedDict()
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
        if not is_remote(document.source_uri):
            yield document
            return
        doc_id = document.doc_id
        self._readers[doc_id] += 1
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="llm-ocr-"))
        try:
            async with self._making.setdefault(doc_id, asyncio.Lock()):
                if doc_id not in self._kept:
                    copied = asyncio.to_thread(_copy, document, self._folder)
                    self._kept[doc_id] = await copied
            self._kept.move_to_end(doc_id)
            self._make_room()
            yield self._kept[doc_id]
        finally:
            self._readers[doc_id] -= 1

    def _make_room(self) -> None:
        held = sum(one.size for one in self._kept.values())
        for doc_id, copy in list(self._kept.items()):
            if held <= self._limit:
                return
            if not self._readers[doc_id]:
                del self._kept[doc_id], self._making[doc_id], self._readers[doc_id]
                held -= copy.size
                with suppress(FileNotFoundError):
                    os.unlink(copy.source_uri)


def _copy(document: Document, into: Path) -> Document:
    uri = document.source_uri
    folder, _, name = uri.rpartition("/")
    path = into / f"{document.doc_id}{PurePosixPath(name).suffix}"
    try:
        store = open_store(folder)
        if store.look(name).version != document.version:
            said = "it is not the object that was planned; read it into another --out"
            raise PageError(ErrorCode.SOURCE_CHANGED, f"{uri}: {said}")
        with store.open(name) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
    except FileNotFoundError as error:
        said = "the object is not there (any more); put it back"
        raise PageError(ErrorCode.NOT_FOUND, f"{uri}: {said}") from error
    except (StorageError, OSError) as error:
        raise PageError(ErrorCode.READ_ERROR, f"{uri}: it can't be fetched ({error})") from error
    version = f"{path.stat().st_size}-{path.stat().st_mtime_ns}"
    return replace(document, source_uri=str(path), version=version)

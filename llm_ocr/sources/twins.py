"""Which documents seem to have the same bytes, found without reading most of them."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from llm_ocr.documents import Document
from llm_ocr.sources.files import is_remote

CHUNK = 1 << 20
_Key = tuple[str, ...]


def families(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in order, each with those behind it that seem to have the same bytes.

    Files of one size are read and hashed; objects in buckets are taken for the same by size and
    ETag. Who reads them compares their hashes again.
    """
    several = list(documents)
    sizes: dict[_Key, list[Document]] = {}
    for document in several:
        sizes.setdefault(_look(document), []).append(document)
    alike: dict[_Key, list[Document]] = {}
    keys: dict[str, _Key] = {}
    for look, group in sizes.items():
        for document in group:
            is_alone = len(group) == 1 or document.size == 0
            key = (document.doc_id,) if is_alone else (*look, *_content(document))
            keys[document.doc_id] = key
            alike.setdefault(key, []).append(document)
    for document in several:
        family = alike[keys[document.doc_id]]
        if family[0] is document:
            yield family


def _look(document: Document) -> _Key:
    if is_remote(document.source_uri):
        bucket = "/".join(document.source_uri.split("/")[:3])
        return bucket, document.kind, str(document.size), document.version
    return "file", document.kind, str(document.size)


def _content(document: Document) -> _Key:
    if is_remote(document.source_uri):
        return ()
    digest = hashlib.sha256()
    try:
        with Path(document.source_uri).open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError:
        # What is wrong with it is said when it is read.
        return (document.doc_id,)
    return (digest.hexdigest(),)

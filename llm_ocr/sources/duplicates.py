"""Finding documents with the same bytes, without reading most of them."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from llm_ocr.documents import Document
from llm_ocr.sources.listing import is_remote

CHUNK = 1 << 20
_Key = tuple[str, ...]


def duplicate_groups(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in order, each with the later ones that seem to have the same bytes.

    Files of the same size are hashed; objects in buckets are compared by size and ETag. Their
    hashes are compared again when they are read.
    """
    all_documents = list(documents)
    sizes: dict[_Key, list[Document]] = {}
    for document in all_documents:
        sizes.setdefault(_size_key(document), []).append(document)
    alike: dict[_Key, list[Document]] = {}
    keys: dict[str, _Key] = {}
    for size_key, group in sizes.items():
        for document in group:
            is_alone = len(group) == 1 or document.size == 0
            key = (document.doc_id,) if is_alone else (*size_key, *_content_key(document))
            keys[document.doc_id] = key
            alike.setdefault(key, []).append(document)
    for document in all_documents:
        group_of_same = alike[keys[document.doc_id]]
        if group_of_same[0] is document:
            yield group_of_same


def _size_key(document: Document) -> _Key:
    if is_remote(document.source_uri):
        bucket = "/".join(document.source_uri.split("/")[:3])
        return bucket, document.kind, str(document.size), document.version
    return "file", document.kind, str(document.size)


def _content_key(document: Document) -> _Key:
    if is_remote(document.source_uri):
        return ()
    digest = hashlib.sha256()
    try:
        with Path(document.source_uri).open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError:
        # The error is reported when the document is read.
        return (document.doc_id,)
    return (digest.hexdigest(),)

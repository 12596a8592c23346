"""Documents in buckets, listed and copied."""

import uuid
from pathlib import Path

import pytest

from llm_ocr.documents import Document
from llm_ocr.records import ErrorCode, PageError
from llm_ocr.sources.inputs import NoInputError, list_documents
from llm_ocr.sources.remote import LocalCache
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import Store, open_store
from tests import documents


@pytest.fixture
def place() -> str:
    return f"memory://{uuid.uuid4().hex}/inputs"


@pytest.fixture
def store(place: str) -> Store:
    return open_store(place)


def put_pdf(store: Store, folder: Path, name: str, pages: int = 2) -> None:
    path = documents.pdf(folder / f"{uuid.uuid4().hex}.pdf", pages=pages)
    store.put(name, path.read_bytes())


def test_what_lies_below_a_place_is_listed_by_kind_and_name(
    store: Store, place: str, tmp_path: Path
) -> None:
    for name in ("b/two.pdf", "a/one.PDF", "one.pdf", "notes.txt", ".hidden/x.pdf", "b/.x.pdf"):
        put_pdf(store, tmp_path, name)
    found = list_documents([place])
    assert [(one.name, one.kind) for one in found] == [
        ("a/one", "pdf"),
        ("b/two", "pdf"),
        ("one", "pdf"),
    ]
    assert found[2].source_uri == f"{place}/one.pdf"
    assert all(one.size > 500 and one.version for one in found)


def test_one_object_is_a_document_and_the_same_one_twice_is_one(
    store: Store, place: str, tmp_path: Path
) -> None:
    put_pdf(store, tmp_path, "deep/one.pdf")
    (found,) = list_documents([f"{place}/deep/one.pdf"])
    assert found.name == "one"
    assert len(list_documents([f"{place}/deep/one.pdf", place, f"{place}/"])) == 1


def test_a_place_without_documents_is_told(store: Store, place: str) -> None:
    store.put("notes.txt", b"")
    for source in (place, f"{place}/missing.pdf"):
        with pytest.raises(NoInputError, match="lies there; check bucket and folder"):
            list_documents([source])


async def test_documents_are_read_and_errors_name_the_object(
    store: Store, place: str, tmp_path: Path
) -> None:
    put_pdf(store, tmp_path, "good.pdf", pages=3)
    store.put("bad.pdf", b"this is text")
    bad, good = list_documents([place])
    async with RenderPool(1) as pool:
        info = await pool.inspect(good)
        assert info.page_count == 3
        with pytest.raises(PageError, match=f"{place}/bad.pdf") as caught:
            await pool.inspect(bad)
    assert caught.value.code is ErrorCode.UNSUPPORTED_FORMAT


async def test_an_object_that_changed_or_went_is_not_read(
    store: Store, place: str, tmp_path: Path
) -> None:
    put_pdf(store, tmp_path, "a.pdf")
    put_pdf(store, tmp_path, "b.pdf")
    changed, gone = list_documents([place])
    put_pdf(store, tmp_path, "a.pdf", pages=4)
    store.delete(["b.pdf"])
    async with RenderPool(1) as pool:
        for document, code in ((changed, ErrorCode.SOURCE_CHANGED), (gone, ErrorCode.NOT_FOUND)):
            with pytest.raises(PageError, match=document.source_uri) as caught:
                await pool.inspect(document)
            assert caught.value.code is code


async def test_copies_are_kept_while_they_are_read_and_as_long_as_there_is_room(
    store: Store, place: str
) -> None:
    for name in "abc":
        store.put(f"{name}.pdf", name.encode() * 1000)
    a, b, c = list_documents([place])
    cache = LocalCache(limit=2000)
    try:

        async def path_of(document: Document) -> Path:
            async with cache.open(document) as copy:
                assert Path(copy.source_uri).read_bytes() == document.name.encode() * 1000
                return Path(copy.source_uri)

        async with cache.open(a) as copy:
            first = Path(copy.source_uri)
            second = await path_of(b)
            assert first.parent == second.parent
            await path_of(c)
            assert first.exists(), "it is being read"
            assert not second.exists(), "it was read longest ago"
        assert await path_of(a) == first
        await path_of(b)
    finally:
        cache.close()
    assert not first.parent.exists()

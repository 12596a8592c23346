"""Documents in buckets, listed and copied; documents from URLs and bytes, copied."""

import asyncio
import hashlib
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from llm_ocr.documents import Document
from llm_ocr.records import ErrorCode, ImagePolicy, Page, PageError
from llm_ocr.sources.inputs import NoInputError, list_documents
from llm_ocr.sources.remote import LocalCache
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.sources.web import UrlPolicy
from llm_ocr.storage.store import Store, open_store
from tests import documents
from tests.servers.web import respond, serving_web


@pytest.fixture
def place() -> str:
    return f"memory://{uuid.uuid4().hex}/inputs"


@pytest.fixture
def store(place: str) -> Store:
    return open_store(place)


def put_pdf(store: Store, folder: Path, name: str, pages: int = 2) -> None:
    path = documents.pdf(folder / f"{uuid.uuid4().hex}.pdf", pages=pages)
    store.put(name, path.read_bytes())


def test_remote_folder_is_listed_by_kind_and_name(store: Store, place: str, tmp_path: Path) -> None:
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


def test_remote_folder_without_documents_is_reported(store: Store, place: str) -> None:
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


async def test_changed_or_deleted_object_is_not_read(
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


async def test_local_copies_are_cached_while_used_and_within_the_limit(
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


async def test_bytes_are_a_document_and_messages_call_them_so(tmp_path: Path) -> None:
    data = documents.pdf(tmp_path / "report.pdf", pages=2).read_bytes()
    async with RenderPool(1) as pool:
        document = await pool.add_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        assert (document.source_uri, document.version) == (f"bytes:{digest[:16]}", digest)
        assert (document.kind, document.size, document.name) == ("pdf", len(data), "document")
        info = await pool.inspect(document)
        assert (info.page_count, info.content_hash) == (2, digest)
        with pytest.raises(PageError, match=r"^the given bytes, page 9: ") as caught:
            await pool.render(Page(document, 9), ImagePolicy(longest_side=100))
        assert "/" not in caught.value.message
        broken = await pool.add_bytes(b"%PDF-1.4 broken")
        with pytest.raises(PageError, match=r"^the given bytes: the PDF can't be opened") as caught:
            await pool.inspect(broken)
        assert "/" not in caught.value.message


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        (b"", ErrorCode.EMPTY_FILE, "^the given bytes are empty$"),
        (b"no document", ErrorCode.UNSUPPORTED_FORMAT, "^the given bytes: this is text, not a PDF"),
        (b"PK\x03\x04 word", ErrorCode.UNSUPPORTED_FORMAT, "^the given bytes: this is a ZIP"),
    ],
)
async def test_bytes_of_no_document_are_refused(data: bytes, code: ErrorCode, said: str) -> None:
    cache = LocalCache()
    with pytest.raises(PageError, match=said) as caught:
        await cache.add_bytes(data)
    assert caught.value.code is code
    cache.close()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\0\r\n%PDF-1.7", "pdf"),
        (b"\x89PNG\r\n", "image"),
        (b"\xff\xd8\xff\xe0", "image"),
        (b"RIFF\0\0\0\0WEBP", "image"),
        (b"II*\0", "image"),
    ],
)
async def test_the_kind_of_bytes_is_what_they_begin_with(data: bytes, kind: str) -> None:
    cache = LocalCache()
    assert (await cache.add_bytes(data)).kind == kind
    cache.close()


async def test_a_document_from_a_url_is_read_and_errors_name_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = documents.pdf(tmp_path / "report.pdf", pages=3).read_bytes()
    policy = UrlPolicy(allow_http=True, allow_private=True)
    answers = {"/a.pdf": respond(data), "/b.pdf": respond(b"%PDF-1.4 broken")}
    async with serving_web(answers, encrypted=False) as server:
        async with RenderPool(1) as pool:
            good = await pool.add_url(f"{server.url}/a.pdf?key=hush", policy)
            broken = await pool.add_url(f"{server.url}/b.pdf?key=hush", policy)
            assert (await pool.inspect(good)).page_count == 3
            said = f"^{server.url}/b.pdf: the PDF can't be opened"
            with pytest.raises(PageError, match=said):
                await pool.inspect(broken)
            with pytest.raises(PageError, match=r"/c\.pdf: the server answered 404"):
                await pool.add_url(f"{server.url}/c.pdf", policy)
            with pytest.raises(PageError, match="http:// is not encrypted"):
                await pool.add_url(f"{server.url}/a.pdf")
        assert len(server.requests) == 3, "each is downloaded once"
    assert [path.name for path in tmp_path.iterdir()] == ["report.pdf"]


async def test_what_was_added_is_kept_until_all_who_added_it_discard_it() -> None:
    cache = LocalCache(limit=10)
    data = b"%PDF-1.4 ".ljust(1000)
    try:
        first, second = await cache.add_bytes(data), await cache.add_bytes(data)
        other = await cache.add_bytes(b"%PDF-1.4 other".ljust(1000))
        assert first == second
        async with cache.open(first) as copy:
            path = Path(copy.source_uri)
        assert len(list(path.parent.iterdir())) == 2
        cache.discard(first)
        async with cache.open(second) as copy:
            assert Path(copy.source_uri).read_bytes() == data
        cache.discard(second)
        assert not path.exists()
        cache.discard(second)
        async with cache.open(other) as copy:
            assert Path(copy.source_uri).exists()
    finally:
        cache.close()


async def test_copies_that_are_made_at_once_share_a_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_folder = tempfile.mkdtemp

    def write(path: Path) -> None:
        path.write_bytes(b"%PDF")

    def make_slowly(prefix: str) -> str:
        time.sleep(0.05)
        return make_folder(prefix=prefix)

    monkeypatch.setattr("llm_ocr.sources.remote.tempfile.mkdtemp", make_slowly)
    cache = LocalCache()
    found = [Document(name, name, "1", name, "pdf", 1) for name in ("a", "b", "c")]
    for document in found:
        cache.add_source(document, write)

    async def folder_of(document: Document) -> Path:
        async with cache.open(document) as local:
            return Path(local.source_uri).parent

    folders = await asyncio.gather(*(folder_of(document) for document in found))
    assert len(set(folders)) == 1
    cache.close()
    assert not folders[0].exists()

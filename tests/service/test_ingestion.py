"""Ingestion without HTTP: from a table, from folders, and from buckets on a real S3 server."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text, update

from llm_ocr.service import ingestion as module
from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import StoredDocument, list_documents, load_document
from llm_ocr.service.ingestion import FolderWatch, IngestionError, IngestionQueue
from llm_ocr.service.pipelines import PipelineCatalog
from llm_ocr.service.schema import DocumentState, ingestion
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.service.uploads import Uploads
from llm_ocr.sources.render_pool import RenderPool
from llm_ocr.storage.store import Store, open_store
from tests.processes import run_module
from tests.service.document_rows import limit
from tests.service.gateway_server import JPEG, PDF, TIFF
from tests.waiting import wait_until_async

PIPELINES = PipelineCatalog.load()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "storage"))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


@asynccontextmanager
async def ingesting(
    database: Database,
    store: Store,
    *watched: Path | str,
    gateways: int = 1,
    **settings: Any,  # noqa: ANN401
) -> AsyncIterator[None]:
    """Run the ingestion of gateways: the queue, and watched folders."""
    stop = asyncio.Event()
    chosen = ServiceSettings(**settings)
    async with AsyncExitStack() as stack:
        renderer = await stack.enter_async_context(RenderPool(1))
        uploads = Uploads(database, store, chosen, renderer)
        stack.callback(uploads.close)
        jobs: list[IngestionQueue | FolderWatch] = []
        for _ in range(gateways):
            jobs.append(
                IngestionQueue(database, store, chosen, uploads, PIPELINES, poll_seconds=0.02)
            )
            jobs += [
                FolderWatch(database, str(folder), store, PIPELINES, poll_seconds=0.05)
                for folder in watched
            ]
        tasks = [asyncio.create_task(job.run(stop)) for job in jobs]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*tasks)


def insert(database: Database, uri: object, **values: Any) -> None:  # noqa: ANN401
    """Insert a row in plain SQL, as an upstream system does."""
    columns = {"uri": str(uri), **values}
    names = ", ".join(columns)
    places = ", ".join(f":{name}" for name in columns)
    with database.begin() as connection:
        connection.execute(text(f"INSERT INTO ingestion ({names}) VALUES ({places})"), columns)


def rows(database: Database) -> Sequence[Any]:
    columns = (
        *(ingestion.c.uri, ingestion.c.version, ingestion.c.document_id, ingestion.c.error),
        *(ingestion.c.finished_at, ingestion.c.attempts),
    )
    with database.read() as connection:
        return connection.execute(select(*columns).order_by(ingestion.c.id)).all()


def ended(database: Database, count: int = 1) -> Callable[[], bool]:
    def check() -> bool:
        found = rows(database)
        return len(found) >= count and all(row.finished_at is not None for row in found)

    return check


def queued(database: Database, tenant: str = "default") -> list[StoredDocument]:
    """The queued documents with their files, oldest first."""
    found = list_documents(database, tenant, state=DocumentState.QUEUED, limit=200)
    return [load_document(database, tenant, row.id) for row in reversed(found)]


def content(store: Store, document: StoredDocument) -> bytes:
    return store.get(document.files[0].path)


async def test_a_row_becomes_a_document(database: Database, store: Store, inbox: Path) -> None:
    (inbox / "4711.pdf").write_bytes(PDF)
    (inbox / "scan.jpg").write_bytes(JPEG)
    insert(
        database,
        inbox / "4711.pdf",
        tenant="other",
        type="invoice",
        priority=5,
        metadata=json.dumps({"order": "4711"}),
    )
    insert(database, inbox / "scan.jpg")
    async with ingesting(database, store):
        await wait_until_async(ended(database, 2))
    (invoice,) = queued(database, "other")
    assert (invoice.row["name"], invoice.row["type"], invoice.row["pipeline"]) == (
        "4711.pdf",
        "invoice",
        "invoice",
    )
    assert (invoice.row["priority"], invoice.row["metadata"]) == (5, {"order": "4711"})
    assert invoice.row["page_count"] == 3
    assert content(store, invoice) == PDF
    (scan,) = queued(database)
    assert (scan.row["pipeline"], scan.files[0].content_type) == ("markdown", "image/jpeg")
    assert content(store, scan) == JPEG
    assert [row.document_id for row in rows(database)] == [invoice.id, scan.id]
    assert (inbox / "4711.pdf").read_bytes() == PDF, "it is copied, not moved"
    assert (inbox / "4711.pdf").stat().st_nlink == 1, "who writes into it doesn't change the copy"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"uri": "inbox/a.pdf"}, "absolute path"),
        ({"uri": "https://example.com/a.pdf"}, "unsupported URI; use s3://"),
        ({"uri": "{inbox}/missing.pdf"}, "there is no such file"),
        ({"uri": "{inbox}"}, "this is not a file"),
        ({"uri": "{inbox}/notes.txt"}, "unsupported_format: notes.txt: this is text"),
        ({"uri": "{inbox}/empty.pdf"}, "empty_file: empty.pdf is empty"),
        ({"uri": "{inbox}/large.pdf"}, "too_large: large.pdf has 3 MB; at most 2 are accepted"),
        ({"uri": "{inbox}/broken.tiff"}, "broken.tiff"),
        ({"uri": "{inbox}/a.pdf", "tenant": "nobody"}, "there is no tenant 'nobody'"),
        ({"uri": "{inbox}/a.pdf", "tenant": "../../.."}, "there is no tenant"),
        ({"uri": "{inbox}/a.pdf", "type": "poem"}, "there is no pipeline for the type 'poem'"),
        ({"uri": "{inbox}/a.pdf", "metadata": "{"}, "not a JSON object"),
        ({"uri": "{inbox}/a.pdf", "metadata": "[1]"}, "not a JSON object"),
        ({"uri": "memory://nothing/a.pdf"}, "there is no such object"),
    ],
)
async def test_errors_are_written_into_the_row(
    database: Database, store: Store, inbox: Path, values: dict[str, str], message: str
) -> None:
    (inbox / "a.pdf").write_bytes(PDF)
    (inbox / "notes.txt").write_text("Remember the milk.")
    (inbox / "empty.pdf").touch()
    (inbox / "large.pdf").write_bytes(PDF + bytes(2 << 20))
    (inbox / "broken.tiff").write_bytes(TIFF[:200])
    insert(database, **{key: value.replace("{inbox}", str(inbox)) for key, value in values.items()})
    async with ingesting(database, store, max_file_mb=2):
        await wait_until_async(ended(database))
    (row,) = rows(database)
    assert message in row.error
    assert row.document_id is None
    assert queued(database) == []
    assert [found.path for found in store.list("tenants")] == []


async def test_a_failed_row_is_retried_when_it_is_reopened(
    database: Database, store: Store, inbox: Path
) -> None:
    insert(database, inbox / "late.jpg")
    async with ingesting(database, store):
        await wait_until_async(ended(database))
        (inbox / "late.jpg").write_bytes(JPEG)
        with database.begin() as connection:
            connection.execute(text("UPDATE ingestion SET finished_at = NULL"))
        await wait_until_async(lambda: len(queued(database)) == 1)
    (row,) = rows(database)
    assert (row.error, row.document_id) == (None, queued(database)[0].id)


async def test_a_row_waits_while_a_quota_is_used_up(
    database: Database, store: Store, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.05)
    (inbox / "a.jpg").write_bytes(JPEG)
    limit(database, max_unfinished=0)
    insert(database, inbox / "a.jpg")
    async with ingesting(database, store):
        await wait_until_async(lambda: rows(database)[0].error is not None)
        assert "which is the limit" in rows(database)[0].error
        assert rows(database)[0].finished_at is None
        limit(database, max_unfinished=1)
        await wait_until_async(ended(database))
    (document,) = queued(database)
    assert content(store, document) == JPEG


async def test_a_row_waits_while_the_storage_is_unavailable(
    database: Database, store: Store, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.05)
    (inbox / "a.jpg").write_bytes(JPEG)
    insert(database, inbox / "a.jpg")
    in_the_way = Path(str(store.folder), "tenants")
    in_the_way.write_text("a file where a folder should be")
    async with ingesting(database, store):
        await wait_until_async(lambda: rows(database)[0].error is not None)
        assert rows(database)[0].finished_at is None
        in_the_way.unlink()
        await wait_until_async(ended(database))
    (document,) = queued(database)
    assert content(store, document) == JPEG


async def test_several_gateways_create_one_document_per_file(
    database: Database, store: Store, inbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"{number:02d}.jpg" for number in range(20)]
    for name in names:
        (inbox / name).write_bytes(JPEG + name.encode())
    async with ingesting(database, store, inbox, gateways=3):
        await wait_until_async(ended(database, len(names)))
    found = queued(database)
    assert sorted(document.row["name"] for document in found) == names
    for document in found:
        assert content(store, document) == JPEG + document.row["name"].encode()
        assert document.row["metadata"] == {"source_uri": str(inbox / document.row["name"])}
    assert caplog.records == [], "none meets another's rows"


async def test_the_first_folder_is_the_type_if_there_is_a_pipeline_for_it(
    database: Database, store: Store, inbox: Path
) -> None:
    for name in ("invoice/a.jpg", "invoice/june/b.jpg", "others/c.jpg", "d.jpg"):
        (inbox / name).parent.mkdir(parents=True, exist_ok=True)
        (inbox / name).write_bytes(JPEG)
    async with ingesting(database, store, inbox):
        await wait_until_async(ended(database, 4))
    pipelines = {document.row["name"]: document.row["pipeline"] for document in queued(database)}
    assert pipelines == {
        "a.jpg": "invoice",
        "b.jpg": "invoice",
        "c.jpg": "markdown",
        "d.jpg": "markdown",
    }


def test_a_file_waits_until_it_is_unchanged_in_two_polls(
    database: Database, store: Store, inbox: Path
) -> None:
    watch = FolderWatch(database, str(inbox), store, PIPELINES)
    file = inbox / "slow.pdf"
    for size in (1, 2, 3):
        file.write_bytes(PDF[: 100 * size])
        watch._poll()
        assert rows(database) == []
    watch._poll()
    assert [row.uri for row in rows(database)] == [str(file)]
    watch._poll()
    FolderWatch(database, str(inbox), store, PIPELINES)._poll()
    assert len(rows(database)) == 1
    # The same size, but new content.
    os.utime(file, ns=(1, 1))
    watch._poll()
    watch._poll()
    assert [row.version for row in rows(database)][1] == "300-1"


def test_hidden_temporary_and_empty_files_and_links_are_ignored(
    database: Database, store: Store, inbox: Path, tmp_path: Path
) -> None:
    for name in (
        *(".hidden.pdf", ".cache/a.pdf", "~$a.pdf", "a.pdf~", "a.pdf.part", "a.TMP"),
        *("a.pdf.crdownload", "a.pdf#1", "good.pdf", "a.partly.pdf"),
    ):
        (inbox / name).parent.mkdir(exist_ok=True)
        (inbox / name).write_bytes(PDF)
    (inbox / "empty.pdf").touch()
    (tmp_path / "elsewhere.pdf").write_bytes(PDF)
    (inbox / "link.pdf").symlink_to(tmp_path / "elsewhere.pdf")
    watch = FolderWatch(database, str(inbox), store, PIPELINES)
    watch._poll()
    watch._poll()
    assert sorted(Path(row.uri).name for row in rows(database)) == ["a.partly.pdf", "good.pdf"]


async def test_a_new_version_of_a_watched_file_is_another_document(
    database: Database, store: Store, inbox: Path
) -> None:
    """The old content is gone, and no document mixes both."""
    file = inbox / "a.jpg"
    file.write_bytes(JPEG)
    watch = FolderWatch(database, str(inbox), store, PIPELINES)
    watch._poll()
    watch._poll()
    file.write_bytes(JPEG + b"new")
    watch._poll()
    watch._poll()
    async with ingesting(database, store):
        await wait_until_async(ended(database, 2))
    old, new = rows(database)
    assert "has changed since it was found" in old.error
    (document,) = queued(database)
    assert (document.id, content(store, document)) == (new.document_id, JPEG + b"new")


async def test_a_file_that_changes_while_it_is_copied_is_copied_again(
    database: Database, store: Store, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = inbox / "a.jpg"
    file.write_bytes(JPEG)
    write = IngestionQueue._write
    copies = []

    def write_both(queue: IngestionQueue, path: str, source: Any) -> None:  # noqa: ANN401
        write(queue, path, source)
        copies.append(path)
        if len(copies) == 1:
            file.write_bytes(JPEG + b"new")

    monkeypatch.setattr(IngestionQueue, "_write", write_both)
    insert(database, file)
    async with ingesting(database, store):
        await wait_until_async(ended(database))
    (document,) = queued(database)
    assert content(store, document) == JPEG + b"new"
    assert [found.path for found in store.list("tenants")] == [copies[1]]


@pytest.mark.parametrize("watched", ["storage", "storage/tenants", ".", "storage/../storage"])
def test_the_services_own_storage_is_not_watched(
    database: Database, store: Store, tmp_path: Path, watched: str
) -> None:
    with pytest.raises(IngestionError, match="overlaps the service's own storage"):
        FolderWatch(database, f"{tmp_path}/{watched}", store, PIPELINES)
    bucket = open_store("memory://docs/service")
    for uri in ("memory://docs", "memory://docs/service/", "memory://docs/service/in"):
        with pytest.raises(IngestionError, match="overlaps the service's own storage"):
            FolderWatch(database, uri, bucket, PIPELINES)
    FolderWatch(database, "memory://docs/service-inbox", bucket, PIPELINES)


async def test_a_missing_folder_is_watched_once_it_exists(
    database: Database, store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ingesting(database, store, tmp_path / "later"):
        await wait_until_async(lambda: "the watched folder doesn't exist" in caplog.text)
        (tmp_path / "later").mkdir()
        (tmp_path / "later" / "a.jpg").write_bytes(JPEG)
        await wait_until_async(ended(database))
    assert len(queued(database)) == 1


@pytest.fixture
def bucket(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    return f"s3://bucket/{tmp_path.name}"


async def test_objects_of_a_bucket_are_copied_on_the_server(
    database: Database, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, store = open_store(f"{bucket}/inbox"), open_store(f"{bucket}/service")

    def write(*_: object) -> None:
        raise AssertionError("the content passes through the gateway")

    monkeypatch.setattr(IngestionQueue, "_write", write)
    inbox.put("invoice/a.pdf", PDF)
    inbox.put("b.jpg", JPEG)
    inbox.put("invoice/.hidden", b"x")
    async with ingesting(database, store, f"{bucket}/inbox/", gateways=2):
        await wait_until_async(ended(database, 2))
        inbox.put("b.jpg", JPEG + b"new")
        await wait_until_async(ended(database, 3))
        inbox.put("b.jpg", JPEG + b"new")
        inbox.put("c.jpg", JPEG)
        await wait_until_async(ended(database, 4))
    found = {
        (document.row["name"], content(store, document)): document for document in queued(database)
    }
    assert set(found) == {
        ("a.pdf", PDF),
        ("b.jpg", JPEG),
        ("b.jpg", JPEG + b"new"),
        ("c.jpg", JPEG),
    }
    assert found["a.pdf", PDF].row["pipeline"] == "invoice"
    assert sorted(stored.path for stored in inbox.list("")) == [
        "b.jpg",
        "c.jpg",
        "invoice/.hidden",
        "invoice/a.pdf",
    ]


async def test_an_object_becomes_a_document_in_a_local_storage(
    database: Database, store: Store, bucket: str
) -> None:
    open_store(bucket).put("scan.jpg", JPEG)
    insert(database, f"{bucket}/scan.jpg")
    insert(database, f"{bucket}/missing.jpg")
    async with ingesting(database, store):
        await wait_until_async(ended(database, 2))
    (document,) = queued(database)
    assert content(store, document) == JPEG
    assert "there is no such object" in rows(database)[1].error


async def test_a_file_becomes_a_document_in_a_bucket(
    database: Database, inbox: Path, bucket: str
) -> None:
    store = open_store(f"{bucket}/service")
    (inbox / "scan.jpg").write_bytes(JPEG)
    insert(database, inbox / "scan.jpg")
    async with ingesting(database, store):
        await wait_until_async(ended(database))
    (document,) = queued(database)
    assert content(store, document) == JPEG


POINTS = (
    *("after:_claim", "after:_copy", "after:mark_queued", "after:_insert"),
    *(
        pytest.param(point, marks=pytest.mark.long)
        for point in ("after:_poll", "before:_copy", "before:_insert", "before:mark_queued")
    ),
)


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
async def test_a_killed_gateway_neither_loses_nor_duplicates_documents(
    database: Database, database_url: str, store: Store, inbox: Path, point: str
) -> None:
    (inbox / "a.jpg").write_bytes(JPEG)
    died = await asyncio.to_thread(
        run_module, "tests.service.killed_ingestion", database_url, store.uri, inbox, point
    )
    assert died.returncode == -9, died.stderr
    with database.begin() as connection:
        # Its lease has expired.
        connection.execute(update(ingestion).values(available_at=now(-1)))
    async with ingesting(database, store, inbox):
        await wait_until_async(ended(database))
    (document,) = queued(database)
    assert content(store, document) == JPEG
    (row,) = rows(database)
    assert (row.document_id, row.error) == (document.id, None)


@pytest.mark.long
async def test_a_file_that_kills_gateways_has_failed(
    database: Database, database_url: str, store: Store, inbox: Path
) -> None:
    (inbox / "a.jpg").write_bytes(JPEG)
    for _ in range(module.MAX_GATEWAY_DEATHS):
        with database.begin() as connection:
            connection.execute(update(ingestion).values(available_at=now(-1)))
        died = await asyncio.to_thread(
            run_module,
            *("tests.service.killed_ingestion", database_url, store.uri, inbox, "after:_copy"),
        )
        assert died.returncode == -9, died.stderr
    with database.begin() as connection:
        connection.execute(update(ingestion).values(available_at=now(-1)))
    async with ingesting(database, store, inbox):
        await wait_until_async(ended(database))
    assert "3 gateways died" in rows(database)[0].error
    assert queued(database) == []
    assert list(store.list("tenants")) == []


async def test_a_stopped_gateway_releases_its_rows(
    database: Database, store: Store, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.1)
    (inbox / "a.jpg").write_bytes(JPEG)
    insert(database, inbox / "a.jpg")
    started = asyncio.Event()

    async def check(uploads: Uploads, files: object) -> None:
        started.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(Uploads, "check", check)
        async with ingesting(database, store):
            await asyncio.wait_for(started.wait(), 30)
    async with ingesting(database, store):
        await wait_until_async(ended(database))
    assert len(queued(database)) == 1


async def test_a_frozen_gateway_that_resumes_creates_no_second_document(
    database: Database,
    store: Store,
    inbox: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another gateway has taken over the row and finished it."""
    (inbox / "a.jpg").write_bytes(JPEG)
    insert(database, inbox / "a.jpg")
    check, frozen = Uploads.check, asyncio.Event()
    thawed = asyncio.Event()

    async def check_late(uploads: Uploads, files: Any) -> Any:  # noqa: ANN401
        found = await check(uploads, files)
        if not frozen.is_set():
            frozen.set()
            await thawed.wait()
        return found

    monkeypatch.setattr(Uploads, "check", check_late)
    async with ingesting(database, store, gateways=1):
        await asyncio.wait_for(frozen.wait(), 30)
        with database.begin() as connection:
            connection.execute(update(ingestion).values(available_at=now(-1)))
        async with ingesting(database, store):
            await wait_until_async(ended(database))
        (document,) = queued(database)
        thawed.set()
    assert [document.id for document in queued(database)] == [document.id]
    assert content(store, document) == JPEG
    assert caplog.records == []
